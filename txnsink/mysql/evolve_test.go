package mysql

import (
	"slices"
	"strings"
	"testing"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
)

// itemTable is the source's table before a change.
func itemTable() schema.Table {
	x := "x"
	return schema.Table{
		Columns: []schema.Column{
			{Name: "id", Type: sqlgen.MySQLType("int"), NotNull: true},
			{Name: "code", Type: sqlgen.MySQLType("varchar(20)"), NotNull: true, Default: &x, Comment: "it's"},
			{Name: "n", Type: sqlgen.MySQLType("int")},
			{Name: "words", Type: sqlgen.MySQLType("text")},
		},
		PrimaryKey: []string{"id"},
	}
}

// evolutions are changes of the source's table, and the target's columns afterwards.
var evolutions = []struct {
	name    string
	policy  schema.Policy
	target  string // what somebody has done to the target before
	change  func(t *schema.Table)
	renames []schema.Rename
	again   []string // Evolution.Replaced
	gone    string   // the name of a column whose line is not there any more
	made    string   // the line that is
	refused string   // a part of the error
}{
	{name: "add", change: addColumn("k", "bigint unsigned", false, ""), gone: "k", made: "k bigint unsigned"},
	{name: "add not null", change: addColumn("k", "int", true, ""), gone: "k", made: "k int!"},
	{name: "add with a default", change: addColumn("k", "varchar(9)", true, `it's \ so`), gone: "k", made: `k varchar(9)! it's \ so`},
	{name: "add leniently", policy: schema.Lenient, change: addColumn("k", "int", true, ""), gone: "k", made: "k int"},
	{name: "drop", change: dropColumn("n"), gone: "n"},
	{name: "drop leniently", policy: schema.Lenient, change: dropColumn("code"), gone: "code", made: "code varchar(20) utf8mb4_bin x"},
	{name: "rename", change: renameColumn("n", "m"), renames: []schema.Rename{{From: "n", To: "m"}}, gone: "n", made: "m int"},
	{name: "rename and widen", change: func(t *schema.Table) {
		renameColumn("code", "sku")(t)
		retype("sku", "varchar(50)")(t)
	}, renames: []schema.Rename{{From: "code", To: "sku"}}, gone: "code", made: "sku varchar(50)! utf8mb4_bin x"},
	{name: "rename in case only", change: renameColumn("n", "N"), renames: []schema.Rename{{From: "n", To: "N"}}, gone: "n", made: "N int"},
	{name: "widen", change: retype("code", "varchar(50)"), gone: "code", made: "code varchar(50)! utf8mb4_bin x"},
	{name: "widen the key", change: retype("id", "bigint"), gone: "id", made: "id bigint!"},
	{name: "another kind", change: retype("n", "varchar(30)"), gone: "n", made: "n varchar(30)"},
	{name: "narrow", change: retype("n", "smallint"), gone: "n", made: "n smallint"},
	{name: "narrow leniently", policy: schema.Lenient, change: retype("n", "smallint")},
	{name: "a choice that is wide enough", target: "ALTER TABLE item MODIFY n bigint", change: retype("n", "mediumint"), gone: "n", made: "n bigint"},
	{name: "not null", change: func(t *schema.Table) { t.Columns[2].NotNull = true }, gone: "n", made: "n int!"},
	{name: "null", change: func(t *schema.Table) { t.Columns[1].NotNull = false }, gone: "code", made: "code varchar(20) utf8mb4_bin x"},
	{name: "key", change: func(t *schema.Table) { t.PrimaryKey = []string{"id", "code"} }, gone: "=", made: "= id,code"},
	{name: "another under its name", again: []string{"n"}, change: retype("n", "varchar(5)"), gone: "n", made: "n varchar(5)"},
	{name: "nothing", change: func(*schema.Table) {}},
	{name: "ignore", policy: schema.Ignore, change: dropColumn("n")},
	{name: "stop", policy: schema.Stop, change: dropColumn("n"), refused: "schema.evolve is stop: alter the target yourself as in ALTER TABLE"},
	{name: "incomparable leniently", policy: schema.Lenient, change: retype("n", "int unsigned"), refused: "neither int"},
	{name: "names traded", change: func(t *schema.Table) {
		t.Columns[2].Name, t.Columns[3].Name = "words", "n"
	}, renames: []schema.Rename{{From: "n", To: "words"}, {From: "words", To: "n"}}, refused: "after a crash nothing would tell"},
	{name: "a name that is taken", target: "ALTER TABLE item ADD m int", change: renameColumn("n", "m"), renames: []schema.Rename{{From: "n", To: "m"}}, refused: "has a column of that name already"},
}

