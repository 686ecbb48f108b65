package checkpoint_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

var (
	lines = debezium.Partition{Topic: "s.d.entries"}
	sums  = debezium.Partition{Topic: "s.d.savings"}
)

func began(n int) string {
	return fmt.Sprintf(`{"status":"BEGIN","id":"u:%d","event_count":null,"data_collections":null,"ts_ms":1}`, n)
}

func ended(n int, counts ...string) string {
	return fmt.Sprintf(`{"status":"END","id":"u:%d","event_count":9,"data_collections":[%s],"ts_ms":1}`, n, strings.Join(counts, ","))
}

func counted(table string, n int) string {
	return fmt.Sprintf(`{"data_collection":"d.%s","event_count":%d}`, table, n)
}

// event is event order of transaction n; in the log it is at 100*n+order.
func event(n, order int, table, op, before, after string) string {
	return strings.TrimSuffix(rowAt(100*n+order, table, op, before, after), "}") +
		fmt.Sprintf(`,"transaction":{"id":"u:%d","total_order":%d,"data_collection_order":1}}`, n, order)
}

func lineOf(n, order int) string {
	return event(n, order, "entries", "c", "", fmt.Sprintf(`{"line":"%d.%d"}`, n, order))
}

func sumOf(n, order int) string {
	return event(n, order, "savings", "c", "", fmt.Sprintf(`{"id":%d,"v":"%d.%d"}`, 100*n+order, n, order))
}

// outcome is what became of a run.
type outcome struct {
	err  error
	seen []string // after each commit, as "lines / sums"
	told checkpoint.SourceTransactions
	most checkpoint.SourceTransactions // its Memory and Disk are the highest that were told
	wait map[string]time.Duration      // for how long transactions had been waited for when that was told last
	took time.Duration
}

// preserve runs a log until it has caught up, or for d.
func preserve(t *testing.T, l *memoryLog, d time.Duration, change ...func(*checkpoint.WholeTransactions)) outcome {
	t.Helper()
	out := outcome{wait: map[string]time.Duration{}}
	synctest.Test(t, func(t *testing.T) {
		w, h := bankWorld(l), &history{}
		whole := preserving(t)
		for _, c := range change {
			c(whole)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if d > 0 {
			ctx, cancel = context.WithTimeout(ctx, d)
			defer cancel()
		}
		var mu sync.Mutex
		began := time.Now()
		_, out.err = w.start(ctx, checkpoint.TwoPhase, fault{}, watch(w.database, h, whole, 1, l), func(c *checkpoint.Config) {
			c.UntilCaughtUp, c.Rows = d == 0, 1
			c.Observe = func(o checkpoint.Observation) {
				if s, ok := o.(checkpoint.SourceTransactions); ok {
					mu.Lock()
					defer mu.Unlock()
					out.told = s
					if s.Waiting != "" {
						out.wait[s.Waiting] = time.Since(s.Began)
					}
					out.most.Memory, out.most.Disk = max(out.most.Memory, s.Memory), max(out.most.Disk, s.Disk)
				}
			}
		})
		out.took = time.Since(began)
		for _, s := range h.seen {
			_, s, _ = strings.Cut(s, "\n")
			s = strings.NewReplacer("savings: ", "", "entries: ", "", "\n", " / ").Replace(s)
			out.seen = append(out.seen, s)
		}
		list, err := os.ReadDir(whole.Dir)
		if err != nil || len(list) > 0 {
			t.Errorf("left behind: %v, %v", list, err)
		}
	})
	return out
}

func split(w *checkpoint.WholeTransactions) { w.Broken = checkpoint.SplitBroken }

func (o outcome) saw(t *testing.T, want ...string) {
	t.Helper()
	if o.err != nil {
		t.Error(o.err)
	}
	if got := slices.Compact(o.seen); !slices.Equal(got, want) {
		t.Errorf("readers saw\n%q, want\n%q", got, want)
	}
}

func (o outcome) failed(t *testing.T, parts ...string) {
	t.Helper()
	if o.err == nil || !txnsink.Permanent(o.err) {
		t.Fatalf("Run = %v, want a permanent error", o.err)
	}
	for _, part := range parts {
		if !strings.Contains(o.err.Error(), part) {
			t.Errorf("Run = %v, want it to say %q", o.err, part)
		}
	}
}

// TestMissingEventsStopThePipeline: an END that counts an event that does not come is waited for, and then the pipeline ends, with the
// transactions before it applied.
func TestMissingEventsStopThePipeline(t *testing.T) {
	t.Parallel()
	l := func() *memoryLog {
		l := &memoryLog{}
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2), ended(2, counted("entries", 2), counted("savings", 1)), began(3), ended(3, counted("savings", 1)))
		l.add(lines, 0, lineOf(1, 1), lineOf(2, 1))
		l.add(sums, 0, sumOf(2, 2), sumOf(3, 1))
		return l
	}
	stopped := preserve(t, l(), 0)
	stopped.failed(t, "transaction u:2 lacks 1 of 2 events of d.entries after 1m0s", "preserve.broken: split")
	if got := slices.Compact(stopped.seen); !slices.Equal(got, []string{" / 1.1"}) {
		t.Errorf("readers saw %q, want the first transaction", got)
	}
	if stopped.took < time.Minute || stopped.took > 2*time.Minute {
		t.Errorf("it took %v", stopped.took)
	}
	went := preserve(t, l(), 0, split)
	went.saw(t, " / 1.1", "202|2.2 / 1.1, 2.1", "202|2.2, 301|3.1 / 1.1, 2.1")
	if went.told.Split != 1 || went.told.Whole != 2 {
		t.Errorf("told %+v, want 1 split and 2 whole", went.told)
	}
}

