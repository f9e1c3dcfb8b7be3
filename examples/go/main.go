// Command arenagen-demo is a Go service that manages device memory without cgo. It
// runs on host memory; for a GPU, import that backend in place of the stub.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/kit/hostvmm"
	"github.com/arenagen/arenagen/backends/stub"
)

func main() {
	if err := run(); err != nil {
		log.SetFlags(0)
		log.SetOutput(os.Stderr)
		log.Fatal(err)
	}
}

func run() error {
	device, err := stub.Open(0, stub.Options{Capacity: 1 << 30})
	if err != nil {
		return fmt.Errorf("open the device: %w", err)
	}
	a, err := arena.New(device, arena.Config{Total: arena.DefaultTotal})
	if err != nil {
		return fmt.Errorf("make an arena: %w", err)
	}

	addresses, err := load(a, 4, 25)
	if err != nil {
		return err
	}
	base, length := a.RegisteredRange()
	fmt.Printf("to register: %d bytes at %#x, once\n", length, base)

	// Errors have kinds: this one is the device's, and the arena is as it was.
	if _, err := a.Malloc(2 << 30); !errors.Is(err, vmm.ClassOutOfMemory) {
		return fmt.Errorf("expected the device to be out of memory, got %v", err)
	}

	for _, va := range addresses {
		if err := a.Free(va); err != nil {
			return err
		}
	}
	stats := a.Stats()
	fmt.Printf("created %d, released %d, live %d, mapped %d bytes\n",
		stats.Created, stats.Released, stats.Live, stats.Mapped)
	return a.Release()
}

// load fills so many tensors on each of so many goroutines and returns where they are.
func load(a *arena.Arena, goroutines, tensors int) ([]uint64, error) {
	addresses := make([]uint64, goroutines*tensors)
	failures := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for t := range tensors {
				va, err := a.Malloc(int64(1000 * (t + 1)))
				if err != nil {
					failures[g] = err
					return
				}
				addresses[g*tensors+t] = va
				copy(hostvmm.Bytes(va, 8), "weights!")
			}
		})
	}
	wg.Wait()
	return addresses, errors.Join(failures...)
}
