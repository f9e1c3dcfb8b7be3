package hostvmm

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

const usualMaxMapCount = 65530

// A budget counts kernel mappings against a limit. Without it a process could
// come to the kernel's own limit, where nothing can be unmapped any more and the
// Go heap cannot grow.
type budget struct {
	limit int64
	used  atomic.Int64
}

// processBudget is what the drivers of this process may use together: all but a
// sixteenth of what the kernel gives to a process.
var processBudget = sync.OnceValue(func() *budget {
	most := maxMapCount()
	return &budget{limit: most - most/16}
})

func maxMapCount() int64 {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return usualMaxMapCount
	}
	count, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return usualMaxMapCount
	}
	return count
}

// take counts n mappings, or says that there is no room for them.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }
