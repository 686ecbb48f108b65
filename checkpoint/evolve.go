package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// tableNote is what the target remembers of one source table: how far its schema changes are applied. See [txnsink.Defined].
type tableNote struct {
	target schema.Name

	At     debezium.LogPosition `json:"at"`
	Offset int64                `json:"offset"` // in the schema-change topic; -1: the table's own events said it
	Topic  string               `json:"topic"`  // of the table's rows
	Table  *schema.Table        `json:"table"`  // the source's, as it was then; nil: there is none of this name
}

func (t *tables) readNotes(ctx context.Context) error {
	list, err := t.Sink.Defined(ctx, t.Pipeline)
	if err != nil {
		return err
	}
	t.notes = make(map[string]*tableNote, len(list))
	for _, d := range list {
		n := &tableNote{target: d.Target}
		if err := json.Unmarshal([]byte(d.State), n); err != nil {
			return permanent(fmt.Errorf("what the target remembers of table %s of pipeline %s (schema_version) cannot be read: %w", d.Source, t.Pipeline, err))
		}
		t.notes[d.Source] = n
	}
	return nil
}

// known returns the note of a source table.
func (t *tables) known(name sourceTable) *tableNote { return t.notes[name.String()] }

// applied says whether the target has what v says, or something later. Without a note it may be in the target by the name that it was
// given afterwards. A note of v's name may be of a table that took the name later: then v is past, unless the target has v's
// table by a former name still.
func (t *tables) applied(v *version) bool {
	past := false
	for u := v; u != nil; u = u.next {
		n := t.known(u.name)
		if n == nil || !n.covers(u) {
			continue
		}
		if u.table == nil || t.leads(u) {
			return true
		}
		past = true
	}
	return past && !t.has(v)
}

// covers says whether the target had v, or something later of its name, when the note was written.
func (n *tableNote) covers(v *version) bool {
	c, ok := v.at.Compare(n.At)
	return ok && c < 0 || (!ok || c == 0) && v.offset <= n.Offset
}

// define runs DDL and remembers where the source's tables are then.
func (t *tables) define(ctx context.Context, ddl []sqlgen.DDL, changed map[sourceTable]*tableNote) error {
	d := txnsink.Definition{Pipeline: t.Pipeline, Epoch: t.epoch}
	for _, s := range ddl {
		d.DDL = append(d.DDL, s.SQL)
	}
	for name, n := range changed {
		state, err := json.Marshal(n)
		if err != nil {
			return fmt.Errorf("note the schema of table %v: %w", name, err)
		}
		d.Defined = append(d.Defined, txnsink.Defined{Source: name.String(), Target: n.target, State: string(state)})
	}
	if err := t.Sink.Define(ctx, d); err != nil {
		return t.overtaken(d, err)
	}
	for name, n := range changed {
		t.notes[name.String()] = n
	}
	counts := maps.Clone(t.ddl)
	for _, s := range ddl {
		if counts == nil {
			counts = map[sqlgen.DDLKind]int64{}
		}
		counts[s.Kind]++
	}
	t.ddl = counts // what was handed out stays as it was
	return nil
}

// steps returns the versions that are to be applied so that the target has v, in order. A table that the target has not been
// given begins at v: how it came to be does not matter, unless it was one that the target has.
func (t *tables) steps(v *version) []*version {
	var out []*version
	seen := map[*version]bool{}
	var collect func(v *version)
	collect = func(v *version) {
		list := t.history.versions[v.name]
		list = list[:slices.Index(list, v)+1]
		if t.known(v.name) == nil {
			first := slices.IndexFunc(list, func(u *version) bool { return u.was != nil && u.was.name != u.name && t.has(u.was) })
			if first < 0 {
				first = len(list)
			}
			list = list[first:]
		}
		for _, u := range list {
			if seen[u] || t.applied(u) {
				continue
			}
			seen[u] = true
			if u.moved != nil {
				collect(u.moved)
				continue
			}
			if u.was != nil && u.was.name != u.name {
				collect(u.was)
			}
			out = append(out, u)
		}
	}
	collect(v)
	return out
}

// has says whether the target was given the table of v, or what became it. A note of its name may be of another table, which took the
// name when this one, without a row, had left it.
func (t *tables) has(v *version) bool {
	for ; v != nil; v = v.was {
		if t.leads(v) {
			return true
		}
	}
	return false
}

