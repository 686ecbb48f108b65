package checkpoint

import (
	"context"
	"fmt"
	"strings"
	"time"

	"replicator/debezium"
	"replicator/schema"
)

// historyPoll is how often the schema-change topic is read again while a row waits for it.
const historyPoll = 100 * time.Millisecond

// history is what the schema-change topic says of every table. The topic is ordered with the row topics by source
// position only, so every version of a table is kept with the position from which it holds. It is read from its beginning
// at each start: the topic is what Debezium itself recovers from, is small, and is never compacted or expired.
type history struct {
	Config
	next     int64 // offset in the topic; -1: its beginning
	versions map[sourceTable][]version
	waited   map[sourceTable]bool // tables that the topic did not describe in time
}

// version is a table's shape from a position of the source on.
type version struct {
	file  string
	pos   int64
	table *schema.Table // nil: dropped
}

func newHistory(c Config) *history {
	return &history{Config: c, next: -1, versions: map[sourceTable][]version{}, waited: map[sourceTable]bool{}}
}

// startsBefore says whether s is at or after the version's position.
func (v *version) startsBefore(s *debezium.Source) bool {
	if c := compareFiles(v.file, s.File); c != 0 {
		return c < 0
	}
	return v.pos <= s.Pos
}

// compareFiles orders binlog files by their number: binlog.999999 comes before binlog.1000000.
func compareFiles(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// read takes in what the topic has now.
func (h *history) read(ctx context.Context) error {
	topic := h.Tables.SchemaTopic
	if topic == "" {
		return nil
	}
	records, next, err := h.Source.History(ctx, topic, h.next)
	if err != nil {
		return fmt.Errorf("read schema changes from topic %s: %w", topic, err)
	}
	for start := 0; start < len(records); start++ {
		p := records[start].Partition
		events, err := h.Decoder.DecodeBatchContext(ctx, &debezium.Batch{Partition: p, Records: records[start : start+1]})
		if err != nil {
			return badRecord(err)
		}
		for i := range events {
			h.take(&events[i])
		}
	}
	h.next = next
	return nil
}

func (h *history) take(e *debezium.Event) {
	if e.Op != debezium.SchemaChange || e.Change == nil {
		return
	}
	for _, c := range e.Change.Tables {
		name := sourceTable{c.Database, c.Schema, c.Table}
		h.versions[name] = append(h.versions[name], version{e.Source.File, e.Source.Pos, c.Shape})
	}
}

// await reads the topic until it describes the table, at most for SchemaWait and once for each table. anew: the table has
// changed, so what was read before is not enough.
func (h *history) await(ctx context.Context, name sourceTable, anew bool) error {
	if h.Tables.SchemaTopic == "" || !anew && h.describes(name) {
		return nil
	}
	deadline := time.Now().Add(h.Tables.SchemaWait)
	for {
		if err := h.read(ctx); err != nil {
			return err
		}
		if h.describes(name) || h.waited[name] {
			return nil
		}
		if time.Now().After(deadline) {
			h.waited[name] = true
			h.Log.Warn("the schema-change topic does not describe a table; its events' own schema decides",
				"pipeline", h.Pipeline, "topic", h.Tables.SchemaTopic, "table", name.String())
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(historyPoll):
		}
	}
}

func (h *history) describes(name sourceTable) bool {
	for _, v := range h.versions[name] {
		if v.table != nil {
			return true
		}
	}
	return false
}

// at returns the table as it was at s, and the version that follows. A position before the first version, as an
// incremental snapshot or a late connector can bring, is given the first; an event that does not say its position, as
// flattened rows need not, the last.
func (h *history) at(name sourceTable, s *debezium.Source) (*schema.Table, *version) {
	var found *schema.Table
	versions := h.versions[name]
	for i := range versions {
		v := &versions[i]
		if found != nil && s.File != "" && !v.startsBefore(s) {
			return found, v
		}
		if v.table != nil {
			found = v.table
		}
	}
	return found, nil
}
