package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

var enums = sqlgen.Options{Enum: "enum"}

// enumTable is a source's table called name with a key and the columns of an ENUM and a SET.
func enumTable(name string, labels ...string) schema.Table {
	return schema.Table{
		Name: schema.Name{Schema: "public", Table: name},
		Columns: []schema.Column{
			{Name: "id", Type: schema.Type{Kind: schema.Int32}, NotNull: true},
			{Name: "state", Type: schema.Type{Kind: schema.Enum, Values: labels}, NotNull: true},
			{Name: "tags", Type: schema.Type{Kind: schema.Set, Values: []string{"a", "b c"}}},
		},
		PrimaryKey: []string{"state", "id"},
	}
}

// evolveTo brings a target's table from one version of the source's to the next, as a pipeline does: what comes first is committed first.
func evolveTo(t *testing.T, s *Sink, from, to *schema.Table, policy schema.Policy, renames ...schema.Rename) {
	t.Helper()
	e := sqlgen.Evolution{Policy: policy, Source: to, Renames: renames}
	for side, source := range map[**schema.Table]*schema.Table{&e.From: from, &e.To: to} {
		if source != nil {
			table, err := sqlgen.Postgres{}.TargetTable(*source, source.Name, enums)
			if err != nil {
				t.Fatal(err)
			}
			*side = &table
		}
	}
	if from != nil {
		var err error
		if e.Current, err = s.Table(t.Context(), from.Name); err != nil {
			t.Fatal(err)
		}
	}
	plan := sqlgen.Postgres{}.Evolve(e)
	if err := plan.Err(); err != nil {
		t.Fatal(err)
	}
	var first, rest []string
	for _, d := range plan.Statements {
		if d.Kind.First() {
			first = append(first, d.SQL)
		} else {
			rest = append(rest, d.SQL)
		}
	}
	for _, ddl := range [][]string{first, rest} {
		if err := s.Define(t.Context(), txnsink.Definition{DDL: ddl}); err != nil {
			t.Fatal(err)
		}
	}
}

// enumTypes are the enum types of the database with their labels.
func enumTypes(t *testing.T, url string) []string {
	t.Helper()
	return query(t, url, "SELECT format_type(enumtypid, NULL), string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum GROUP BY enumtypid ORDER BY 1")
}

func wantTypes(t *testing.T, url, after string, want ...string) {
	t.Helper()
	if got := enumTypes(t, url); !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", after, got, want)
	}
}

// TestEnumTypesGoTheWayOfTheirColumns follows a table from its making to its end: no type is left, and no label is lost on the way.
func TestEnumTypesGoTheWayOfTheirColumns(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := open(t, Config{URL: url, Pipeline: "p"})
	a, b := enumTable("Orders", "new", "sent"), enumTable("Orders", "draft", "new", "paid", "it's", "sent", "")
	evolveTo(t, s, nil, &a, schema.Evolve)
	wantTypes(t, url, "made", `"Orders_state_enum"|new,sent`)
	query(t, url, `INSERT INTO "Orders" VALUES (1, 'new', '{a,"b c"}'), (2, 'sent', '{}'), (3, 'new', NULL)`)

	b.Columns[1].Default = new("paid")
	evolveTo(t, s, &a, &b, schema.Evolve)
	wantTypes(t, url, "labels added", `"Orders_state_enum"|draft,new,paid,it's,sent,`)
	evolveTo(t, s, &b, &a, schema.Evolve)
	wantTypes(t, url, "labels dropped", `"Orders_state_enum"|draft,new,paid,it's,sent,`)

	c := enumTable("Bills", "new", "sent")
	c.Columns[1].Name, c.PrimaryKey = "phase", []string{"phase", "id"}
	evolveTo(t, s, &a, &c, schema.Evolve, schema.Rename{From: "state", To: "phase"})
	wantTypes(t, url, "renamed", `"Bills_phase_enum"|draft,new,paid,it's,sent,`)

	d := c
	d.Columns = slices.Clone(c.Columns)
	d.Columns[1].Type = schema.Type{Kind: schema.Varchar, Length: 4}
	d.Columns[2].Type = schema.Type{Kind: schema.Varchar, Length: 20}
	evolveTo(t, s, &c, &d, schema.Evolve)
	wantTypes(t, url, "became text")
	if got := query(t, url, `SELECT id, phase, tags FROM "Bills" ORDER BY id`); !slices.Equal(got, []string{"1|new|a,b c", "2|sent|", "3|new|NULL"}) {
		t.Errorf("text: got %q", got)
	}
	evolveTo(t, s, &d, &c, schema.Evolve)
	wantTypes(t, url, "became labels", `"Bills_phase_enum"|new,sent`)
	if got := query(t, url, `SELECT id, phase, tags FROM "Bills" ORDER BY id`); !slices.Equal(got, []string{`1|new|{a,"b c"}`, "2|sent|{}", "3|new|NULL"}) {
		t.Errorf("labels: got %q", got)
	}

	e := c
	e.Columns = slices.Clone(c.Columns)
	e.Columns[1].Type, e.Columns[2].Type = schema.Type{Kind: schema.Set}, schema.Type{Kind: schema.Enum, Values: []string{"a,b c", "", "z"}}
	evolveTo(t, s, &c, &e, schema.Evolve)
	wantTypes(t, url, "traded kinds", `"Bills_tags_enum"|a,b c,,z`)
	if got := query(t, url, `SELECT id, phase, tags FROM "Bills" ORDER BY id`); !slices.Equal(got, []string{"1|{new}|a,b c", "2|{sent}|", "3|{new}|NULL"}) {
		t.Errorf("traded kinds: got %q", got)
	}
	evolveTo(t, s, &e, nil, schema.Evolve)
	wantTypes(t, url, "dropped")
}

