package arena_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// A patient is a fake that can wait, and notes what it was told to wait for.
type patient struct {
	*fake
	waits    []string
	onStream func() error
}

func (p *patient) WaitStream(stream uint64) error {
	p.waits = append(p.waits, fmt.Sprint("stream ", stream))
	if p.onStream != nil {
		return p.onStream()
	}
	return nil
}

func (p *patient) WaitDevice() error {
	p.waits = append(p.waits, "device")
	return nil
}

func TestQuarantineIsRetriedBehindTheDevice(t *testing.T) {
	ends := map[string]func(*arena.Arena) error{
		"close":   (*arena.Arena).Close,
		"release": (*arena.Arena).Release,
		"drain":   func(a *arena.Arena) error { _, err := a.CloseAndDrain(); return err },
		"release after a close that failed": func(a *arena.Arena) error {
			if err := a.Close(); err == nil {
				return errors.New("the first retry worked")
			}
			return a.Release()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			p := &patient{fake: newFake(t)}
			a, err := arena.New(p, arena.Config{Total: 8 * granule})
			require.NoError(t, err)
			va := malloc(t, a, 1)
			failures := 1
			if name == "release after a close that failed" {
				failures = 2
			}
			p.onRelease = func(_, _, _ uint64) error {
				if failures == 0 {
					p.waits = append(p.waits, "unmap")
					return nil
				}
				failures--
				return vmm.ErrQuarantined
			}
			require.ErrorIs(t, a.Free(va), vmm.ErrQuarantined)
			assert.Equal(t, uint64(1), a.Stats().Quarantined)
			p.waits = nil
			require.NoError(t, end(a))
			assert.Equal(t, []string{"device", "unmap"}, p.waits[len(p.waits)-2:])
			require.NoError(t, a.Release())
		})
	}
}

func TestEndOfNothingWaitsForNothing(t *testing.T) {
	p := &patient{fake: newFake(t)}
	a, err := arena.New(p, arena.Config{Total: 8 * granule})
	require.NoError(t, err)
	require.NoError(t, a.Free(malloc(t, a, 1)))
	p.waits = nil
	require.NoError(t, a.Release())
	assert.Empty(t, p.waits)
}

func TestFreeThatIsDeferredTellsWhatElseFailed(t *testing.T) {
	for name, more := range map[string]error{"nothing": nil, "the mode was not put back": errDriver} {
		t.Run(name, func(t *testing.T) {
			p := &patient{fake: newFake(t)}
			a, err := arena.New(p, arena.Config{Total: 8 * granule})
			require.NoError(t, err)
			va := malloc(t, a, 1)
			p.onStream = func() error {
				if more == nil {
					return vmm.ErrCapturing
				}
				return errors.Join(vmm.ErrCapturing, more)
			}
			err = a.Free(va)
			if more == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, more)
			}
			assert.Equal(t, uint64(1), a.Stats().Deferred)
			p.onStream = nil
			require.NoError(t, a.Release())
			assert.Equal(t, uint64(1), a.Stats().Released)
		})
	}
}

func TestDrainOfSlabsWithWhatIsDeferred(t *testing.T) {
	p := &patient{fake: newFake(t)}
	a, err := arena.New(p, arena.Config{Total: 64 * granule, Placement: arena.Slab(4 * granule)})
	require.NoError(t, err)
	kept, gone := malloc(t, a, granule), malloc(t, a, granule)
	full := malloc(t, a, 4*granule)
	large := malloc(t, a, 5*granule)
	p.onStream = func() error { return vmm.ErrCapturing }
	require.NoError(t, a.Free(gone))
	require.NoError(t, a.Free(full))
	assert.Equal(t, uint64(2), a.Stats().Deferred)
	assert.Equal(t, uint64(3), a.LiveHandles(), "two slabs, and one that is larger")
	p.onStream = nil
	drained, err := a.CloseAndDrain()
	require.NoError(t, err)
	require.Len(t, drained, 2, "the slab that was only deferred was released")
	assert.Equal(t, []uint64{kept, large}, []uint64{drained[0].VA, drained[1].VA})
	clear(p.placements)
	assert.Equal(t, uint64(2), a.Stats().Released)
	assert.Equal(t, uint64(2), a.Stats().HandedOver)
	require.NoError(t, a.Release())
}
