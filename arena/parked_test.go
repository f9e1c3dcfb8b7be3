package arena_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
)

// These tests run in bubbles: synctest.Wait returns when every other goroutine sleeps, and a
// deadlock ends the test at once.

// once parks the first call at a gate and lets the others pass.
func once(g gate) func() {
	var passed atomic.Bool
	return func() {
		if passed.CompareAndSwap(false, true) {
			g.park()
		}
	}
}

// parked says where a thread is parked: it starts one there, which the gate lets go, in an arena with two live allocations.
var parked = map[string]func(f *fake, a *arena.Arena, vas []uint64, g gate) <-chan error{
	"allocate": func(f *fake, a *arena.Arena, _ []uint64, g gate) <-chan error {
		park := once(g)
		f.onAllocate = func(_, _ uint64) error { park(); return nil }
		return background(func() error { _, err := a.Malloc(1); return err })
	},
	"release": func(f *fake, a *arena.Arena, vas []uint64, g gate) <-chan error {
		park := once(g)
		f.onRelease = func(_, _, _ uint64) error { park(); return nil }
		return background(func() error { return a.Free(vas[0]) })
	},
	"release in close": func(f *fake, a *arena.Arena, _ []uint64, g gate) <-chan error {
		park := once(g)
		f.onRelease = func(_, _, _ uint64) error { park(); return nil }
		return background(a.Close)
	},
	"room for a drain": func(f *fake, a *arena.Arena, _ []uint64, g gate) <-chan error {
		return background(func() error {
			_, err := a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) {
				g.park()
				clear(f.placements)
				return make([]arena.Allocation, n), nil
			})
			return err
		})
	},
	"unreserve after a late free": func(f *fake, a *arena.Arena, vas []uint64, g gate) <-chan error {
		park := once(g)
		f.onUnreserve = func() error { park(); return nil }
		return background(func() error {
			if err := a.Close(); err != nil {
				return err
			}
			_ = a.Free(vas[0])
			return a.Free(vas[1])
		})
	},
}

func TestParkedThreadStopsNoOther(t *testing.T) {
	for name, start := range parked {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 512)
				var r arena.Router
				r.Add(a)
				require.NoError(t, r.SetActive(0, a))
				vas := mallocs(t, a, 2)
				g := newGate()
				done := start(f, a, vas, g)
				synctest.Wait()
				assertRunning(t, done)

				refusal := error(nil)
				if a.Closed() {
					refusal = arena.ErrClosed
				}
				for range 100 { // enough to meet every shard
					va, err := a.Malloc(1)
					require.ErrorIs(t, err, refusal)
					require.NoError(t, a.Free(va))
					va, err = r.Malloc(0, arena.Request{Size: 1})
					require.ErrorIs(t, err, refusal)
					require.NoError(t, r.Free(0, va))
				}
				require.NoError(t, a.Free(vas[1]))
				require.NoError(t, r.Free(0, vas[1]))
				require.NoError(t, a.Free(vas[0]))
				require.NoError(t, a.Free(1))
				assertBalance(t, a.Stats())
				assert.LessOrEqual(t, a.Live(), uint64(2))
				assert.LessOrEqual(t, a.Mapped(), uint64(2*granule))
				assert.GreaterOrEqual(t, a.Used(), uint64(2*granule))
				first, length := a.RegisteredRange()
				assert.True(t, a.Contains(first+length-1))
				assert.Same(t, a, r.Of(vas[0]))
				assert.Same(t, a, r.Active(0))
				assert.Equal(t, 1, r.Diagnostics().Arenas)
				r.SetActiveAny(a)
				require.NoError(t, r.SetActive(0, nil))
				r.Remove(a)
				r.Add(a)

				other := newFake(t)
				b := open(t, other, 8)
				malloc(t, b, 1)
				require.NoError(t, b.Release())

				assertRunning(t, done)
				g.open()
				require.NoError(t, <-done)
				require.NoError(t, a.Release())
				assertBalance(t, a.Stats())
				assert.Empty(t, f.live())
				assert.False(t, f.isReserved())
			})
		})
	}
}