func addColumn(name, native string, notNull bool, def string) func(*schema.Table) {
	return func(t *schema.Table) {
		c := schema.Column{Name: name, Type: sqlgen.MySQLType(native), NotNull: notNull}
		if def != "" {
			c.Default = &def
		}
		t.Columns = append(t.Columns, c)
	}
}

func dropColumn(name string) func(*schema.Table) {
	return func(t *schema.Table) {
		t.Columns = slices.DeleteFunc(t.Columns, func(c schema.Column) bool { return c.Name == name })
	}
}

func renameColumn(from, to string) func(*schema.Table) {
	return func(t *schema.Table) {
		c, _ := t.Column(from)
		c.Name = to
	}
}

func retype(name, native string) func(*schema.Table) {
	return func(t *schema.Table) {
		c, _ := t.Column(name)
		c.Type = sqlgen.MySQLType(native)
	}
}

// TestTableFollowsItsSource changes a table that has a row. What has run is not planned again, as after a crash before it was noted.
func TestTableFollowsItsSource(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := open(t, Config{URL: url, Pipeline: "p"})
		before := ""
		for _, c := range evolutions {
			execute(t, url, "DROP TABLE IF EXISTS item", "CREATE TABLE item (id int PRIMARY KEY, code varchar(20) COLLATE utf8mb4_bin NOT NULL DEFAULT 'x' COMMENT 'it''s', "+
				"n int, words text) COLLATE utf8mb4_unicode_ci", "INSERT INTO item VALUES (1, 'a', 2, 'b')")
			if before = columnsOf(t, url); c.target != "" {
				execute(t, url, c.target)
			}
			plan := func() sqlgen.Plan {
				return s.Dialect().(sqlgen.Evolver).Evolve(evolution(t, s, c.policy, c.change, c.renames, c.again))
			}
			p := plan()
			if c.refused != "" {
				if err := p.Err(); err == nil || !strings.Contains(err.Error(), c.refused) || len(p.Statements) > 0 {
					t.Errorf("%s: error %v, statements %v", c.name, err, p.Statements)
				}
				continue
			}
			for _, d := range p.Statements {
				if err := s.Define(t.Context(), txnsink.Definition{Pipeline: "p", DDL: []string{d.SQL}}); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			if got, want := columnsOf(t, url), changed(before, c.gone, c.made); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s\nby %v", c.name, got, want, p.Statements)
			}
			if again := plan(); (len(again.Statements) > 0) != (c.again != nil) || again.Err() != nil {
				t.Errorf("%s: planned again: %+v", c.name, again)
			}
			if got := query(t, url, "SELECT id FROM item"); !slices.Equal(got, []string{"1"}) {
				t.Errorf("%s: rows %v", c.name, got)
			}
		}
	})
}

