package arena_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// callbacks runs a function inside a callback of an arena: one that has a call in flight then.
var callbacks = map[string]func(t *testing.T, f *fake, a *arena.Arena, inside func()){
	"allocate": func(t *testing.T, f *fake, a *arena.Arena, inside func()) {
		t.Helper()
		f.onAllocate = func(_, _ uint64) error { inside(); return nil }
		_, err := a.Malloc(1)
		f.onAllocate = nil
		require.NoError(t, err)
	},
	"release": func(t *testing.T, f *fake, a *arena.Arena, inside func()) {
		t.Helper()
		va := malloc(t, a, 1)
		f.onRelease = func(_, _, _ uint64) error { inside(); return nil }
		err := a.Free(va)
		f.onRelease = nil
		require.NoError(t, err)
	},
	"far below one": func(t *testing.T, f *fake, a *arena.Arena, inside func()) {
		t.Helper()
		f.onAllocate = func(_, _ uint64) error { deep(1000, inside); return nil }
		_, err := a.Malloc(1)
		f.onAllocate = nil
		require.NoError(t, err)
	},
	"one that panics": func(t *testing.T, f *fake, a *arena.Arena, inside func()) {
		t.Helper()
		f.onAllocate = func(_, _ uint64) error { defer inside(); panic(errDriver) }
		_, err := a.Malloc(1)
		f.onAllocate = nil
		require.Error(t, err)
	},
}

// deep calls a function from so many frames further down.
func deep(frames int, f func()) {
	if frames == 0 {
		f()
		return
	}
	deep(frames-1, f)
}

func TestEndingInsideCallbackIsRefused(t *testing.T) {
	for name, call := range callbacks {
		for end := range endings {
			t.Run(name+"/"+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t)
					a := open(t, f, 8)
					kept := malloc(t, a, 1)
					call(t, f, a, func() {
						before, asked := a.Stats(), f.counted()
						for range 2 {
							got := endWith(a, end)
							assert.ErrorIs(t, got.err, arena.ErrBusy)
							assert.Nil(t, got.drained)
						}
						assert.False(t, a.Closed())
						assert.Equal(t, before, a.Stats(), "it changed something")
						assert.Equal(t, asked, f.counted())
					})
					malloc(t, a, 1)
					require.NoError(t, a.Free(kept))
					require.NoError(t, endWith(a, end).err, "outside it works")
					assertBalance(t, a.Stats())
				})
			})
		}
	}
}

func TestEndingOfAnotherArenaInsideCallback(t *testing.T) {
	for name, call := range callbacks {
		for end := range endings {
			t.Run(name+"/"+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, g := newFake(t), newFake(t)
					a, idle := open(t, f, 8), open(t, g, 8)
					malloc(t, idle, 1)
					call(t, f, a, func() {
						assert.NoError(t, endWith(idle, end).err)
						assert.NoError(t, idle.Close())
					})
					assert.True(t, idle.Closed())
					assert.False(t, a.Closed())
					assert.Zero(t, idle.Live())

					h := newFake(t)
					busy := open(t, h, 8)
					gate := newGate()
					done := parked["allocate"](h, busy, nil, gate)
					synctest.Wait()
					call(t, f, a, func() {
						assert.ErrorIs(t, endWith(busy, end).err, arena.ErrBusy, "it may be waiting for us")
					})
					assert.False(t, busy.Closed())
					gate.open()
					require.NoError(t, <-done)
				})
			})
		}
	}
}

// Two arenas whose callbacks close each other: neither waits for the other.
func TestCallbacksThatCloseEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := newFake(t), newFake(t)
		a, b := open(t, f, 8), open(t, g, 8)
		meet := newGate()
		f.onAllocate = func(_, _ uint64) error { meet.park(); return b.Close() }
		g.onAllocate = func(_, _ uint64) error { meet.park(); return a.Close() }
		first := background(func() error { _, err := a.Malloc(1); return err })
		second := background(func() error { _, err := b.Malloc(1); return err })
		synctest.Wait()
		meet.open()
		errs := []error{<-first, <-second}
		// Who comes second may find the other idle again, but one at least met it busy.
		assert.Contains(t, []bool{errs[0] != nil, errs[1] != nil}, true)
		for _, err := range errs {
			if err != nil {
				assert.ErrorIs(t, err, arena.ErrBusy)
			}
		}
	})
}

func TestEndingInsideThePassOfClose(t *testing.T) {
	for name, end := range map[string]func(*fake, *arena.Arena) error{
		"a close": func(_ *fake, a *arena.Arena) error { return a.Close() },
		"a retry": func(f *fake, a *arena.Arena) error {
			hook := f.onRelease
			f.onRelease = func(_, _, _ uint64) error { return vmm.ErrQuarantined }
			_ = a.Free(base)
			f.onRelease = hook
			return a.Close()
		},
		"a release": func(_ *fake, a *arena.Arena) error { return a.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 8)
				malloc(t, a, 1)
				inside := 0
				f.onRelease = func(_, _, _ uint64) error {
					inside++
					assert.NoError(t, a.Close())
					_, err := a.CloseAndDrain()
					assert.ErrorIs(t, err, arena.ErrClosed)
					assert.ErrorIs(t, a.Release(), arena.ErrBusy)
					_, err = a.Malloc(1)
					assert.ErrorIs(t, err, arena.ErrClosed)
					assertBalance(t, a.Stats())
					return nil
				}
				require.NoError(t, end(f, a))
				assert.Equal(t, 1, inside)
				require.NoError(t, a.Release())
				assert.False(t, f.isReserved())
			})
		})
	}
}

func TestEndingInsideCallbackOfArenaThatIsClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		g := newGate()
		f.onAllocate = func(_, _ uint64) error {
			g.park()
			assert.NoError(t, a.Close(), "it is closed already")
			_, err := a.CloseAndDrain()
			assert.ErrorIs(t, err, arena.ErrClosed)
			assert.ErrorIs(t, a.Release(), arena.ErrBusy)
			return nil
		}
		done := background(func() error { _, err := a.Malloc(1); return err })
		synctest.Wait()
		closed := background(a.Close)
		synctest.Wait()
		g.open()
		require.NoError(t, <-done)
		require.NoError(t, <-closed)
	})
}

func TestEndingInsideUnreserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		f.onUnreserve = func() error {
			assert.NoError(t, a.Close())
			assert.NoError(t, a.Release(), "it is being done")
			assertBalance(t, a.Stats())
			return nil
		}
		require.NoError(t, a.Release())
		assert.Equal(t, 1, f.counted().unreserve)
	})
}

func TestEndingInsideRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		mallocs(t, a, 2)
		drained, err := a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) {
			assert.NoError(t, a.Close())
			_, err := a.CloseAndDrain()
			assert.ErrorIs(t, err, arena.ErrClosed)
			assert.ErrorIs(t, a.Release(), arena.ErrBusy)
			return make([]arena.Allocation, n), nil
		})
		require.NoError(t, err)
		assert.Len(t, drained, 2)
	})
}

func TestCallbackMayUseItsArena(t *testing.T) {
	for name, call := range callbacks {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			live := malloc(t, a, 1)
			call(t, f, a, func() {
				hook, other := f.onAllocate, f.onRelease
				f.onAllocate, f.onRelease = nil, nil
				assert.NoError(t, a.Free(malloc(t, a, 1)))
				assert.NoError(t, a.Free(live))
				assertBalance(t, a.Stats())
				f.onAllocate, f.onRelease = hook, other
			})
			require.NoError(t, a.Release())
		})
	}
}
