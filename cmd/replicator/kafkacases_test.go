package main

import "testing"

// TestCaseExpiredOffset runs case 52: retention removed what the checkpoint wants next.
func TestCaseExpiredOffset(t *testing.T) {
	t.Parallel()
	newCaseRun(t, loadCase(t, "52")).expireOffset(t)
}

func (r *caseRun) expireOffset(t *testing.T) {
	t.Helper()
	records := r.records(t)
	r.produce(t, records[0])
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.produce(t, records[1:]...)
	if err := caseBroker(t).DeleteRecords(r.topic(records[0].topic), 0, 3); err != nil {
		t.Fatal(err)
	}
	r.produce(t, records[0])
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "offset_out_of_range", "pay[0]", "offset 1", "the log starts at 3")
	r.expect(t, caseResult{Query: "SELECT id, amt FROM pay ORDER BY id", Rows: r.result(t, "").Rows})
}

// TestCaseAbortedTransactions runs case 50: aborted records, control records at the end.
func TestCaseAbortedTransactions(t *testing.T) {
	t.Parallel()
	newCaseRun(t, loadCase(t, "50")).abortTransactions(t)
}

func (r *caseRun) abortTransactions(t *testing.T) {
	t.Helper()
	r.produceAborted(t)
	for range 2 { // the second start has nothing to read and must not stall
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		r.expect(t, r.result(t, ""))
	}
}

func (r *caseRun) produceAborted(t *testing.T) {
	t.Helper()
	rec := r.records(t)
	b := caseBroker(t)
	r.createTopics(t, rec)
	for _, tx := range []struct {
		records []caseRecord
		commit  bool
	}{{rec[:1], true}, {rec[1:3], false}, {rec[3:], true}, {rec[1:2], false}} {
		if err := b.Transact(t.Context(), r.topic("producer"), tx.commit, r.brokerRecords(tx.records)...); err != nil {
			t.Fatal(err)
		}
	}
}