// TestAConnectorThatGoesBackIsFollowed over a restart of the pipeline: what was read of a transaction before the connector restarted is
// left out, and comes with the whole of it; and what is missing after a restart is missed as before.
func TestAConnectorThatGoesBackIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &memoryLog{}
		w, h := bankWorld(l), &history{}
		run := func(wait time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, watch(w.database, h, preserving(t), 1, l), func(c *checkpoint.Config) {
				c.UntilCaughtUp, c.Rows = false, 1
			})
			return err
		}
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2), ended(2, counted("entries", 1)), began(3))
		l.add(lines, 0, lineOf(1, 1), lineOf(2, 1), lineOf(3, 1))
		if err := run(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		// It goes back to the second, and then sends the third to its end.
		l.add(transactionTopic, 0, began(2), ended(2, counted("entries", 1)), began(3), ended(3, counted("entries", 1), counted("savings", 1)))
		l.add(lines, 0, lineOf(2, 1), lineOf(3, 1))
		l.add(sums, 0, sumOf(3, 2))
		if err := run(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"checking: \nsavings: \nentries: 1.1",
			"checking: \nsavings: \nentries: 1.1, 2.1",
			"checking: \nsavings: 302|3.2\nentries: 1.1, 2.1, 3.1",
		}
		if got := slices.Compact(h.seen); !slices.Equal(got, want) {
			t.Errorf("readers saw %q, want %q", got, want)
		}
		l.add(transactionTopic, 0, began(4), ended(4, counted("entries", 2)), began(5))
		l.add(lines, 0, lineOf(4, 1))
		if err := run(time.Hour); err == nil || !strings.Contains(err.Error(), "lacks 1 of 2 events") {
			t.Errorf("Run = %v, want it to miss an event", err)
		}
	})
}

// TestTablesThatAreNotReadAreNotWaitedFor: an END counts the events of all tables of the connector.
func TestTablesThatAreNotReadAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	l := &memoryLog{}
	l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1), counted("other table", 7)))
	l.add(lines, 0, lineOf(1, 2))
	var asked []string
	got := preserve(t, l, 0, func(w *checkpoint.WholeTransactions) {
		w.Reads = func(topic string) bool {
			asked = append(asked, topic)
			return topic != "s.d.other_table"
		}
	})
	got.saw(t, " / 1.2")
	if want := []string{"s.d.other_table"}; got.took > 10*time.Second || !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q; it took %v", asked, want, got.took)
	}
}

