package ops

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/sqlgen"
	"replicator/txnsink"
)

var errTest = errors.New("the target went away")

var part = debezium.Partition{Topic: "shop.t", ID: 0}

func at(offset int64) debezium.Positions { return debezium.Positions{part: {Offset: offset}} }

// aPipeline is the port of a pipeline that has completed checkpoint 8 with 3 rows and is 2 records behind.
func aPipeline() *Server {
	s := New(Config{Pipeline: "p", Version: "v1", Delivery: "two-phase", Workers: 3, Token: "sesame", Interval: time.Second, Settings: []Setting{{"pipeline", "p"}}})
	s.observe(checkpoint.Recovered{Epoch: 4, Checkpoint: 7, Positions: at(10), Committed: 1, Took: 20 * time.Millisecond})
	s.progressed(checkpoint.Progress{Checkpoint: 7, Events: 5})
	s.observe(checkpoint.Completed{
		Checkpoint: checkpoint.Checkpoint{ID: 8, Epoch: 4, Positions: at(13), Rows: 3}, Cut: time.Now(), Bytes: 300,
		Phases: checkpoint.Phases{Apply: 5 * time.Millisecond, Prepare: 2 * time.Millisecond, Save: time.Millisecond, Commit: time.Millisecond},
		Tables: []checkpoint.TableCount{{
			Source: "shop.t", Target: "public.t", Ops: map[debezium.Op]int64{debezium.Create: 2, debezium.Delete: 1}, Last: time.UnixMilli(1000).UTC(), Version: 41,
		}},
		Aside: []checkpoint.AsideCount{{Source: "shop.t", Class: sqlgen.BadRecord, Records: 2}, {Source: "shop.t", Class: checkpoint.Follows, Records: 1}},
		Ends:  map[debezium.Partition]int64{part: 15},
	})
	s.progressed(checkpoint.Progress{Checkpoint: 8, Events: 5, Rows: 3, AsideRows: 1, DDL: map[sqlgen.DDLKind]int64{sqlgen.CreateTable: 1}})
	s.sample(time.Now().Add(time.Second))
	return s
}

func doubt() checkpoint.InDoubt {
	return checkpoint.InDoubt{Txns: []checkpoint.Doubt{{ID: txnsink.ID{Pipeline: "p", Epoch: 4, Checkpoint: 9}, Since: time.Now()}}}
}

func TestStatusHoldsWhatWasObserved(t *testing.T) {
	t.Parallel()
	got := aPipeline().Status()
	changed, version := time.UnixMilli(1000).UTC(), int64(41)
	want := Status{
		Pipeline: "p", Version: "v1", Delivery: "two-phase", Workers: 3, State: Running, Running: true, Epoch: 4, Checkpoint: 8, Events: 5, Rows: 3,
		Lag: 2, PartitionCount: 1, TableCount: 1,
		Partitions: []Partition{{"shop.t", 0, 13, 15, 2}},
		Tables:     []Table{{"shop.t", "public.t", 3, 0, 2, 0, 1, &changed, &version}},
		Checkpoints: []Checkpoint{{
			ID: 8, Cut: got.Checkpoints[0].Cut, Rows: 3, Bytes: 300, Phases: Phases{Apply: .005, Prepare: .002, Save: .001, Commit: .001},
		}},
		DeadLetters: 3, AsideRows: 1, Asides: []Aside{{"shop.t", "bad_record", 2}, {"shop.t", "follows", 1}}, InDoubt: []Doubt{},
		Runs: []Run{{Began: got.Runs[0].Began, Reason: "start", Epoch: 4, Checkpoint: 7, Committed: 1, RecoverySeconds: .02}},
		// What the clock says:
		Started: got.Started, Now: got.Now, CheckpointAgeSeconds: got.CheckpointAgeSeconds, LagSeconds: got.LagSeconds, Rate: got.Rate,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// TestStatusTellsOfSourceTransactions where they are kept whole, and of those of the present run only.
func TestStatusTellsOfSourceTransactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Preserve: true})
		want := func(what string, want SourceTransactions) {
			t.Helper()
			if got := s.Status().SourceTransactions; got == nil || *got != want {
				t.Errorf("%s: got %+v, want %+v", what, got, want)
			}
		}
		want("nothing was told", SourceTransactions{})
		began := time.Now()
		time.Sleep(time.Minute) // of the test's own clock
		since := time.Now()
		s.observe(checkpoint.SourceTransactions{
			Whole: 7, Split: 1, Unended: 2, Repeated: 3, Without: 4, Waiting: "u:9", Began: began, Since: since, Behind: 2, Memory: 20, Disk: 30,
		})
		time.Sleep(time.Second)
		want("some wait", SourceTransactions{
			Whole: 7, Split: 1, Unended: 2, Repeated: 3, Without: 4, Waiting: 3, Oldest: "u:9", OldestSeconds: 61, SilentSeconds: 1, MemoryBytes: 20, SpilledBytes: 30,
		})
		s.observe(checkpoint.SourceTransactions{Whole: 10})
		want("none waits", SourceTransactions{Whole: 10})
		s.observe(checkpoint.Recovered{})
		want("another run", SourceTransactions{})
	})
	if got := New(Config{}).Status().SourceTransactions; got != nil {
		t.Errorf("without preserve: %+v", got)
	}
}

