package storetest

import (
	"bytes"
	"errors"
	"testing"

	"replicator/checkpoint"
	"replicator/txnsink"
)

// Log is a log beside a store.
type Log interface {
	checkpoint.Store
	checkpoint.StatementLog
}

// OpenLog opens the same log once more, as another process would.
type OpenLog func(t *testing.T) Log

// RunLog tries a kind of log. newLog makes an empty one.
func RunLog(t *testing.T, newLog func(t *testing.T) OpenLog) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open OpenLog)
	}{
		{"PartsAreReadAsTheyWereAppended", logRead},
		{"PruningKeepsWhatMayStillBeApplied", logPrune},
		{"CancelledCallFails", logCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newLog(t))
		})
	}
}

func logID(epoch, cp int64, worker int) txnsink.ID {
	return txnsink.ID{Pipeline: pipeline, Epoch: epoch, Checkpoint: cp, Worker: worker}
}

func appendPart(t *testing.T, l Log, id txnsink.ID, part int, body []byte) {
	t.Helper()
	if err := l.Append(t.Context(), id, part, body); err != nil {
		t.Fatal(err)
	}
}

func logRead(t *testing.T, open OpenLog) {
	l := open(t)
	acquire(t, l, pipeline)
	bodies := [][]byte{{}, {0}, []byte("ä\n"), bytes.Repeat([]byte{0, 255, '\n', '\\'}, 300_000)}
	for i, body := range bodies {
		appendPart(t, l, logID(1, 2, 3), i, body)
	}
	appendPart(t, l, logID(1, 2, 4), 0, []byte("other worker"))
	for i, want := range bodies {
		if got, err := open(t).Read(t.Context(), logID(1, 2, 3), i); err != nil || !bytes.Equal(got, want) {
			t.Errorf("part %d: %d bytes and %v, want %d bytes", i, len(got), err, len(want))
		}
	}
	for _, id := range []txnsink.ID{logID(1, 2, 5), logID(1, 3, 3), logID(2, 2, 3), {Pipeline: "other", Epoch: 1, Checkpoint: 2, Worker: 3}} {
		if _, err := l.Read(t.Context(), id, 0); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("read %v: got %v, want ErrNotFound", id, err)
		}
	}
	if _, err := l.Read(t.Context(), logID(1, 2, 3), len(bodies)); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("read past the last part: got %v, want ErrNotFound", err)
	}
}

func logPrune(t *testing.T, open OpenLog) {
	l := open(t)
	if err := l.Prune(t.Context(), pipeline, 1, 1); err != nil {
		t.Errorf("prune an empty log: %v", err)
	}
	acquire(t, l, pipeline)
	acquire(t, l, "other")
	other := txnsink.ID{Pipeline: "other", Epoch: 1, Checkpoint: 1}
	all := []txnsink.ID{logID(1, 1, 0), logID(1, 9, 1), logID(2, 3, 0), logID(2, 4, 1), logID(2, 5, 0), logID(3, 1, 0), other}
	for _, id := range all {
		appendPart(t, l, id, 0, []byte("x"))
		appendPart(t, l, id, 1, []byte("y"))
	}
	for range 2 {
		if err := open(t).Prune(t.Context(), pipeline, 2, 4); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range all {
		for part := range 2 {
			_, err := l.Read(t.Context(), id, part)
			if kept := i >= 4; kept != (err == nil) || !kept && !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("%v: %v", id, err)
			}
		}
	}
}

func logCancelled(t *testing.T, open OpenLog) {
	l := open(t)
	acquire(t, l, pipeline)
	ctx, cancel := contextCancelled(t)
	defer cancel()
	if err := l.Append(ctx, logID(1, 1, 0), 0, nil); err == nil {
		t.Error("a cancelled append succeeded")
	}
	if _, err := l.Read(ctx, logID(1, 1, 0), 0); err == nil {
		t.Error("a cancelled read succeeded")
	}
	if err := l.Prune(ctx, pipeline, 1, 1); err == nil {
		t.Error("a cancelled prune succeeded")
	}
}
