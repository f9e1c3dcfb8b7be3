package conformance_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/sim/simtest"
)

// A phase is a part of an arena's life. What it needs is done before, without faults.
type phase struct {
	name string
	run  func(w *world) error
}

// configs are the kinds of arenas that the phases are gone through with.
var configs = map[string]arena.Config{
	"a handle each":          {Total: 64 << 20},
	"slabs":                  {Total: 64 << 20, Placement: arena.Slab(8 << 20)},
	"a single handle":        {Total: 64 << 20, Placement: arena.Single()},
	"kept handles":           {Total: 64 << 20, Cache: 64 << 20, Reuse: true},
	"slabs, kept, and peers": {Total: 64 << 20, Placement: arena.Slab(8 << 20), Cache: 64 << 20, Peers: []int{1}, Events: 64},
}

// A world is one arena over a simulated device.
type world struct {
	t        *testing.T
	config   arena.Config
	open     func(device int) (*vmm.Device, error)
	controls *simtest.Simulator
	device   *vmm.Device
	arena    *arena.Arena
	first    uint64
}

var phases = []phase{
	{"open", func(w *world) (err error) {
		w.device, err = w.open(0)
		return err
	}},
	{"create", func(w *world) (err error) {
		w.arena, err = arena.New(w.device, w.config)
		return err
	}},
	{"first allocation", func(w *world) (err error) {
		w.first, err = w.arena.Malloc(1)
		return err
	}},
	{"allocation", func(w *world) error {
		_, err := w.arena.Malloc(1)
		return err
	}},
	{"free", func(w *world) error { return w.arena.Free(w.first) }},
	{"trim", func(w *world) error {
		_, err := w.arena.Trim(0)
		return err
	}},
	{"peer", func(w *world) error { return w.arena.AddPeer(1) }},
	{"close", func(w *world) error { return w.arena.Close() }},
	{"release", func(w *world) error { return w.arena.Release() }},
}

// live goes through the phases and calls before and after around one of them. It returns that phase's error.
func (w *world) live(which int, before func()) error {
	for i, p := range phases {
		if i == which {
			before()
			return p.run(w)
		}
		require.NoError(w.t, p.run(w), p.name)
	}
	return nil
}

// lastOp is how many operations and helpers a simulator counts, at most.
const lastOp = 64

// TestFaults fails every driver call that the phases make, with every class, and looks at what comes of it.
func TestFaults(t *testing.T) {
	for _, s := range simulators(t) {
		t.Run(s.Name, func(t *testing.T) {
			controls := s.load(t)
			for name, config := range configs {
				t.Run(name, func(t *testing.T) {
					checkFaults(t, world{config: config, open: func(device int) (*vmm.Device, error) { return s.Open(device, "") }, controls: controls})
				})
			}
		})
	}
}

func checkFaults(t *testing.T, w world) {
	t.Helper()
	made, failed := map[uint64]bool{}, map[uint64]bool{}
	for i, p := range phases {
		for _, op := range callsOf(t, w, i) {
			made[op] = true
			for class := range vmm.ClassDeviceLost + 1 {
				name := fmt.Sprintf("%s/%s fails with %v", p.name, opName(op), class)
				t.Run(name, func(t *testing.T) {
					checkFault(t, w, i, op, class)
					failed[op] = failed[op] || w.controls.Call("arenasim_failed", op) > 0
				})
			}
		}
	}
	assert.Equal(t, made, failed, "every call that is made was failed on purpose")
	assert.GreaterOrEqual(t, len(made), 12)
}

func opName(op uint64) string {
	if op <= uint64(vmm.OpStreamCapturing) {
		return vmm.Op(op).String()
	}
	return fmt.Sprintf("helper %d", op-uint64(vmm.OpStreamCapturing))
}

// callsOf are the operations and helpers that a phase calls.
func callsOf(t *testing.T, w world, which int) []uint64 {
	t.Helper()
	c := w.controls
	c.Reset()
	w.t = t
	require.NoError(t, w.live(which, func() {
		for op := range uint64(lastOp) {
			c.Call("arenasim_calls", op)
		}
	}))
	var called []uint64
	for op := range uint64(lastOp) {
		if c.Call("arenasim_calls", op) > 0 {
			called = append(called, op)
		}
	}
	return called
}

func checkFault(t *testing.T, w world, which int, op uint64, class vmm.Class) {
	t.Helper()
	c := w.controls
	w.t = t
	runtime.LockOSThread() // what the driver keeps for a thread is looked at
	defer runtime.UnlockOSThread()
	c.Reset()
	err := w.live(which, func() { require.Equal(t, uint64(1), c.Call("arenasim_fail", op, 1, uint64(class))) })
	require.Equal(t, uint64(1), c.Call("arenasim_failed", op), "the fault was met")
	c.Call("arenasim_fail_not")
	lost := class == vmm.ClassDeviceLost && err != nil
	if err == nil {
		// What a device says about itself and what it is tried for may fail without harm; a stream that is captured or gone is no failure.
		gone := class == vmm.ClassCapturing || class == vmm.ClassInvalidArgument || class == vmm.ClassUnavailable
		harmless := op == uint64(vmm.OpAttribute) || w.tries(which) || phases[which].name == "free" && gone
		assert.True(t, harmless, "a failure of %s was not told", opName(op))
	} else {
		checkError(t, err, op, class)
	}
	if w.arena == nil {
		if w.tries(which) && (op == uint64(vmm.OpUnreserve) || op == uint64(vmm.OpRelease) || op == uint64(vmm.OpUnmap)) {
			return // the driver would not take back what it was tried with
		}
		assert.Zero(t, c.Call("arenasim_objects", 0)+c.Call("arenasim_objects", 1)+c.Call("arenasim_objects", 2), "nothing is left behind")
		return
	}
	if !lost && !w.arena.Closed() {
		va, err := w.arena.Malloc(1)
		require.NoError(t, err, "the arena still works")
		require.NoError(t, w.arena.Free(va))
	}
	releaseErr := w.arena.Release()
	switch {
	case lost || op == uint64(vmm.OpUnmap) || op == uint64(vmm.OpRelease) || op == uint64(vmm.OpUnreserve):
		// What the driver would not take back is still there.
	default:
		require.NoError(t, releaseErr)
		for kind, name := range []string{"reservations", "handles", "mappings"} {
			assert.Zero(t, c.Call("arenasim_objects", uint64(kind)), name)
		}
	}
	assert.LessOrEqual(t, c.Call("arenasim_objects", 3), uint64(1), "retained contexts")
	if !strings.HasPrefix(opName(op), "helper") { // those put it back
		assert.Zero(t, c.Call("arenasim_context"), "the thread's context is as it was")
	}
}

// tries tells whether the device is tried in a phase, since it makes the first handle.
func (w *world) tries(which int) bool {
	first := "first allocation"
	if w.config.Placement == arena.Single() {
		first = "create"
	}
	return phases[which].name == first
}

// checkError sees to it that the first failure that is told is the one that was made, with the driver's own words.
func checkError(t *testing.T, err error, op uint64, class vmm.Class) {
	t.Helper()
	if class == vmm.ClassCapturing && errors.Is(err, vmm.ErrCapturing) {
		return
	}
	first := new(vmm.Error)
	require.ErrorAs(t, err, &first)
	assert.NotZero(t, first.Code)
	assert.NotEmpty(t, first.Name)
	assert.NotEmpty(t, first.Function)
	assert.Contains(t, err.Error(), first.Name)
	if op <= uint64(vmm.OpStreamCapturing) && first.Op != vmm.OpOpen {
		assert.Equal(t, vmm.Op(op), first.Op)
	}
}
