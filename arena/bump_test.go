package arena

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newBump(total uint64) *bump { return &bump{total: total} }

// next takes n units as an allocation does.
func (b *bump) next(n uint64) (offset, last uint64, ok bool) { return b.take(n, b.word.Load()) }

func always() bool { return true }

func TestBumpFillsToTheLastUnit(t *testing.T) {
	for _, total := range []uint64{1, 2, 3, 4, 1<<20 - 1, 1 << 20, 1<<63 - 1} {
		b := newBump(total)
		offset, _, ok := b.next(total)
		require.True(t, ok)
		assert.Zero(t, offset)
		for _, n := range []uint64{1, total, 1<<63 - 1} {
			offset, word, ok := b.next(n)
			require.False(t, ok)
			assert.Equal(t, total, offset)
			assert.Equal(t, total, b.offset(word))
		}
	}
}

func TestBumpRefusesWhatDoesNotFit(t *testing.T) {
	b := newBump(10)
	_, _, ok := b.next(4)
	require.True(t, ok)
	_, _, ok = b.next(7)
	require.False(t, ok)
	offset, _, ok := b.next(6)
	require.True(t, ok, "the room is still there")
	assert.Equal(t, uint64(4), offset)
}

// Who read the word long ago takes what comes now.
func TestBumpTakesWithAnOldWord(t *testing.T) {
	b := newBump(10)
	old := b.word.Load()
	_, _, ok := b.next(4)
	require.True(t, ok)
	offset, _, ok := b.take(6, old)
	require.True(t, ok)
	assert.Equal(t, uint64(4), offset)
}

func TestBumpClose(t *testing.T) {
	b := newBump(10)
	_, _, ok := b.next(3)
	require.True(t, ok)
	before := b.word.Load()

	closed, admitted := b.close(func() bool { return false })
	assert.False(t, closed || admitted)
	assert.Equal(t, before, b.word.Load())

	closed, admitted = b.close(always)
	assert.True(t, closed && admitted)
	word := b.word.Load()
	assert.Equal(t, uint64(3), b.offset(word))
	_, _, ok = b.next(1)
	assert.False(t, ok)
	assert.Equal(t, word, b.word.Load())

	closed, admitted = b.close(func() bool { panic("a closed one asks nobody") })
	assert.False(t, closed)
	assert.True(t, admitted)
}

// What was taken while somebody was asked is asked about again.
func TestBumpCloseAsksAgain(t *testing.T) {
	b := newBump(10)
	asked := 0
	closed, admitted := b.close(func() bool {
		if asked++; asked == 1 {
			_, _, ok := b.next(1)
			assert.True(t, ok)
			return true
		}
		return false
	})
	assert.False(t, closed || admitted)
	assert.Equal(t, 2, asked)
}

func TestBumpConcurrently(t *testing.T) {
	const threads, each = 8, 1000
	b := newBump(threads * each)
	taken := make([][]uint64, threads)
	var all sync.WaitGroup
	for i := range taken {
		all.Go(func() {
			for {
				offset, _, ok := b.next(1)
				if !ok {
					return
				}
				taken[i] = append(taken[i], offset)
			}
		})
	}
	all.Wait()
	seen := make([]bool, threads*each)
	for _, offsets := range taken {
		for _, offset := range offsets {
			require.False(t, seen[offset], "%d was handed out twice", offset)
			seen[offset] = true
		}
	}
	assert.NotContains(t, seen, false)
}

// Who read the word before a reset must note what it takes anew.
func TestBumpDoesNotTakeWithAWordFromBeforeAReset(t *testing.T) {
	b := newBump(10)
	_, _, ok := b.next(4)
	require.True(t, ok)
	old := b.word.Load()
	require.True(t, b.reset(old))
	offset, last, ok := b.take(6, old)
	require.False(t, ok)
	assert.Less(t, b.offset(last), offset)
	offset, _, ok = b.take(6, last)
	require.True(t, ok)
	assert.Zero(t, offset)
}
