package arena

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newBump(total uint64) *bump {
	b := new(bump)
	b.init(total)
	return b
}

func always(uint64) bool { return true }

func TestBumpFillsToTheLastGranule(t *testing.T) {
	for _, total := range []uint64{1, 2, 3, 4, 1<<20 - 1, 1 << 20, maxGranules} {
		b := newBump(total)
		offset, _, ok := b.take(total)
		require.True(t, ok)
		assert.Zero(t, offset)
		for _, n := range []uint64{1, total, 1<<63 - 1} {
			offset, word, ok := b.take(n)
			require.False(t, ok)
			assert.Equal(t, total, offset)
			assert.Equal(t, total, b.offset(word))
			assert.Equal(t, uint64(1), b.begun(word), "a refusal is not counted")
		}
	}
}

func TestBumpRefusesWhatDoesNotFit(t *testing.T) {
	b := newBump(10)
	_, _, ok := b.take(4)
	require.True(t, ok)
	_, _, ok = b.take(7)
	require.False(t, ok)
	offset, _, ok := b.take(6)
	require.True(t, ok, "the room is still there")
	assert.Equal(t, uint64(4), offset)
}

// The count wraps without touching the offset or the closed bit, and can still be compared.
func TestBumpCountWraps(t *testing.T) {
	b := newBump(maxGranules) // 16 bits for the count
	for began := range uint64(1<<16 + 10) {
		word := b.word.Load()
		require.Equal(t, b.began(began), b.begun(word))
		require.Equal(t, began, b.offset(word))
		require.Zero(t, word&bumpClosed)
		offset, _, ok := b.take(1)
		require.True(t, ok)
		require.Equal(t, began, offset)
	}
	closed, admitted := b.close(always)
	require.True(t, closed && admitted)
	assert.Equal(t, uint64(10), b.begun(b.word.Load()))
}

func TestBumpClose(t *testing.T) {
	b := newBump(10)
	_, _, ok := b.take(3)
	require.True(t, ok)
	before := b.word.Load()

	closed, admitted := b.close(func(word uint64) bool {
		assert.Equal(t, before, word)
		return false
	})
	assert.False(t, closed || admitted)
	assert.Equal(t, before, b.word.Load())

	closed, admitted = b.close(always)
	assert.True(t, closed && admitted)
	word := b.word.Load()
	assert.Equal(t, uint64(3), b.offset(word))
	assert.Equal(t, uint64(1), b.begun(word))
	_, _, ok = b.take(1)
	assert.False(t, ok)
	assert.Equal(t, word, b.word.Load())

	closed, admitted = b.close(func(uint64) bool { panic("a closed one asks nobody") })
	assert.False(t, closed)
	assert.True(t, admitted)
}

// Whoever is admitted sees the word that is closed: what was taken in between is asked about again.
func TestBumpCloseAsksAgain(t *testing.T) {
	b := newBump(10)
	asked := 0
	closed, admitted := b.close(func(word uint64) bool {
		if asked++; asked == 1 {
			_, _, ok := b.take(1)
			assert.True(t, ok)
			return true
		}
		return b.begun(word) == 0
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
				offset, _, ok := b.take(1)
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
	assert.Equal(t, b.began(threads*each), b.begun(b.word.Load()))
}
