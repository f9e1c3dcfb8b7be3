package arena_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func (v *vault) devices(va uint64) []int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.granted[va]
}

func TestPeersAreGrantedFromTheBeginning(t *testing.T) {
	for name, p := range map[string]arena.Placement{
		"per allocation": arena.PerAllocation(), "slabs": arena.Slab(slabSize), "single": arena.Single(),
	} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			a := openConfig(t, v, 64, arena.Config{Device: 2, Peers: []int{5, 3, 2, 5, 0}, Placement: p})
			assert.Equal(t, []int{5, 3, 0}, a.Peers(), "without doubles and the arena's own")
			malloc(t, a, 1)
			malloc(t, a, 1)
			assert.Equal(t, []int{5, 3, 0}, v.devices(base), "in order")
			peers := a.Peers()
			peers[0] = 60
			assert.Equal(t, []int{5, 3, 0}, a.Peers(), "it is the caller's copy")
			require.NoError(t, a.Release())
		})
	}
}

func TestPeersOfReusedHandles(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Peers: []int{1}, Cache: 4 * granule})
	va := malloc(t, a, 1)
	require.NoError(t, a.AddPeer(2))
	assert.Equal(t, []int{1, 2}, v.devices(va))
	require.NoError(t, a.Free(va))
	again := malloc(t, a, 1)
	assert.Equal(t, []int{1, 2}, v.devices(again), "access goes with the mapping")
	require.NoError(t, a.Release())
}

func TestPeersThatCannotBe(t *testing.T) {
	for _, device := range []int{-1, arena.MaxDevices, 1 << 40} {
		v := newVault(t)
		_, err := arena.New(v, arena.Config{Total: 64 * granule, Peers: []int{1, device}})
		require.ErrorIs(t, err, arena.ErrInvalidArgument)
		assert.False(t, v.isReserved())
		a := openConfig(t, newVault(t), 64, arena.Config{})
		require.ErrorIs(t, a.AddPeer(device), arena.ErrInvalidArgument)
		require.NoError(t, a.Release())
	}
	backend := &arena.Callbacks{Base: base, OnAllocate: noMemory, OnRelease: noRelease}
	_, err := arena.New(backend, arena.Config{Total: 64 * granule, Granule: granule, Peers: []int{1}})
	require.ErrorIs(t, err, vmm.ClassNotSupported)
	a, err := arena.New(backend, arena.Config{Total: 64 * granule, Granule: granule})
	require.NoError(t, err)
	require.ErrorIs(t, a.AddPeer(1), vmm.ClassNotSupported)
	assert.Nil(t, a.Peers())

	v := newVault(t)
	b := openConfig(t, v, 64, arena.Config{})
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.AddPeer(1), arena.ErrClosed)
	require.NoError(t, b.Release())
}

func TestAddPeerGrantsWhatIsMapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVault(t)
		a := openAhead(t, v, 2, arena.Config{Peers: []int{1}})
		malloc(t, a, 1)
		large := malloc(t, a, slabSize+1)
		synctest.Wait()
		require.NoError(t, a.AddPeer(3))
		require.NoError(t, a.AddPeer(1))
		require.NoError(t, a.AddPeer(0), "its own device reaches it anyway")
		assert.Equal(t, []int{1, 3}, a.Peers())
		assert.Len(t, v.live(), 4)
		for _, va := range append(v.live(), large) {
			assert.Equal(t, []int{1, 3}, v.devices(va), "once, also what is ahead")
		}
		malloc(t, a, slabSize)
		malloc(t, a, slabSize)
		synctest.Wait()
		for _, va := range v.live() {
			assert.Equal(t, []int{1, 3}, v.devices(va), "and all that follows")
		}
		require.NoError(t, a.Release())
	})
}

func TestPeerThatCannotReachWhatIsMapped(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Peers: []int{1}})
	vas := mallocs(t, a, 3)
	v.onGrant = func(va, _ uint64, device int) error {
		if va == vas[1] && device == 2 {
			return errDriver
		}
		return nil
	}
	err := a.AddPeer(2)
	require.ErrorIs(t, err, errDriver)
	assert.EqualError(t, err, fmt.Sprintf("let device 2 reach %d bytes at %#x, after 1 mappings that it reaches now: the driver said no", granule, vas[1]))
	assert.Equal(t, []int{1}, a.Peers())
	assert.Equal(t, []int{1}, v.devices(malloc(t, a, 1)), "later ones are without it")
	require.NoError(t, a.AddPeer(3))
	v.onGrant = nil
	require.NoError(t, a.AddPeer(2), "it can be tried again")
	assert.Equal(t, []int{1, 3, 2}, a.Peers())
	for _, va := range v.live() {
		assert.Subset(t, v.devices(va), []int{1, 2, 3})
	}
	require.NoError(t, a.Release())
}

func TestAllocationThatAPeerCannotReach(t *testing.T) {
	for name, config := range map[string]arena.Config{
		"per allocation": {}, "slabs": {Placement: arena.Slab(slabSize)}, "cache": {Cache: 4 * granule}, "reuse": {Reuse: true},
	} {
		for release, fate := range map[string]error{"taken away": nil, "quarantined": vmm.ErrQuarantined} {
			t.Run(name+"/"+release, func(t *testing.T) {
				v := newVault(t)
				config.Peers = []int{1, 2}
				a := openConfig(t, v, 256, config)
				require.NoError(t, a.Free(malloc(t, a, 1)))
				v.onGrant = func(_, _ uint64, device int) error {
					if device == 2 {
						return errDriver
					}
					return nil
				}
				v.onRelease = func(_, _, _ uint64) error { return fate }
				_, err := a.Malloc(1)
				require.ErrorIs(t, err, errDriver)
				require.ErrorContains(t, err, "let device 2 reach")
				assert.Equal(t, uint64(1), a.Stats().Failed)
				assert.Zero(t, a.Live())
				assertBalance(t, a.Stats())
				if fate == nil {
					assert.Zero(t, v.handlesNow())
				} else {
					require.ErrorIs(t, err, vmm.ErrQuarantined)
					assert.Equal(t, uint64(1), a.Stats().Quarantined)
				}
				v.onGrant, v.onRelease = nil, nil
				malloc(t, a, 1)
				require.NoError(t, a.Release())
				assert.Zero(t, v.handlesNow())
			})
		}
	}
}

