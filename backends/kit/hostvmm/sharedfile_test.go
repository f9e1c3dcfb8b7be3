package hostvmm

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func openSharedFile(t *testing.T) *sharedFile {
	t.Helper()
	f := newSharedFile()
	t.Cleanup(func() { require.NoError(t, f.close()) })
	return &f
}

func TestSharedFileTakesTheLowestRangeThatFits(t *testing.T) {
	f := openSharedFile(t)
	take := func(size, want uint64) {
		t.Helper()
		offset, err := f.take(size)
		require.NoError(t, err)
		assert.Equal(t, want, offset)
	}
	take(10, 0)
	take(20, 10)
	take(30, 30)
	take(40, 60)
	f.give(10, 20)
	take(21, 100)
	take(15, 10)
	f.give(30, 30) // joins the free range before it
	take(35, 25)
	f.give(0, 10)
	f.give(25, 35)
	f.give(10, 15) // joins those on both sides
	take(60, 0)
	assert.Equal(t, spans[struct{}]{{start: 121, size: maxSharedFile - 121}}, f.free)
}

func TestSharedFileIsFull(t *testing.T) {
	f := openSharedFile(t)
	_, err := f.take(maxSharedFile + 1)
	assert.ErrorIs(t, err, unix.ENOMEM)
	offset, err := f.take(maxSharedFile)
	require.NoError(t, err)
	_, err = f.take(1)
	assert.ErrorIs(t, err, unix.ENOMEM)
	f.give(offset, maxSharedFile)
	assert.Equal(t, newSharedFile().free, f.free)
}

func TestSharedFileComesTogetherAgain(t *testing.T) {
	f := openSharedFile(t)
	random := rand.New(rand.NewPCG(1, 2))
	var taken []span[struct{}]
	for range 2000 {
		if len(taken) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(taken))
			f.give(taken[i].start, taken[i].size)
			taken[i] = taken[len(taken)-1]
			taken = taken[:len(taken)-1]
			continue
		}
		size := 1 + random.Uint64N(9)
		offset, err := f.take(size)
		require.NoError(t, err)
		for _, other := range taken {
			require.False(t, offset < other.end() && other.start < offset+size, "handed out twice")
		}
		taken = append(taken, span[struct{}]{start: offset, size: size})
	}
	for _, one := range taken {
		f.give(one.start, one.size)
	}
	assert.Equal(t, newSharedFile().free, f.free)
}
