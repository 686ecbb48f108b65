package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// need is what must be done to the target before an event's row can be written.
type need struct {
	steps []*version    // to be applied, in order
	event *schema.Table // the source's table by the event's own schema, where no version tells
}

func (n *need) none() bool { return len(n.steps) == 0 && n.event == nil }

// need says what the target lacks for e, whose table is not ready. It waits for the schema-change topic to know e's columns.
func (t *tables) need(ctx context.Context, e *debezium.Event) (*need, error) {
	name := tableOf(e)
	if err := t.history.await(ctx, name, e); err != nil {
		return nil, err
	}
	if v := t.version(e); v != nil {
		return &need{steps: t.steps(v)}, nil
	}
	known := t.known(name)
	if p := t.policy(name); known == nil || known.Table == nil || p == schema.Stop || p == schema.Ignore {
		return &need{}, nil
	}
	if shape := rowShape(e); shape == nil || shape.Schemaless {
		return &need{}, nil
	}
	if at, ok := e.Source.Position(); ok {
		if c, ok := at.Compare(known.At); ok && c < 0 {
			return &need{}, nil // a late row of a former shape
		}
	}
	return &need{event: extended(known.Table, debezium.TableFromEvent(e))}, nil
}

// version is the version of the table that e is of; nil: e's own schema decides.
func (t *tables) version(e *debezium.Event) *version {
	v := t.history.at(tableOf(e), &e.Source)
	if v == nil || v.table == nil || !v.describes(rowShape(e)) {
		return nil
	}
	return v
}

