// Package trace reads the traces that arenas write, follows memory through them, and shows what it found: as a
// file for Perfetto, and as a picture.
package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrFormat is what all errors about a trace's own text have in common.
var ErrFormat = errors.New("not a trace of an arena")

const (
	format  = "arenagen-trace"
	version = 1
	// No device has addresses of more bits, so that what is added up here cannot overflow by a slip in a file.
	addressBits = 57
)

// The kinds of events that mean something here. Others are kept as they are.
const (
	Mapped      = "mapped"
	Prefetched  = "prefetched"
	Imported    = "imported" // mapped, with the handle of another process
	Unmapped    = "unmapped"
	Malloc      = "malloc"
	Free        = "free"
	Failed      = "failed"
	Cached      = "cached"
	Reused      = "reused"
	Trimmed     = "trimmed"
	OutOfMemory = "out_of_memory"
	Closed      = "closed"
	Reset       = "reset"
)

// A Trace is what an arena wrote.
type Trace struct {
	Arena  Arena
	Missed uint64 // events that were overwritten before the first
	Events []Event
}

// An Arena is what a trace says of its arena.
type Arena struct {
	Device  int    `json:"device"`
	Base    uint64 `json:"base"`    // the first address
	Total   uint64 `json:"total"`   // bytes
	Granule uint64 `json:"granule"` // bytes
}

// An Event is one thing that happened.
type Event struct {
	Seq     uint64      `json:"seq"`
	NS      uint64      `json:"ns"` // when it was over, since the arena was made
	Kind    string      `json:"kind"`
	Address uint64      `json:"address"`
	Size    uint64      `json:"size"` // bytes
	Handle  uint64      `json:"handle"`
	Tag     json.Number `json:"tag"`
	Took    uint64      `json:"took"` // ns of the driver's calls
}

// began is when the driver was called for an event.
func (e Event) began() uint64 { return e.NS - min(e.Took, e.NS) }

// Load reads a trace. What is wrong with its text is an ErrFormat.
func Load(text []byte) (*Trace, error) {
	t, err := load(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return t, nil
}

func load(text []byte) (*Trace, error) {
	if err := checkHead(text); err != nil {
		return nil, err
	}
	var file struct {
		Arena  *Arena   `json:"arena"`
		Missed uint64   `json:"missed"`
		Events *[]Event `json:"events"`
	}
	if err := unmarshal(text, &file); err != nil {
		return nil, err
	}
	if file.Arena == nil || file.Events == nil {
		return nil, errors.New("it has no arena, or no events")
	}
	t := &Trace{Arena: *file.Arena, Missed: file.Missed, Events: *file.Events}
	return t, t.check()
}

// checkHead comes first: of another format or version nothing else can be expected to fit.
func checkHead(text []byte) error {
	if strings.TrimSpace(string(text)) == "" {
		return errors.New("it is empty")
	}
	var head struct {
		Format  string      `json:"format"`
		Version json.Number `json:"version"`
	}
	if err := unmarshal(text, &head); err != nil {
		return err
	}
	if head.Format != format {
		return fmt.Errorf("its format is %q where %q was expected", head.Format, format)
	}
	if head.Version != json.Number(fmt.Sprint(version)) {
		return fmt.Errorf("its version is %q where %d was expected", head.Version, version)
	}
	return nil
}

// unmarshal is json.Unmarshal with errors for a person who has the file and not this code.
func unmarshal(text []byte, to any) error {
	err := json.Unmarshal(text, to)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(text)) && strings.Contains(syntax.Error(), "unexpected end"):
		return fmt.Errorf("it ends in the middle, after %d bytes", len(text))
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON at byte %d: %w", syntax.Offset, syntax)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("it is not a JSON object but a JSON %s", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("%s is a JSON %s at byte %d, where %s was expected", kind.Field, kind.Value, kind.Offset, kind.Type)
	case err != nil:
		return fmt.Errorf("it cannot be read: %w", err)
	}
	return nil
}

func (t *Trace) check() error {
	if a := t.Arena; a.Base > 1<<addressBits || a.Total > 1<<addressBits-a.Base {
		return fmt.Errorf("its arena of %d bytes at %#x has more than %d bits of addresses", a.Total, a.Base, addressBits)
	}
	for i, e := range t.Events {
		if e.Kind == "" {
			return fmt.Errorf("its event %d, counted from 0, has no kind", i)
		}
		if i > 0 && e.Seq <= t.Events[i-1].Seq {
			return fmt.Errorf("event %d comes after event %d", e.Seq, t.Events[i-1].Seq)
		}
		if i > 0 { // two threads may take the time in one order and their numbers in the other
			t.Events[i].NS = max(e.NS, t.Events[i-1].NS)
		}
		if err := t.checkRange(e); err != nil {
			return err
		}
	}
	return nil
}

// checkRange demands of events about memory that it is the arena's.
func (t *Trace) checkRange(e Event) error {
	switch e.Kind {
	case Mapped, Prefetched, Imported, Unmapped, Malloc, Free, Cached, Reused:
	case Trimmed: // what was cached has no address
		e.Address = t.Arena.Base
	default:
		return nil
	}
	if e.Size > t.Arena.Total || e.Address < t.Arena.Base || e.Address-t.Arena.Base > t.Arena.Total-e.Size {
		return fmt.Errorf("event %d, %s of %d bytes at %#x, is outside of the arena", e.Seq, e.Kind, e.Size, e.Address)
	}
	return nil
}