// TestLagIsRightOnAnIdleSource: what moves the end without a row, a heartbeat or the marker of a transaction, is behind only until it is
// read, and a source that is silent for an hour is not an hour behind.
func TestLagIsRightOnAnIdleSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Interval: time.Second})
		lag := func(what string, events int64, seconds float64) {
			t.Helper()
			if got := s.Status(); got.Lag != events || got.LagSeconds != seconds {
				t.Errorf("%s: got %d events, %v s, want %d, %v", what, got.Lag, got.LagSeconds, events, seconds)
			}
		}
		s.observe(checkpoint.Recovered{Positions: at(10)})
		s.progressed(checkpoint.Progress{})
		s.observe(checkpoint.Ends{Ends: map[debezium.Partition]int64{part: 10}})
		time.Sleep(time.Hour) // of the test's own clock
		lag("silence", 0, 0)
		s.observe(checkpoint.Ends{Ends: map[debezium.Partition]int64{part: 11}})
		time.Sleep(2 * time.Second)
		lag("a heartbeat is there", 1, 2)
		s.observe(checkpoint.Completed{Checkpoint: checkpoint.Checkpoint{Positions: at(11)}, Ends: map[debezium.Partition]int64{part: 11}})
		lag("it was read", 0, 0)
		s.observe(checkpoint.Ends{Ends: map[debezium.Partition]int64{part: 20}})
		s.progressed(checkpoint.Progress{Oldest: time.Now().Add(-30 * time.Second)})
		lag("old rows were read and are not committed", 9, 30)
		if code, _ := s.ready(); code != 200 {
			t.Errorf("readyz while it is behind: %d", code)
		}
		time.Sleep(2 * time.Minute)
		if code, body := s.ready(); code != 503 || !strings.Contains(fmt.Sprint(body), "no checkpoint was complete for 120 s") {
			t.Errorf("readyz when it is stalled: %d %v", code, body)
		}
		s.gate.Pause(true)
		if code, _ := s.ready(); code != 200 {
			t.Errorf("readyz while it is paused: %d", code)
		}
	})
}

func TestFencedIsNotReady(t *testing.T) {
	t.Parallel()
	s := aPipeline()
	s.Ended(fmt.Errorf("save: %w", txnsink.ErrFenced), "fenced by a later run")
	if code, body := request(t, s, "GET", "/readyz", ""); code != 503 || body != `{"error":"fenced by a later run"}` || s.Status().State != Fenced {
		t.Errorf("got %d %s", code, body)
	}
}

func TestHistoryKeepsOneHour(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	for i := range samples + 10 {
		s.rows = int64(i+1) * 50
		s.sample(s.started.Add(time.Duration(i+1) * sampleEvery))
	}
	got := s.History()
	first := Sample{At: s.started.Add(11 * sampleEvery), Rate: 10}
	last := Sample{At: s.started.Add(time.Duration(samples+10) * sampleEvery), Rate: 10}
	if len(got) != samples || got[0] != first || got[samples-1] != last || s.history.last() != last {
		t.Errorf("%d samples from %+v to %+v, want %d from %+v to %+v", len(got), got[0], got[len(got)-1], samples, first, last)
	}
}

func TestMetricsHaveTheirNames(t *testing.T) {
	t.Parallel()
	s := aPipeline()
	s.observe(doubt())
	s.failed(errTest, "x")
	s.observe(checkpoint.SourceTransactions{Whole: 5, Repeated: 1})
	s.observe(checkpoint.SourceTransactions{Whole: 7, Split: 1, Repeated: 1, Waiting: "u:9", Began: time.Now(), Since: time.Now(), Behind: 2, Memory: 20, Disk: 30})
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, want := range []string{
		`replicator_events_total{op="c",table="shop.t"} 2`, `replicator_events_total{op="d",table="shop.t"} 1`,
		`replicator_rows_applied_total{table="public.t"} 3`, `replicator_bytes_read_total 300`,
		`replicator_lag_events{partition="0",topic="shop.t"} 2`, `replicator_lag_seconds `,
		`replicator_checkpoint_seconds_count{phase="align"} 1`, `replicator_checkpoint_seconds_sum{phase="apply"} 0.005`,
		`replicator_checkpoint_seconds_sum{phase="prepare"} 0.002`, `replicator_checkpoint_seconds_sum{phase="save"} 0.001`,
		`replicator_checkpoint_seconds_sum{phase="commit"} 0.001`,
		`replicator_checkpoints_total{result="complete"} 1`, `replicator_checkpoints_total{result="failed"} 0`,
		`replicator_checkpoint_last_id 8`, `replicator_checkpoint_age_seconds `, `replicator_transactions_in_doubt 1`, `replicator_transaction_oldest_seconds `,
		`replicator_restarts_total{reason="unknown"} 1`, `replicator_dead_letters_total{reason="bad_record",table="shop.t"} 2`, `replicator_ddl_total{kind="create_table"} 1`,
		`replicator_source_transactions_total{result="whole"} 7`, `replicator_source_transactions_total{result="split"} 1`,
		`replicator_source_transactions_total{result="repeated"} 1`, `replicator_source_transaction_waiting_seconds `, `replicator_source_transactions_buffered_bytes 50`,
		`replicator_source_transactions_waiting 3`, `replicator_source_transaction_oldest_seconds `, `replicator_source_transactions_spilled_bytes 30`, `replicator_build_info{commit="",goversion="go`,
	} {
		if !strings.Contains(w.Body.String(), "\n"+want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if problems, err := testutil.GatherAndLint(s.metrics.registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestEventsBeginWithHistoryAndStatus(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(aPipeline().Handler())
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/api/events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	var got strings.Builder
	buffer := make([]byte, 1<<16)
	for strings.Count(got.String(), "\n\n") < 3 {
		n, err := answer.Body.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(buffer[:n])
	}
	var names []string
	for line := range strings.Lines(got.String()) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	if want := []string{"history", "status", "status"}; !reflect.DeepEqual(names[:3], want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
