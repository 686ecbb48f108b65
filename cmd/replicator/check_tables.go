package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// checkTables looks at what the tables are like.
func checkTables(c *config, tables []knownTable, f *findings) {
	dialect, longest := sqlgen.Dialect(sqlgen.Postgres{}), "63 bytes"
	if isMySQL(c.Target.URL) {
		dialect, longest = sqlgen.MySQL{}, "64 characters"
	}
	var keyless []string
	goes := map[schema.Name]string{}
	for _, t := range tables {
		arranged, err := t.rows.Arrange(t.shape)
		if err != nil {
			f.fail("rules/contradiction", "correct the table's rule", "table %s: %v", t.source, err)
			continue
		}
		t.shape = arranged
		if len(t.shape.PrimaryKey) == 0 {
			keyless = append(keyless, t.source)
		}
		if short := dialect.ShortName(t.target.Table); short != t.target.Table {
			f.warn("names/long", "", "table %s is longer than the target's limit of %s and is called %s there", t.source, longest, short)
		}
		for _, col := range t.shape.Columns {
			if short := dialect.ShortName(col.Name); short != col.Name {
				f.warn("names/long", "", "column %s of table %s is longer than the target's limit of %s and is called %s there", col.Name, t.source, longest, short)
			}
		}
		as := schema.Name{Schema: dialect.ShortName(t.target.Schema), Table: dialect.ShortName(t.target.Table)}
		if other, taken := goes[as]; taken {
			f.fail("names/taken", "put {database} into target.table, as in {database}.{table}", "tables %s and %s both go to %v", other, t.source, as)
		}
		goes[as] = t.source
	}
	if len(keyless) > 0 {
		f.warn("keys/none", "give them a key (tables: key) if some columns are unique", "%d tables have no primary key, and changes look for an equal row: %s", len(keyless), few(keyless, 10))
	}
}

// typeReason leaves out of a row's error what only a record has.
func typeReason(err error) string {
	var row *sqlgen.RowError
	if !errors.As(err, &row) {
		return err.Error()
	}
	return fmt.Sprintf("column %s: %v", row.Column, row.Err)
}

// checkTargetTables compares the tables that are there with the source's.
func checkTargetTables(ctx context.Context, c *config, sink txnsink.Sink, tables []knownTable, f *findings) {
	absent, present := []string{}, 0
	made := madeTables(ctx, c, sink)
	for i := range tables {
		t := &tables[i]
		source, err := t.rows.Arrange(t.shape)
		if err != nil {
			continue // it is told already
		}
		as := shortName(sink.Dialect(), t.target)
		table, err := sink.Table(ctx, as)
		switch {
		case err != nil:
			f.fail("tables/unusable", "make it a plain table (InnoDB on MySQL and MariaDB), or send the source's table elsewhere (tables: target)", "table %v: %s", as, reason(err))
		case table == nil && !c.Schema.Create:
			absent = append(absent, as.String())
		case table == nil:
			if _, err := sink.Dialect().TargetTable(source, as, c.Schema.Types); err != nil {
				f.fail("types/none", "create the table in the target by hand, with a type that holds the values", "table %s: %s", t.source, typeReason(err))
			}
		default:
			present++
			checkShape(c, sink.Dialect(), t, &source, table, f)
			if !made[t.source] {
				checkUnique(t, &source, table, f)
			}
		}
	}
	if len(absent) > 0 {
		f.fail("tables/missing", "create them (replicator schema plan prints how), or set schema.create: true", "the target lacks %d tables, and schema.create is false: %s", len(absent), few(absent, 10))
	}
	if present > 0 {
		f.ok("tables", "%d of %d are there already", present, len(tables))
	}
}

// madeTables are the source's tables whose target the pipeline has made, or written to before. They have the source's unique indexes, of
// which a schema-change record tells in the text of a statement only.
func madeTables(ctx context.Context, c *config, sink txnsink.Sink) map[string]bool {
	made := map[string]bool{}
	list, err := sink.Defined(ctx, c.Pipeline)
	if err != nil {
		return made // there are no own tables yet
	}
	for _, d := range list {
		made[d.Source] = true
	}
	return made
}

func shortName(d sqlgen.Dialect, n schema.Name) schema.Name {
	return schema.Name{Schema: d.ShortName(n.Schema), Table: d.ShortName(n.Table)}
}

