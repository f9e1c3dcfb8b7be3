package gogen

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

var testOptions = []*ir.Option{
	{
		Name: "mode", GoName: "Mode", Type: "enum", GoType: "Mode", Description: "What is behind it.", DefaultText: "host",
		Values: []*ir.EnumValue{
			{Name: "host", GoName: "ModeHost", Description: "Memory."},
			{Name: "record", GoName: "ModeRecord", Value: 1, Description: "Nothing."},
		},
	},
	{Name: "devices", GoName: "Devices", Type: "uint", GoType: "uint64", Description: "How many.", DefaultText: "1", Default: 1, Min: 1, Max: 64},
	{Name: "min_granule", GoName: "MinGranule", Type: "bytes", GoType: "uint64", Description: "The least.", DefaultText: "64KiB", Default: 64 << 10, Min: 4 << 10},
	{Name: "capacity", GoName: "Capacity", Type: "bytes", GoType: "uint64", Description: "All of it.", DefaultText: "0"},
	{Name: "log", GoName: "Log", Type: "uint", GoType: "uint64", Description: "The latest calls.", DefaultText: "0", Max: 1 << 20},
}

func TestOptionsType(t *testing.T) {
	assertRenders(t, `
// Options are what can be set when a device is opened. The zero Options are the defaults.
type Options struct {
	// What is behind it. The default is ModeHost.
	Mode Mode
	// How many. From 1 to 64. 0 means the default, 1.
	Devices uint64
	// The least. At least 4KiB. 0 means the default, 64KiB.
	MinGranule uint64
	// All of it. The default is 0.
	Capacity uint64
	// The latest calls. At most 1048576. The default is 0.
	Log uint64
}
`, optionsType(testOptions))
}

func TestParseOptions(t *testing.T) {
	assertRenders(t, `
// ParseOptions reads options from a text of name=value pairs, separated by commas, such as
// "mode=host,devices=1". An empty text is the zero Options. Its errors are of type *options.Error.
func ParseOptions(text string) (Options, error) {
	var o Options
	if err := options.Parse(text, o.table()...); err != nil {
		return Options{}, err
	}
	return o, nil
}
`, parseOptions(testOptions))
}

func TestOptionExample(t *testing.T) {
	assert.Equal(t, "of which this backend knows none. ", optionExample(nil))
	assert.Equal(t, `such as "devices=1". `, optionExample(testOptions[1:2]))
}

func TestOptionsTable(t *testing.T) {
	assertRenders(t, `
// check finds a value that its option does not take.
func (o *Options) check() error {
	return options.Check(o.table()...)
}

// table lists the options by name, with what each takes and where it goes.
func (o *Options) table() []options.Option {
	return []options.Option{
		options.Enum("mode", &o.Mode, "host", "record"),
		options.Uint("devices", &o.Devices, options.Range{Min: 1, Max: 64}),
		options.Bytes("min_granule", &o.MinGranule, options.Range{Min: 4 << 10}),
		options.Bytes("capacity", &o.Capacity, options.Range{}),
		options.Uint("log", &o.Log, options.Range{Max: 1048576}),
	}
}
`, optionsCheck(), optionsTable(testOptions))
}

func TestOptionsForDriver(t *testing.T) {
	assertRenders(t, `
// forDriver gives the options as the driver takes them.
func (o *Options) forDriver() hostvmm.Options {
	return hostvmm.Options{
		Mode:       hostvmm.Mode(o.Mode),
		Devices:    cmp.Or(o.Devices, 1),
		MinGranule: cmp.Or(o.MinGranule, 64<<10),
		Capacity:   o.Capacity,
		Log:        o.Log,
	}
}
`, optionsForDriver(&ir.Backend{Provider: hostvmm, Options: testOptions}))
}

func TestBackendWithoutOptions(t *testing.T) {
	assertRenders(t, `
// Options are what can be set when a device is opened. The zero Options are the defaults.
type Options struct{}

// table lists the options by name, with what each takes and where it goes.
func (o *Options) table() []options.Option {
	return []options.Option{}
}

// forDriver gives the options as the driver takes them.
func (o *Options) forDriver() hostvmm.Options {
	return hostvmm.Options{}
}
`, optionsType(nil), optionsTable(nil), optionsForDriver(&ir.Backend{Provider: hostvmm}))
}
