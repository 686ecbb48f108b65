package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// tables knows which table of the target each table of the source goes to. It belongs to the router.
type tables struct {
	Config
	epoch      int64
	dialect    sqlgen.Dialect
	history    *history
	entries    map[sourceTable]*entry
	latest     *entry // the last one that was asked for, of latestName
	latestName sourceTable
	notes      map[string]*tableNote // by sourceTable.String
	widen      widening
	ddl        map[sqlgen.DDLKind]int64 // statements that changed the target's schema
	coming     func() map[string]bool   // topics whose next records are there to be read; nil: that is not known
}

// entry is what is known of one source table.
type entry struct {
	skip   bool
	rule   *Rule
	topic  string // of its rows, as last seen
	target *sqlgen.Target
	made   bool                     // target is what the rows below go to; nil: they go nowhere
	shapes map[*debezium.Shape]bool // the event shapes that were seen since; at most maxShapes
	at     *version                 // the schema version that target was made for; nil: the events' own schema
	until  *version                 // the one after it; nil: none is known
	count  *count                   // of its rows since the last cut; nil: none, or not looked up
}

// maxShapes bounds the shapes of one table that are remembered; when it is met, all are forgotten.
const maxShapes = 256

func newTables(ctx context.Context, c Config, epoch int64, widen widening) (*tables, error) {
	t := &tables{Config: c, epoch: epoch, dialect: c.Sink.Dialect(), entries: map[sourceTable]*entry{}, widen: widen}
	t.history = newHistory(c)
	if err := t.history.read(ctx); err != nil {
		return nil, err
	}
	t.history.began = t.history.next
	return t, t.readNotes(ctx)
}

func tableOf(e *debezium.Event) sourceTable {
	return sourceTable{e.Source.Database, e.Source.Schema, e.Source.Table}
}

// entry returns what is known of a source table, made at its first event.
func (t *tables) entry(name sourceTable) *entry {
	if t.latest != nil && t.latestName == name { // rows come in runs
		return t.latest
	}
	en := t.entries[name]
	if en == nil {
		en = t.newEntry(name)
		t.entries[name] = en
	}
	t.latest, t.latestName = en, name
	return en
}

// skips says whether a rule leaves e's table out.
func (t *tables) skips(e *debezium.Event) bool { return t.entry(tableOf(e)).skip }

// ready says whether the table that e's row goes to is known.
func (t *tables) ready(e *debezium.Event) bool {
	en := t.entry(tableOf(e))
	shape := rowShape(e)
	if !en.made || shape != nil && !en.shapes[shape] {
		return false
	}
	if en.at == nil {
		return true
	}
	p, ok := e.Source.Position()
	return !ok || !en.at.after(p) && (en.until == nil || en.until.after(p))
}

// forget makes every table be looked up again: DDL was run.
func (t *tables) forget() {
	for _, en := range t.entries {
		en.made, en.target = false, nil
	}
}

// rowShape is the shape of the image that is written.
func rowShape(e *debezium.Event) *debezium.Shape {
	if e.After.Sent() {
		return e.After.Shape
	}
	return e.Before.Shape
}

func (t *tables) newEntry(name sourceTable) *entry {
	en := &entry{}
	for i := range t.Tables.Rules {
		if r := &t.Tables.Rules[i]; r.matches(name) {
			en.rule, en.skip = r, r.Skip
			break
		}
	}
	if en.skip {
		t.Log.Info("skipping a table by rule", "pipeline", t.Pipeline, "table", name.String())
	}
	return en
}

func (r *Rule) matches(name sourceTable) bool {
	return r.Match.MatchString(name.String())
}

// rules are what the configuration says about the table's rows.
func (en *entry) rules() *sqlgen.Rules {
	if en.rule == nil {
		return &sqlgen.Rules{}
	}
	return &en.rule.Rows
}

// policy is what the configuration says about the table's schema changes.
func (t *tables) policy(name sourceTable) schema.Policy {
	if r := t.entry(name).rule; r != nil && r.Evolve != "" {
		return r.Evolve
	}
	return t.Tables.Evolve
}

