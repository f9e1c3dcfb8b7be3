package vmm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
)

const (
	va     = 0x7f00_0000_0000
	size   = 4 << 20
	handle = 77
)

// A script is a driver that fails where it is told to, and writes its calls down.
type script struct {
	vmm.Driver
	capabilities vmm.Capabilities
	quirks       vmm.Quirks
	attributes   map[vmm.Attribute]int // what it has
	refuses      map[vmm.HandleType]vmm.Class
	capturing    bool
	waitless     bool // it has no call that waits
	keepsMode    bool // the capture mode cannot be put back
	granules     map[vmm.Granularity]uint64
	reserved     uint64               // what Reserve answers
	fail         map[vmm.Op]vmm.Class // the operations that fail
	calls        []string
}

func newScript() *script {
	return &script{
		granules: map[vmm.Granularity]uint64{vmm.GranularityMinimum: 64 << 10, vmm.GranularityRecommended: 2 << 20},
		reserved: va,
		fail:     map[vmm.Op]vmm.Class{},
	}
}

// call writes a call down and answers it. The code of a failure is 100 and its class.
func (s *script) call(about vmm.Error, format string, args ...any) error {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	class, ok := s.fail[about.Op]
	if !ok {
		return nil
	}
	code := 100 + int64(class)
	results := vmm.Results{code: {Name: "SCRIPT_" + strings.ToUpper(about.Op.String()), Class: class}}
	return results.Failure("script", "script_"+about.Op.String(), code, about)
}

func (s *script) Backend() string { return "script" }

func (s *script) Capabilities() vmm.Capabilities { return s.capabilities }

func (s *script) Granularity(kind vmm.Granularity, size uint64) (uint64, error) {
	return s.granules[kind], s.call(vmm.Error{Op: vmm.OpGranularity, Size: size}, "granularity %d %d", kind, size)
}

func (s *script) Reserve(size, align, hint uint64) (uint64, error) {
	if err := s.call(vmm.Error{Op: vmm.OpReserve, Size: size}, "reserve %d %d %#x", size, align, hint); err != nil {
		return 0, err
	}
	return s.reserved, nil
}

func (s *script) Unreserve(va, size uint64) error {
	return s.call(vmm.Error{Op: vmm.OpUnreserve, VA: va, Size: size}, "unreserve %#x %d", va, size)
}

func (s *script) Quirks() vmm.Quirks { return s.quirks }

func (s *script) Attribute(which vmm.Attribute) (int, error) {
	value, ok := s.attributes[which]
	if !ok {
		return 0, vmm.NoNumber("script", "script_attribute", which, vmm.Error{Op: vmm.OpAttribute})
	}
	return value, nil
}

func (s *script) Create(size uint64, kind vmm.HandleType, rdma bool) (uint64, error) {
	if err := s.call(vmm.Error{Op: vmm.OpCreate, Size: size}, "create %d %v %t", size, kind, rdma); err != nil {
		return 0, err
	}
	if class, refused := s.refuses[kind]; refused {
		return 0, &vmm.Error{Backend: "script", Op: vmm.OpCreate, Class: class}
	}
	return handle, nil
}

func (s *script) MemoryInfo() (free, total uint64, err error) {
	return 1 << 30, 1 << 30, s.call(vmm.Error{Op: vmm.OpMemoryInfo}, "memory_info")
}

func (s *script) ExchangeCaptureMode(mode vmm.CaptureMode) (vmm.CaptureMode, error) {
	if s.keepsMode && mode != vmm.CaptureModeRelaxed {
		s.fail[vmm.OpExchangeCaptureMode] = vmm.ClassUnavailable
	}
	return vmm.CaptureModeGlobal, s.call(vmm.Error{Op: vmm.OpExchangeCaptureMode}, "exchange_capture_mode %v", mode)
}

func (s *script) StreamCapturing(stream uint64) (bool, error) {
	return s.capturing, s.call(vmm.Error{Op: vmm.OpStreamCapturing}, "stream_capturing %d", stream)
}

