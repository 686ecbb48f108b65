package mysql

import (
	"slices"
	"strings"
	"testing"

	"replicator/schema"
	"replicator/schema/mysqlddl"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
)

// changedTable is what a source does to one table in turn. Each statement is read as in a schema-change record's text.
var changedTable = []struct {
	sql    string
	except []mysqlserver.Kind // servers that do not take it
}{
	{sql: "CREATE TABLE %s (id int PRIMARY KEY, code varchar(20) NOT NULL DEFAULT 'x' COMMENT 'it''s', n int, words text, more text, g point NOT NULL, " +
		"made timestamp NULL ON UPDATE CURRENT_TIMESTAMP, KEY by_n (n, code), UNIQUE KEY one_code (code), FULLTEXT KEY w (words), FULLTEXT KEY m (more), " +
		"SPATIAL KEY (g), KEY starts (words(5), n)) COMMENT 'for \\\\ sale'"},
	{sql: "ALTER TABLE %s ADD KEY back (n DESC, code(7))"},
	{sql: "ALTER TABLE %s ADD UNIQUE KEY low ((lower(code))), ADD KEY (n, (id + 1))", except: []mysqlserver.Kind{mysqlserver.MariaDB}},
	{sql: "ALTER TABLE %s ADD FULLTEXT KEY both_words (words, more) WITH PARSER ngram", except: []mysqlserver.Kind{mysqlserver.MariaDB}},
	{sql: "ALTER TABLE %s DROP KEY by_n, ADD UNIQUE KEY by_n (n, id)"},
	{sql: "ALTER TABLE %s RENAME KEY by_n TO n_first"},
	{sql: "ALTER TABLE %s RENAME COLUMN n TO m, ADD KEY fresh (m, made)"},
	{sql: "ALTER TABLE %s DROP KEY w, ADD FULLTEXT KEY w (words, more), ADD COLUMN after_code varchar(9) AFTER code, ADD KEY (after_code)"},
	{sql: "ALTER TABLE %s DROP KEY n_first", except: []mysqlserver.Kind{mysqlserver.MySQL8, mysqlserver.MySQL9}},
	{sql: "ALTER TABLE %s DROP COLUMN m"}, // which takes columns out of indexes, and some of these with it
	{sql: "ALTER TABLE %s MODIFY code varchar(30) NOT NULL DEFAULT 'y' COMMENT 'another'"},
	{sql: "ALTER TABLE %s ADD hidden int NOT NULL DEFAULT 7 INVISIBLE FIRST, ADD seen datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"},
	{sql: "ALTER TABLE %s MODIFY hidden bigint NOT NULL DEFAULT 7, MODIFY seen datetime(6)"},
	{sql: "ALTER TABLE %s ALTER COLUMN code SET DEFAULT 'z', COMMENT 'sold'"},
	{sql: "ALTER TABLE %s ALTER COLUMN code DROP DEFAULT"},
	{sql: "CREATE INDEX made_at ON %s (made)"},
	{sql: "DROP INDEX one_code ON %s"},
}