// checkShape compares a table of the target with what the source's would be there.
func checkShape(c *config, d sqlgen.Dialect, t *knownTable, source, table *schema.Table, f *findings) {
	checkKeys(t, source, table, f)
	var required, unsure, lacking []string
	for i := range table.Columns {
		col := &table.Columns[i]
		from := sourceColumn(d, source, col.Name)
		switch {
		case from == nil && col.NotNull && col.Default == nil && !col.AutoIncrement && !col.Generated:
			required = append(required, col.Name)
		case from != nil && col.NotNull && !from.NotNull && from.Type.Kind != schema.Unknown && !slices.Contains(source.PrimaryKey, from.Name):
			unsure = append(unsure, col.Name)
		}
	}
	for i := range source.Columns {
		name := source.Columns[i].Name
		if !slices.ContainsFunc(table.Columns, func(h schema.Column) bool { return strings.EqualFold(h.Name, d.ShortName(name)) }) {
			lacking = append(lacking, name)
		}
	}
	if len(required) > 0 {
		f.fail("tables/required", "give them defaults, or let them be NULL", "table %v has NOT NULL columns that the source does not send, so that no row can be inserted: %s", table.Name, few(required, 10))
	}
	if len(unsure) > 0 {
		f.warn("tables/not_null", "ALTER COLUMN … DROP NOT NULL, unless the source's values are never NULL", "columns of table %v are NOT NULL, and the source's may be NULL: %s", table.Name, few(unsure, 10))
	}
	if len(lacking) > 0 && (t.evolve == schema.Stop || t.evolve == schema.Ignore) {
		f.warn("tables/columns", "add them (replicator schema plan prints how), exclude them (tables: columns), or set schema.evolve: evolve",
			"table %v lacks columns of %s, and schema.evolve is %s: %s", table.Name, t.source, t.evolve, few(lacking, 10))
	}
	checkTypes(c, d, t, source, table, f)
}

// sourceColumn finds the source's column that a target's holds.
func sourceColumn(d sqlgen.Dialect, source *schema.Table, name string) *schema.Column {
	for i := range source.Columns {
		if strings.EqualFold(d.ShortName(source.Columns[i].Name), name) {
			return &source.Columns[i]
		}
	}
	return nil
}

// sameColumns says whether two keys have the same columns. Databases differ in whether their names' cases count.
func sameColumns(a, b []string) bool {
	low := func(list []string) []string {
		var out []string
		for _, s := range list {
			out = append(out, strings.ToLower(s))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(low(a), low(b))
}

// checkKeys compares what rows are told apart by.
func checkKeys(t *knownTable, source, table *schema.Table, f *findings) {
	key := source.PrimaryKey
	unique := append(slices.Clone(table.Unique), table.PrimaryKey)
	if len(key) > 0 && !slices.ContainsFunc(unique, func(u []string) bool { return sameColumns(u, key) }) {
		f.fail("keys/differ", "make them the primary key or a unique index of whole columns, or name the target's key in a rule (tables: key)",
			"table %v has no unique index of the columns that %s's rows are told apart by: %s", table.Name, t.source, strings.Join(key, ", "))
	}
}

// checkUnique looks for unique indexes that the source may not have.
func checkUnique(t *knownTable, source, table *schema.Table, f *findings) {
	known := append(slices.Clone(source.Unique), source.PrimaryKey)
	for _, x := range source.Indexes {
		if x.Unique {
			known = append(known, x.Columns)
		}
	}
	var extra []string
	for _, u := range append(slices.Clone(table.Unique), table.PrimaryKey) {
		if len(u) > 0 && !slices.ContainsFunc(known, func(k []string) bool { return sameColumns(k, u) }) {
			extra = append(extra, "("+strings.Join(u, ", ")+")")
		}
	}
	if len(extra) > 0 {
		f.warn("unique/extra", "see that the source has them too, or drop them", "table %v has unique indexes that are not known of %s, and may refuse what the source allowed: %s", table.Name, t.source, few(extra, 10))
	}
}

// checkTypes looks for columns that cannot hold the source's values, or mean another instant.
func checkTypes(c *config, d sqlgen.Dialect, t *knownTable, source, table *schema.Table, f *findings) {
	wanted, err := d.TargetTable(*source, table.Name, c.Schema.Types)
	if err != nil {
		return // told by checkTables
	}
	var zones []string
	for i := range table.Columns {
		from, is := sourceColumn(d, source, table.Columns[i].Name), table.Columns[i].Type.Kind
		if from == nil {
			continue
		}
		if from.Type.Kind == schema.Timestamp && is == schema.TimestampTZ || from.Type.Kind == schema.TimestampTZ && is == schema.Timestamp {
			zones = append(zones, table.Columns[i].Name)
		}
	}
	if len(zones) > 0 {
		f.warn("time zone/differs", "give them the source's kind, or read them as UTC", "columns of table %v have a time zone where %s's have none, or the other way; values are converted as UTC: %s", table.Name, t.source, few(zones, 10))
	}
	evolver, ok := d.(sqlgen.Evolver)
	if !ok {
		return
	}
	plan := evolver.Evolve(sqlgen.Evolution{Current: table, From: &wanted, To: &wanted, Source: source, Policy: schema.Evolve, Complete: true})
	var narrow []string
	for _, s := range plan.Statements {
		if s.Kind == sqlgen.ChangeType {
			narrow = append(narrow, s.SQL)
		}
	}
	for _, r := range plan.Refused {
		if r.Kind == sqlgen.ChangeType {
			narrow = append(narrow, fmt.Sprintf("column %s: %v", r.Column, r.Err))
		}
	}
	if len(narrow) > 0 {
		f.warn("types/narrow", "run this, or replicator schema apply", "table %v has columns that do not hold every value of %s's: %s", table.Name, t.source, few(narrow, 5))
	}
}
