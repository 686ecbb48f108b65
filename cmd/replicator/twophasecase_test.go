package main

import (
	"testing"

	"replicator/txnsink/postgres/pgserver"
)

// TestCaseTwoPhaseUnavailable runs case 60: nothing is read where nothing could be prepared, nor is another delivery chosen instead.
func TestCaseTwoPhaseUnavailable(t *testing.T) {
	t.Parallel()
	for prepared, workers := range map[int]string{-1: "1", 1: "2"} { // -1: none may be prepared
		t.Run("workers="+workers, func(t *testing.T) {
			t.Parallel()
			lackSlots(t, prepared, workers)
		})
	}
}

// lackSlots runs case 60 on a server on which so many transactions may be prepared.
func lackSlots(t *testing.T, prepared int, workers string) {
	t.Helper()
	c := loadCase(t, "60")
	server, err := pgserver.Start(t.Context(), pgserver.Config{MaxPreparedTransactions: prepared})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := newCaseRun(t, c)
	r.config["workers"] = workers
	r.url = server.URL("postgres")
	r.target = r.url
	r.exec(t, c.setup(t, "postgres"))
	r.produce(t, c.records(t)...)
	none := c.result(t, "")
	for range 2 {
		code, stderr := r.run(t)
		r.stopped(t, code, stderr, none.Error.Class, "max_prepared_transactions", "restart", "delivery to one-phase")
		r.expect(t, none)
	}
	r.config["delivery"] = "one-phase" // what the error advises
	r.succeeds(t)
	r.expect(t, caseResult{Query: "SELECT id, amt FROM pay", Rows: textRows("1|10")})
}
