package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator/debezium"
	"replicator/schema"
	"replicator/schema/mysqlddl"
)

// historyPoll is how often the schema-change topic is read again while a row waits for it.
const historyPoll = 100 * time.Millisecond

// history is what the schema-change topic says of every table. The topic is ordered with the row topics by source
// position only, so every version of a table is kept with the position from which it holds. It is read from its beginning
// at each start: the topic is what Debezium itself recovers from, is small, and is never compacted or expired.
type history struct {
	Config
	next     int64 // offset in the topic; -1: its beginning
	began    int64 // next, after the topic was read first
	versions map[sourceTable][]*version
	all      []*version                    // in the order in which the source made them
	kin      map[sourceTable][]sourceTable // names that tables have passed on to each other, each with all of them
	waited   map[sourceTable]bool          // tables that the topic did not describe in time
	last     map[string]*recorded          // by database: where its last change stands
}

// version is a table from a position of the source on.
type version struct {
	name   sourceTable
	nth    int                  // in history.all
	at     debezium.LogPosition // zero: the record does not say
	offset int64                // of the record in the topic
	ddl    string
	table  *schema.Table // with its indexes, as far as they are known; nil: from here on there is no table of this name

	was     *version        // what this continues: a version of the same table, or of one that was renamed to it; nil: it begins
	next    *version        // what continues this; nil: nothing does
	moved   *version        // where table is nil because it was renamed: what it is now
	emptied bool            // a TRUNCATE: rows from before are gone
	renames []schema.Rename // of columns, since was
	dropped map[string]bool // columns of was
}

// recorded is a record of the topic, to recognise it when the connector sends it again.
type recorded struct {
	at    debezium.LogPosition
	tsMs  int64
	texts map[string]bool // statements at that position
}

func newHistory(c Config) *history {
	return &history{
		Config: c, next: -1, versions: map[sourceTable][]*version{}, kin: map[sourceTable][]sourceTable{}, waited: map[sourceTable]bool{},
		last: map[string]*recorded{},
	}
}

// after says whether the version is known to hold only after p. What cannot be compared, as after a failover to a server with
// other logs, counts as earlier.
func (v *version) after(p debezium.LogPosition) bool {
	c, ok := v.at.Compare(p)
	return ok && c > 0
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
	if e.Op != debezium.SchemaChange || e.Change == nil || h.repeated(e) {
		return
	}
	r := &reading{history: h, event: e, shapes: map[sourceTable]*schema.Table{}, done: map[sourceTable]bool{}}
	if at, ok := e.Source.Position(); ok {
		r.at = at
	}
	for _, c := range e.Change.Tables {
		if c.Shape != nil {
			r.shapes[sourceTable{c.Database, c.Schema, c.Table}] = c.Shape
		}
	}
	for _, c := range h.parse(e) {
		r.change(&c)
	}
	for _, c := range e.Change.Tables {
		name := sourceTable{c.Database, c.Schema, c.Table}
		if !r.done[name] {
			r.structured(name, c.Shape)
		}
	}
}

// repeated says whether e was read before: the connector went back after a restart, or says the same statement once for each
// of its tables. Of the latter the shapes are still taken.
func (h *history) repeated(e *debezium.Event) bool {
	at, ok := e.Source.Position()
	if !ok || e.Source.Snapshot {
		return false
	}
	if last := h.last[e.Source.Database]; last != nil {
		c, ok := at.Compare(last.at)
		switch {
		case ok && c < 0 && e.Source.TsMs <= last.tsMs:
			return true
		case ok && c == 0 && last.texts[e.Change.DDL] && e.Change.DDL != "":
			h.reshape(e, at)
			return true
		case ok && c == 0:
			last.texts[e.Change.DDL] = true
			return false
		}
	}
	h.last[e.Source.Database] = &recorded{at, e.Source.TsMs, map[string]bool{e.Change.DDL: true}}
	return false
}

