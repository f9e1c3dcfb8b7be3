package arena

import "sync/atomic"

// A bump hands out offsets and can be closed: two facts in one word, so that an allocation is admitted
// and placed by one atomic step, and after the close no later one can slip in.
//
//	bit 63      closed
//	bits 0..62  units handed out
type bump struct {
	word  atomic.Uint64
	total uint64 // units, less than 2^63
}

const bumpClosed = 1 << 63

// offset is the units handed out in a word.
func (b *bump) offset(word uint64) uint64 { return word &^ bumpClosed }

// take hands out n units and returns where they begin. The word is the one that was read last. ok is false, and
// nothing changed, when the bump is closed or has no room, or was reset since: last then says which.
func (b *bump) take(n, word uint64) (offset, last uint64, ok bool) {
	for {
		offset = b.offset(word)
		if word&bumpClosed != 0 || n > b.total-offset {
			return offset, word, false
		}
		if b.word.CompareAndSwap(word, word+n) {
			return offset, word, true
		}
		if word = b.word.Load(); b.offset(word) < offset {
			return offset, word, false
		}
	}
}

// reset hands addresses out from the beginning again, unless some were handed out since the word was read.
func (b *bump) reset(word uint64) bool { return b.word.CompareAndSwap(word, 0) }

// close ends the handing out. It reports whether it was this call that did, and is refused
// when admit says no.
func (b *bump) close(admit func() bool) (closed, admitted bool) {
	for {
		word := b.word.Load()
		if word&bumpClosed != 0 {
			return false, true
		}
		if !admit() {
			return false, false
		}
		if b.word.CompareAndSwap(word, word|bumpClosed) {
			return true, true
		}
	}
}
