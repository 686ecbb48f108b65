package postgres

import (
	"testing"

	"replicator/txnsink"
)

// TestStatementsOutliveChangesOfTheTable: what a session has prepared is prepared anew when the server says that it no longer fits,
// or no longer has it, and nothing that was applied before is lost.
func TestStatementsOutliveChangesOfTheTable(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"type":       "ALTER TABLE pay ALTER COLUMN amt TYPE bigint",
		"column":     "ALTER TABLE pay ADD COLUMN note text DEFAULT 'x'; ALTER TABLE pay DROP COLUMN note",
		"deallocate": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newDatabase(t)
			s := fenced(t, url, createPay)
			if err := begun(t, s, 1, [2]int64{1, 10}).Commit(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if change != "" {
				query(t, url, change)
			} else {
				idle := s.workers.TakeIdle()[0]
				if err := idle.conn.PgConn().Exec(t.Context(), "DEALLOCATE ALL").Close(); err != nil {
					t.Fatal(err)
				}
				s.workers.Keep(txnsink.ID{Pipeline: s.config.Pipeline, Epoch: 1}, idle)
			}
			txn := begun(t, s, 2, [2]int64{2, 20})
			if err := txn.Apply(t.Context(), payments(t, s, [2]int64{1, 11})); err != nil {
				t.Fatal(err)
			}
			if err := txn.Commit(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			wantRows(t, url, "1|11", "2|20")
		})
	}
}
