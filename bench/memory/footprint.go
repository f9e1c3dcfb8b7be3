package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// A footprint is what the process holds at one moment.
type footprint struct {
	heap     int64 // bytes of the Go heap that are in use
	resident int64 // bytes of anonymous memory that are present: the Go heap and all else
	pages    int64 // bytes of memory of any kind that are present
	maps     int64 // kernel mappings
}

// settled is the footprint after a collection that gave back to the host what is free.
func settled() (footprint, error) {
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	resident, err := status("RssAnon")
	if err != nil {
		return footprint{}, err
	}
	pages, err := status("VmRSS")
	if err != nil {
		return footprint{}, err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return footprint{}, err
	}
	return footprint{
		heap:     int64(stats.HeapAlloc),
		resident: resident,
		pages:    pages,
		maps:     int64(bytes.Count(maps, []byte("\n"))),
	}, nil
}

// peakSince is how many bytes more than before were present at the worst moment of the process.
func peakSince(before footprint) (int64, error) {
	peak, err := status("VmHWM")
	return peak - before.pages, err
}

// status reads an amount of memory, in bytes, from what the kernel tells about the process.
func status(name string) (int64, error) {
	const file = "/proc/self/status"
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		// A line is "name:  number kB".
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == name+":" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no line %s", file, name)
}