// TestEnumTypesOfOthersStay: a type that a view, a function or another table needs outlives its column, and one with a name of its own is not
// the replicator's to drop.
func TestEnumTypesOfOthersStay(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := open(t, Config{URL: url, Pipeline: "p"})
	query(t, url, "CREATE TYPE mood AS ENUM ('new'); CREATE TABLE own (id int NOT NULL, state mood NOT NULL, tags text[], PRIMARY KEY (state, id))")
	own, ours := enumTable("own", "new"), enumTable("ours", "new")
	evolveTo(t, s, nil, &ours, schema.Evolve)
	query(t, url, "CREATE TABLE other (s ours_state_enum)")

	more := enumTable("own", "new", "old")
	evolveTo(t, s, &own, &more, schema.Lenient)
	wantTypes(t, url, "a label for somebody's type", "mood|new,old", "ours_state_enum|new")
	evolveTo(t, s, &more, nil, schema.Evolve)
	evolveTo(t, s, &ours, nil, schema.Evolve)
	wantTypes(t, url, "dropped", "mood|new,old", "ours_state_enum|new")

	again := enumTable("ours", "first", "new")
	again.Columns[1].Default = new("first")
	evolveTo(t, s, nil, &again, schema.Evolve)
	wantTypes(t, url, "made over what is left", "mood|new,old", "ours_state_enum|new,first")
}

