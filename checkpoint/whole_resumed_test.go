package checkpoint_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"replicator/checkpoint"
)

// TestWhatIsSentAgainAfterAStartIsKnown: a connector that restarts sends events again of transactions that were applied before this process
// began, and the transaction topic need not tell of them again. How far the source's log was applied tells that they are old, whichever
// table was changed last.
func TestWhatIsSentAgainAfterAStartIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &memoryLog{}
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2), ended(2, counted("savings", 1)))
		l.add(lines, 0, lineOf(1, 1))
		l.add(sums, 0, sumOf(2, 1))
		w, h := bankWorld(l), &history{}
		for range 2 {
			if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, watch(w.database, h, preserving(t), 1, l)); err != nil {
				t.Fatal(err)
			}
			l.add(lines, 0, lineOf(1, 1))
			l.add(sums, 0, sumOf(2, 1))
		}
		if got, want := w.database.Rows(entries), []string{"1.1"}; !slices.Equal(got, want) {
			t.Errorf("entries are %q, want %q", got, want)
		}
	})
}
