package checkpoint

import (
	"cmp"
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

// holds returns the version at which the target has v's table; nil: it has not been given it, or does not have it any more.
func (t *tables) holds(v *version) *version {
	if v.table == nil {
		v = v.was
	}
	first := v
	for first != nil && first.was != nil {
		first = first.was
	}
	for u := first; u != nil; u = u.next {
		if t.noted(u.name) == u {
			return u
		}
	}
	return nil
}

// applied says whether the target has what v says, or something later. Of a table that the target does not have it is as if it had,
// as far as the tables are that share its names: it is past, or its first row makes it as it was by then.
func (t *tables) applied(v *version) bool {
	if v.moved != nil {
		v = v.moved
	}
	if h := t.holds(v); h != nil {
		return v.table != nil && v.nth <= h.nth
	}
	return v.nth <= t.reach(v.name)
}

// reach is how far the tables are that share name: the last version that one of them had when it was noted; -1: none is noted.
func (t *tables) reach(name sourceTable) int {
	last := -1
	kin := t.history.names(name)
	for _, as := range kin {
		n := t.known(as)
		if n == nil {
			continue
		}
		for _, k := range kin {
			for _, v := range t.history.versions[k] {
				if v.nth > last && n.covers(v) {
					last = v.nth
				}
			}
		}
	}
	return last
}

// covers says whether the target had v, or something later of its name, when the note was written.
func (n *tableNote) covers(v *version) bool {
	c, ok := v.at.Compare(n.At)
	return ok && c < 0 || (!ok || c == 0) && v.offset <= n.Offset
}

// define runs DDL and remembers where the source's tables are then. of is the table that it was planned for, where another slot may change the
// same one: what widens a column that is wider by now would round what is in it.
func (t *tables) define(ctx context.Context, of *txnsink.Planned, ddl []sqlgen.DDL, changed map[sourceTable]*tableNote) error {
	of, err := t.defineFirst(ctx, of, ddl)
	if err != nil {
		return err
	}
	d := txnsink.Definition{Pipeline: t.Pipeline, Epoch: t.epoch}
	for _, s := range ddl {
		if !s.Kind.First() {
			d.DDL, d.Of = append(d.DDL, s.SQL), of
		}
	}
	for name, n := range changed {
		state, err := json.Marshal(n)
		if err != nil {
			return fmt.Errorf("note the schema of table %v: %w", name, err)
		}
		d.Defined = append(d.Defined, txnsink.Defined{Source: name.String(), Target: n.target, State: string(state)})
	}
	if err := t.Sink.Define(ctx, d); err != nil {
		return err
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

// defineFirst runs those statements of ddl that are to be committed before the others. A crash in between leaves labels and types that
// are found in the catalog when the same is planned again. It returns of as the table is then.
func (t *tables) defineFirst(ctx context.Context, of *txnsink.Planned, ddl []sqlgen.DDL) (*txnsink.Planned, error) {
	d := txnsink.Definition{Pipeline: t.Pipeline, Epoch: t.epoch, Of: of}
	for _, s := range ddl {
		if s.Kind.First() {
			d.DDL = append(d.DDL, s.SQL)
		}
	}
	if len(d.DDL) == 0 {
		return of, nil
	}
	if err := t.Sink.Define(ctx, d); err != nil || of == nil || of.Table == nil {
		return of, err
	}
	now, err := t.Sink.Table(ctx, of.Name)
	if err != nil {
		return nil, fmt.Errorf("read table %v of the target: %w", of.Name, err)
	}
	return of.Relabelled(now), nil
}

// steps returns the versions that are to be applied, in order, so that the target's tables that share v's names are all as they were
// at v, or later if one of them is: at each time of the source a name is one table's. A table that the target does not have
// begins with a row of its own.
func (t *tables) steps(v *version) []*version {
	most := max(v.nth, t.reach(v.name))
	var out []*version
	for _, name := range t.history.names(v.name) {
		for _, u := range t.history.versions[name] {
			if u.nth <= most && t.lacks(u) {
				out = append(out, u)
			}
		}
	}
	slices.SortFunc(out, func(a, b *version) int { return cmp.Compare(a.nth, b.nth) })
	return out
}

// lacks says whether v is a change of a table that the target has, and is to be applied.
func (t *tables) lacks(v *version) bool {
	return v.moved == nil && v.was != nil && t.holds(v) != nil && !t.applied(v)
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

// step brings a table that the target has to v from the version before. e is the event that asks for it; nil: there is none.
func (t *tables) step(ctx context.Context, v *version, e *debezium.Event) error {
	was := v.was.name
	old := t.known(was)
	n := &tableNote{target: old.target, At: v.at, Offset: v.offset, Topic: old.Topic, Table: v.table}
	changed := map[sourceTable]*tableNote{v.name: n}
	if was != v.name {
		changed[was] = &tableNote{target: old.target, At: v.at, Offset: v.offset, Topic: old.Topic}
		n.Topic = t.topicOf(v.name)
	}
	if t.entry(v.name).skip {
		return t.define(ctx, nil, nil, changed)
	}
	ddl, err := t.transition(ctx, v, old, n, e)
	if err != nil {
		return err
	}
	if err := t.define(ctx, nil, ddl, changed); err != nil {
		return err
	}
	t.forget()
	for _, s := range ddl {
		t.Log.Info("changed the target's schema", "pipeline", t.Pipeline, "source", v.name.String(), "kind", string(s.Kind),
			"statement", s.SQL, "because", v.ddl)
	}
	return nil
}

// transition plans the DDL from what old says to v, and completes n, the note of v.
func (t *tables) transition(ctx context.Context, v *version, old, n *tableNote, e *debezium.Event) ([]sqlgen.DDL, error) {
	rules := t.entry(v.name).rules()
	from, err := t.arranged(t.entry(v.was.name).rules(), *old.Table, old.target)
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