// TestRowsOfEnumTypes writes tables whose key is an ENUM's, and that have none, by COPY and by statements, in columns of the replicator's
// and of somebody's own types.
func TestRowsOfEnumTypes(t *testing.T) {
	t.Parallel()
	for name, ddl := range map[string]string{
		"made":       "",
		"enum array": "CREATE TYPE mood AS ENUM ('old', 'new'); CREATE TYPE tag AS ENUM ('a', 'b c'); CREATE TABLE t (id int, state mood, tags tag[], PRIMARY KEY (state, id))",
		"no key":     "CREATE TYPE mood AS ENUM ('old', 'new'); CREATE TABLE t (id int, state mood, tags text[])",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newDatabase(t)
			s := fenced(t, url, "SELECT 1")
			source := enumTable("t", "new", "old")
			if ddl == "" {
				evolveTo(t, s, nil, &source, schema.Evolve)
			} else {
				query(t, url, ddl)
			}
			w := &enumWriter{t: t, sink: s, source: &source}
			for id := range 500 {
				w.add(debezium.Create, nil, w.row(id, "new", stringValue("a,b c")))
			}
			w.commit()
			w.add(debezium.Update, w.row(1, "new", stringValue("a,b c")), w.row(1, "new", stringValue("")))
			w.add(debezium.Delete, w.row(2, "new", stringValue("a,b c")), nil)
			w.add(debezium.Update, w.row(3, "new", stringValue("a,b c")), w.row(3, "new", debezium.Value{Kind: debezium.Null}))
			if name != "no key" { // whose rows are found by their values
				w.add(debezium.Update, nil, w.row(4, "new", debezium.Value{Kind: debezium.Unavailable}))
			}
			for id := 5; id < 500; id++ {
				w.add(debezium.Delete, w.row(id, "new", stringValue("a,b c")), nil)
			}
			w.commit()
			want := []string{`0|new|{a,"b c"}`, "1|new|{}", "3|new|NULL", `4|new|{a,"b c"}`}
			if got := query(t, url, "SELECT id, state, tags FROM t ORDER BY id"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestLabelsAreCopied: a table with an enum type is loaded by COPY, as one with text is.
func TestLabelsAreCopied(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, "SELECT 1")
	source := enumTable("t", "new", "old", "it's \\ ä")
	source.Columns = source.Columns[:2]
	evolveTo(t, s, nil, &source, schema.Evolve)
	w := &enumWriter{t: t, sink: s, source: &source}
	for id := range 500 {
		row := w.row(id, source.Columns[1].Type.Values[id%3], debezium.Value{})
		row.Shape, row.Values = &debezium.Shape{Fields: enumShape.Fields[:2]}, row.Values[:2]
		w.add(debezium.Create, nil, row)
	}
	w.commit()
	got := query(t, url, "SELECT state, count(*) FROM t GROUP BY state")
	if want := []string{"it's \\ ä|166", "new|167", "old|167"}; !slices.Equal(got, want) || w.copies != 1 {
		t.Errorf("%d times by COPY: got %q, want %q", w.copies, got, want)
	}
}

// enumWriter writes the events of enumTable.
type enumWriter struct {
	t      *testing.T
	sink   *Sink
	source *schema.Table
	target *sqlgen.Target
	batch  *sqlgen.Batch
	n      int64
	copies int // transactions with a COPY
}

var enumShape = &debezium.Shape{Fields: []debezium.Field{
	{Name: "id", Type: debezium.Int32},
	{Name: "state", Type: debezium.String, Semantic: "io.debezium.data.Enum", Params: map[string]string{"allowed": "new,old"}},
	{Name: "tags", Type: debezium.String, Semantic: "io.debezium.data.EnumSet", Optional: true},
}}

func (w *enumWriter) row(id int, state string, tags debezium.Value) *debezium.Row {
	return &debezium.Row{Shape: enumShape, Values: []debezium.Value{intValue(int64(id)), stringValue(state), tags}}
}

func (w *enumWriter) add(op debezium.Op, before, after *debezium.Row) {
	w.t.Helper()
	if w.batch == nil {
		found, err := w.sink.Table(w.t.Context(), w.source.Name)
		if err != nil {
			w.t.Fatal(err)
		}
		if w.target, err = sqlgen.NewTarget(w.sink.Dialect(), *found, sqlgen.TargetConfig{Witness: w.source}); err != nil {
			w.t.Fatal(err)
		}
		w.batch = sqlgen.NewBatch(w.sink.Dialect())
	}
	e := debezium.Event{Op: op, Offset: w.n}
	if before != nil {
		e.Before = *before
	}
	if after != nil {
		e.After = *after
	}
	if err := w.batch.Add(w.target, &e); err != nil {
		w.t.Fatal(err)
	}
}

func (w *enumWriter) commit() {
	w.t.Helper()
	w.n++
	txn, err := w.sink.Begin(w.t.Context(), txnsink.ID{Pipeline: w.sink.config.Pipeline, Epoch: 1, Checkpoint: w.n})
	if err != nil {
		w.t.Fatal(err)
	}
	list := w.batch.Statements()
	if slices.ContainsFunc(list, func(s sqlgen.Statement) bool { return strings.HasPrefix(s.SQL, "COPY ") }) {
		w.copies++
	}
	if err := txn.Apply(w.t.Context(), list); err != nil {
		w.t.Fatal(fmt.Errorf("commit %d: %w", w.n, err))
	}
	if err := txn.Commit(w.t.Context(), nil); err != nil {
		w.t.Fatal(err)
	}
	w.batch = nil
}
