package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
)

// tables knows which table of the target each table of the source goes to. It belongs to the router.
type tables struct {
	Config
	dialect sqlgen.Dialect
	history *history
	entries map[sourceTable]*entry
}

// entry is what is known of one source table.
type entry struct {
	skip   bool
	rule   *Rule
	target *sqlgen.Target
	shapes map[*debezium.Shape]bool // the event shapes that were seen since; at most maxShapes
	source *schema.Table            // what the schema-change topic said of the source's table when target was made
	until  *version                 // the schema version after the one that target was made for; nil: none is known
}

// maxShapes bounds the shapes of one table that are remembered; when it is met, all are forgotten.
const maxShapes = 256

func newTables(ctx context.Context, c Config) (*tables, error) {
	t := &tables{Config: c, dialect: c.Sink.Dialect(), entries: map[sourceTable]*entry{}}
	t.history = newHistory(c)
	if err := t.history.read(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

func tableOf(e *debezium.Event) sourceTable {
	return sourceTable{e.Source.Database, e.Source.Schema, e.Source.Table}
}

// entry returns what is known of a source table, made at its first event.
func (t *tables) entry(name sourceTable) *entry {
	en := t.entries[name]
	if en == nil {
		en = t.newEntry(name)
		t.entries[name] = en
	}
	return en
}

// skips says whether a rule leaves e's table out.
func (t *tables) skips(e *debezium.Event) bool { return t.entry(tableOf(e)).skip }

// target returns the table that e's row goes to; nil: there is none, and nothing to do. changed says that the table was known in another shape before, so that
// what was folded for it must be applied first.
func (t *tables) target(ctx context.Context, e *debezium.Event) (_ *sqlgen.Target, changed bool, _ error) {
	name := tableOf(e)
	en := t.entry(name)
	shape := rowShape(e)
	if en.target != nil && (shape == nil || en.shapes[shape]) && (en.until == nil || !en.until.startsBefore(&e.Source)) {
		return en.target, false, nil
	}
	before := en.target
	if err := t.resolve(ctx, name, en, e); err != nil {
		return nil, false, locate(err, e)
	}
	if len(en.shapes) >= maxShapes {
		clear(en.shapes)
	}
	if shape != nil {
		en.shapes[shape] = true
	}
	return en.target, before != nil && en.target != nil && en.target != before, nil
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

// resolve finds or makes the target's table and what is needed to write to it.
func (t *tables) resolve(ctx context.Context, name sourceTable, en *entry, e *debezium.Event) error {
	if err := t.history.await(ctx, name, en.target != nil); err != nil {
		return err
	}
	witness, until := t.history.at(name, &e.Source)
	as := t.targetName(name, en.rule, e)
	table, err := t.Sink.Table(ctx, as)
	if err != nil {
		return fmt.Errorf("read table %v of the target: %w", as, err)
	}
	var rules sqlgen.Rules
	if en.rule != nil {
		rules = en.rule.Rows
	}
	if table == nil && rowShape(e) == nil && (witness == nil || e.Op == debezium.Delete) {
		return nil // a delete by key, or a truncate: there is nothing to remove, and no shape to make the table from
	}
	if table == nil {
		if table, err = t.create(ctx, name, as, witness, &rules, e); err != nil {
			return err
		}
	}
	if en.target != nil && en.source == witness && reflect.DeepEqual(en.target.Table, *table) {
		en.until = until // an image of other columns, such as a delete's: the table is as it was
		return nil
	}
	target, err := sqlgen.NewTarget(t.dialect, *table, sqlgen.TargetConfig{Witness: witness, Rules: rules, Options: t.Tables.Options})
	if err != nil {
		return err
	}
	en.target, en.source, en.until, en.shapes = target, witness, until, map[*debezium.Shape]bool{}
	return nil
}

// targetName fills the template in. Names that the target's limit shortens are the dialect's business; here they are
// only said once.
func (t *tables) targetName(name sourceTable, rule *Rule, e *debezium.Event) schema.Name {
	template := t.Tables.Template
	if rule != nil && rule.Target != "" {
		template = rule.Target
	}
	fill := strings.NewReplacer("{topic}", e.Partition.Topic, "{database}", name.database, "{schema}", name.schema, "{table}", name.table)
	n := schema.ParseName(template) // before filling: a dot in a table's name separates nothing
	return schema.Name{Schema: t.dialect.ShortName(fill.Replace(n.Schema)), Table: t.dialect.ShortName(fill.Replace(n.Table))}
}

// create makes a missing table from the best witness of its shape. It is found in the catalog by whoever comes after a
// crash.
func (t *tables) create(ctx context.Context, name sourceTable, as schema.Name, witness *schema.Table, rules *sqlgen.Rules, e *debezium.Event) (*schema.Table, error) {
	if !t.Tables.Create {
		return nil, &sqlgen.RowError{Class: sqlgen.UnknownTable, Table: as, Err: errors.New("the target has no such table; create it, or set schema.create: true")}
	}
	source := debezium.TableFromEvent(e)
	if witness != nil {
		source = *witness
	}
	source, err := rules.Arrange(source)
	if err != nil {
		return nil, err
	}
	table, err := t.dialect.TargetTable(source, as, t.Tables.Options)
	if err != nil {
		return nil, &sqlgen.RowError{Class: sqlgen.UnsupportedType, Table: as, Err: err}
	}
	if err := t.Sink.Define(ctx, t.dialect.CreateTable(table)); err != nil {
		return nil, fmt.Errorf("create table %v in the target: %w", as, err)
	}
	t.Log.Info("created a table", "pipeline", t.Pipeline, "source", name.String(), "target", as.String())
	t.logShortened(name, source, table)
	t.logStandIns(name, source, table)
	made, err := t.Sink.Table(ctx, as)
	if err != nil {
		return nil, fmt.Errorf("read table %v of the target: %w", as, err)
	}
	if made == nil {
		return nil, fmt.Errorf("table %v was created in the target and is not in its catalog", as)
	}
	return made, nil
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

// logStandIns says which columns have a type of less use than an extension's. The two tables have the same columns in order.
func (t *tables) logStandIns(name sourceTable, source, target schema.Table) {
	for i, c := range source.Columns {
		made, missing := target.Columns[i].Type, ""
		switch {
		case c.Type.Kind == schema.Geometry && made.Kind != schema.Geometry:
			missing = "spatial type (PostGIS)"
		case (c.Type.Kind == schema.Vector || c.Type.Native == "vector") && made.Kind != schema.Vector:
			missing = "vector type (pgvector)"
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
