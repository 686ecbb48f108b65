package sinktest

import (
	"slices"
	"testing"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

func remembered(t *testing.T, h Harness) {
	p := run(t, h, 1)
	other := startAs(t, h, h.Pipeline+"2")
	define := func(q *process, epoch int64, v ...txnsink.Defined) {
		t.Helper()
		wantNoError(t, "define", q.sink.Define(t.Context(), txnsink.Definition{Pipeline: q.pipeline, Epoch: epoch, Defined: v}))
	}
	a := txnsink.Defined{Source: "d.a", Target: schema.Name{Schema: "s", Table: "a"}, State: `{"at":1}`}
	b := txnsink.Defined{Source: "d.b", Target: schema.Name{Table: "b"}, State: `{"at":2}`}
	define(p, 1, b, a)
	define(other, 0, txnsink.Defined{Source: "d.a", State: `{}`})
	a.Target.Table, a.State = "renamed", `{"at":3}`
	define(p, 1, a)
	got, err := start(t, h).sink.Defined(t.Context(), h.Pipeline)
	if want := []txnsink.Defined{a, b}; err != nil || !slices.Equal(got, want) {
		t.Errorf("defined: got %v, %v, want %v", got, err, want)
	}
}

// fencedDefinition: a process that another one has replaced changes nothing, and remembers nothing.
func fencedDefinition(t *testing.T, h Harness) {
	old := run(t, h, 1)
	young := run(t, h, 2)
	late := schema.Table{Name: schema.Name{Table: "late"}, Columns: keyed.Columns, PrimaryKey: keyed.PrimaryKey}
	shape, err := old.sink.Dialect().TargetTable(late, late.Name, sqlgen.Options{})
	wantNoError(t, "shape", err)
	d := txnsink.Definition{
		Pipeline: h.Pipeline, Epoch: 1, DDL: old.sink.Dialect().CreateTable(shape),
		Defined: []txnsink.Defined{{Source: "late", Target: late.Name, State: `{}`}},
	}
	wantError(t, "define after the fence", old.sink.Define(t.Context(), d), txnsink.ErrFenced)
	if found, err := young.sink.Table(t.Context(), late.Name); found != nil || err != nil {
		t.Errorf("the fenced run's table: %v, %v", found, err)
	}
	if got, err := young.sink.Defined(t.Context(), h.Pipeline); len(got) != 0 || err != nil {
		t.Errorf("the fenced run's note: %v, %v", got, err)
	}
	d.Epoch = 2
	wantNoError(t, "define", young.sink.Define(t.Context(), d))
}

// overtakenDefinition: what was planned for a table that is another one by now changes nothing, and remembers nothing; the next plan does.
func overtakenDefinition(t *testing.T, h Harness) {
	p := run(t, h, 1)
	read := func() *schema.Table {
		t.Helper()
		now, err := p.sink.Table(t.Context(), keyed.Name)
		wantNoError(t, "read the table", err)
		return now
	}
	evolve := func(of *schema.Table, column string) error {
		t.Helper()
		from, err := p.sink.Dialect().TargetTable(keyed, keyed.Name, sqlgen.Options{})
		wantNoError(t, "shape", err)
		wanted := keyed
		wanted.Columns = append(slices.Clone(keyed.Columns), schema.Column{Name: column, Type: schema.Type{Kind: schema.Int64}})
		to, err := p.sink.Dialect().TargetTable(wanted, keyed.Name, sqlgen.Options{})
		wantNoError(t, "shape", err)
		d := txnsink.Definition{
			Pipeline: h.Pipeline, Epoch: 1, Of: &txnsink.Planned{Name: keyed.Name, Table: of},
			Defined: []txnsink.Defined{{Source: column, Target: keyed.Name, State: `{}`}},
		}
		evolver, ok := p.sink.Dialect().(sqlgen.Evolver)
		if !ok {
			t.Fatal("the dialect does not follow schema changes")
		}
		for _, s := range evolver.Evolve(sqlgen.Evolution{Current: of, From: &from, To: &to, Policy: schema.Evolve}).Statements {
			d.DDL = append(d.DDL, s.SQL)
		}
		return p.sink.Define(t.Context(), d)
	}
	before := read()
	wantNoError(t, "the first", evolve(before, "first"))
	wantError(t, "planned for the table before", evolve(before, "second"), txnsink.ErrOvertaken)
	late := txnsink.Definition{Pipeline: h.Pipeline, Epoch: 1, Of: &txnsink.Planned{Name: keyed.Name}, DDL: []string{"not run"}}
	wantError(t, "planned for no table", p.sink.Define(t.Context(), late), txnsink.ErrOvertaken)
	if remembered, err := p.sink.Defined(t.Context(), h.Pipeline); err != nil || len(remembered) != 1 || remembered[0].Source != "first" {
		t.Errorf("remembered: %v, %v", remembered, err)
	}
	wantNoError(t, "planned anew", evolve(read(), "second"))
	var names []string
	for _, c := range read().Columns {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	if want := []string{"first", "id", "n", "name", "second"}; !slices.Equal(names, want) {
		t.Errorf("columns: got %v, want %v", names, want)
	}
}