func (s *script) SyncStream(stream uint64) error {
	return s.call(vmm.Error{Op: vmm.OpSyncStream}, "sync_stream %d", stream)
}

func (s *script) SyncDevice() error {
	if s.waitless {
		return vmm.Unsupported("script", vmm.Error{Op: vmm.OpSyncDevice}, "no function of the driver does this")
	}
	return s.call(vmm.Error{Op: vmm.OpSyncDevice}, "sync_device")
}

func (s *script) Release(handle uint64) error {
	return s.call(vmm.Error{Op: vmm.OpRelease, Handle: handle}, "release %d", handle)
}

func (s *script) Map(va, size, handle uint64) error {
	return s.call(vmm.Error{Op: vmm.OpMap, VA: va, Size: size, Handle: handle}, "map %#x %d %d", va, size, handle)
}

func (s *script) Unmap(va, size uint64) error {
	return s.call(vmm.Error{Op: vmm.OpUnmap, VA: va, Size: size}, "unmap %#x %d", va, size)
}

func (s *script) Grant(va, size uint64, device int) error {
	return s.call(vmm.Error{Op: vmm.OpGrant, VA: va, Size: size}, "grant %#x %d to %d", va, size, device)
}

// open makes a device that has been used, and forgets the calls that this took.
func (s *script) open(t *testing.T) *vmm.Device {
	t.Helper()
	d, err := vmm.NewDevice(s, 3)
	require.NoError(t, err)
	_, err = d.Probe()
	require.NoError(t, err)
	s.calls = nil
	return d
}

func TestNewDevice(t *testing.T) {
	s := newScript()
	d, err := vmm.NewDevice(s, 3)
	require.NoError(t, err)
	assert.Equal(t, []string{"granularity 0 1", "granularity 1 1073741824"}, s.calls)
	assert.Equal(t, 3, d.Ordinal())
	assert.Same(t, s, d.Driver())
	assert.Equal(t, uint64(64<<10), d.Granule(vmm.GranularityMinimum))
	assert.Equal(t, uint64(2<<20), d.Granule(vmm.GranularityRecommended))
	assert.Equal(t, []string{"granularity 0 1", "granularity 1 1073741824"}, s.calls)
}

func TestNewDeviceFails(t *testing.T) {
	t.Run("the driver fails", func(t *testing.T) {
		s := newScript()
		s.fail[vmm.OpGranularity] = vmm.ClassNoDevice
		d, err := vmm.NewDevice(s, 0)
		assert.Nil(t, d)
		require.ErrorIs(t, err, vmm.ClassNoDevice)
	})
	for _, granule := range []uint64{0, 3, 1<<20 + 1} {
		for kind := range newScript().granules {
			t.Run(fmt.Sprintf("granularity %d is %d", kind, granule), func(t *testing.T) {
				s := newScript()
				s.granules[kind] = granule
				d, err := vmm.NewDevice(s, 0)
				assert.Nil(t, d)
				require.ErrorIs(t, err, vmm.ClassUnknown)
				assert.ErrorContains(t, err, fmt.Sprintf("script: granularity: unknown: the driver answered %d, which is not a power of two", granule))
			})
		}
	}
}