// TestAMissingEndIsTheNextBegin: where an END was lost the next transaction ends the one before.
func TestAMissingEndIsTheNextBegin(t *testing.T) {
	t.Parallel()
	l := &memoryLog{}
	l.add(transactionTopic, 0, began(1), began(2), ended(2, counted("entries", 1), counted("savings", 1)))
	l.add(lines, 0, lineOf(1, 1), lineOf(1, 2), lineOf(2, 1))
	l.add(sums, 0, sumOf(1, 3), sumOf(2, 2))
	got := preserve(t, l, 0)
	got.saw(t, "103|1.3 / 1.1, 1.2", "103|1.3, 202|2.2 / 1.1, 1.2, 2.1")
	if got.told.Unended != 1 || got.told.Whole != 2 || got.told.Split != 0 {
		t.Errorf("told %+v, want 2 whole, 1 of them without an END", got.told)
	}
}

// TestATransactionThatNeverEnds is not applied while it holds nothing up, and ends a run that is to end.
func TestATransactionThatNeverEnds(t *testing.T) {
	t.Parallel()
	l := func() *memoryLog {
		l := &memoryLog{}
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2))
		l.add(lines, 0, lineOf(1, 1), lineOf(2, 1))
		return l
	}
	waiting := preserve(t, l(), time.Hour)
	waiting.saw(t, " / 1.1")
	if waiting.told.Waiting != "u:2" || waiting.told.Since.IsZero() {
		t.Errorf("told %+v, want it to wait for u:2", waiting.told)
	}
	preserve(t, l(), 0).failed(t, "transaction u:2 has no END after 1m0s")
	preserve(t, l(), 0, split).saw(t, " / 1.1", " / 1.1, 2.1")
}

// TestAConnectorMayBeDown: what it had sent in part when it failed waits until it is back, however long that takes, and then comes whole.
func TestAConnectorMayBeDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &memoryLog{}
		w, h := bankWorld(l), &history{}
		run := func(wait time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, watch(w.database, h, preserving(t), 1, l), func(c *checkpoint.Config) {
				c.UntilCaughtUp, c.Rows = false, 1
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2), ended(2, counted("entries", 1), counted("savings", 1)))
		l.add(lines, 0, lineOf(1, 1), lineOf(2, 1))
		run(time.Hour)
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2), ended(2, counted("entries", 1), counted("savings", 1)))
		l.add(lines, 0, lineOf(1, 1), lineOf(2, 1))
		l.add(sums, 0, sumOf(2, 2))
		run(time.Hour)
		want := []string{"checking: \nsavings: \nentries: 1.1", "checking: \nsavings: 202|2.2\nentries: 1.1, 2.1"}
		if got := slices.Compact(h.seen); !slices.Equal(got, want) {
			t.Errorf("readers saw %q, want %q", got, want)
		}
	})
}

// pausing waits before it gives out the batches that begin at some offsets.
type pausing struct {
	*memoryLog
	before map[debezium.Partition]map[int64]time.Duration
}

type pausingReader struct {
	checkpoint.Reader
	p pausing
}

func (p pausing) Open(ctx context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	r, err := p.memoryLog.Open(ctx, from)
	return pausingReader{r, p}, err
}

func (r pausingReader) Next(ctx context.Context) (debezium.Batch, error) {
	b, err := r.Reader.Next(ctx)
	if err != nil || len(b.Records) == 0 {
		return b, err
	}
	select {
	case <-time.After(r.p.before[b.Partition][b.Records[0].Offset]):
		return b, nil
	case <-ctx.Done():
		return b, ctx.Err()
	}
}