func TestSingleThatAPeerCannotReach(t *testing.T) {
	v := newVault(t)
	v.onGrant = func(_, _ uint64, _ int) error { return errDriver }
	_, err := arena.New(v, arena.Config{Total: 64 * granule, Placement: arena.Single(), Peers: []int{1}})
	require.ErrorIs(t, err, errDriver)
	assert.Zero(t, v.handlesNow())
	assert.False(t, v.isReserved())
}

// Whoever is in the backend when a peer is added is granted when it comes back, before anybody can use it.
func TestPeerThatIsAddedDuringAnAllocation(t *testing.T) {
	for name, config := range map[string]arena.Config{
		"per allocation":    {},
		"slabs":             {Placement: arena.Slab(slabSize)},
		"slabs and a cache": {Placement: arena.Slab(slabSize), Cache: slabSize},
	} {
		for _, what := range []string{"granted", "refused", "closed meanwhile"} {
			t.Run(name+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := newVault(t)
					config.Peers = []int{1}
					a := openConfig(t, v, 256, config)
					g := newGate()
					park := once(g)
					var refuses atomic.Bool
					late := newGate()
					v.onGrant = func(_, _ uint64, device int) error {
						switch {
						case device == 1:
							park()
						case refuses.Load():
							return errDriver
						case what == "closed meanwhile":
							late.park()
						}
						return nil
					}
					type result struct {
						va  uint64
						err error
					}
					done := background(func() result { va, err := a.Malloc(1); return result{va, err} })
					synctest.Wait()
					require.NoError(t, a.AddPeer(7), "there is nothing to grant")
					refuses.Store(what == "refused")
					g.open()
					if what == "closed meanwhile" {
						synctest.Wait()
						closed := background(a.Close)
						synctest.Wait()
						assertRunning(t, closed)
						late.open()
						require.NoError(t, (<-done).err)
						require.NoError(t, <-closed)
						require.NoError(t, a.Release())
						return
					}
					got := <-done
					if what == "granted" {
						require.NoError(t, got.err)
						assert.Contains(t, v.devices(got.va), 7)
					} else {
						require.ErrorIs(t, got.err, errDriver)
						assert.Zero(t, a.Live())
						refuses.Store(false)
						assert.Contains(t, v.devices(malloc(t, a, 1)), 7)
					}
					require.NoError(t, a.Release())
					assertBalance(t, a.Stats())
				})
			})
		}
	}
}

// TestThreadsAndPeers adds peers while threads allocate and free. Each live allocation is reached by every peer that was added
// before it came back, and by all in the end.
func TestThreadsAndPeers(t *testing.T) {
	rounds := 200
	if raceEnabled {
		rounds = 40
	}
	for _, config := range []arena.Config{
		{},
		{Cache: 16 * granule, Reuse: true},
		{Placement: arena.Slab(2 * granule)},
		{Placement: arena.Slab(2 * granule), Prefetch: 8 * granule, Cache: 8 * granule},
	} {
		t.Run(fmt.Sprintf("%v, cache %d, ahead %d", config.Placement, config.Cache, config.Prefetch), func(t *testing.T) {
			for range rounds {
				v := newVault(t)
				slow(v.fake)
				v.onGrant = func(_, _ uint64, _ int) error { yield(); return nil }
				a := openConfig(t, v, 1<<14, config)
				var all sync.WaitGroup
				var added atomic.Int64 // a bit for each peer
				start := make(chan struct{})
				for range 4 {
					all.Go(func() {
						<-start
						for range 20 {
							peers := int(added.Load())
							va, err := a.Malloc(1 + rand.Int64N(3*granule))
							if !assert.NoError(t, err) {
								return
							}
							for peer := 1; peer <= 4; peer++ {
								if peers&(1<<peer) == 0 {
									continue
								}
								assert.True(t, v.reachesIn(va, peer), "device %d does not reach %#x", peer, va)
							}
							if rand.IntN(2) == 0 {
								assert.NoError(t, a.Free(va))
							}
						}
					})
				}
				for peer := 1; peer <= 4; peer++ {
					all.Go(func() {
						<-start
						yield()
						assert.NoError(t, a.AddPeer(peer))
						added.Add(1 << peer)
					})
				}
				close(start)
				all.Wait()
				assert.Len(t, a.Peers(), 4)
				for a.Prefetching() {
					yield()
				}
				for _, va := range v.live() {
					assert.Subset(t, v.devices(va), []int{1, 2, 3, 4})
				}
				require.NoError(t, a.Release())
				if t.Failed() {
					return
				}
			}
		})
	}
}

// reachesIn tells whether a device was let reach the mapping that an address lies in.
func (v *vault) reachesIn(va uint64, device int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for start, p := range v.placements {
		if start <= va && va < start+p.size {
			for _, granted := range v.granted[start] {
				if granted == device {
					return true
				}
			}
		}
	}
	return false
}