func TestReserve(t *testing.T) {
	const granule = 2 << 20
	reserve := fmt.Sprintf("reserve %d %d 0x5000", size, granule)
	unreserve := fmt.Sprintf("unreserve %#x %d", va+4096, size)
	for name, tc := range map[string]struct {
		reserved uint64
		fail     []vmm.Op
		calls    []string
		class    error
		texts    []string
	}{
		"works":                  {va, nil, []string{reserve}, nil, nil},
		"fails":                  {va, []vmm.Op{vmm.OpReserve}, []string{reserve}, vmm.ClassOutOfMemory, []string{fmt.Sprintf("SCRIPT_RESERVE, %d", 100+int64(vmm.ClassOutOfMemory))}},
		"gives nothing":          {0, nil, []string{reserve}, vmm.ClassNotSupported, []string{"reserve of 4194304 bytes: not supported", "expected an address that is a multiple of 2097152"}},
		"gives less alignment":   {va + 4096, nil, []string{reserve, unreserve}, vmm.ClassNotSupported, []string{"at 0x7f0000001000"}},
		"and does not take back": {va + 4096, []vmm.Op{vmm.OpUnreserve}, []string{reserve, unreserve}, vmm.ClassNotSupported, []string{"at 0x7f0000001000", "and then: script: unreserve"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			d := s.open(t)
			s.reserved = tc.reserved
			for _, op := range tc.fail {
				s.fail[op] = vmm.ClassOutOfMemory
			}
			got, err := d.Reserve(size, granule, 0x5000)
			assert.Equal(t, tc.calls, s.calls)
			if tc.class == nil {
				require.NoError(t, err)
				assert.Equal(t, uint64(va), got)
				return
			}
			assert.Zero(t, got)
			require.ErrorIs(t, err, tc.class)
			for _, text := range tc.texts {
				assert.ErrorContains(t, err, text)
			}
			first := new(vmm.Error)
			require.ErrorAs(t, err, &first)
			assert.Equal(t, vmm.OpReserve, first.Op, "the first failure")
			assert.Equal(t, uint64(size), first.Size)
		})
	}
}

func TestUnreserve(t *testing.T) {
	s := newScript()
	d := s.open(t)
	require.NoError(t, d.Unreserve(va, size))
	s.fail[vmm.OpUnreserve] = vmm.ClassInvalidArgument
	require.ErrorIs(t, d.Unreserve(va, size), vmm.ClassInvalidArgument)
	assert.Equal(t, []string{"unreserve 0x7f0000000000 4194304", "unreserve 0x7f0000000000 4194304"}, s.calls)
}

// The calls, as the script writes them.
var written = map[vmm.Op]string{
	vmm.OpCreate:  "create 4194304 none false",
	vmm.OpMap:     "map 0x7f0000000000 4194304 77",
	vmm.OpGrant:   "grant 0x7f0000000000 4194304 to 3",
	vmm.OpUnmap:   "unmap 0x7f0000000000 4194304",
	vmm.OpRelease: "release 77",
}

func texts(ops []vmm.Op) []string {
	var lines []string
	for _, op := range ops {
		lines = append(lines, written[op])
	}
	return lines
}

const (
	create  = vmm.OpCreate
	mapping = vmm.OpMap
	grant   = vmm.OpGrant
	unmap   = vmm.OpUnmap
	release = vmm.OpRelease
)

// A fault is what fails, what is called then, and what the error tells: its failures in their order.
type fault struct {
	fail        []vmm.Op
	calls       []vmm.Op
	quarantined bool
}

// capabilitySets are all that the composition looks at.
var capabilitySets = []vmm.Capabilities{
	{},
	{MapGrants: true},
	{ReleaseWhileMapped: true},
	{ReleaseWhileMapped: true, MapGrants: true},
}

func faultsOfAllocate(c vmm.Capabilities) []fault {
	faults := []fault{
		{nil, []vmm.Op{create, mapping, grant}, false},
		{[]vmm.Op{create}, []vmm.Op{create}, false},
		{[]vmm.Op{mapping}, []vmm.Op{create, mapping, release}, false},
		{[]vmm.Op{mapping, release}, []vmm.Op{create, mapping, release}, false},
		{[]vmm.Op{grant}, []vmm.Op{create, mapping, grant, unmap, release}, false},
		{[]vmm.Op{grant, release}, []vmm.Op{create, mapping, grant, unmap, release}, false},
	}
	switch {
	case c.MapGrants:
		faults = faults[:4]
		faults[0].calls = []vmm.Op{create, mapping}
	case c.ReleaseWhileMapped:
		faults = append(faults,
			fault{[]vmm.Op{grant, unmap}, []vmm.Op{create, mapping, grant, unmap, release}, false},
			fault{[]vmm.Op{grant, unmap, release}, []vmm.Op{create, mapping, grant, unmap, release}, false},
		)
	default:
		faults = append(faults, fault{[]vmm.Op{grant, unmap}, []vmm.Op{create, mapping, grant, unmap}, true})
	}
	return faults
}