// make finds or makes the target's table and what is needed to write e's row to it. The target has e's version of the table, or a
// later one.
func (t *tables) make(ctx context.Context, e *debezium.Event) error {
	name := tableOf(e)
	if name.table == "" {
		return &sqlgen.RowError{Class: sqlgen.BadRecord, Err: errors.New("the event's source block names no table")}
	}
	en := t.entry(name)
	v := t.version(e)
	was := *en
	*en = entry{rule: en.rule, topic: e.Partition.Topic, made: true, shapes: map[*debezium.Shape]bool{}, at: v}
	if shape := rowShape(e); shape != nil {
		en.shapes[shape] = true
	}
	config := sqlgen.TargetConfig{Rules: *en.rules(), Options: t.Tables.Options, Lax: t.policy(name) == schema.Ignore}
	if v != nil {
		en.until = t.history.until(v)
		present, later := t.present(v)
		if present == nil {
			t.Log.Debug("rows that a later change of the schema removed are left out", "table", name.String(), "from", e.Offset)
			return nil
		}
		config.Witness, config.Later = v.table, later
		if later != nil {
			config.Present = present.table
		}
		name, v = present.name, present
		config.Rules = *t.entry(name).rules()
	}
	table, err := t.found(ctx, name, v, e)
	if err != nil || table == nil {
		en.made = false
		return err
	}
	if table, err = t.widened(ctx, name, table, v, e); err != nil {
		return err
	}
	if was.target != nil && was.at == en.at && reflect.DeepEqual(was.target.Table, *table) {
		// An image of other columns, such as a delete's: the table is as it was.
		en.target = was.target
		if len(was.shapes) < maxShapes {
			maps.Copy(en.shapes, was.shapes)
		}
		return nil
	}
	en.target, err = sqlgen.NewTarget(t.dialect, *table, config)
	return err
}

// take makes the target's table that name's rows go to theirs alone. It reports true if rows went there by another of its names: one
// batch's statements are in order for each [sqlgen.Target] only. The next such row looks its table up anew, and takes it back.
func (t *tables) take(name sourceTable) bool {
	target, taken := t.entry(name).target, false
	for _, other := range t.history.names(name) {
		if en := t.entries[other]; en != nil && other != name && target != nil && en.target != nil && en.target.Table.Name == target.Table.Name {
			en.made, en.target, taken = false, nil, true
		}
	}
	return taken
}

// present follows v to the last version that the target has. later are the present names of v's columns, nil where they are the
// same. It returns nil if no row of v is in that table: it was emptied or dropped since.
func (t *tables) present(v *version) (_ *version, later map[string]string) {
	for v.next != nil && t.applied(v.next) {
		if later == nil {
			later = map[string]string{}
			for i := range v.table.Columns {
				later[v.table.Columns[i].Name] = v.table.Columns[i].Name
			}
		}
		v = v.next
		if v.emptied {
			return nil, nil
		}
		later = v.follow(later)
	}
	if after := t.history.until(v); after != nil && after.table == nil && after.moved == nil && t.applied(after) {
		return nil, nil
	}
	return v, later
}

// found finds or makes the target's table for v, or where no version is known for e's own schema, and remembers it. It returns nil
// if there is nothing to make it from, and nothing to do.
func (t *tables) found(ctx context.Context, name sourceTable, v *version, e *debezium.Event) (*schema.Table, error) {
	rules := t.entry(name).rules()
	known, topic := t.known(name), e.Partition.Topic
	if name != tableOf(e) {
		topic = t.topicOf(name)
	}
	as := t.nameFor(name, topic)
	if known != nil && known.Table != nil {
		as = known.target
	}
	table, err := t.Sink.Table(ctx, as)
	if err != nil {
		return nil, fmt.Errorf("read table %v of the target: %w", as, err)
	}
	source := debezium.TableFromEvent(e)
	if v != nil {
		source = *v.table
	} else if known != nil && known.Table != nil {
		source = *known.Table
	}
	if table != nil && known != nil && known.Table != nil {
		return table, nil
	}
	if table == nil && rowShape(e) == nil && (v == nil || e.Op == debezium.Delete) {
		return nil, nil // a delete by key, or a truncate: there is nothing to remove, and no shape to make the table from
	}
	n := &tableNote{target: as, Offset: -1, Topic: topic, Table: &source}
	if v != nil {
		n.At, n.Offset = v.at, v.offset
	} else if at, ok := e.Source.Position(); ok {
		n.At = at
	}
	var ddl []sqlgen.DDL
	if table == nil {
		ddl, err = t.create(name, as, source, rules)
	} else {
		ddl, err = t.adopt(name, table, source, rules)
	}
	if err != nil {
		return nil, err
	}
	if err := t.defineAlong(ctx, &txnsink.Planned{Name: as, Table: table}, name, ddl, n); err != nil {
		return nil, fmt.Errorf("make table %v in the target: %w", as, err)
	}
	if table != nil && len(ddl) == 0 {
		return table, nil
	}
	t.Log.Info("made a table", "pipeline", t.Pipeline, "source", name.String(), "target", as.String())
	if table, err = t.Sink.Table(ctx, as); err != nil {
		return nil, fmt.Errorf("read table %v of the target: %w", as, err)
	}
	if table == nil {
		return nil, fmt.Errorf("table %v was made in the target and is not in its catalog", as)
	}
	return table, nil
}