// extended returns table with the columns of an event that it lacks, and its types where the event's are wider; nil: it lacks
// nothing. A column that the event lacks proves nothing: rows of another partition, or from before the change, may be late.
func extended(table *schema.Table, event schema.Table) *schema.Table {
	out := *table
	out.Columns = slices.Clone(table.Columns)
	changed := false
	for _, c := range event.Columns {
		i := slices.IndexFunc(out.Columns, func(h schema.Column) bool { return sameColumn(h.Name, c.Name) })
		switch {
		case i < 0:
			out.Columns = append(out.Columns, c)
			changed = true
		case wider(c.Type, out.Columns[i].Type):
			out.Columns[i].Type = c.Type
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return &out
}

// integers are in the order of their ranges' upper ends.
var integers = []schema.Kind{
	schema.Int8, schema.Uint8, schema.Int16, schema.Uint16, schema.Int24, schema.Uint24, schema.Int32, schema.Uint32, schema.Int64, schema.Uint64,
}

// wider says whether a holds all that b does, and more.
func wider(a, b schema.Type) bool {
	if i, j := slices.Index(integers, a.Kind), slices.Index(integers, b.Kind); i >= 0 && j >= 0 {
		return i > j
	}
	text := func(t schema.Type) bool {
		return t.Kind == schema.Char || t.Kind == schema.Varchar || t.Kind == schema.Text
	}
	switch {
	case a.Kind == schema.Enum && b.Kind == schema.Enum:
		return len(a.Values) > len(b.Values) && !slices.ContainsFunc(b.Values, func(l string) bool { return !slices.Contains(a.Values, l) })
	case text(a) && text(b):
		return (a.Kind == schema.Text || a.Length == 0) && b.Kind != schema.Text && b.Length > 0 || b.Length > 0 && a.Length > b.Length
	case a.Kind == schema.Decimal && b.Kind == schema.Decimal:
		return b.Length > 0 && (a.Length == 0 || a.Scale >= b.Scale && a.Length-a.Scale >= b.Length-b.Scale && a.Length > b.Length)
	case a.Kind == schema.Float64:
		return b.Kind == schema.Float32
	}
	return false
}

// bring does what need asks for. The caller has seen to it that no transaction is open or in doubt.
func (t *tables) bring(ctx context.Context, n *need, e *debezium.Event) error {
	for _, v := range n.steps {
		if err := t.step(ctx, v, e); err != nil {
			return fmt.Errorf("schema change at offset %d of topic %s: %w", v.offset, t.Tables.SchemaTopic, err)
		}
	}
	if n.event == nil {
		return nil
	}
	name := tableOf(e)
	old := t.known(name)
	from, err := t.arranged(t.entry(name).rules(), *old.Table, old.target)
	if err != nil {
		return err
	}
	to, err := t.arranged(t.entry(name).rules(), *n.event, old.target)
	if err != nil {
		return err
	}
	current, err := t.current(ctx, []schema.Name{old.target})
	if err != nil || current == nil {
		return err
	}
	ddl, err := t.plan(sqlgen.Evolution{Current: current, From: &from, To: &to, Policy: t.policy(name)}, name)
	if err != nil {
		return err
	}
	next := &tableNote{target: old.target, At: old.At, Offset: old.Offset, Topic: e.Partition.Topic, Table: n.event}
	if at, ok := e.Source.Position(); ok {
		next.At = at
	}
	t.forget()
	if err := t.define(ctx, &txnsink.Planned{Name: old.target, Table: current}, ddl, map[sourceTable]*tableNote{name: next}); err != nil {
		return err
	}
	for _, s := range ddl {
		t.Log.Info("changed the target's schema", "pipeline", t.Pipeline, "source", name.String(), "kind", string(s.Kind),
			"statement", s.SQL, "because", "the events' own schema has changed")
	}
	return nil
}

// pending returns the changes of tables that the target has, in order, from records before the offset end.
func (t *tables) pending(end int64) []*version {
	var out []*version
	for _, v := range t.history.all {
		if v.offset < end && t.lacks(v) {
			out = append(out, v)
		}
	}
	return out
}

// earlier are the rows that come before an event's: those in a topic from before its table left that topic's name.
type earlier struct {
	topic string
	left  *version
}

// waitsFor returns what comes before e. A replay reads it again, so it does not matter whether the target has the new name.
func (t *tables) waitsFor(e *debezium.Event) []earlier {
	var out []earlier
	for v := t.version(e); v != nil; v = v.was {
		if v.was == nil || v.was.name == v.name {
			continue
		}
		if topic := t.topicOf(v.was.name); topic != e.Partition.Topic {
			out = append(out, earlier{topic, v})
		}
	}
	return out
}

// widening is the columns, by the target's table, that a value did not fit into.
type widening map[schema.Name]map[string]bool

// settles says whether a row that was refused may pass when the run begins anew: the schema changes that it comes after have
// arrived meanwhile, or its column can be made wider.
func (t *tables) settles(ctx context.Context, err error) bool {
	var row *sqlgen.RowError
	if !errors.As(err, &row) {
		return false
	}
	for name := range t.entries {
		n := t.known(name)
		if n == nil || n.Table == nil || n.target.Table != row.Table.Table || n.target.Schema != "" && n.target.Schema != row.Table.Schema {
			continue
		}
		if t.arrived(ctx, name) {
			return true
		}
		return t.canWiden(name, row)
	}
	return false
}

// canWiden notes that a column is too narrow, the first time.
func (t *tables) canWiden(name sourceTable, row *sqlgen.RowError) bool {
	p := t.policy(name)
	if p != schema.Evolve && p != schema.Lenient || row.Column == "" || t.widen[row.Table][row.Column] ||
		row.Class != sqlgen.TooLarge && row.Class != sqlgen.OutOfRange {
		return false
	}
	if t.widen[row.Table] == nil {
		t.widen[row.Table] = map[string]bool{}
	}
	t.widen[row.Table][row.Column] = true
	return true
}

// arrived says whether the schema-change topic has more to say of a table than it had when the run began. What was read meanwhile counts
// too: the row may have been folded before.
func (t *tables) arrived(ctx context.Context, name sourceTable) bool {
	if err := t.history.read(ctx); err != nil {
		t.Log.Debug("looking for schema changes after a refused row", "error", err)
		return false
	}
	return slices.ContainsFunc(t.history.versions[name], func(v *version) bool { return v.offset >= t.history.began })
}
