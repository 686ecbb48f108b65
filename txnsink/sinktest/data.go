package sinktest

import (
	"testing"

	"replicator/debezium"
	"replicator/sqlgen"
)

func onlyAbort(t *testing.T, h Harness) {
	p := run(t, h, 1)
	txn := p.begin(1, 0)
	p.apply(txn, put(1, "a", 1))
	bad := debezium.Event{Op: debezium.Create, Key: key(2), After: item(2, text("b"), null)}
	if err := txn.Apply(t.Context(), p.fold(p.keyed, bad)); err == nil {
		t.Fatal("NULL was applied to a NOT NULL column")
	}
	if err := txn.Apply(t.Context(), p.fold(p.keyed, put(3, "c", 3))); err == nil {
		t.Error("applied after an error")
	}
	if err := txn.PreCommit(t.Context()); err == nil {
		t.Error("prepared after an error")
	}
	if err := txn.Commit(t.Context(), nil); err == nil {
		t.Error("committed after an error")
	}
	p.wantPending()
	wantNoError(t, "abort", txn.Abort(t.Context()))
	wantRows(t, h, keyed)
	p.checkpoint(1, 0, put(1, "again", 1))
	wantRows(t, h, keyed, "1|again|1")
}

func refusedRow(t *testing.T, h Harness) {
	p := run(t, h, 1)
	p.offset = 100
	for _, at := range []int64{0, 6, 12} {
		txn := p.begin(1, 0)
		p.apply(txn, put(50, "stands", 1))
		first := p.offset
		var events []debezium.Event
		for id := range int64(13) {
			e := put(id, "a", id)
			if id == at {
				e.After = item(id, text("b"), null)
			}
			events = append(events, e)
		}
		row := rowErrorOf(t, txn.Apply(t.Context(), p.fold(p.keyed, events...)))
		if row.Class != sqlgen.NotNullViolation || row.Table.Table != keyed.Name.Table || row.Column != "n" {
			t.Errorf("got class %s, table %s, column %q", row.Class, row.Table, row.Column)
		}
		if got, want := row.Origin, (sqlgen.Origin{Partition: debezium.Partition{Topic: "topic", ID: 3}, Offset: first + at}); got.Partition != want.Partition || got.Offset != want.Offset {
			t.Errorf("row %d: got origin %v, want offset %d", at, got, want.Offset)
		}
		wantNoError(t, "abort", txn.Abort(t.Context()))
	}
	wantRows(t, h, keyed)
}

func unavailable(t *testing.T, h Harness) {
	p := run(t, h, 1)
	p.checkpoint(1, 0, put(1, "kept", 1), put(2, "kept too", 2))
	change := func(id int64) debezium.Event {
		after := item(id, debezium.Value{Kind: debezium.Unavailable}, integer(9))
		return debezium.Event{Op: debezium.Update, Key: key(id), After: after}
	}
	p.checkpoint(2, 0, change(1))
	wantRows(t, h, keyed, "1|kept|9", "2|kept too|2")
	if h.Log {
		return
	}
	txn := p.begin(3, 0)
	at := p.offset + 1
	row := rowErrorOf(t, txn.Apply(t.Context(), p.fold(p.keyed, change(1), change(77), change(2))))
	if row.Class != sqlgen.UnavailableValue || row.Origin.Offset != at {
		t.Errorf("got class %s at %v, want offset %d", row.Class, row.Origin, at)
	}
	wantNoError(t, "abort", txn.Abort(t.Context()))
}

func missingRow(t *testing.T, h Harness) {
	p := run(t, h, 1)
	insert := func(s string, n int64) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: line(s, n)}
	}
	remove := func(s string, n int64) debezium.Event {
		return debezium.Event{Op: debezium.Delete, Before: line(s, n)}
	}
	txn := p.begin(1, 0)
	wantNoError(t, "apply", txn.Apply(t.Context(), p.fold(p.keyless, insert("a", 1), insert("a", 1), insert("b", 2))))
	wantNoError(t, "apply", txn.Apply(t.Context(), p.fold(p.keyless, remove("a", 1), insert("c", 3))))
	wantNoError(t, "prepare", txn.PreCommit(t.Context()))
	p.commit(txn.ID())
	wantRows(t, h, keyless, "a|1", "b|2", "c|3")
	if h.Log {
		return
	}
	txn = p.begin(2, 0)
	at := p.offset + 1
	row := rowErrorOf(t, txn.Apply(t.Context(), p.fold(p.keyless, remove("a", 1), remove("none", 1), remove("b", 2))))
	if row.Class != sqlgen.MissingRow || row.Origin.Offset != at {
		t.Errorf("got class %s at %v, want offset %d", row.Class, row.Origin, at)
	}
	wantNoError(t, "abort", txn.Abort(t.Context()))
	wantRows(t, h, keyless, "a|1", "b|2", "c|3")
}

func everyKind(t *testing.T, h Harness) {
	p := run(t, h, 1)
	p.checkpoint(1, 0, put(1, "a", 1), put(2, "b", 2), put(3, "c", 3), put(4, "d", 4))
	update := debezium.Event{Op: debezium.Update, Key: key(1), Before: item(1, text("a"), integer(1)), After: item(1, null, integer(10))}
	remove := debezium.Event{Op: debezium.Delete, Key: key(2), Before: item(2, text("b"), integer(2))}
	// Debezium sends a changed key as a delete and a create that name each other.
	leave := debezium.Event{Op: debezium.Delete, Key: key(3), Before: item(3, text("c"), integer(3)), NewKey: key(30)}
	arrive := debezium.Event{Op: debezium.Create, Key: key(30), After: item(30, text("c"), integer(3)), OldKey: key(3)}
	p.checkpoint(2, 0, update, remove, leave, arrive, put(5, "it's \"\\", -5))
	wantRows(t, h, keyed, "1|NULL|10", "30|c|3", "4|d|4", "5|it's \"\\|-5")

	txn := p.begin(3, 0)
	wantNoError(t, "apply", txn.Apply(t.Context(), p.fold(p.keyless,
		debezium.Event{Op: debezium.Create, After: line("x", 1)}, debezium.Event{Op: debezium.Create, After: line("x", 1)})))
	wantNoError(t, "apply", txn.Apply(t.Context(), p.fold(p.keyless,
		debezium.Event{Op: debezium.Update, Before: line("x", 1), After: line("y", 2)})))
	p.apply(txn, debezium.Event{Op: debezium.Truncate}, put(6, "f", 6))
	wantNoError(t, "commit", txn.Commit(t.Context(), nil))
	wantRows(t, h, keyless, "x|1", "y|2")
	wantRows(t, h, keyed, "6|f|6")
}
