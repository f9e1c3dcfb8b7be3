package arena

import (
	"encoding/json"
	"fmt"
	"io"
)

// A Snapshot is all of an arena's counters, for people and programs that read JSON.
type Snapshot struct {
	Stats
	NearlyFull  bool             `json:"nearly_full"`
	Placement   string           `json:"placement"`
	LiveHandles uint64           `json:"handles"`
	Slabs       SlabStats        `json:"slabs"`
	Cache       CacheStats       `json:"cache"`
	Tags        map[Tag]TagStats `json:"tags"` // those that were used since the last ResetPeaks
	Peers       []int            `json:"peers"`
}

// Snapshot reads all counters. Each part is of one moment.
func (a *Arena) Snapshot() Snapshot {
	s := Snapshot{
		Stats: a.Stats(), Placement: a.placed.String(), LiveHandles: a.LiveHandles(),
		Slabs: a.SlabStats(), Cache: a.CacheStats(), Tags: make(map[Tag]TagStats), Peers: a.Peers(),
	}
	s.NearlyFull = s.Stats.NearlyFull()
	for tag := Tag(1); tag < MaxTags; tag++ {
		if t, err := a.Tag(tag); err == nil && t != (TagStats{}) {
			s.Tags[tag] = t
		}
	}
	return s
}

// WriteTrace writes the events that are remembered as JSON, for arenactl trace.
func (a *Arena) WriteTrace(w io.Writer) error {
	events, missed := a.Events(0, MaxEvents)
	arena, err := json.Marshal(a.Snapshot())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, `{"format":"arenagen-trace","version":1,"missed":%d,"arena":%s,"events":[`, missed, arena); err != nil {
		return err
	}
	before := Event{}
	for i, e := range events {
		separator := ",\n"
		if i == 0 {
			separator = "\n"
		}
		// Who takes a number first need not have looked at the clock first.
		e.Time = max(e.Time, before.Time)
		_, err := fmt.Fprintf(w, `%s{"seq":%d,"ns":%d,"kind":%q,"address":%d,"size":%d,"handle":%d,"tag":%d,"took":%d}`,
			separator, e.Seq, e.Time, e.Kind, e.Address, e.Size, e.Handle, e.Tag, e.Took)
		if err != nil {
			return err
		}
		before = e
	}
	_, err = io.WriteString(w, "]}\n")
	return err
}
