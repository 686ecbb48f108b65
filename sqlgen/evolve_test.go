package sqlgen

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"replicator/schema"
	"replicator/schema/mysqlddl"
)

// evolvedItems is the source's table that the documented statements change.
func evolvedItems() schema.Table {
	x := "x"
	return schema.Table{
		Name: schema.Name{Schema: "shop", Table: "items"},
		Columns: []schema.Column{
			{Name: "id", Type: schema.Type{Kind: schema.Int32}, NotNull: true},
			{Name: "code", Type: schema.Type{Kind: schema.Varchar, Length: 20}, NotNull: true, Default: &x},
			{Name: "price", Type: schema.Type{Kind: schema.Decimal, Length: 10, Scale: 2}},
			{Name: "made", Type: schema.Type{Kind: schema.Timestamp, Scale: 3}},
			{Name: "kind", Type: schema.Type{Kind: schema.Enum, Values: []string{"a", "b"}}},
		},
		PrimaryKey: []string{"id"},
		Indexes:    []schema.Index{{Name: "by_code", Columns: []string{"code"}}},
	}
}

// evolvedStatements are the rows of docs/schema-changes.md: a source's statement and what it makes of the table. What the statement
// itself tells (names, indexes) is read from it.
var evolvedStatements = []struct {
	sql    string
	change func(t *schema.Table)
}{
	{"CREATE TABLE items (...)", nil},
	{"DROP TABLE items", nil},
	{"RENAME TABLE items TO goods", func(t *schema.Table) { t.Name.Table = "goods" }},
	{"ALTER TABLE items ADD n INT", add("n", schema.Type{Kind: schema.Int32}, false, "")},
	{"ALTER TABLE items ADD n INT NOT NULL DEFAULT 5", add("n", schema.Type{Kind: schema.Int32}, true, "5")},
	{"ALTER TABLE items ADD n INT NOT NULL", add("n", schema.Type{Kind: schema.Int32}, true, "")},
	{"ALTER TABLE items ADD e ENUM('new', 'old') NOT NULL", add("e", schema.Type{Kind: schema.Enum, Values: []string{"new", "old"}}, true, "")},
	{"ALTER TABLE items ADD u JSON DEFAULT (JSON_ARRAY())", add("u", schema.Type{Kind: schema.JSON}, false, "JSON_ARRAY()")},
	{"ALTER TABLE items ADD g GEOMETRY NOT NULL", add("g", schema.Type{Kind: schema.Geometry}, true, "")},
	{"ALTER TABLE items ADD v VECTOR(3) NOT NULL", add("v", schema.Type{Kind: schema.Vector}, true, "")},
	{"ALTER TABLE items DROP price", drop("price")},
	{"ALTER TABLE items DROP code", drop("code")},
	{"ALTER TABLE items DROP price, ADD price INT", retype(2, schema.Type{Kind: schema.Int32})},
	{"ALTER TABLE items RENAME COLUMN code TO sku", rename("code", "sku")},
	{"ALTER TABLE items RENAME COLUMN code TO kind, RENAME COLUMN kind TO code", rename("code", "kind", "kind", "code")},
	{"ALTER TABLE items CHANGE made moment DATETIME(6)", func(t *schema.Table) {
		rename("made", "moment")(t)
		t.Columns[3].Type.Scale = 6
	}},
	{"ALTER TABLE items MODIFY id BIGINT NOT NULL", retype(0, schema.Type{Kind: schema.Int64})},
	{"ALTER TABLE items MODIFY id SMALLINT NOT NULL", retype(0, schema.Type{Kind: schema.Int16})},
	{"ALTER TABLE items MODIFY code VARCHAR(50) NOT NULL DEFAULT 'x'", retype(1, schema.Type{Kind: schema.Varchar, Length: 50})},
	{"ALTER TABLE items MODIFY code VARCHAR(10) NOT NULL DEFAULT 'x'", retype(1, schema.Type{Kind: schema.Varchar, Length: 10})},
	{"ALTER TABLE items MODIFY price DECIMAL(12,4)", retype(2, schema.Type{Kind: schema.Decimal, Length: 12, Scale: 4})},
	{"ALTER TABLE items MODIFY price DECIMAL(10,1)", retype(2, schema.Type{Kind: schema.Decimal, Length: 10, Scale: 1})},
	{"ALTER TABLE items MODIFY price INT", retype(2, schema.Type{Kind: schema.Int32})},
	{"ALTER TABLE items MODIFY made DATETIME", retype(3, schema.Type{Kind: schema.Timestamp})},
	{"ALTER TABLE items MODIFY made TIMESTAMP(3)", retype(3, schema.Type{Kind: schema.TimestampTZ, Scale: 3})},
	{"ALTER TABLE items MODIFY made BIGINT", retype(3, schema.Type{Kind: schema.Int64})},
	{"ALTER TABLE items MODIFY kind ENUM('a', 'b', 'c')", retype(4, schema.Type{Kind: schema.Enum, Values: []string{"a", "b", "c"}})},
	{"ALTER TABLE items MODIFY price DECIMAL(10,2) NOT NULL", func(t *schema.Table) { t.Columns[2].NotNull = true }},
	{"ALTER TABLE items MODIFY code VARCHAR(20) DEFAULT 'x'", func(t *schema.Table) { t.Columns[1].NotNull = false }},
	{"ALTER TABLE items ALTER code SET DEFAULT 'y'", func(t *schema.Table) { t.Columns[1].Default = new("y") }},
	{"ALTER TABLE items ALTER code DROP DEFAULT", func(t *schema.Table) { t.Columns[1].Default = nil }},
	{"ALTER TABLE items MODIFY made DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", func(t *schema.Table) { t.Columns[3].Default = new("CURRENT_TIMESTAMP(3)") }},
	{"ALTER TABLE items MODIFY id INT NOT NULL AUTO_INCREMENT", func(t *schema.Table) { t.Columns[0].AutoIncrement = true }},
	{"ALTER TABLE items DROP PRIMARY KEY, ADD PRIMARY KEY (id, code)", func(t *schema.Table) { t.PrimaryKey = []string{"id", "code"} }},
	{"ALTER TABLE items DROP PRIMARY KEY", func(t *schema.Table) { t.PrimaryKey = nil }},
	{"ALTER TABLE items COMMENT 'for sale'", func(t *schema.Table) { t.Comment = "for sale" }},
	{"ALTER TABLE items MODIFY price DECIMAL(10,2) COMMENT 'net'", func(t *schema.Table) { t.Columns[2].Comment = "net" }},
	{"CREATE INDEX by_made ON items (made, id)", nil},
	{"CREATE UNIQUE INDEX one_price ON items (price)", nil},
	{"CREATE FULLTEXT INDEX words ON items (code)", nil},
	{"CREATE INDEX starts ON items (code(5))", nil},
	{"ALTER TABLE items RENAME INDEX by_code TO codes", nil},
	{"DROP INDEX by_code ON items", nil},
	{"ALTER TABLE items ADD FOREIGN KEY (id) REFERENCES others (id)", nil},
	{"ALTER TABLE items ADD CONSTRAINT positive CHECK (price > 0)", nil},
	{"ALTER TABLE items ENGINE = InnoDB", nil},
	{"ALTER TABLE items DROP PARTITION p0", nil},
	{"CREATE VIEW v AS SELECT 1", nil},
	{"CREATE TRIGGER t BEFORE INSERT ON items FOR EACH ROW SET NEW.price = 0", nil},
	{"CREATE DATABASE other", nil},
	{"CREATE USER u", nil},
}