// reshape gives the versions that a statement made the shapes that a further record of it has.
func (h *history) reshape(e *debezium.Event, at debezium.LogPosition) {
	for _, c := range e.Change.Tables {
		list := h.versions[sourceTable{c.Database, c.Schema, c.Table}]
		if n := len(list); n > 0 && c.Shape != nil && list[n-1].table != nil && list[n-1].at == at {
			t := *c.Shape
			t.Indexes = list[n-1].table.Indexes
			t.Columns = attributed(&schema.Change{}, t.Columns, list[n-1].table)
			list[n-1].table = &t
		}
	}
}

// parse reads the statement's text, which alone knows what was renamed, and which indexes there are. Where it cannot be read the
// structured change decides.
func (h *history) parse(e *debezium.Event) []schema.Change {
	if c := e.Source.Connector; e.Change.DDL == "" || c != "mysql" && c != "mariadb" {
		return nil
	}
	changes, err := mysqlddl.Parse(e.Change.DDL, e.Source.Database)
	var pe *mysqlddl.ParseError
	if errors.As(err, &pe) {
		h.Log.Warn("a schema change's text cannot be read; what the connector says of the table's columns decides",
			"pipeline", h.Pipeline, "topic", h.Tables.SchemaTopic, "offset", e.Offset, "statement", pe.SQL, "byte", pe.Position, "error", pe.Err)
	}
	return changes
}

// await reads the topic until it describes the table so that e's row fits, at most for SchemaWait, and once for each table that
// it does not describe at all.
func (h *history) await(ctx context.Context, name sourceTable, e *debezium.Event) error {
	if h.Tables.SchemaTopic == "" || h.fits(name, e) {
		return nil
	}
	deadline := time.Now().Add(h.Tables.SchemaWait)
	for {
		if err := h.read(ctx); err != nil {
			return err
		}
		if h.fits(name, e) || h.waited[name] {
			return nil
		}
		if time.Now().After(deadline) {
			h.waited[name] = !h.describes(name)
			h.Log.Warn("the schema-change topic does not describe a table; its events' own schema decides",
				"pipeline", h.Pipeline, "topic", h.Tables.SchemaTopic, "table", name.String(), "record", e.Partition.String(), "offset", e.Offset)
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

// fits says whether the topic knows every column that e's row has.
func (h *history) fits(name sourceTable, e *debezium.Event) bool {
	v := h.at(name, &e.Source)
	return v != nil && v.table != nil && v.describes(rowShape(e))
}

// describes says whether the version has every column of a row's shape.
func (v *version) describes(s *debezium.Shape) bool {
	if s == nil {
		return true
	}
	for i := range s.Fields {
		f := &s.Fields[i]
		if _, ok := v.table.Column(f.Name); !ok && !f.Meta && !v.adjusted(f.Name) {
			return false
		}
	}
	return true
}

// adjusted says whether a column's name, adjusted for Avro or Protobuf, is field.
func (v *version) adjusted(field string) bool {
	for i := range v.table.Columns {
		if c := v.table.Columns[i].Name; debezium.Adjusts(c, field) {
			return true
		}
	}
	return false
}

// at returns the version of the table at s, or nil if there is none. A position before the first version, as an
// incremental snapshot or a late connector can bring, is given the first; an event that does not say its position, as
// flattened rows need not, the last.
func (h *history) at(name sourceTable, s *debezium.Source) *version {
	versions := h.versions[name]
	p, known := s.Position()
	var found *version
	for _, v := range versions {
		if !known || !v.after(p) {
			found = v
		}
	}
	for i := 0; found == nil && i < len(versions); i++ {
		if versions[i].table != nil {
			found = versions[i]
		}
	}
	return found
}

// names returns name and those that its tables have had before or after, or tables that they met there.
func (h *history) names(name sourceTable) []sourceTable {
	if kin := h.kin[name]; kin != nil {
		return kin
	}
	return []sourceTable{name}
}

// join notes that a table of one name was given the other.
func (h *history) join(a, b sourceTable) {
	if slices.Contains(h.names(a), b) {
		return
	}
	kin := slices.Concat(h.names(a), h.names(b))
	for _, name := range kin {
		h.kin[name] = kin
	}
}

// until returns the version of the same table that follows v; nil: none is known.
func (h *history) until(v *version) *version {
	versions := h.versions[v.name]
	for i := range versions {
		if versions[i] == v && i+1 < len(versions) {
			return versions[i+1]
		}
	}
	return nil
}
