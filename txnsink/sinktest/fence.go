package sinktest

import (
	"slices"
	"testing"

	"replicator/schema"
	"replicator/txnsink"
)

func fenceBusy(t *testing.T, h Harness) {
	old := run(t, h, 1)
	id := old.prepare(1, 1, put(1, "a", 1))
	p := start(t, h)
	for range 2 {
		wantError(t, "fence while in doubt", p.sink.Fence(t.Context(), h.Pipeline, 2, 2), txnsink.ErrBusy)
	}
	old.wantPending(id)
	p.commit(id)
	p.fence(2)
	p.checkpoint(2, 1, put(2, "b", 2))
	wantRows(t, h, keyed, "1|a|1", "2|b|2")
}

func fencedTransaction(t *testing.T, h Harness) {
	old := run(t, h, 1)
	old.checkpoint(1, 0, put(1, "a", 1))
	zombie, second := old.begin(2, 0), old.begin(2, 1)
	old.apply(zombie, put(1, "zombie", 2))
	old.apply(second, put(2, "zombie", 2))
	p := run(t, h, 2)
	wantError(t, "prepare after the fence", zombie.PreCommit(t.Context()), txnsink.ErrFenced)
	wantError(t, "commit after the fence", second.Commit(t.Context(), nil), txnsink.ErrFenced)
	wantNoError(t, "abort", zombie.Abort(t.Context()))
	wantNoError(t, "abort", second.Abort(t.Context()))
	p.wantPending()
	p.checkpoint(2, 0, put(1, "b", 3))
	wantRows(t, h, keyed, "1|b|3")
	// It may not know yet, and go on: no step may let it through.
	txn, err := old.sink.Begin(t.Context(), old.id(3, 0))
	if err == nil {
		err = txn.PreCommit(t.Context())
	}
	wantError(t, "the fenced process's next transaction", err, txnsink.ErrFenced)
	p.wantPending()
}

func fenceFewer(t *testing.T, h Harness) {
	old := start(t, h)
	wantNoError(t, "fence", old.sink.Fence(t.Context(), h.Pipeline, 1, 3))
	old.epoch = 1
	zombie := old.begin(1, 2)
	old.apply(zombie, put(1, "zombie", 1))
	p := start(t, h)
	wantNoError(t, "fence", p.sink.Fence(t.Context(), h.Pipeline, 2, 1))
	wantError(t, "prepare after the fence", zombie.PreCommit(t.Context()), txnsink.ErrFenced)
	wantNoError(t, "abort", zombie.Abort(t.Context()))
	p.wantPending()
}

func fenceEarlier(t *testing.T, h Harness) {
	p := run(t, h, 5)
	late := start(t, h)
	err := late.sink.Fence(t.Context(), h.Pipeline, 4, 2)
	wantError(t, "fence with an earlier epoch", err, txnsink.ErrFenced)
	if !txnsink.Permanent(err) {
		t.Errorf("%v does not count as permanent", err)
	}
	p.checkpoint(1, 0, put(1, "a", 1))
	p.fence(5)
	p.checkpoint(2, 0, put(2, "b", 2))
	wantRows(t, h, keyed, "1|a|1", "2|b|2")
}

func beginFenced(t *testing.T, h Harness) {
	p := start(t, h)
	p.epoch = 1
	if _, err := p.sink.Begin(t.Context(), p.id(1, 0)); err == nil {
		t.Error("a transaction began before the fence")
	}
	p.fence(2)
	for _, id := range []txnsink.ID{
		{Pipeline: h.Pipeline, Epoch: 1, Checkpoint: 1, Worker: 0},
		{Pipeline: h.Pipeline, Epoch: 3, Checkpoint: 1, Worker: 0},
		{Pipeline: h.Pipeline, Epoch: 2, Checkpoint: 1, Worker: 2},
		{Pipeline: "other", Epoch: 2, Checkpoint: 1, Worker: 0},
	} {
		if _, err := p.sink.Begin(t.Context(), id); err == nil {
			t.Errorf("transaction %v began in epoch 2 with 2 workers", id)
		}
	}
}

func otherPipelines(t *testing.T, h Harness) {
	other := h.Pipeline + "0" // a name of which ours is the beginning
	stranger := startAs(t, h, other)
	wantNoError(t, "fence", stranger.sink.Fence(t.Context(), other, 1, 1))
	theirs := txnsink.ID{Pipeline: other, Epoch: 1, Checkpoint: 1}
	txn, err := stranger.sink.Begin(t.Context(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	stranger.apply(txn, put(100, "theirs", 1))
	wantNoError(t, "prepare", txn.PreCommit(t.Context()))
	open, err := stranger.sink.Begin(t.Context(), txnsink.ID{Pipeline: other, Epoch: 1, Checkpoint: 2})
	if err != nil {
		t.Fatal(err)
	}
	stranger.apply(open, put(101, "theirs", 2))

	p := run(t, h, 7)
	p.checkpoint(1, 0, put(1, "ours", 1))
	p.wantPending()

	list, err := stranger.sink.Pending(t.Context(), other)
	if err != nil || len(list) != 1 || list[0].ID != theirs {
		t.Errorf("the other pipeline has %v in doubt (%v), want %v", list, err, theirs)
	}
	wantNoError(t, "commit of the other pipeline", stranger.sink.Commit(t.Context(), theirs))
	wantNoError(t, "prepare of the other pipeline", open.PreCommit(t.Context()))
	wantNoError(t, "commit of the other pipeline", stranger.sink.Commit(t.Context(), open.ID()))
	wantRows(t, h, keyed, "100|theirs|1", "101|theirs|2", "1|ours|1")
}

func tables(t *testing.T, h Harness) {
	p, second := start(t, h), start(t, h)
	got, err := p.sink.Table(t.Context(), schema.Name{Table: "there is none"})
	if got != nil || err != nil {
		t.Errorf("a table that is not there: %v, %v", got, err)
	}
	for _, q := range []*process{p, second} {
		found, err := q.sink.Table(t.Context(), keyed.Name)
		if err != nil || found == nil {
			t.Fatalf("table %s: %v, %v", keyed.Name, found, err)
		}
		if found.Name.Table != keyed.Name.Table || !slices.Equal(found.PrimaryKey, keyed.PrimaryKey) {
			t.Errorf("got table %s with key %v", found.Name, found.PrimaryKey)
		}
		for i, c := range keyed.Columns {
			if g := found.Columns[i]; g.Name != c.Name || g.Type.Kind != c.Type.Kind || g.NotNull != c.NotNull {
				t.Errorf("column %d: got %+v, want %+v", i, g, c)
			}
		}
	}
}

func cancelledCall(t *testing.T, h Harness) {
	p := run(t, h, 1)
	id := p.prepare(1, 0, put(1, "a", 1))
	ctx := cancelledContext(t)
	if err := p.sink.Commit(ctx, id); err == nil {
		t.Error("a cancelled commit succeeded")
	}
	if _, err := p.sink.Pending(ctx, p.pipeline); err == nil {
		t.Error("a cancelled listing succeeded")
	}
	txn := p.begin(2, 1)
	if err := txn.Apply(ctx, p.fold(p.keyed, put(2, "b", 2))); err == nil {
		t.Error("a cancelled apply succeeded")
	}
	wantNoError(t, "abort of a cancelled transaction", txn.Abort(ctx))
	p.commit(id)
	p.checkpoint(2, 1, put(3, "c", 3))
	wantRows(t, h, keyed, "1|a|1", "3|c|3")
}