// leads says whether what the target has by v's name is v's table, then or later.
func (t *tables) leads(v *version) bool {
	noted := t.noted(v.name)
	for u := v; u != nil && noted != nil; u = u.next {
		if u == noted {
			return true
		}
	}
	return false
}

// noted returns the version of the table of this name that the target has; nil: it has none.
func (t *tables) noted(name sourceTable) *version {
	n := t.known(name)
	if n == nil || n.Table == nil {
		return nil
	}
	list := t.history.versions[name]
	for i := len(list) - 1; i >= 0; i-- {
		if n.covers(list[i]) {
			return list[i]
		}
	}
	return nil
}

// step brings the target to v from the version before. e is the event that asks for it; nil: there is none.
func (t *tables) step(ctx context.Context, v *version, e *debezium.Event) error {
	was := v.name
	if v.was != nil {
		was = v.was.name
	}
	old := t.known(was)
	if v.was != nil && !t.leads(v.was) {
		old = nil
	}
	n := &tableNote{At: v.at, Offset: v.offset, Table: v.table}
	changed := map[sourceTable]*tableNote{v.name: n}
	if old != nil {
		n.target, n.Topic = old.target, old.Topic
	}
	if was != v.name && old != nil {
		changed[was] = &tableNote{target: old.target, At: v.at, Offset: v.offset, Topic: old.Topic}
		n.Topic = t.topicOf(v.name)
	}
	if en := t.entry(v.name); en.skip || old == nil || old.Table == nil || v.was == nil {
		if en.skip || v.table == nil {
			return t.define(ctx, nil, changed)
		}
		return t.begin(ctx, v, e)
	}
	ddl, err := t.transition(ctx, v, old, n, e)
	if err != nil {
		return err
	}
	if err := t.define(ctx, ddl, changed); err != nil {
		return err
	}
	t.forget()
	for _, s := range ddl {
		t.Log.Info("changed the target's schema", "pipeline", t.Pipeline, "source", v.name.String(), "kind", string(s.Kind),
			"statement", s.SQL, "because", v.ddl)
	}
	return nil
}

// begin makes the table of v, which the source has made or has made anew.
func (t *tables) begin(ctx context.Context, v *version, e *debezium.Event) error {
	if e == nil || tableOf(e) != v.name {
		return nil // its first row makes it
	}
	_, err := t.found(ctx, v.name, v, e)
	t.forget()
	return err
}

// transition plans the DDL from what old says to v, and completes n, the note of v.
func (t *tables) transition(ctx context.Context, v *version, old, n *tableNote, e *debezium.Event) ([]sqlgen.DDL, error) {
	rules := t.entry(v.name).rules()
	from, err := t.arranged(t.entry(v.wasName()).rules(), *old.Table, old.target)
	if err != nil {
		return nil, err
	}
	if v.emptied {
		return t.truncation(ctx, v, old, e)
	}
	evolution := sqlgen.Evolution{From: &from, Policy: t.policy(v.name)}
	names := []schema.Name{old.target}
	if v.table != nil {
		to, err := t.arranged(rules, *v.table, t.nameFor(v.name, n.Topic))
		if err != nil {
			return nil, err
		}
		evolution.To = &to
		if to.Name != old.target {
			names = append(names, to.Name)
		}
		n.target = to.Name
		evolution.Renames = t.arrangedRenames(rules, v.renames)
		evolution.Replaced = t.arrangedReplaced(rules, v)
		if evolution.Source, err = arrangedSource(rules, *v.table); err != nil {
			return nil, err
		}
	}
	if evolution.Current, err = t.current(ctx, names); err != nil {
		return nil, err
	}
	if evolution.Current == nil && !t.Tables.Create {
		return nil, nil
	}
	return t.plan(evolution, v.name)
}

func (v *version) wasName() sourceTable {
	if v.was != nil {
		return v.was.name
	}
	return v.name
}