// adopt plans what a table that was there before needs: the columns of the source's that it lacks.
func (t *tables) adopt(name sourceTable, table *schema.Table, source schema.Table, rules *sqlgen.Rules) ([]sqlgen.DDL, error) {
	p := t.policy(name)
	if p != schema.Evolve && p != schema.Lenient {
		return nil, nil
	}
	source, err := rules.Arrange(source)
	if err != nil {
		return nil, err
	}
	lacks := func(c schema.Column) bool {
		return c.Name != rules.Soft && !slices.ContainsFunc(table.Columns, func(h schema.Column) bool {
			return sameColumn(h.Name, c.Name) || h.Name == t.dialect.ShortName(c.Name)
		})
	}
	missing := schema.Table{Name: source.Name}
	for _, c := range source.Columns {
		if lacks(c) && c.Type.Kind != schema.Unknown { // of rows without a schema nothing tells a type
			missing.Columns = append(missing.Columns, c)
		}
	}
	if len(missing.Columns) == 0 {
		return nil, nil
	}
	to, err := t.dialect.TargetTable(missing, table.Name, t.Tables.Options)
	if err != nil {
		return nil, &sqlgen.RowError{Class: sqlgen.UnsupportedType, Table: table.Name, Err: err}
	}
	return t.plan(sqlgen.Evolution{Current: table, From: &schema.Table{Name: table.Name}, To: &to, Policy: p}, name)
}

// widened makes the columns wider that a value did not fit into, as far as the source's types are wider.
func (t *tables) widened(ctx context.Context, name sourceTable, table *schema.Table, v *version, e *debezium.Event) (*schema.Table, error) {
	columns := t.widen[table.Name]
	if len(columns) == 0 {
		return table, nil
	}
	source := debezium.TableFromEvent(e)
	if v != nil {
		source = *v.table
	}
	if slices.ContainsFunc(source.Columns, func(c schema.Column) bool { return c.Type.Kind == schema.Unknown }) {
		return table, nil // rows without a schema: nothing tells a wider type, and the value is refused
	}
	wanted, err := t.arranged(t.entry(name).rules(), source, table.Name)
	if err != nil {
		return nil, err
	}
	to := *table
	to.Columns = slices.Clone(table.Columns)
	for i := range to.Columns {
		c := &to.Columns[i]
		w, ok := wanted.Column(c.Name)
		switch {
		case !ok || !columns[c.Name]:
		case c.Type.Kind == schema.Enum && len(w.Type.Values) > 0: // an ENUM's too, with the value that is no label
			c.Type.Values = append([]string{""}, c.Type.Values...)
		case wider(w.Type, c.Type):
			c.Type = w.Type
		}
	}
	ddl, err := t.plan(sqlgen.Evolution{Current: table, From: table, To: &to, Policy: t.policy(name)}, name)
	if err != nil || len(ddl) == 0 {
		return table, err
	}
	if err := t.define(ctx, &txnsink.Planned{Name: table.Name, Table: table}, ddl, nil); err != nil {
		return nil, err
	}
	return t.current(ctx, []schema.Name{table.Name})
}

// sameColumn says whether a target's column is meant by a source's name.
func sameColumn(target, source string) bool {
	return strings.EqualFold(target, source) || debezium.Adjusts(target, source)
}

