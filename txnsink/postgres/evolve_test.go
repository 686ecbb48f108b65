package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// evolving is a table of a source that changes at random, and the target's that follows.
type evolving struct {
	*rand.Rand
	t       *testing.T
	sink    *Sink
	conn    *pgx.Conn
	options sqlgen.Options
	source  schema.Table
	next    int // for new names
	applied map[sqlgen.DDLKind]int
}

// TestTargetEqualsSourceAfterAnyChange promises that after each of many random steps the catalog has what TargetTable makes of the
// source's table; that nothing is left to do then; that a step which ended after any of its statements ends the same
// when it is planned again; and that no row and no value of a column that stays is lost.
func TestTargetEqualsSourceAfterAnyChange(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(conn)
	applied := map[sqlgen.DDLKind]int{}
	for seed := range uint64(12) {
		e := &evolving{
			Rand: rand.New(rand.NewPCG(seed, 1)), t: t, sink: open(t, Config{URL: url, Pipeline: "p"}), conn: conn, applied: applied,
			source: schema.Table{
				Name:       schema.Name{Schema: "public", Table: fmt.Sprintf("Table %d", seed)},
				Columns:    []schema.Column{{Name: "id", Type: schema.Type{Kind: schema.Int32}, NotNull: true, AutoIncrement: true}},
				PrimaryKey: []string{"id"},
			},
			options: sqlgen.Options{Enum: []string{"text", "enum"}[seed%2]},
		}
		for range 3 {
			e.addColumn()
		}
		for _, s := range (sqlgen.Postgres{}).CreateTable(e.shape(e.source)) {
			e.exec(s)
		}
		e.compare(e.shape(e.source))
		for range 20 {
			e.step()
		}
	}
	for _, kind := range []sqlgen.DDLKind{
		sqlgen.RenameTable, sqlgen.AddColumn, sqlgen.DropColumn, sqlgen.RenameColumn, sqlgen.ChangeType, sqlgen.ChangeNull, sqlgen.ChangeDefault,
		sqlgen.ChangeKey, sqlgen.ChangeAuto, sqlgen.ChangeComment, sqlgen.CreateIndex, sqlgen.DropIndex, sqlgen.RenameIndex,
		sqlgen.CreateType, sqlgen.AddLabel, sqlgen.RenameType,
	} {
		if applied[kind] < 3 {
			t.Errorf("%s ran %d times: the test shows nothing of it", kind, applied[kind])
		}
	}
}

func (e *evolving) shape(source schema.Table) schema.Table {
	e.t.Helper()
	target, err := sqlgen.Postgres{}.TargetTable(source, source.Name, e.options)
	if err != nil {
		e.t.Fatal(err)
	}
	return target
}

func (e *evolving) exec(sql string) {
	e.t.Helper()
	if _, err := e.conn.Exec(e.t.Context(), sql); err != nil {
		e.t.Fatalf("%s: %v", sql, err)
	}
}

// current reads the target's table by whichever name it has.
func (e *evolving) current(names ...schema.Name) *schema.Table {
	e.t.Helper()
	for _, name := range names {
		table, err := e.sink.Table(e.t.Context(), name)
		if err != nil {
			e.t.Fatal(err)
		}
		if table != nil {
			return table
		}
	}
	e.t.Fatalf("no table %v", names)
	return nil
}

// step changes the source, applies it in two parts, and compares.
func (e *evolving) step() {
	e.t.Helper()
	before := e.source
	renames := e.change()
	after := e.source
	from, to := e.shape(before), e.shape(after)
	plan := func() sqlgen.Plan {
		return sqlgen.Postgres{}.Evolve(sqlgen.Evolution{
			Current: e.current(to.Name, from.Name), From: &from, To: &to, Renames: renames, Policy: schema.Evolve, Source: &after,
		})
	}
	first := plan()
	if first.Err() != nil || !e.works(first.Statements) {
		e.source = before // a conversion that would lose a value, or NULLs in a column that is to be NOT NULL
		return
	}
	rows := e.rows(from.Name)
	n := len(first.Statements)
	if n > 0 {
		n = e.IntN(n)
	}
	if trades(renames) {
		n = min(n, 2)
	}
	for _, s := range first.Statements[:n] {
		e.exec(s.SQL)
	}
	for _, s := range plan().Statements {
		e.exec(s.SQL)
	}
	for _, s := range first.Statements {
		e.applied[s.Kind]++
	}
	e.compare(to)
	if !trades(renames) {
		if again := plan(); len(again.Statements) > 0 {
			e.t.Errorf("applied twice, there is more to do: %+v\nfrom %+v\nto %+v", again, from, to)
		}
	}
	e.compareRows(rows, e.rows(to.Name), from, to, renames)
	e.insert(to)
}

