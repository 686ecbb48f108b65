package sinktest

import (
	"slices"
	"testing"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// A sink's own tests break connections and servers in the ways of its protocol. The table pay (id int primary key, amt int), which they
// make, is what they write to.
var (
	payName  = schema.Name{Table: "pay"}
	payShape = &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int32}, {Name: "amt", Type: debezium.Int32, Optional: true}}}
)

// Payments returns statements that set rows of the table pay, each an id and an amt. Their offsets are 0 and so on.
func Payments(t *testing.T, s txnsink.Sink, rows ...[2]int64) []sqlgen.Statement {
	t.Helper()
	found, err := s.Table(t.Context(), payName)
	if err != nil || found == nil {
		t.Fatalf("table pay: %v, %v", found, err)
	}
	target, err := sqlgen.NewTarget(s.Dialect(), *found, sqlgen.TargetConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b := sqlgen.NewBatch(s.Dialect())
	for i, r := range rows {
		after := debezium.Row{Shape: payShape, Values: []debezium.Value{integer(r[0]), integer(r[1])}}
		e := debezium.Event{Op: debezium.Create, After: after, Offset: int64(i), Partition: debezium.Partition{Topic: "pay"}}
		if err := b.Add(target, &e); err != nil {
			t.Fatal(err)
		}
	}
	return b.Statements()
}

// Begin begins a transaction of worker 0 in the epoch that was fenced last, and applies rows of the table pay.
func Begin(t *testing.T, s txnsink.Sink, pipeline string, checkpoint int64, rows ...[2]int64) txnsink.Txn {
	t.Helper()
	notes, err := s.Notes(t.Context(), pipeline)
	if err != nil || len(notes) == 0 {
		t.Fatalf("witnesses: %v, %v", notes, err)
	}
	txn, err := s.Begin(t.Context(), txnsink.ID{Pipeline: pipeline, Epoch: notes[0].Epoch, Checkpoint: checkpoint})
	if err != nil {
		t.Fatal(err)
	}
	if err := txn.Apply(t.Context(), Payments(t, s, rows...)); err != nil {
		t.Fatal(err)
	}
	return txn
}

// Pending returns what is in doubt; nil: nothing is.
func Pending(t *testing.T, s txnsink.Sink, pipeline string) []txnsink.ID {
	t.Helper()
	list, err := s.Pending(t.Context(), pipeline)
	if err != nil {
		t.Fatal(err)
	}
	var out []txnsink.ID
	for _, p := range list {
		out = append(out, p.ID)
	}
	return out
}

// Faulty is a sink with an epoch before 3 fenced, on a database with the table pay, whose connections a test can break.
type Faulty struct {
	Sink     txnsink.Sink
	Pipeline string
	// Lose breaks a connection once: when it has sent the statement that the test is about, and before its answer is seen.
	Lose func()
	// Rows returns the table's committed rows, as Harness.Rows does.
	Rows func(t *testing.T) []string
	// Decides says that the sink itself asks again by another connection, when it was to decide a prepared transaction.
	Decides bool
}

func (f Faulty) wantRows(t *testing.T, want ...string) {
	t.Helper()
	if got := f.Rows(t); !slices.Equal(got, want) {
		t.Errorf("got rows %q, want %q", got, want)
	}
}

// LostAnswerToPrepare leaves what may be prepared to recovery.
func (f Faulty) LostAnswerToPrepare(t *testing.T) {
	t.Helper()
	txn := Begin(t, f.Sink, f.Pipeline, 1, [2]int64{1, 10})
	f.Lose()
	if err := txn.PreCommit(t.Context()); err == nil || txnsink.Permanent(err) {
		t.Fatalf("prepare without an answer: %v", err)
	}
	wantNoError(t, "abort", txn.Abort(t.Context()))
	if got := Pending(t, f.Sink, f.Pipeline); !slices.Equal(got, []txnsink.ID{txn.ID()}) {
		t.Fatalf("in doubt: %v", got)
	}
	wantNoError(t, "commit", f.Sink.Commit(t.Context(), txn.ID()))
	f.wantRows(t, "1|10")
}

// LostAnswerToCommit finds by the witness that it was committed: in one step, or after it was prepared.
func (f Faulty) LostAnswerToCommit(t *testing.T, inOneStep bool) {
	t.Helper()
	txn := Begin(t, f.Sink, f.Pipeline, 1, [2]int64{1, 10}, [2]int64{2, 20}, [2]int64{3, 30})
	var err error
	if inOneStep {
		f.Lose()
		err = txn.Commit(t.Context(), nil)
	} else if err = txn.PreCommit(t.Context()); err == nil {
		f.Lose()
		err = f.Sink.Commit(t.Context(), txn.ID())
	}
	if err == nil && (inOneStep || !f.Decides) || txnsink.Permanent(err) {
		t.Fatalf("commit without an answer: %v", err)
	}
	wantNoError(t, "abort", txn.Abort(t.Context()))
	wantNoError(t, "commit again", f.Sink.Commit(t.Context(), txn.ID()))
	f.wantRows(t, "1|10", "2|20", "3|30")
	wantNoError(t, "fence", f.Sink.Fence(t.Context(), f.Pipeline, 3, 1))
	wantNoError(t, "the next one", Begin(t, f.Sink, f.Pipeline, 2, [2]int64{4, 40}).Commit(t.Context(), nil))
	f.wantRows(t, "1|10", "2|20", "3|30", "4|40")
}