// topicOf is where the table's rows are: as they were seen, or as Debezium names topics.
func (t *tables) topicOf(name sourceTable) string {
	if en := t.entry(name); en.topic != "" {
		return en.topic
	}
	if n := t.known(name); n != nil && n.Table != nil && n.Topic != "" {
		return n.Topic
	}
	parts := []string{t.Tables.SchemaTopic}
	for _, p := range []string{name.database, name.schema, name.table} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Map(inTopic, strings.Join(parts, "."))
}

// inTopic is what Debezium writes for a character of a name in a topic's name: Kafka does not take them all.
func inTopic(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c) {
		return c
	}
	return '_'
}

// nameFor fills the template in. Names that the target's limit shortens are the dialect's business; here they are
// only said once.
func (t *tables) nameFor(name sourceTable, topic string) schema.Name {
	template := t.Tables.Template
	if rule := t.entry(name).rule; rule != nil && rule.Target != "" {
		template = rule.Target
	}
	fill := strings.NewReplacer("{topic}", topic, "{database}", name.database, "{schema}", name.schema, "{table}", name.table)
	n := schema.ParseName(template) // before filling: a dot in a table's name separates nothing
	return schema.Name{Schema: t.dialect.ShortName(fill.Replace(n.Schema)), Table: t.dialect.ShortName(fill.Replace(n.Table))}
}

// create plans a missing table from the best witness of its shape. It is found in the catalog by whoever comes after a
// crash.
func (t *tables) create(name sourceTable, as schema.Name, source schema.Table, rules *sqlgen.Rules) ([]sqlgen.DDL, error) {
	if !t.Tables.Create {
		return nil, &sqlgen.RowError{Class: sqlgen.UnknownTable, Table: as, Err: errors.New("the target has no such table; create it, or set schema.create: true")}
	}
	table, err := t.arranged(rules, source, as)
	if err != nil {
		return nil, err
	}
	if source, err = rules.Arrange(source); err != nil {
		return nil, err
	}
	t.logShortened(name, source, table)
	t.logStandIns(name, source, table)
	if evolver, ok := t.dialect.(sqlgen.Evolver); ok {
		return evolver.Evolve(sqlgen.Evolution{To: &table, Policy: schema.Evolve}).Statements, nil
	}
	var out []sqlgen.DDL
	for _, sql := range t.dialect.CreateTable(table) {
		out = append(out, sqlgen.DDL{Kind: sqlgen.CreateTable, SQL: sql})
	}
	return out, nil
}

func (t *tables) logShortened(name sourceTable, source, target schema.Table) {
	if short := t.dialect.ShortName(name.table); short != name.table {
		t.Log.Warn("a table's name is too long for the target", "source", name.String(), "target", target.Name.String())
	}
	for _, c := range source.Columns {
		if short := t.dialect.ShortName(c.Name); short != c.Name {
			t.Log.Warn("a column's name is too long for the target", "table", name.String(), "source", c.Name, "target", short)
		}
	}
}

// logStandIns says which columns have a type of less use than an extension's. The two tables have
// the same columns in order: source is arranged.
func (t *tables) logStandIns(name sourceTable, source, target schema.Table) {
	for i, c := range source.Columns {
		made, missing := target.Columns[i].Type, ""
		switch {
		case c.Type.Kind == schema.Geometry && made.Kind != schema.Geometry:
			missing = "spatial type (on PostgreSQL: PostGIS)"
		case (c.Type.Kind == schema.Vector || c.Type.Native == "vector") && made.Kind != schema.Vector:
			missing = "vector type (on PostgreSQL: pgvector)"
		default:
			continue
		}
		t.Log.Info("the target has no "+missing+" for a column, which has another one that holds the values",
			"pipeline", t.Pipeline, "table", name.String(), "column", c.Name, "type", made.Native)
	}
}

// locate adds to a row error the record that it came from.
func locate(err error, e *debezium.Event) error {
	var row *sqlgen.RowError
	if errors.As(err, &row) && row.Origin.Partition.Topic == "" {
		row.Origin = sqlgen.Origin{Partition: e.Partition, Offset: e.Offset}
	}
	return err
}
