//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// randomSource makes statements that mostly fit the tables as it knows them.
type randomSource struct {
	*rand.Rand
	seed   uint64
	tables []*randomTable
	names  int // given so far
	ddl    int
}

type randomTable struct {
	name    string
	columns []randomColumn // the first is id
	indexes []string
	// Two tables trade names once only: of rows under names that were traded back and forth, each topic's wait for the other's, and
	// the replicator's order of them is not yet the source's.
	traded bool
}

type randomColumn struct {
	name    string
	family  int // index into families
	typ     string
	notNull bool
	def     string // as SQL; empty: none
}

// family is types between which a column changes without losing a value that fits both.
type family struct {
	types  []string
	grows  bool   // only to types further on: the others would round
	def    string // empty: such columns take no default
	values []string
}

var families = []family{
	{types: []string{"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "INT UNSIGNED", "BIGINT UNSIGNED", "TINYINT(1)"}, def: "5", values: []string{"0", "1", "100", "127", "40000", "-1", "-128"}},
	{types: []string{"VARCHAR(10)", "VARCHAR(30)", "VARCHAR(200)", "TEXT", "CHAR(12)"}, def: "'dflt'", values: []string{"''", "'a'", "'Ünï'", "'it''s'", "'0123456789'", "'twenty characters!!!'"}},
	{types: []string{"DECIMAL(6,2)", "DECIMAL(10,2)", "DECIMAL(14,4)", "DECIMAL(30,10)"}, grows: true, def: "1.50", values: []string{"0", "1.25", "-99.99", "9999.99"}},
	{types: []string{"DATETIME", "DATETIME(3)", "DATETIME(6)"}, grows: true, def: "'2024-01-02 03:04:05'", values: []string{"'2024-02-29 12:34:56'", "'1000-01-01'", "'9999-12-31 23:59:59'"}},
	{types: []string{"ENUM('a','b')", "ENUM('a','b','c')", "ENUM('c','b','a')"}, def: "'b'", values: []string{"'a'", "'b'", "'c'"}},
	{types: []string{"VARBINARY(10)", "VARBINARY(40)", "BLOB"}, values: []string{"x''", "x'00FF'", "x'0102030405060708090A'"}},
	{types: []string{"JSON"}, values: []string{"'{\"a\":1}'", "'null'", "'[1,2]'"}},
	{types: []string{"DATE"}, def: "'2024-03-01'", values: []string{"'2024-02-29'", "'1999-12-31'"}},
	{types: []string{"TIME", "TIME(3)"}, grows: true, def: "'01:02:03'", values: []string{"'00:00:01'", "'-838:59:59'", "'100:00:00'"}},
	{types: []string{"FLOAT", "DOUBLE"}, grows: true, def: "0.5", values: []string{"0", "0.25", "-1024.5"}},
}

const integers, texts = 0, 1

func newRandomSource(seed uint64) *randomSource {
	return &randomSource{Rand: rand.New(rand.NewPCG(seed, 6)), seed: seed}
}

func (g *randomSource) name(kind string) string {
	g.names++
	return fmt.Sprintf("%s%d_%d", kind, g.seed, g.names)
}

func pick[T any](g *randomSource, list []T) T { return list[g.IntN(len(list))] }

func (g *randomSource) statement() string {
	if len(g.tables) == 0 || len(g.tables) < 4 && g.IntN(12) == 0 {
		g.ddl++
		return g.create()
	}
	if g.IntN(100) < 65 {
		return g.change(pick(g, g.tables))
	}
	g.ddl++
	return g.alter(pick(g, g.tables))
}

func (g *randomSource) create() string {
	t := &randomTable{name: g.name("t"), columns: []randomColumn{{name: "id", typ: "INT", notNull: true}}}
	parts := []string{"id INT NOT NULL" + pick(g, []string{"", " AUTO_INCREMENT"}) + " PRIMARY KEY"}
	for range 2 + g.IntN(4) {
		c := g.column()
		t.columns = append(t.columns, c)
		parts = append(parts, c.definition())
	}
	g.tables = append(g.tables, t)
	// A row at once: the target's table is made at the first.
	return "CREATE TABLE " + t.name + " (" + strings.Join(parts, ", ") + "); " + strings.Replace(g.insert(t, 1), "REPLACE", "INSERT IGNORE", 1)
}

func (g *randomSource) column() randomColumn {
	f := g.IntN(len(families))
	c := randomColumn{name: g.name("c"), family: f, typ: pick(g, families[f].types)}
	g.constrain(&c)
	return c
}

// constrain chooses NOT NULL and a default.
func (g *randomSource) constrain(c *randomColumn) {
	c.notNull, c.def = g.IntN(3) == 0, ""
	if c.typ == "JSON" { // of rows from before a NOT NULL one, whose value is null, Debezium 3.6 sends {}
		c.notNull = false
	}
	if d := families[c.family].def; d != "" && c.typ != "TEXT" && g.IntN(3) == 0 {
		c.def = d
	}
}

func (c *randomColumn) definition() string { return c.name + " " + c.attributes() }

func (c *randomColumn) attributes() string {
	s := c.typ
	if c.notNull {
		s += " NOT NULL"
	}
	if c.def != "" {
		s += " DEFAULT " + c.def
	}
	return s
}

// change is a statement of rows. Ids are few, so that rows are met again.
func (g *randomSource) change(t *randomTable) string {
	id := 1 + g.IntN(15)
	switch chance := g.IntN(10); {
	case chance < 6:
		return g.insert(t, id)
	case chance < 9 && len(t.columns) > 1:
		c := pick(g, t.columns[1:])
		return fmt.Sprintf("UPDATE %s SET %s = %s WHERE id > %d", t.name, c.name, g.value(c), id)
	default:
		return fmt.Sprintf("DELETE FROM %s WHERE id = %d", t.name, id)
	}
}

func (g *randomSource) insert(t *randomTable, id int) string {
	names, values := []string{"id"}, []string{fmt.Sprint(id)}
	for _, c := range t.columns[1:] {
		names, values = append(names, c.name), append(values, g.value(c))
	}
	return "REPLACE INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

func (g *randomSource) value(c randomColumn) string {
	if !c.notNull && g.IntN(4) == 0 {
		return "NULL"
	}
	return pick(g, families[c.family].values)
}

// alter is a statement that changes a table.
func (g *randomSource) alter(t *randomTable) string {
	head := "ALTER TABLE " + t.name + " "
	if len(t.columns) < 3 {
		return head + g.add(t)
	}
	i := 1 + g.IntN(len(t.columns)-1)
	c := &t.columns[i]
	switch g.IntN(15) {
	case 0, 1, 2:
		return head + g.add(t)
	case 3: // dropped, and another added at once
		name := c.name
		t.columns = slices.Delete(t.columns, i, i+1)
		if g.IntN(3) > 0 {
			return head + "DROP COLUMN " + name
		}
		n := g.column()
		n.name = name
		t.columns = append(t.columns, n)
		return head + "DROP COLUMN " + name + ", ADD COLUMN " + n.definition()
	case 4, 5, 6:
		g.retype(c)
		return head + "MODIFY " + c.definition()
	case 7:
		old := c.name
		c.name = g.name("c")
		g.retype(c)
		return head + "CHANGE " + old + " " + c.definition()
	case 8:
		old := c.name
		c.name = g.name("c")
		return head + "RENAME COLUMN " + old + " TO " + c.name
	case 9: // columns trade no names: Debezium 3.6 loses one of the two
		if c.def = families[c.family].def; c.def == "" || c.typ == "TEXT" || g.IntN(2) == 0 {
			c.def = ""
			return head + "ALTER COLUMN " + c.name + " DROP DEFAULT"
		}
		return head + "ALTER COLUMN " + c.name + " SET DEFAULT " + c.def
	case 10:
		return g.index(t, c)
	case 11:
		return g.key(t, c)
	case 12, 13:
		return g.move(t)
	default:
		if g.IntN(2) == 0 {
			return "TRUNCATE TABLE " + t.name
		}
		if len(g.tables) > 2 {
			g.tables = slices.DeleteFunc(g.tables, func(o *randomTable) bool { return o == t })
			return "DROP TABLE " + t.name
		}
		return head + g.add(t)
	}
}

func (g *randomSource) add(t *randomTable) string {
	c := g.column()
	t.columns = append(t.columns, c)
	return "ADD COLUMN " + c.definition() + pick(g, []string{"", "", " FIRST", " AFTER id"})
}

// retype changes a column's type within its family, and sometimes from a number to a text.
func (g *randomSource) retype(c *randomColumn) {
	f := families[c.family]
	i := slices.Index(f.types, c.typ)
	switch {
	case c.family == integers && g.IntN(5) == 0:
		c.family, c.typ = texts, "VARCHAR(30)"
	case f.grows:
		c.typ = pick(g, f.types[i:])
	default:
		c.typ = pick(g, f.types)
	}
	g.constrain(c)
}

func (g *randomSource) index(t *randomTable, c *randomColumn) string {
	if len(t.indexes) > 0 && g.IntN(2) == 0 {
		i := g.IntN(len(t.indexes))
		name := t.indexes[i]
		if g.IntN(2) == 0 {
			t.indexes[i] = g.name("x")
			return "ALTER TABLE " + t.name + " RENAME INDEX " + name + " TO " + t.indexes[i]
		}
		t.indexes = slices.Delete(t.indexes, i, i+1)
		return "DROP INDEX " + name + " ON " + t.name
	}
	name := g.name("x")
	t.indexes = append(t.indexes, name)
	return "CREATE " + pick(g, []string{"", "UNIQUE "}) + "INDEX " + name + " ON " + t.name + " (" + pick(g, []string{c.name, c.name + ", id", "id, " + c.name}) + ")"
}

func (g *randomSource) key(t *randomTable, c *randomColumn) string {
	head := "ALTER TABLE " + t.name + " DROP PRIMARY KEY"
	if g.IntN(2) == 0 {
		return head + ", ADD PRIMARY KEY (id)"
	}
	c.notNull = true
	return head + ", ADD PRIMARY KEY (id, " + c.name + ")"
}

// move renames tables.
func (g *randomSource) move(t *randomTable) string {
	o := pick(g, g.tables)
	if o == t || o.traded || t.traded || g.IntN(2) == 0 {
		old := t.name
		t.name = g.name("t")
		return "RENAME TABLE " + old + " TO " + t.name
	}
	via := g.name("t")
	t.traded, o.traded = true, true
	t.name, o.name = o.name, t.name
	return fmt.Sprintf("RENAME TABLE %s TO %s, %s TO %s, %s TO %s", o.name, via, t.name, o.name, via, t.name)
}