// plan asks the dialect, and says what the target keeps.
func (t *tables) plan(e sqlgen.Evolution, name sourceTable) ([]sqlgen.DDL, error) {
	evolver, ok := t.dialect.(sqlgen.Evolver)
	if !ok {
		return nil, nil
	}
	p := evolver.Evolve(e)
	if err := p.Err(); err != nil {
		return nil, permanent(fmt.Errorf("source table %v: %w", name, err))
	}
	for _, k := range p.Kept {
		t.Log.Warn("the target does not follow a part of a schema change", "pipeline", t.Pipeline, "source", name.String(),
			"kind", string(k.Kind), "column", k.Column, "because", k.Why)
	}
	return p.Statements, nil
}

// truncation empties the target's table for a TRUNCATE that only the statement's text tells, unless the event that asks is that
// TRUNCATE: a connector that sends them as events sends it in its place among the rows.
func (t *tables) truncation(ctx context.Context, v *version, old *tableNote, e *debezium.Event) ([]sqlgen.DDL, error) {
	if e != nil && e.Op == debezium.Truncate && tableOf(e) == v.name {
		if p, ok := e.Source.Position(); ok && p == v.at {
			return nil, nil
		}
	}
	rules := t.entry(v.name).rules()
	switch rules.Truncate {
	case sqlgen.TruncateIgnore:
		return nil, nil
	case sqlgen.TruncateStop:
		return nil, &sqlgen.RowError{Class: sqlgen.TruncateRefused, Table: old.target, Err: errors.New("the source's table was truncated, and the rule for it is to stop (truncate: stop)")}
	}
	table, err := t.Sink.Table(ctx, old.target)
	if err != nil || table == nil {
		return nil, err
	}
	target, err := sqlgen.NewTarget(t.dialect, *table, sqlgen.TargetConfig{Options: t.Tables.Options})
	if err != nil {
		return nil, err
	}
	var out []sqlgen.DDL
	for _, s := range t.dialect.Statements(target, sqlgen.Changes{Truncate: true}) {
		out = append(out, sqlgen.DDL{Kind: "truncate_table", SQL: s.SQL})
	}
	return out, nil
}

// current reads the first of the target's tables that there is.
func (t *tables) current(ctx context.Context, names []schema.Name) (*schema.Table, error) {
	for _, name := range names {
		table, err := t.Sink.Table(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read table %v of the target: %w", name, err)
		}
		if table != nil {
			return table, nil
		}
	}
	return nil, nil
}

// arranged is the target's table for a source's, by the rules and the dialect.
func (t *tables) arranged(rules *sqlgen.Rules, source schema.Table, as schema.Name) (schema.Table, error) {
	source, err := rules.Arrange(source)
	if err != nil {
		return schema.Table{}, err
	}
	if !t.Tables.Indexes {
		source.Indexes = nil
	}
	table, err := t.dialect.TargetTable(source, as, t.Tables.Options)
	if err != nil {
		return schema.Table{}, &sqlgen.RowError{Class: sqlgen.UnsupportedType, Table: as, Err: err}
	}
	return table, nil
}

// arrangedSource is the source's table as the rules have it.
func arrangedSource(rules *sqlgen.Rules, source schema.Table) (*schema.Table, error) {
	table, err := rules.Arrange(source)
	return &table, err
}

// arrangedReplaced are the target's names of columns that v drops and adds at once.
func (t *tables) arrangedReplaced(rules *sqlgen.Rules, v *version) []string {
	var out []string
	for name := range v.dropped {
		_, again := v.table.Column(name)
		if !again || slices.ContainsFunc(v.renames, func(r schema.Rename) bool { return r.To == name }) || slices.Contains(rules.Exclude, name) {
			continue
		}
		if as, ok := rules.Rename[name]; ok {
			name = as
		}
		out = append(out, t.dialect.ShortName(name))
	}
	slices.Sort(out)
	return out
}

// arrangedRenames are the renames of columns that the target has under the source's names.
func (t *tables) arrangedRenames(rules *sqlgen.Rules, renames []schema.Rename) []schema.Rename {
	var out []schema.Rename
	for _, r := range renames {
		if slices.Contains(rules.Exclude, r.From) || slices.Contains(rules.Exclude, r.To) {
			continue
		}
		if as, ok := rules.Rename[r.From]; ok {
			r.From = as
		}
		if as, ok := rules.Rename[r.To]; ok {
			r.To = as
		}
		r.From, r.To = t.dialect.ShortName(r.From), t.dialect.ShortName(r.To)
		if r.From != r.To {
			out = append(out, r)
		}
	}
	return out
}