func faultsOfRelease(c vmm.Capabilities) []fault {
	faults := []fault{
		{nil, []vmm.Op{unmap, release}, false},
		{[]vmm.Op{release}, []vmm.Op{unmap, release}, false},
	}
	if c.ReleaseWhileMapped {
		return append(faults,
			fault{[]vmm.Op{unmap}, []vmm.Op{unmap, release}, false},
			fault{[]vmm.Op{unmap, release}, []vmm.Op{unmap, release}, false},
		)
	}
	return append(faults, fault{[]vmm.Op{unmap}, []vmm.Op{unmap}, true})
}

func TestFaults(t *testing.T) {
	for _, c := range capabilitySets {
		for _, f := range faultsOfAllocate(c) {
			t.Run(fmt.Sprintf("allocate/%+v/%v fail", c, f.fail), func(t *testing.T) {
				s := newScript()
				s.capabilities = c
				d := s.open(t)
				f.arm(s)
				got, err := d.Allocate(va, size)
				f.check(t, s, err)
				if err == nil || f.quarantined {
					assert.Equal(t, uint64(handle), got)
				}
			})
		}
		for _, f := range faultsOfRelease(c) {
			t.Run(fmt.Sprintf("release/%+v/%v fail", c, f.fail), func(t *testing.T) {
				s := newScript()
				s.capabilities = c
				d := s.open(t)
				f.arm(s)
				f.check(t, s, d.Release(va, size, handle))
			})
		}
	}
}

// arm makes the operations fail, each with a class of its own.
func (f fault) arm(s *script) {
	for i, op := range f.fail {
		s.fail[op] = vmm.ClassInvalidArgument + vmm.Class(i)
	}
}

func (f fault) check(t *testing.T, s *script, err error) {
	t.Helper()
	assert.Equal(t, texts(f.calls), s.calls)
	assert.Equal(t, f.quarantined, errors.Is(err, vmm.ErrQuarantined))
	if len(f.fail) == 0 {
		require.NoError(t, err)
		return
	}
	for i, op := range f.fail {
		assert.ErrorIs(t, err, vmm.ClassInvalidArgument+vmm.Class(i), "every failure is told")
		assert.ErrorContains(t, err, "script: "+op.String())
	}
	assert.Equal(t, len(f.fail)-1, strings.Count(err.Error(), "and then: "))
	assert.NotErrorIs(t, err, vmm.ClassOutOfMemory)

	first := new(vmm.Error)
	require.ErrorAs(t, err, &first)
	assert.Equal(t, f.fail[0], first.Op, "the first failure is not hidden")
	assert.Equal(t, "script", first.Backend)
	assert.Equal(t, "script_"+first.Op.String(), first.Function)
	assert.Equal(t, 100+int64(vmm.ClassInvalidArgument), first.Code)
	assert.Equal(t, "SCRIPT_"+strings.ToUpper(first.Op.String()), first.Name)
	assert.Equal(t, vmm.ClassInvalidArgument, first.Class)
	if first.Op != release {
		assert.Equal(t, uint64(size), first.Size)
	}
	if first.Op != release && first.Op != create {
		assert.Equal(t, uint64(va), first.VA)
	}
}

func TestQuarantinedHandleCanBeReleasedLater(t *testing.T) {
	s := newScript()
	d := s.open(t)
	s.fail[grant], s.fail[unmap] = vmm.ClassUnknown, vmm.ClassUnknown
	got, err := d.Allocate(va, size)
	require.ErrorIs(t, err, vmm.ErrQuarantined)
	require.ErrorIs(t, d.Release(va, size, got), vmm.ErrQuarantined)
	clear(s.fail)
	s.calls = nil
	require.NoError(t, d.Release(va, size, got))
	assert.Equal(t, texts([]vmm.Op{unmap, release}), s.calls)
}