// TestAConnectorComesBackSlowly: it was down within a transaction, begins again in the middle of the one before, and it takes a while until
// it comes to that transaction again.
func TestAConnectorComesBackSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &memoryLog{}
		l.add(lines, 1, lineOf(1, 1), lineOf(1, 2), lineOf(2, 1))
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 2)), began(2))
		l.add(lines, 0, lineOf(1, 2))
		l.add(transactionTopic, 0, ended(1, counted("entries", 2)))
		l.add(lines, 0, lineOf(2, 1), lineOf(2, 2))
		l.add(transactionTopic, 0, began(2), ended(2, counted("entries", 2)))
		w, h := bankWorld(l), &history{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, watch(w.database, h, preserving(t), 1, l), func(c *checkpoint.Config) {
			c.UntilCaughtUp, c.Rows = false, 1
			c.Source = pausing{l, map[debezium.Partition]map[int64]time.Duration{lines: {4: 5 * time.Minute, 5: 30 * time.Second}, transactionTopic: {4: 20 * time.Second}}}
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"checking: \nsavings: \nentries: 1.1, 1.2", "checking: \nsavings: \nentries: 1.1, 1.2, 2.1, 2.2"}
		if got := slices.Compact(h.seen); !slices.Equal(got, want) {
			t.Errorf("readers saw %q, want %q", got, want)
		}
	})
}

// TestATransactionThatIsSplitGoesOn: what comes of it after it was split is applied as it comes, and what is after it waits no more.
func TestATransactionThatIsSplitGoesOn(t *testing.T) {
	t.Parallel()
	l := &memoryLog{}
	l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2))
	l.add(transactionTopic, 0, ended(2, counted("entries", 40)), began(3), ended(3, counted("entries", 1)))
	l.add(lines, 0, lineOf(1, 1))
	for i := range 40 {
		l.add(lines, 0, lineOf(2, i+1))
	}
	l.add(lines, 0, lineOf(3, 1))
	small := func(w *checkpoint.WholeTransactions) { w.Memory, w.Disk = 4<<10, 4<<10 }
	preserve(t, l, 0, small).failed(t, "transaction u:2", "4096 bytes of memory and 4096 bytes of disk for it are full")
	got := preserve(t, l, 0, small, split)
	if got.err != nil || got.told.Split != 1 || got.told.Whole != 2 {
		t.Errorf("Run = %v, told %+v, want 1 split and 2 whole", got.err, got.told)
	}
	if n := strings.Count(got.seen[len(got.seen)-1], ","); n != 41 {
		t.Errorf("%d lines at the end, want 42", n+1)
	}
	large := preserve(t, l, 0, func(w *checkpoint.WholeTransactions) { w.Memory = 4 << 10 })
	if large.err != nil || large.told.Whole != 3 || large.most.Disk == 0 || large.most.Memory > 8<<10 {
		t.Errorf("Run = %v, told %+v, at most %+v: want 3 whole, the large one on disk", large.err, large.told, large.most)
	}
	if n := len(slices.Compact(large.seen)); n != 3 {
		t.Errorf("readers saw %d states, want 3: %q", n, large.seen)
	}
}

// TestRowsWithoutTransactions: a connector that does not say which transaction a row is of cannot be followed.
func TestRowsWithoutTransactions(t *testing.T) {
	t.Parallel()
	l := func() *memoryLog {
		l := &memoryLog{}
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)))
		l.add(lines, 0, lineOf(1, 1), rowAt(900, "entries", "c", "", `{"line":"alone"}`))
		return l
	}
	preserve(t, l(), 0).failed(t, "record s.d.entries[0] offset 1", "provide.transaction.metadata")
	flat := &memoryLog{}
	flat.add(lines, 0, `{"line":"x","__op":"c","__db":"d","__table":"entries"}`)
	preserve(t, flat, 0).failed(t, "record s.d.entries[0] offset 0", "it is flattened", "ExtractNewRecordState")
	got := preserve(t, l(), 0, split)
	if got.err != nil || got.seen[len(got.seen)-1] != " / 1.1, alone" || got.told.Without != 1 {
		t.Errorf("Run = %v, saw %q, told %+v", got.err, got.seen, got.told)
	}
}