// ended is what came of an ending: what CloseAndDrain handed over and what all of them return.
type ended struct {
	drained []arena.Allocation
	err     error
}

func endWith(a *arena.Arena, name string) ended {
	if name == "CloseAndDrain" {
		drained, err := a.CloseAndDrain()
		return ended{drained, err}
	}
	return ended{err: endings[name](a)}
}

func TestCloseWaitsForCallsInsideTheBackend(t *testing.T) {
	for end := range endings {
		for _, call := range []string{"allocate", "release"} {
			t.Run(end+"/"+call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t)
					a := open(t, f, 8)
					vas := mallocs(t, a, 2)
					g := newGate()
					done := parked[call](f, a, vas, g)
					synctest.Wait()

					closed := background(func() ended { return endWith(a, end) })
					synctest.Wait() // it returns: the waiting sleeps
					assertRunning(t, closed)
					assert.True(t, a.Closed())
					_, err := a.Malloc(1)
					require.ErrorIs(t, err, arena.ErrClosed)
					require.NoError(t, a.Close(), "a second close")
					_, err = a.CloseAndDrain()
					require.ErrorIs(t, err, arena.ErrClosed)
					assertRunning(t, closed)

					g.open()
					require.NoError(t, <-done, "who was inside does not notice")
					got := <-closed
					require.NoError(t, got.err)
					s := a.Stats()
					assertBalance(t, s)
					assert.Zero(t, s.Live)
					want := uint64(3)
					if call == "release" {
						want = 2
					}
					assert.Equal(t, want, s.Released+s.HandedOver, "the allocation that was inside is settled too")
					assert.Len(t, f.live(), len(got.drained))
					if end == "CloseAndDrain" && call == "allocate" {
						assert.Equal(t, arena.Allocation{VA: base + 2*granule, Size: granule, Handle: 1003}, got.drained[2])
					}
				})
			})
		}
	}
}

func TestCloseWaitsForTheLastOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const threads = 100
		f := newFake(t)
		a := open(t, f, 4*threads)
		vas := mallocs(t, a, threads)
		leave := make(chan struct{})
		f.onAllocate = func(_, _ uint64) error { <-leave; return nil }
		f.onRelease = func(_, _, _ uint64) error { <-leave; return nil }
		for i := range threads {
			go func() { _ = a.Free(vas[i]) }()
			go func() { _, _ = a.Malloc(1) }()
		}
		synctest.Wait()
		closed := background(func() ended { return endWith(a, "CloseAndDrain") })
		for range 2 * threads {
			synctest.Wait()
			assertRunning(t, closed)
			leave <- struct{}{}
		}
		got := <-closed
		require.NoError(t, got.err)
		assert.Len(t, got.drained, threads)
		assertBalance(t, a.Stats())
	})
}

func TestCloseWaitsForCallsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		g := newGate()
		f.onAllocate = func(_, size uint64) error {
			g.park()
			if size == granule {
				return errDriver
			}
			panic(errDriver)
		}
		failed := background(func() error { _, err := a.Malloc(1); return err })
		panicked := background(func() error { _, err := a.Malloc(2 * granule); return err })
		synctest.Wait()
		closed := background(a.Close)
		synctest.Wait()
		assertRunning(t, closed)
		g.open()
		require.Error(t, <-failed)
		require.Error(t, <-panicked)
		require.NoError(t, <-closed)
		assert.False(t, f.isReserved(), "nothing is awaited")
	})
}

func TestFreeDuringCloseIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		vas := mallocs(t, a, 2)
		g := newGate()
		done := parked["allocate"](f, a, vas, g)
		synctest.Wait()
		closed := background(a.Close)
		synctest.Wait()
		require.NoError(t, a.Free(vas[0]), "the close has begun, and waits")
		assert.Zero(t, f.counted().release, "it is the close that releases")
		assert.Equal(t, uint64(1), a.Stats().LateFrees)
		g.open()
		require.NoError(t, <-closed)
		require.NoError(t, <-done)
		assert.Equal(t, 3, f.counted().release)
		assert.True(t, f.isReserved())
		require.NoError(t, a.Free(vas[1]))
		require.NoError(t, a.Free(base+2*granule))
		assert.False(t, f.isReserved())
		assertBalance(t, a.Stats())
	})
}

func TestAllLateFreesDuringClose(t *testing.T) {
	for end := range endings {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 512)
				g := newGate()
				done := parked["allocate"](f, a, nil, g)
				synctest.Wait()
				vas := mallocs(t, a, 200)
				closed := background(func() ended { return endWith(a, end) })
				synctest.Wait()
				for _, va := range vas {
					require.NoError(t, a.Free(va))
				}
				g.open()
				require.NoError(t, <-done)
				got := <-closed
				require.NoError(t, got.err)
				if end == "CloseAndDrain" {
					assert.Len(t, got.drained, 201, "also what was freed too late for the arena")
					assert.True(t, f.isReserved(), "what was handed over is still mapped")
					require.NoError(t, a.Free(base))
					assert.True(t, f.isReserved())
					clear(f.placements)
					require.NoError(t, a.Release())
				}
				require.NoError(t, a.Free(base))
				assert.False(t, f.isReserved())
				assert.Equal(t, 1, f.counted().unreserve)
				assertBalance(t, a.Stats())
			})
		})
	}
}

func TestReleaseWaitsForClose(t *testing.T) {
	for _, end := range []string{"Close", "CloseAndDrain", "Release"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 8)
				g := newGate()
				done := parked["allocate"](f, a, nil, g)
				synctest.Wait()
				closed := background(func() ended { return endWith(a, end) })
				synctest.Wait()
				f.onUnreserve = func() error { clear(f.placements); return nil }
				first, second := background(a.Release), background(a.Release)
				synctest.Wait()
				assertRunning(t, first)
				assertRunning(t, second)
				g.open()
				require.NoError(t, <-done)
				require.NoError(t, (<-closed).err)
				require.NoError(t, <-first)
				require.NoError(t, <-second)
				assert.False(t, f.isReserved())
				assert.Equal(t, 1, f.counted().unreserve)
			})
		})
	}
}

func TestReleaseTakesOverWhenDrainIsRefused(t *testing.T) {
	for name, refuse := range map[string]func(n int) ([]arena.Allocation, error){
		"refused": func(int) ([]arena.Allocation, error) { return nil, errDriver },
		"panic":   func(int) ([]arena.Allocation, error) { panic(errDriver) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 8)
				mallocs(t, a, 3)
				g := newGate()
				drain := background(func() (value any) {
					defer func() { value = recover() }()
					_, err := a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) {
						g.park()
						return refuse(n)
					})
					panic(err)
				})
				synctest.Wait()
				released := background(a.Release)
				synctest.Wait()
				assertRunning(t, released)
				require.NoError(t, a.Close(), "a close leaves it to them")
				assert.Zero(t, f.counted().release)
				g.open()
				require.Equal(t, errDriver, <-drain)
				require.NoError(t, <-released)
				assert.Empty(t, f.live())
				assert.False(t, f.isReserved())
			})
		})
	}
}

func TestLateFreesDuringThePassOfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		vas := mallocs(t, a, 2)
		g := newGate()
		closed := parked["release in close"](f, a, vas, g)
		synctest.Wait()
		require.NoError(t, a.Free(vas[0]))
		require.NoError(t, a.Free(vas[1]))
		assert.Equal(t, uint64(2), a.Stats().LateFrees)
		assert.True(t, f.isReserved(), "something is still mapped")
		g.open()
		require.NoError(t, <-closed)
		assert.False(t, f.isReserved())
		assert.Equal(t, calls{reserve: 1, unreserve: 1, allocate: 2, release: 2}, f.counted())
	})
}