func add(name string, t schema.Type, notNull bool, def string) func(*schema.Table) {
	return func(table *schema.Table) {
		c := schema.Column{Name: name, Type: t, NotNull: notNull}
		if def != "" {
			c.Default = &def
		}
		table.Columns = append(table.Columns, c)
	}
}

func drop(name string) func(*schema.Table) {
	return func(t *schema.Table) {
		t.Columns = slices.DeleteFunc(t.Columns, func(c schema.Column) bool { return c.Name == name })
	}
}

func rename(pairs ...string) func(*schema.Table) {
	return func(t *schema.Table) {
		for i := range t.Columns {
			for j := 0; j < len(pairs); j += 2 {
				if t.Columns[i].Name == pairs[j] {
					t.Columns[i].Name = pairs[j+1]
					break
				}
			}
		}
	}
}

func retype(column int, to schema.Type) func(*schema.Table) {
	return func(t *schema.Table) { t.Columns[column].Type = to }
}

// evolved plans one of the documented statements.
func evolved(t *testing.T, sql string, change func(*schema.Table), policy schema.Policy, o Options) Plan {
	t.Helper()
	target := func(s schema.Table) *schema.Table {
		out, err := Postgres{}.TargetTable(s, s.Name, o)
		if err != nil {
			t.Fatal(err)
		}
		return &out
	}
	before, after := evolvedItems(), evolvedItems()
	e := Evolution{From: target(before), Policy: policy}
	current := *e.From
	current.PrimaryKeyName = "items_pkey"
	e.Current = &current
	switch {
	case strings.HasPrefix(sql, "CREATE TABLE"):
		e.From, e.Current, e.To = nil, nil, e.From
		return Postgres{}.Evolve(e)
	case strings.HasPrefix(sql, "DROP TABLE"):
		return Postgres{}.Evolve(e)
	}
	if change != nil {
		change(&after)
	}
	changes, err := mysqlddl.Parse(sql, "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if c.Kind != schema.Ignored {
			after.Indexes = c.IndexesAfter(after.Indexes)
			e.Renames = append(e.Renames, c.Renamed...)
			for _, name := range c.Dropped {
				if slices.Contains(c.Added, name) {
					e.Replaced = append(e.Replaced, name)
				}
			}
		}
	}
	e.To, e.Source = target(after), &after
	return Postgres{}.Evolve(e)
}

