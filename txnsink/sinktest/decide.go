package sinktest

import (
	"reflect"
	"sync"
	"testing"

	"replicator/txnsink"
)

func preparedInvisible(t *testing.T, h Harness) {
	p := run(t, h, 1)
	id := p.prepare(1, 0, put(1, "a", 10), put(2, "b", 20))
	wantRows(t, h, keyed)
	p.wantPending(id)
	p.commit(id)
	wantRows(t, h, keyed, "1|a|10", "2|b|20")
	p.wantPending()
}

func repeated(t *testing.T, h Harness) {
	p := run(t, h, 1)
	id := p.prepare(1, 0, put(1, "a", 1))
	for range 3 {
		p.commit(id)
	}
	wantNoError(t, "abort of a committed transaction", p.sink.Abort(t.Context(), id))
	wantRows(t, h, keyed, "1|a|1")
	id = p.prepare(2, 0, put(2, "b", 2))
	for range 3 {
		wantNoError(t, "abort", p.sink.Abort(t.Context(), id))
	}
	wantNoError(t, "abort of what never was", p.sink.Abort(t.Context(), p.id(77, 1)))
	wantRows(t, h, keyed, "1|a|1")
	p.wantPending()
}

func oneStep(t *testing.T, h Harness) {
	p := run(t, h, 1)
	for n := int64(1); n <= 3; n++ {
		txn := p.begin(n, 0)
		p.apply(txn, put(n, "a", n))
		if err := txn.Commit(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		p.wantPending()
		wantNoError(t, "commit by ID of what was committed in one step", p.sink.Commit(t.Context(), txn.ID()))
		wantNoError(t, "abort after commit", txn.Abort(t.Context()))
	}
	wantRows(t, h, keyed, "1|a|1", "2|a|2", "3|a|3")
}

func neverWas(t *testing.T, h Harness) {
	p := run(t, h, 1)
	wantError(t, "commit of what never was", p.sink.Commit(t.Context(), p.id(1, 0)), txnsink.ErrLost)
	wantError(t, "commit of a worker that never was", p.sink.Commit(t.Context(), p.id(1, 9)), txnsink.ErrLost)
	p.checkpoint(1, 0, put(1, "a", 1))
	wantError(t, "commit of the next one", p.sink.Commit(t.Context(), p.id(2, 0)), txnsink.ErrLost)
	wantError(t, "commit of another worker's", p.sink.Commit(t.Context(), p.id(1, 1)), txnsink.ErrLost)
}

func rolledBackByHand(t *testing.T, h Harness) {
	p := run(t, h, 1)
	p.checkpoint(1, 0, put(1, "a", 1))
	id := p.prepare(2, 0, put(2, "b", 2))
	operator := start(t, h)
	wantNoError(t, "roll back by hand", operator.sink.Abort(t.Context(), id))
	for range 2 {
		err := p.sink.Commit(t.Context(), id)
		wantError(t, "commit of what was rolled back by hand", err, txnsink.ErrLost)
		if !txnsink.Permanent(err) {
			t.Errorf("%v does not count as permanent", err)
		}
	}
	wantRows(t, h, keyed, "1|a|1")
}

// A checkpoint that was not saved gives its number to the next epoch's first one.
func sameCheckpoint(t *testing.T, h Harness) {
	old := run(t, h, 1)
	aborted := old.prepare(1, 0, put(1, "old", 1))
	wantNoError(t, "abort", old.sink.Abort(t.Context(), aborted))
	next := run(t, h, 2)
	committed := next.prepare(1, 0, put(1, "new", 1))
	next.commit(committed)
	wantError(t, "commit of the aborted one", next.sink.Commit(t.Context(), aborted), txnsink.ErrLost)
	next.commit(committed)
	next.fence(3)
	next.commit(committed)
	wantError(t, "commit of the aborted one in a later epoch", next.sink.Commit(t.Context(), aborted), txnsink.ErrLost)
	wantRows(t, h, keyed, "1|new|1")
}

func anotherProcess(t *testing.T, h Harness) {
	dead := run(t, h, 1)
	dead.checkpoint(1, 0, put(1, "a", 1))
	first := dead.prepare(2, 0, put(2, "b", 2))
	second := dead.prepare(2, 1, put(3, "c", 3))
	wantNoError(t, "close", dead.sink.Close())

	p := start(t, h)
	p.wantPending(first, second)
	p.commit(first)
	wantNoError(t, "abort", p.sink.Abort(t.Context(), second))
	p.fence(2)
	p.checkpoint(3, 0, put(4, "d", 4))
	p.commit(first)
	wantRows(t, h, keyed, "1|a|1", "2|b|2", "4|d|4")
}

func commitAtOnce(t *testing.T, h Harness) {
	p := run(t, h, 1)
	others := []*process{p, start(t, h), start(t, h)}
	for n := int64(1); n <= 5; n++ {
		id := p.prepare(n, 0, put(1, "a", n))
		var wg sync.WaitGroup
		for _, o := range others {
			wg.Go(func() { wantNoError(t, "commit", o.sink.Commit(t.Context(), id)) })
		}
		wg.Wait()
	}
	wantRows(t, h, keyed, "1|a|5")
}

func emptyTransaction(t *testing.T, h Harness) {
	p := run(t, h, 1)
	txn := p.begin(1, 0)
	wantNoError(t, "apply nothing", txn.Apply(t.Context(), nil))
	wantNoError(t, "prepare", txn.PreCommit(t.Context()))
	p.wantPending(txn.ID())
	p.commit(txn.ID())
	p.commit(txn.ID())
	txn = p.begin(2, 0)
	wantNoError(t, "prepare without an apply", txn.PreCommit(t.Context()))
	p.commit(txn.ID())
	txn = p.begin(3, 0)
	wantNoError(t, "commit without an apply", txn.Commit(t.Context(), nil))
	p.commit(txn.ID())
}

func abortLeavesNothing(t *testing.T, h Harness) {
	p := run(t, h, 1)
	for range 3 {
		txn := p.begin(1, 0)
		wantNoError(t, "abort of an untouched transaction", txn.Abort(t.Context()))
		txn = p.begin(1, 0)
		p.apply(txn, put(1, "a", 1))
		wantNoError(t, "abort", txn.Abort(t.Context()))
		wantNoError(t, "second abort", txn.Abort(t.Context()))
		if err := txn.PreCommit(t.Context()); err == nil {
			t.Error("prepared after abort")
		}
	}
	p.wantPending()
	wantRows(t, h, keyed)
	txn := p.begin(1, 0)
	p.apply(txn, put(2, "b", 2))
	wantNoError(t, "prepare", txn.PreCommit(t.Context()))
	wantNoError(t, "abort of the handle after prepare", txn.Abort(t.Context()))
	p.wantPending(txn.ID())
	p.commit(txn.ID())
	wantRows(t, h, keyed, "2|b|2")
}

func abortedBetween(t *testing.T, h Harness) {
	p := run(t, h, 1)
	p.checkpoint(1, 0, put(1, "a", 1))
	wantNoError(t, "abort", p.sink.Abort(t.Context(), p.prepare(2, 0, put(1, "lost", 2))))
	p.checkpoint(3, 0, put(1, "b", 3))
	txn := p.begin(4, 0)
	p.apply(txn, put(1, "lost", 4))
	wantNoError(t, "abort", txn.Abort(t.Context()))
	p.checkpoint(5, 0, put(1, "c", 5))
	wantNoError(t, "abort", p.sink.Abort(t.Context(), p.prepare(6, 0, put(1, "lost", 6))))
	p.fence(2)
	p.checkpoint(6, 0, put(2, "d", 6))
	p.checkpoint(9, 0, put(3, "e", 9))
	wantRows(t, h, keyed, "1|c|5", "2|d|6", "3|e|9")
	for _, used := range []int64{9, 8} {
		txn := p.begin(used, 0)
		if err := txn.PreCommit(t.Context()); err == nil {
			t.Errorf("checkpoint %d was prepared after checkpoint 9", used)
		}
		wantNoError(t, "abort", txn.Abort(t.Context()))
	}
}

// A run that commits before it saves may fail in between; the next one commits the same number again.
func unsavedCheckpoint(t *testing.T, h Harness) {
	p := run(t, h, 1)
	for epoch := int64(1); epoch <= 3; epoch++ {
		p.fence(epoch)
		txn := p.begin(1, 0)
		p.apply(txn, put(1, "a", epoch))
		wantNoError(t, "commit", txn.Commit(t.Context(), nil))
	}
	wantRows(t, h, keyed, "1|a|3")
}

func workers(t *testing.T, h Harness) {
	p := run(t, h, 1)
	a, b := p.begin(1, 0), p.begin(1, 1)
	p.apply(a, put(1, "a", 1))
	p.apply(b, put(2, "b", 2))
	p.apply(a, put(3, "c", 3))
	if _, err := p.sink.Begin(t.Context(), p.id(2, 0)); err == nil {
		t.Error("a worker has two open transactions")
	}
	for _, txn := range []txnsink.Txn{b, a} {
		wantNoError(t, "prepare", txn.PreCommit(t.Context()))
	}
	p.wantPending(a.ID(), b.ID())
	p.commit(b.ID())
	if !h.Log { // its readers wait at what is in doubt, and do not see what comes after it
		wantRows(t, h, keyed, "2|b|2")
	}
	p.wantPending(a.ID())
	p.commit(a.ID())
	wantRows(t, h, keyed, "1|a|1", "2|b|2", "3|c|3")
	// A worker that had nothing to do in between goes on from its own last checkpoint.
	p.checkpoint(2, 0, put(1, "d", 4))
	p.checkpoint(3, 1, put(2, "e", 5))
	wantRows(t, h, keyed, "1|d|4", "2|e|5", "3|c|3")
}

func overlap(t *testing.T, h Harness) {
	p := run(t, h, 1)
	id := p.prepare(1, 0, put(1, "a", 1))
	txn := p.begin(2, 0)
	p.apply(txn, put(2, "b", 2))
	p.commit(id)
	p.apply(txn, put(1, "c", 3))
	wantNoError(t, "prepare", txn.PreCommit(t.Context()))
	p.commit(txn.ID())
	wantRows(t, h, keyed, "1|c|3", "2|b|2")
}

// notes: a note is that of the worker's last visible transaction, and of no other.
func notes(t *testing.T, h Harness) {
	p := run(t, h, 1)
	want := func(what string, list ...txnsink.Note) {
		t.Helper()
		got, err := start(t, h).sink.Notes(t.Context(), h.Pipeline)
		if err != nil || !reflect.DeepEqual(got, list) {
			t.Errorf("%s: notes %+v (%v), want %+v", what, got, err, list)
		}
	}
	want("before anything", txnsink.Note{Epoch: 1}, txnsink.Note{Worker: 1, Epoch: 1})
	text := []byte("{\"a\":\"\u00e4\\\\\"}\x00\xff")
	first, second := p.begin(1, 0), p.begin(1, 1)
	p.apply(first, put(1, "a", 1))
	wantNoError(t, "commit", first.Commit(t.Context(), text))
	want("after a commit", txnsink.Note{Epoch: 1, Checkpoint: 1, Text: text}, txnsink.Note{Worker: 1, Epoch: 1})
	wantNoError(t, "abort", second.Abort(t.Context()))
	id := p.prepare(2, 0, put(2, "b", 2))
	want("while in doubt", txnsink.Note{Epoch: 1, Checkpoint: 1, Text: text}, txnsink.Note{Worker: 1, Epoch: 1})
	p.commit(id)
	want("after a commit without a note", txnsink.Note{Epoch: 1, Checkpoint: 2}, txnsink.Note{Worker: 1, Epoch: 1})
	next := run(t, h, 2)
	txn := next.begin(3, 1)
	wantNoError(t, "commit", txn.Commit(t.Context(), text))
	want("of another epoch", txnsink.Note{Epoch: 2, Checkpoint: 2}, txnsink.Note{Worker: 1, Epoch: 2, Checkpoint: 3, Text: text})
	list, err := p.sink.Notes(t.Context(), h.Pipeline+"0")
	if err != nil || len(list) != 0 {
		t.Errorf("notes of a pipeline that never was: %v, %v", list, err)
	}
}
