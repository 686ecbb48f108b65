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