// works tries statements and takes them back, but for those that come first whatever becomes of the rest.
func (e *evolving) works(list []sqlgen.DDL) bool {
	e.t.Helper()
	for _, s := range list {
		if s.Kind.First() {
			e.exec(s.SQL)
		}
	}
	tx, err := e.conn.Begin(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	var failed error
	for _, s := range list {
		if _, failed = tx.Exec(e.t.Context(), s.SQL); failed != nil {
			// What may fail is what a value stands against: a check, a cast, a NULL, an equal key.
			if c := code(failed); !strings.HasPrefix(c, "22") && !strings.HasPrefix(c, "23") {
				e.t.Errorf("%s: %v", s.SQL, failed)
			}
			break
		}
	}
	if err := tx.Rollback(context.WithoutCancel(e.t.Context())); err != nil {
		e.t.Fatal(err)
	}
	return failed == nil
}

// compare compares the catalog with the table that is wanted.
func (e *evolving) compare(want schema.Table) {
	e.t.Helper()
	got := e.current(want.Name)
	describe := func(t *schema.Table) []string {
		var out []string
		for _, c := range t.Columns {
			if c.Type.Kind == schema.Enum {
				wanted, _ := want.Column(c.Name)
				if slices.ContainsFunc(wanted.Type.Values, func(l string) bool { return !slices.Contains(c.Type.Values, l) }) {
					e.t.Errorf("column %s lacks labels: got %q, want %q", c.Name, c.Type.Values, wanted.Type.Values)
				}
				c.Type.Native = "enum" // whatever it is called, after names were traded
			}
			out = append(out, fmt.Sprintf("column %s %s not null %v identity %v default %v comment %q", c.Name, c.Type.Native, c.NotNull, c.AutoIncrement, c.Default != nil, c.Comment))
		}
		for _, x := range t.Indexes {
			if x.Special == "" {
				out = append(out, fmt.Sprintf("index %s %v unique %v", x.Name, x.Columns, x.Unique))
			}
		}
		out = append(out, fmt.Sprintf("key %v comment %q", t.PrimaryKey, t.Comment))
		slices.Sort(out)
		return out
	}
	if g, w := describe(got), describe(&want); !slices.Equal(g, w) {
		e.t.Fatalf("got\n\t%s\nwant\n\t%s", strings.Join(g, "\n\t"), strings.Join(w, "\n\t"))
	}
}

// rows returns the rows as JSON, each under a mark that DDL does not move: its place in the order of their making.
func (e *evolving) rows(name schema.Name) []map[string]any {
	e.t.Helper()
	list, err := e.conn.Query(e.t.Context(), "SELECT to_jsonb(t)::text FROM "+pgx.Identifier{name.Schema, name.Table}.Sanitize()+" t")
	if err != nil {
		e.t.Fatal(err)
	}
	texts, err := pgx.CollectRows(list, pgx.RowTo[string])
	if err != nil {
		e.t.Fatal(err)
	}
	slices.Sort(texts)
	out := make([]map[string]any, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &out[i]); err != nil {
			e.t.Fatal(err)
		}
	}
	return out
}

// compareRows compares the values of columns that stay and keep their type, by their new names.
func (e *evolving) compareRows(before, after []map[string]any, from, to schema.Table, renames []schema.Rename) {
	e.t.Helper()
	kept := func(rows []map[string]any, names map[string]string) []string {
		var out []string
		for _, row := range rows {
			values := map[string]any{}
			for name, as := range names {
				values[as] = row[name]
			}
			text, err := json.Marshal(values)
			if err != nil {
				e.t.Fatal(err)
			}
			out = append(out, string(text))
		}
		slices.Sort(out)
		return out
	}
	was, is := map[string]string{}, map[string]string{}
	for _, c := range from.Columns {
		as := c.Name
		for _, r := range renames {
			if r.From == c.Name {
				as = r.To
			}
		}
		if now, ok := to.Column(as); ok && now.Type.Native == c.Type.Native {
			was[c.Name], is[as] = as, as
		}
	}
	if b, a := kept(before, was), kept(after, is); !reflect.DeepEqual(b, a) {
		e.t.Errorf("rows were\n\t%s\nand are\n\t%s", strings.Join(b, "\n\t"), strings.Join(a, "\n\t"))
	}
}