// TestATransactionTopicThatTellsNothing: it may be another connector's.
func TestATransactionTopicThatTellsNothing(t *testing.T) {
	t.Parallel()
	l := func() *memoryLog {
		l := &memoryLog{}
		l.add(transactionTopic, 0, began(1), ended(1, counted("savings", 1)))
		l.add(sums, 0, sumOf(1, 1))
		l.add(lines, 0, lineOf(7, 1), lineOf(7, 2), lineOf(8, 1))
		return l
	}
	preserve(t, l(), 0).failed(t, "transaction u:7 has events in s.d.entries[0] from offset 0 on, and topic s.transaction does not tell of it")
	got := preserve(t, l(), 0, split)
	got.saw(t, "101|1.1 / ", "101|1.1 / 7.1, 7.2", "101|1.1 / 7.1, 7.2, 8.1")
	if got.wait["u:7"] < time.Second {
		t.Errorf("waits that were told: %v; want u:7's", got.wait)
	}
}

// TestReadingBeginsWithinATransaction: what there is of it is applied, whatever becomes of broken ones later.
func TestReadingBeginsWithinATransaction(t *testing.T) {
	t.Parallel()
	l := &memoryLog{}
	l.add(transactionTopic, 0, ended(1, counted("entries", 9)), began(2), ended(2, counted("entries", 3)), began(3), ended(3, counted("entries", 1)))
	l.add(lines, 0, lineOf(1, 9), lineOf(2, 1), lineOf(2, 2), lineOf(2, 3), lineOf(3, 1))
	preserve(t, l, 0).saw(t, " / 1.9", " / 1.9, 2.1, 2.2, 2.3", " / 1.9, 2.1, 2.2, 2.3, 3.1")
}

// TestATruncateHasItsPlaceAmongTransactions: MySQL's is of none, and its position tells.
func TestATruncateHasItsPlaceAmongTransactions(t *testing.T) {
	t.Parallel()
	truncate := func(at int) string { return rowAt(at, "entries", "t", "", "") }
	l := &memoryLog{}
	l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2), ended(2, counted("savings", 1)), began(3), ended(3, counted("entries", 1)))
	l.add(lines, 0, lineOf(1, 1), truncate(250), lineOf(3, 1))
	l.add(sums, 0, sumOf(2, 1))
	preserve(t, l, 0).saw(t, " / 1.1", "201|2.1 / 1.1", "201|2.1 / ", "201|2.1 / 3.1")
}

// TestEventsOfATransactionComeInItsOrder over partitions: a row that comes and goes again would be missing.
func TestEventsOfATransactionComeInItsOrder(t *testing.T) {
	t.Parallel()
	for _, first := range []int32{0, 1} {
		l := &memoryLog{}
		one, other := debezium.Partition{Topic: lines.Topic, ID: first}, debezium.Partition{Topic: lines.Topic, ID: 1 - first}
		l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 5)))
		l.add(one, 0, lineOf(1, 1), event(1, 3, "entries", "c", "", `{"line":"x"}`))
		l.add(other, 0, event(1, 2, "entries", "d", `{"line":"1.1"}`, ""), event(1, 4, "entries", "d", `{"line":"x"}`, ""), lineOf(1, 5))
		preserve(t, l, 0).saw(t, " / 1.5")
	}
}

// TestWholeTransactionsAreRefused where they cannot be kept.
func TestWholeTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*checkpoint.Config){
		"one worker":          func(c *checkpoint.Config) { c.Workers = 2 },
		"sent again":          func(c *checkpoint.Config) { c.Deduplicate = false },
		"transaction topic":   func(c *checkpoint.Config) { c.Whole.Topic = "" },
		"must be positive":    func(c *checkpoint.Config) { c.Whole.Wait = 0 },
		"stopped at or split": func(c *checkpoint.Config) { c.Whole.Broken = "" },
	} {
		l := &memoryLog{}
		w := bankWorld(l)
		_, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, watch(w.database, &history{}, preserving(t), 1, l), change)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), ",", ""), want) {
			t.Errorf("Run = %v, want it to say %q", err, want)
		}
	}
}

// TestATransactionTopicHasOnePartition: the order of several is not known.
func TestATransactionTopicHasOnePartition(t *testing.T) {
	t.Parallel()
	l := &memoryLog{}
	l.add(transactionTopic, 0, began(1), ended(1))
	l.add(debezium.Partition{Topic: transactionTopic.Topic, ID: 1}, 0, began(2), ended(2))
	preserve(t, l, 0).failed(t, "it must have one")
}