// TestChangeThatWouldLoseValuesStops narrows a column below the value that it has.
func TestChangeThatWouldLoseValuesStops(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := open(t, Config{URL: url, Pipeline: "p"})
		execute(t, url, "CREATE TABLE item (id int PRIMARY KEY, code varchar(20) NOT NULL, n int, words text)", "INSERT INTO item VALUES (1, 'abcdef', 40000, 'b')")
		for _, change := range []func(*schema.Table){retype("n", "smallint"), retype("code", "varchar(3)"), retype("words", "int")} {
			p := s.Dialect().(sqlgen.Evolver).Evolve(evolution(t, s, schema.Evolve, change, nil, nil))
			if err := p.Err(); err != nil || len(p.Statements) != 1 {
				t.Fatalf("error %v, statements %v", err, p.Statements)
			}
			err := s.Define(t.Context(), txnsink.Definition{Pipeline: "p", DDL: []string{p.Statements[0].SQL}})
			if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "schema.evolve") {
				t.Errorf("%s: %v", p.Statements[0].SQL, err)
			}
		}
		// An ALTER TABLE that was under way when its connection was lost has ended since.
		for _, sql := range []string{"ALTER TABLE item ADD COLUMN n int", "ALTER TABLE item DROP COLUMN gone", "ALTER TABLE item RENAME COLUMN gone TO here", "ALTER TABLE item DROP INDEX gone", "ALTER TABLE item RENAME INDEX gone TO here", "ALTER TABLE item ADD INDEX (n), ADD INDEX n (id)", "ALTER TABLE items RENAME TO item"} {
			if err := s.Define(t.Context(), txnsink.Definition{Pipeline: "p", DDL: []string{sql}}); err == nil || txnsink.Permanent(err) {
				t.Errorf("%s: %v, want an error that passes when it is planned again", sql, err)
			}
		}
		if got := query(t, url, "SELECT * FROM item"); !slices.Equal(got, []string{"1|abcdef|40000|b"}) {
			t.Errorf("rows %v", got)
		}
	})
}

// evolution is the change of itemTable, against the target as its catalog has it.
func evolution(t *testing.T, s *Sink, policy schema.Policy, change func(*schema.Table), renames []schema.Rename, replaced []string) sqlgen.Evolution {
	t.Helper()
	name := schema.Name{Table: "item"}
	current, err := s.Table(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	source := itemTable()
	from, err := s.Dialect().TargetTable(source, name, sqlgen.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source = itemTable()
	change(&source)
	to, err := s.Dialect().TargetTable(source, name, sqlgen.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if policy == "" {
		policy = schema.Evolve
	}
	return sqlgen.Evolution{Current: current, From: &from, To: &to, Policy: policy, Renames: renames, Replaced: replaced}
}

// columnsOf prints a line for each column of item, and one for the key.
func columnsOf(t *testing.T, url string) string {
	t.Helper()
	lines := query(t, url, `SELECT CONCAT(column_name, ' ', REGEXP_REPLACE(column_type, 'int\\([0-9]+\\)', 'int'), IF(is_nullable = 'NO', '!', ''),
	IF(collation_name IS NULL OR collation_name = 'utf8mb4_unicode_ci', '', CONCAT(' ', collation_name)),
	IF(column_default IS NULL OR column_default = 'NULL', '', CONCAT(' ', REPLACE(REPLACE(REPLACE(TRIM(BOTH '''' FROM column_default), '''''', ''''), CHAR(92, 92), CHAR(92)), '  ', ' '))))
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'item'`)
	key := query(t, url, `SELECT CONCAT('= ', GROUP_CONCAT(column_name ORDER BY seq_in_index)) FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name = 'item' AND index_name = 'PRIMARY'`)
	return strings.Join(append(lines, key...), "\n")
}

// changed is columnsOf without the line that begins with gone, and with made.
func changed(before, gone, made string) string {
	lines := slices.DeleteFunc(strings.Split(before, "\n"), func(l string) bool { return strings.HasPrefix(l, gone+" ") })
	key := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "=") })
	switch {
	case made == "":
	case strings.HasPrefix(made, "="):
		lines = append(lines, made)
	default:
		lines = append(lines[:key], made, lines[key])
		slices.Sort(lines[:len(lines)-1])
	}
	return strings.Join(lines, "\n")
}