// insert adds a row, if its values can be: unique columns and the key may have them already.
func (e *evolving) insert(table schema.Table) {
	e.t.Helper()
	var names, values []string
	for _, c := range table.Columns {
		v := fmt.Sprint(e.next*7 + e.IntN(7))
		switch c.Type.Kind {
		case schema.Bool:
			v = "true"
		case schema.Date, schema.Timestamp:
			v = "'2024-02-29'"
		case schema.Bit:
			v = fmt.Sprintf("'%0*b'", c.Type.Length, e.IntN(2))
		case schema.JSONB:
			v = `'{"a":1}'`
		case schema.Varchar, schema.Text:
			v = fmt.Sprintf("'%d'", e.IntN(10))
		case schema.Enum:
			v = "'" + strings.ReplaceAll(c.Type.Values[e.IntN(len(c.Type.Values))], "'", "''") + "'"
		case schema.Other:
			v = `'{a,"a b"}'`
		}
		if !c.NotNull && e.IntN(3) == 0 {
			v = "NULL"
		}
		names, values = append(names, pgx.Identifier{c.Name}.Sanitize()), append(values, v)
	}
	e.next++
	sql := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", pgx.Identifier{table.Name.Schema, table.Name.Table}.Sanitize(), strings.Join(names, ", "), strings.Join(values, ", "))
	if _, err := e.conn.Exec(e.t.Context(), sql); err != nil && !strings.HasPrefix(code(err), "2") {
		e.t.Fatalf("%s: %v", sql, err)
	}
}

// trades says whether columns trade names.
func trades(renames []schema.Rename) bool {
	next := map[string]string{}
	for _, r := range renames {
		next[r.From] = r.To
	}
	for start := range maps.Keys(next) {
		for at, ok := next[start]; ok; at, ok = next[at] {
			if at == start {
				return true
			}
		}
	}
	return false
}

// TestNarrowingNeverLosesAValue narrows a column that has a value which does not fit, by rounding or by being cut.
func TestNarrowingNeverLosesAValue(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := open(t, Config{URL: url, Pipeline: "p"})
	for i, c := range []struct {
		from, to schema.Type
		value    string
	}{
		{schema.Type{Kind: schema.Varchar, Length: 10}, schema.Type{Kind: schema.Varchar, Length: 3}, "abcd"},
		{schema.Type{Kind: schema.Varchar, Length: 10}, schema.Type{Kind: schema.Varchar, Length: 3}, "abc  "},
		{schema.Type{Kind: schema.Decimal, Length: 10, Scale: 4}, schema.Type{Kind: schema.Decimal, Length: 10, Scale: 2}, "1.2345"},
		{schema.Type{Kind: schema.Decimal, Length: 10, Scale: 4}, schema.Type{Kind: schema.Int32}, "1.5000"},
		{schema.Type{Kind: schema.Int64}, schema.Type{Kind: schema.Int32}, "2147483648"},
		{schema.Type{Kind: schema.Timestamp, Scale: 6}, schema.Type{Kind: schema.Timestamp, Scale: 3}, "2024-02-29 12:34:56.789012"},
		{schema.Type{Kind: schema.Timestamp, Scale: 6}, schema.Type{Kind: schema.Date}, "2024-02-29 12:34:56"},
		{schema.Type{Kind: schema.Float64}, schema.Type{Kind: schema.Float32}, "0.1"},
		{schema.Type{Kind: schema.Text}, schema.Type{Kind: schema.Int32}, "007"},
		{schema.Type{Kind: schema.Text}, schema.Type{Kind: schema.JSON}, "no document"},
		{schema.Type{Kind: schema.Int32}, schema.Type{Kind: schema.Bit, Length: 1}, "2"},
	} {
		name := schema.Name{Schema: "public", Table: fmt.Sprintf("narrow%d", i)}
		shapes := make([]schema.Table, 2)
		for j, typ := range []schema.Type{c.from, c.to} {
			var err error
			shapes[j], err = sqlgen.Postgres{}.TargetTable(schema.Table{Columns: []schema.Column{{Name: "c", Type: typ}}}, name, sqlgen.Options{})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Define(t.Context(), txnsink.Definition{DDL: sqlgen.Postgres{}.CreateTable(shapes[0])}); err != nil {
			t.Fatal(err)
		}
		query(t, url, fmt.Sprintf("INSERT INTO %s VALUES ('%s')", name.Table, c.value))
		current, err := s.Table(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		plan := sqlgen.Postgres{}.Evolve(sqlgen.Evolution{Current: current, From: &shapes[0], To: &shapes[1], Policy: schema.Evolve})
		var list []string
		for _, d := range plan.Statements {
			list = append(list, d.SQL)
		}
		if len(list) == 0 || plan.Err() != nil {
			t.Errorf("%s to %s: %+v", shapes[0].Columns[0].Type.Native, shapes[1].Columns[0].Type.Native, plan)
			continue
		}
		if err := s.Define(t.Context(), txnsink.Definition{DDL: list}); err == nil {
			t.Errorf("%s to %s: a value was lost: %v", shapes[0].Columns[0].Type.Native, shapes[1].Columns[0].Type.Native, query(t, url, "SELECT * FROM "+name.Table))
		}
		if got := query(t, url, "SELECT c::text FROM "+name.Table); !slices.Equal(got, []string{c.value}) {
			t.Errorf("got %q, want %q", got, c.value)
		}
	}
}
