package arena

import (
	"math/bits"
	"sync/atomic"
)

// A bump hands out offsets, counts how often it did, and can be closed: three
// facts in one word, so that an allocation is admitted and placed by one atomic
// step, and after the close no later one can slip in.
//
//	bit 63          closed
//	bits width..62  how many allocations began, modulo 2^(63-width)
//	bits 0..width-1 granules handed out
type bump struct {
	word  atomic.Uint64
	total uint64 // granules
	width uint
}

const (
	bumpClosed = 1 << 63
	// At least 16 bits count the allocations that are in flight at one time.
	maxGranules = 1<<47 - 1
)

func (b *bump) init(total uint64) {
	b.total = total
	b.width = uint(bits.Len64(total))
}

// offset is the granules handed out in a word.
func (b *bump) offset(word uint64) uint64 { return word & (1<<b.width - 1) }

// begun is the count in a word, to be compared with began only.
func (b *bump) begun(word uint64) uint64 { return word &^ bumpClosed >> b.width }

// began brings a full count into the range of begun.
func (b *bump) began(count uint64) uint64 { return count & (1<<(63-b.width) - 1) }

// take hands out n granules and returns where they begin. ok is false, and
// nothing changed, when the bump is closed or has no room; the word says which.
func (b *bump) take(n uint64) (offset, word uint64, ok bool) {
	for {
		word = b.word.Load()
		offset = b.offset(word)
		if word&bumpClosed != 0 || n > b.total-offset {
			return offset, word, false
		}
		// The count wraps into bit 63 at its end; that bit is masked out.
		next := (word + 1<<b.width + n) &^ bumpClosed
		if b.word.CompareAndSwap(word, next) {
			return offset, word, true
		}
	}
}

// reset hands addresses out from the beginning again, unless something happened since the word was read.
func (b *bump) reset(word uint64) bool {
	return b.word.CompareAndSwap(word, word-b.offset(word))
}

// close ends the handing out. It reports whether it was this call that did, and is refused
// when admit says no to the word that it would close.
func (b *bump) close(admit func(word uint64) bool) (closed, admitted bool) {
	for {
		word := b.word.Load()
		if word&bumpClosed != 0 {
			return false, true
		}
		if !admit(word) {
			return false, false
		}
		if b.word.CompareAndSwap(word, word|bumpClosed) {
			return true, true
		}
	}
}