// cell writes a plan as a cell of a table.
func cell(p Plan) string {
	var parts []string
	for _, s := range p.Statements {
		parts = append(parts, "`"+strings.Join(strings.Fields(s.SQL), " ")+"`")
	}
	for _, r := range p.Refused {
		parts = append(parts, "stops: "+r.Err.Error())
	}
	for _, k := range p.Kept {
		parts = append(parts, "kept: "+k.Why)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "<br>")
}

const (
	documentBegin = "<!-- The table is written by a test: make golden. -->\n"
	enumsBegin    = "<!-- This table too is written by a test: make golden. -->\n"
	documentEnd   = "<!-- End of the table. -->\n"
)

// documents is held by whoever reads or writes the page.
var documents sync.Mutex

// TestEveryStatementIsDocumented keeps the table of docs/schema-changes.md: what each statement does under each policy.
func TestEveryStatementIsDocumented(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| at the source | `evolve` | `lenient` |\n|---|---|---|\n")
	seen := map[DDLKind]bool{}
	for _, s := range evolvedStatements {
		evolve, lenient := evolved(t, s.sql, s.change, schema.Evolve, Options{}), evolved(t, s.sql, s.change, schema.Lenient, Options{})
		for _, ddl := range slices.Concat(evolve.Statements, lenient.Statements) {
			seen[ddl.Kind] = true
		}
		same := cell(lenient)
		if same == cell(evolve) {
			same = "the same"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.sql, cell(evolve), same)

		// The other two policies follow from this one.
		stop, ignore := evolved(t, s.sql, s.change, schema.Stop, Options{}), evolved(t, s.sql, s.change, schema.Ignore, Options{})
		if len(stop.Statements) > 0 || (len(evolve.Statements) > 0) && stop.Err() == nil {
			t.Errorf("%s: stop gives %+v", s.sql, stop)
		}
		if len(ignore.Statements) > 0 || ignore.Err() != nil {
			t.Errorf("%s: ignore gives %+v", s.sql, ignore)
		}
	}
	for _, kind := range []DDLKind{
		CreateTable, DropTable, RenameTable, AddColumn, DropColumn, RenameColumn, ChangeType, ChangeNull, ChangeDefault, ChangeKey, ChangeAuto,
		ChangeComment, CreateIndex, DropIndex, RenameIndex, Check,
	} {
		if !seen[kind] {
			t.Errorf("no documented statement leads to %s", kind)
		}
	}
	document(t, documentBegin, b.String())
}

// document compares a table of docs/schema-changes.md, or writes it.
func document(t *testing.T, begin, want string) {
	t.Helper()
	documents.Lock()
	defer documents.Unlock()
	path := filepath.Join("..", "docs", "schema-changes.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	table, tail, also := strings.Cut(rest, documentEnd)
	if !ok || !also {
		t.Fatalf("%s has no place for the table", path)
	}
	if *update {
		if err := os.WriteFile(path, []byte(head+begin+want+documentEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("%s is not what the code does; write it anew with -update\n%s", path, want)
	}
}

// The catalog writes a double's default out.
func TestDefaultsOfDoublesAreComparedByValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind           schema.Kind
		source, stored string
		want           bool
	}{
		{schema.Float64, "1e10", "'10000000000'::double precision", true},
		{schema.Float64, "0.0000001", "'1e-07'::double precision", true},
		{schema.Float32, "0.1", "0.1", true},
		{schema.Float64, "1e10", "'10000000001'::double precision", false},
		{schema.Varchar, "'1e10'", "'10000000000'::character varying", false},
	} {
		if got := sameDefault(schema.Type{Kind: test.kind}, &test.source, &test.stored); got != test.want {
			t.Errorf("%s and %s: got %v, want %v", test.source, test.stored, got, test.want)
		}
	}
}
