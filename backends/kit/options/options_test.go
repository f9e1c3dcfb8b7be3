package options_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/kit/options"
)

type mode uint8

// settings have an option of each kind, as a generated backend does.
type settings struct {
	Mode     mode
	Devices  uint64
	Capacity uint64
	Granule  uint64
	Log      uint64
}

func (s *settings) table() []options.Option {
	return []options.Option{
		options.Enum("mode", &s.Mode, "host", "record"),
		options.Uint("devices", &s.Devices, options.Range{Min: 1, Max: 64}),
		options.Bytes("capacity", &s.Capacity, options.Range{}),
		options.Bytes("granule", &s.Granule, options.Range{Min: 4 << 10, Max: 1 << 30}),
		options.Uint("log", &s.Log, options.Range{Max: 1000}),
	}
}

func parse(text string) (settings, error) {
	var s settings
	err := options.Parse(text, s.table()...)
	return s, err
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		text string
		want settings
	}{
		"empty":             {"", settings{}},
		"only spaces":       {" \t\n", settings{}},
		"one":               {"mode=record", settings{Mode: 1}},
		"all":               {"log=7,granule=2MiB,capacity=4TiB,devices=64,mode=host", settings{Devices: 64, Capacity: 4 << 40, Granule: 2 << 20, Log: 7}},
		"spaces around":     {" mode = record ,\tdevices= 2", settings{Mode: 1, Devices: 2}},
		"plain bytes":       {"capacity=65537", settings{Capacity: 65537}},
		"every unit":        {"capacity=1KiB,granule=1MiB", settings{Capacity: 1 << 10, Granule: 1 << 20}},
		"the last byte":     {"capacity=18446744073709551615", settings{Capacity: math.MaxUint64}},
		"the last exbibyte": {"capacity=15EiB", settings{Capacity: 15 << 60}},
		"the bounds":        {"devices=1,granule=4KiB,log=1000", settings{Devices: 1, Granule: 4 << 10, Log: 1000}},
		"a zero":            {"log=0,capacity=0PiB", settings{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tt.text)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const granuleRange = "granule must be a size such as 64KiB from 4KiB to 1GiB"
	tests := map[string]struct{ text, want string }{
		"an unknown name":        {"colour=red", `options, character 1: there is no option "colour"; there are: mode, devices, capacity, granule, log`},
		"a slip":                 {"log=1,devises=2", `options, character 7: there is no option "devises"; did you mean "devices"? There are: mode, devices, capacity, granule, log`},
		"other capitals":         {"Mode=host", `options, character 1: there is no option "Mode"; did you mean "mode"? There are: mode, devices, capacity, granule, log`},
		"no value":               {"mode", `options, character 1: expected name=value, found "mode"`},
		"no name":                {"log=1, =2", `options, character 8: expected name=value, found "=2"`},
		"a comma at the end":     {"log=1,", `options, character 7: expected name=value, found ""`},
		"two commas":             {"log=1,,log=1", `options, character 7: expected name=value, found ""`},
		"a name twice":           {"log=1, log=1", `options, character 8: log is set twice, first at character 1`},
		"an unknown word":        {"mode=gpu", `options, character 6: mode must be one of host, record, found "gpu"`},
		"an empty word":          {"mode=", `options, character 6: mode must be one of host, record, found ""`},
		"no number":              {"devices=two", `options, character 9: devices must be a number from 1 to 64, found "two"`},
		"below the range":        {"devices=0", `options, character 9: devices must be a number from 1 to 64, found "0"`},
		"above the range":        {"devices=65", `options, character 9: devices must be a number from 1 to 64, found "65"`},
		"a sign":                 {"log=-1", `options, character 5: log must be a number from 0 to 1000, found "-1"`},
		"a plus":                 {"log=+1", `options, character 5: log must be a number from 0 to 1000, found "+1"`},
		"hexadecimal":            {"log=0x10", `options, character 5: log must be a number from 0 to 1000, found "0x10"`},
		"a fraction":             {"granule=1.5MiB", `options, character 9: ` + granuleRange + `, found "1.5MiB"`},
		"a unit of a number":     {"log=1KiB", `options, character 5: log must be a number from 0 to 1000, found "1KiB"`},
		"a unit that is none":    {"granule=64kB", `options, character 9: ` + granuleRange + `, found "64kB"`},
		"a unit alone":           {"granule=KiB", `options, character 9: ` + granuleRange + `, found "KiB"`},
		"a space before a unit":  {"granule=64 KiB", `options, character 9: ` + granuleRange + `, found "64 KiB"`},
		"a size below the range": {"granule=4095", `options, character 9: ` + granuleRange + `, found "4095"`},
		"more than 64 bits":      {"capacity=18446744073709551616", `options, character 10: capacity must be a size such as 64KiB, found "18446744073709551616"`},
		"more with a unit":       {"capacity=16EiB", `options, character 10: capacity must be a size such as 64KiB, found "16EiB"`},
		"a second equals sign":   {"log=1=2", `options, character 5: log must be a number from 0 to 1000, found "1=2"`},
		"characters, not bytes":  {"log= ä", `options, character 6: log must be a number from 0 to 1000, found "ä"`},
		"after other characters": {"ä=1", `options, character 1: there is no option "ä"; there are: mode, devices, capacity, granule, log`},
		"not UTF-8":              {"log=\xff", `options, character 5: log must be a number from 0 to 1000, found "\xff"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tt.text)
			require.EqualError(t, err, tt.want)
			assert.ErrorIs(t, err, vmm.ClassInvalidArgument)
		})
	}
}

func TestParseNamesALowerBound(t *testing.T) {
	var devices uint64
	err := options.Parse("devices=0", options.Uint("devices", &devices, options.Range{Min: 2}))
	require.EqualError(t, err, `options, character 9: devices must be a number of at least 2, found "0"`)
}

func TestParseWithoutOptions(t *testing.T) {
	require.NoError(t, options.Parse(""))
	require.EqualError(t, options.Parse("a=1"), `options, character 1: there is no option "a"; there are none`)
}

func TestErrorNamesTheOption(t *testing.T) {
	_, err := parse("mode=host, devices = 0")
	var fault *options.Error
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, "devices", fault.Option)
	assert.Equal(t, 22, fault.Character)
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		settings settings
		want     string // "" is no error
	}{
		"the defaults":      {settings{}, ""},
		"the bounds":        {settings{Mode: 1, Devices: 64, Granule: 4 << 10}, ""},
		"an unknown word":   {settings{Mode: 2}, "options: mode must be one of host, record, got 2"},
		"too many":          {settings{Devices: 65}, "options: devices must be a number from 1 to 64, got 65"},
		"too small":         {settings{Granule: 1}, "options: granule must be a size such as 64KiB from 4KiB to 1GiB, got 1"},
		"anything in bytes": {settings{Capacity: math.MaxUint64}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := options.Check(tt.settings.table()...)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
			assert.ErrorIs(t, err, vmm.ClassInvalidArgument)
		})
	}
}

// FuzzParse looks for texts that set what the table does not take.
func FuzzParse(f *testing.F) {
	f.Add("mode=record,devices=2,capacity=1GiB,granule=64KiB,log=3")
	f.Add(" ,=,==\xff")
	f.Fuzz(func(t *testing.T, text string) {
		var s settings
		if err := options.Parse(text, s.table()...); err != nil {
			var fault *options.Error
			require.ErrorAs(t, err, &fault)
			assert.LessOrEqual(t, fault.Character, len(text)+1)
		}
		assert.NoError(t, options.Check(s.table()...))
		assert.True(t, s == settings{} || strings.Contains(text, "="))
	})
}
