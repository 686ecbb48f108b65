package sinktest

import (
	"errors"
	"slices"
	"testing"

	"replicator/schema"
	"replicator/txnsink"
)

func memoryHarness(m *Memory) Harness {
	return Harness{
		Open:     func(*testing.T, string) txnsink.Sink { return m.Sink() },
		Rows:     func(_ *testing.T, table schema.Name) []string { return m.Rows(table) },
		Pipeline: "shop",
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, func(*testing.T) Harness { return memoryHarness(NewMemory()) })
}

// Where sessions cannot be ended, the witness alone must fence.
func TestMemoryWhoseSessionsOutliveTheFence(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	m.Stubborn(true)
	h := memoryHarness(m)
	old := run(t, h, 1)
	zombie, second := old.begin(1, 0), old.begin(1, 1)
	old.apply(zombie, put(1, "zombie", 1))
	p := run(t, h, 2)
	busy := p.begin(1, 0)
	wantError(t, "apply to a row that the zombie holds", busy.Apply(t.Context(), p.fold(p.keyed, put(1, "a", 1))), txnsink.ErrBusy)
	wantNoError(t, "abort", busy.Abort(t.Context()))
	wantError(t, "prepare after the fence", zombie.PreCommit(t.Context()), txnsink.ErrFenced)
	wantError(t, "commit after the fence", second.Commit(t.Context(), nil), txnsink.ErrFenced)
	p.checkpoint(1, 0, put(1, "b", 1))
	wantRows(t, h, keyed, "1|b|1")
}

func TestCrashKeepsWhatIsPreparedOnly(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	h := memoryHarness(m)
	p := run(t, h, 1)
	id := p.prepare(1, 0, put(1, "a", 1))
	open := p.begin(2, 0)
	p.apply(open, put(2, "b", 2))
	if m.Open() != 1 {
		t.Errorf("%d transactions are open, want 1", m.Open())
	}
	m.Crash()
	if err := open.PreCommit(t.Context()); err == nil || errors.Is(err, txnsink.ErrFenced) {
		t.Errorf("prepare after the crash: %v", err)
	}
	if got := m.Prepared(); !slices.Equal(got, []txnsink.ID{id}) || m.Open() != 0 {
		t.Errorf("in doubt %v, open %d", got, m.Open())
	}
	wantNoError(t, "abort", open.Abort(t.Context()))
	p.commit(id)
	wantRows(t, h, keyed, "1|a|1")
}