// TestTableHasWhatItsSourceHas has the server itself change a source's table, and compares what the catalog says of that and of the target's.
// After each statement of a plan it is planned anew, as after a crash: what has run is not run again.
func TestTableHasWhatItsSourceHas(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := open(t, Config{URL: url, Pipeline: "p"})
		var before *schema.Table
		for _, c := range changedTable {
			if kind := mysqlserver.Kind(t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]); slices.Contains(c.except, kind) {
				continue
			}
			execute(t, url, strings.Replace(c.sql, "%s", "source", 1))
			after, change := sourceAfter(t, s, before, strings.Replace(c.sql, "%s", "source", 1))
			plan := func() sqlgen.Plan { return followed(t, s, before, after, change, false) }
			for p := plan(); len(p.Statements) > 0; p = plan() {
				if err := s.Define(t.Context(), txnsink.Definition{Pipeline: "p", DDL: []string{p.Statements[0].SQL}}); err != nil {
					t.Fatalf("%s: %v", c.sql, err)
				}
				if expressions(after) && len(p.Statements) == 1 {
					break
				}
			}
			if p := plan(); p.Err() != nil || len(p.Kept) > 0 {
				t.Errorf("%s: planned again: %+v", c.sql, p)
			}
			if got, want := catalogOf(t, url, "target"), catalogOf(t, url, "source"); got != want {
				t.Fatalf("%s: the target has\n%s\nand the source\n%s", c.sql, got, want)
			}
			before = after
		}
		missing := catalogOf(t, url, "target")
		for _, x := range before.Indexes {
			execute(t, url, "ALTER TABLE target DROP INDEX `"+x.Name+"`")
		}
		if p := followed(t, s, before, before, &schema.Change{}, false); len(p.Statements) > 0 {
			t.Errorf("indexes that somebody dropped are made again: %v", p.Statements)
		}
		for _, d := range followed(t, s, before, before, &schema.Change{}, true).Statements {
			execute(t, url, d.SQL)
		}
		if got := catalogOf(t, url, "target"); got != missing {
			t.Errorf("asked for what is missing, the target has\n%s\nwant\n%s", got, missing)
		}
	})
}

// expressions says whether the table has an index over one, of which the catalog does not tell whether it is the source's.
func expressions(table *schema.Table) bool {
	return slices.ContainsFunc(table.Indexes, func(x schema.Index) bool { return x.Special == "expression" })
}

// sourceAfter is the source's table after a statement: its columns by the catalog, as a connector has them, and what the text tells.
func sourceAfter(t *testing.T, s *Sink, before *schema.Table, sql string) (*schema.Table, *schema.Change) {
	t.Helper()
	changes, err := mysqlddl.Parse(sql, "")
	if err != nil || len(changes) != 1 {
		t.Fatalf("%s: %v, %v", sql, changes, err)
	}
	after, err := s.Table(t.Context(), schema.Name{Table: "source"})
	if err != nil {
		t.Fatal(err)
	}
	after.Unique, after.Indexes = nil, nil
	if before != nil {
		after.Indexes = before.Indexes
	}
	after.Indexes = changes[0].IndexesAfter(after.Indexes)
	for i := range after.Columns {
		if d := after.Columns[i].Default; d != nil {
			plain := strings.Trim(*d, "'")
			after.Columns[i].Default = &plain
		}
	}
	return after, &changes[0]
}

// followed plans the target's change from one state of the source's table to the next.
func followed(t *testing.T, s *Sink, before, after *schema.Table, change *schema.Change, complete bool) sqlgen.Plan {
	t.Helper()
	name := schema.Name{Table: "target"}
	of := func(source *schema.Table) *schema.Table {
		if source == nil {
			return nil
		}
		table, err := s.Dialect().TargetTable(*source, name, sqlgen.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return &table
	}
	current, err := s.Table(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Dialect().(sqlgen.Evolver).Evolve(sqlgen.Evolution{
		Current: current, From: of(before), To: of(after), Renames: change.Renamed, Policy: schema.Evolve, Complete: complete,
	})
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	return p
}

// catalogOf prints what the catalog says of a table's columns and indexes, but for collations.
func catalogOf(t *testing.T, url, table string) string {
	t.Helper()
	expression := "''"
	if server := query(t, url, "SELECT VERSION()"); !strings.Contains(server[0], "MariaDB") {
		expression = "COALESCE(expression, '')"
	}
	return strings.Join(slices.Concat(
		query(t, url, "SELECT table_comment FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '"+table+"'"),
		query(t, url, `SELECT column_name, column_type, is_nullable, COALESCE(column_default, '-'), extra, column_comment FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = '`+table+`' ORDER BY ordinal_position`),
		query(t, url, `SELECT index_name, seq_in_index, non_unique, COALESCE(column_name, ''), COALESCE(sub_part, 0), COALESCE(collation, ''), index_type, `+expression+`
FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = '`+table+`' ORDER BY index_name, seq_in_index`),
	), "\n")
}
