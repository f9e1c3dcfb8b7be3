package arena

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/arenagen/arenagen/arena/vmm"
)

// A waiter can wait for what may still use memory. Both fail with vmm.ErrCapturing where waiting would break a
// capture. *vmm.Device is one.
type waiter interface {
	WaitStream(stream uint64) error
	WaitDevice() error
}

var _ waiter = (*vmm.Device)(nil)

// deferred are allocations that were freed while their stream was being captured. They are released
// by a later call, or when the arena closes.
type deferred struct {
	waiting atomic.Bool // there are some

	mu      sync.Mutex
	records []record // guarded by mu
}

// releaseFreed waits for what may use a record that was freed, and releases it. What must not be waited for is
// deferred. A failure to wait is reported; the memory is released all the same. One to put the thread's capture mode back is reported too.
func (a *Arena) releaseFreed(s *shard, r record) error {
	if a.waiter == nil {
		return a.release(s, r)
	}
	err := a.waitFor(r.stream)
	if err == nil {
		return a.release(s, r)
	}
	if errors.Is(err, vmm.ErrCapturing) {
		a.putOff(s, r)
		if vmm.OnlyCapturing(err) {
			return nil
		}
		a.noteLoss(err)
		return err
	}
	a.noteLoss(err)
	return errors.Join(err, a.release(s, r))
}

func (a *Arena) waitFor(stream uint64) error {
	switch {
	case a.lost.Load() != nil:
		return nil
	case a.drain == vmm.DrainDevice:
		return a.waiter.WaitDevice()
	default:
		return a.waiter.WaitStream(stream)
	}
}

// putOff keeps a record, which was counted as released, for later.
func (a *Arena) putOff(s *shard, r record) {
	s.mu.Lock()
	s.counts.released--
	s.counts.deferred++
	s.mu.Unlock()
	a.late.mu.Lock()
	a.late.records = append(a.late.records, r)
	a.late.mu.Unlock()
	a.late.waiting.Store(true)
}

// takeDeferred takes the records that wait, and counts them as released.
func (a *Arena) takeDeferred() []record {
	a.late.mu.Lock()
	records := a.late.records
	a.late.records = nil
	a.late.waiting.Store(false)
	a.late.mu.Unlock()
	for _, r := range records {
		s := a.shard(hash(r.key))
		s.mu.Lock()
		s.counts.deferred--
		s.counts.released++
		s.mu.Unlock()
	}
	return records
}

// retryDeferred tries again what was deferred. The caller is a call that close waits for.
func (a *Arena) retryDeferred() {
	for _, r := range a.takeDeferred() {
		// What fails is counted. The caller's own call is about something else.
		_ = a.releaseFreed(a.shard(hash(r.key)), r)
	}
}

// settleEarlier waits once for the device, if a close unmaps anything, and releases what was deferred and
// what is quarantined. live is how many allocations the caller releases afterwards.
func (a *Arena) settleEarlier(live uint64, failed *failures) {
	records, stuck := a.takeDeferred(), a.takeQuarantined()
	if a.waiter != nil && a.lost.Load() == nil && live+uint64(len(records)+len(stuck)) > 0 {
		if err := a.waiter.WaitDevice(); err != nil {
			a.noteLoss(err)
			failed.add(err)
		}
	}
	for _, r := range records {
		failed.add(a.release(a.shard(hash(r.key)), r))
	}
	a.retry(stuck, failed)
	failed.add(a.evict(a.cache.shrink(0)))
}
