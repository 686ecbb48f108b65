package checkpoint

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// remember returns a memory that knows nothing, and what it logs.
func remember() (*repeats, *strings.Builder) {
	var log strings.Builder
	return newRepeats(Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, nil), &log
}

// restart returns the memory that a process has which goes on from a checkpoint.
func restart(t *testing.T, r *repeats) *repeats {
	t.Helper()
	b, err := Marshal(Checkpoint{Pipeline: "p", Seen: r.seen()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Unmarshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return newRepeats(r.Config, c.Seen)
}

// TestRecordedRepetitionsAreRecognised replays each recorded topic up to every cut, goes back to every place before it, as a
// connector does, and on to the end: every change is applied once.
func TestRecordedRepetitionsAreRecognised(t *testing.T) {
	t.Parallel()
	for _, connector := range []string{"plain", "bare", "pg"} {
		topics, err := debeziumtest.Load(filepath.Join("..", "testdata", "debezium", connector))
		if err != nil {
			t.Fatal(err)
		}
		for topic, records := range topics {
			all, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(&debezium.Batch{Partition: records[0].Partition, Records: records})
			if err != nil {
				t.Fatal(err)
			}
			events := slices.DeleteFunc(all, func(e debezium.Event) bool { return !e.Op.Row() || e.Source.Snapshot })
			var want []int64
			for i := range events {
				want = append(want, events[i].Offset)
			}
			for cut := range len(events) + 1 {
				for back := range cut + 1 {
					r, _ := remember()
					var got []int64
					apply := func(part []debezium.Event) {
						for i := range part {
							if !r.of(&part[i]) {
								got = append(got, part[i].Offset)
							}
						}
					}
					apply(events[:cut])
					r = restart(t, r)
					apply(events[back:])
					if !slices.Equal(got, want) {
						t.Fatalf("%s cut at %d, back to %d: applied %v, want %v", topic, cut, back, got, want)
					}
				}
			}
		}
	}
}

func TestSnapshotReadsAreNeverRepetitions(t *testing.T) {
	t.Parallel()
	r, _ := remember()
	read := change(t, 3, 0, 1)
	read.Op, read.Source.Snapshot = debezium.Read, true
	incremental := read
	incremental.Source.Pos = 1
	update := change(t, 2, 0, 1)
	for i, e := range []debezium.Event{read, read, update, incremental, read} {
		if r.of(&e) {
			t.Errorf("event %d is taken for a repetition", i)
		}
	}
	if !r.of(&update) {
		t.Error("the repeated update is not recognised after reads")
	}
}

// change is a change of a MySQL table.
func change(t *testing.T, pos int64, row int32, value int64) debezium.Event {
	t.Helper()
	return debezium.Event{
		Op: debezium.Create, Partition: debezium.Partition{Topic: "s.d.t"},
		After:  debezium.Row{Values: []debezium.Value{{Kind: debezium.IntValue, Num: value}}},
		Source: debezium.Source{Connector: "mysql", Name: "s", Database: "d", Table: "t", File: "b.000007", Pos: pos, RowNo: row, TsMs: 1000 + pos, ServerID: 1},
	}
}

// TestChangesAtOnePositionAreApplied: a wrong guess here would lose rows.
func TestChangesAtOnePositionAreApplied(t *testing.T) {
	t.Parallel()
	left, came := change(t, 9, 0, 1), change(t, 9, 0, 2)
	left.Op, left.Before, left.After = debezium.Delete, left.After, debezium.Row{}
	copied := change(t, 9, 0, 5)
	copied.Source = debezium.Source{Connector: "postgresql", Name: "s", Table: "t", Sequence: `["8","9"]`, TxID: "3", TsMs: 4}
	numbered := copied
	copied.SentNs = time.Second.Nanoseconds() + 1_000
	soon, later := copied, copied
	soon.SentNs += 20_000
	later.SentNs += 2 * time.Second.Nanoseconds()
	numbered.Order = 4
	next := numbered
	next.Order = 5
	flat := change(t, 9, 0, 3) // without the number of the row
	flat.Flat, flat.SentNs = true, time.Second.Nanoseconds()
	flatSoon, flatLater := flat, flat
	flatSoon.SentNs += time.Millisecond.Nanoseconds()
	flatLater.SentNs += 2 * time.Second.Nanoseconds()
	sameRun, nextRun := flat, flatSoon
	sameRun.Run, nextRun.Run = "one", "two"
	slowly := sameRun
	slowly.SentNs += time.Second.Nanoseconds()
	compressed := change(t, 9, 0, 7) // the second statement of a compressed transaction: rows are numbered anew
	counted := change(t, 9, 0, 8)    // with provide.transaction.metadata
	counted.Order, counted.SentNs, counted.Run = 5, time.Second.Nanoseconds(), "one"
	alike, countedOn, countedOnElsewhere := counted, counted, counted
	alike.Order, alike.SentNs = 6, counted.SentNs+20_000
	countedOn.Order, countedOn.SentNs = 10, counted.SentNs+48*time.Second.Nanoseconds()
	countedOnElsewhere.Order, countedOnElsewhere.Run = 10, "two"
	for name, c := range map[string]struct {
		events []debezium.Event
		want   []bool // repeated
	}{
		"equal rows of a compressed transaction, numbered":  {[]debezium.Event{counted, alike}, []bool{false, false}},
		"a binlog's row counted on after a lost connection": {[]debezium.Event{counted, countedOn}, []bool{false, true}},
		"a binlog's row counted on by another run":          {[]debezium.Event{counted, countedOnElsewhere}, []bool{false, true}},
		"halves of a changed key":                           {[]debezium.Event{left, came, left, came}, []bool{false, false, true, true}},
		"a half is repeated":                                {[]debezium.Event{left, came, came}, []bool{false, false, true}},
		"a restart between the halves":                      {[]debezium.Event{left, left, came}, []bool{false, true, false}},
		"rows of one statement":                             {[]debezium.Event{change(t, 9, 0, 1), change(t, 9, 1, 1), change(t, 9, 1, 1)}, []bool{false, false, true}},
		"statements in one position":                        {[]debezium.Event{change(t, 9, 0, 1), change(t, 9, 1, 1), compressed, change(t, 9, 0, 1), change(t, 9, 1, 1), compressed}, []bool{false, false, false, true, true, true}},
		"two restarts":                                      {[]debezium.Event{change(t, 9, 0, 1), change(t, 9, 1, 1), change(t, 9, 2, 1), change(t, 9, 0, 1), change(t, 9, 0, 1), change(t, 9, 1, 1), change(t, 9, 2, 1), change(t, 9, 3, 1)}, []bool{false, false, false, true, true, true, true, false}},
		"equal rows of a COPY":                              {[]debezium.Event{copied, soon}, []bool{false, false}},
		"a row of a COPY sent again":                        {[]debezium.Event{copied, later}, []bool{false, true}},
		"the same record twice":                             {[]debezium.Event{copied, copied}, []bool{false, true}},
		"equal rows, numbered":                              {[]debezium.Event{numbered, next, numbered, next}, []bool{false, false, true, true}},
		"equal flattened rows":                              {[]debezium.Event{flat, flat, flatSoon}, []bool{false, false, false}},
		"a flattened row sent again":                        {[]debezium.Event{flat, flatLater, flatLater}, []bool{false, true, false}},
		"flattened rows sent again":                         {[]debezium.Event{flat, flatSoon, flatLater, flatLater}, []bool{false, false, true, true}},
		"equal rows of a slow run":                          {[]debezium.Event{sameRun, slowly}, []bool{false, false}},
		"sent again by a quick run":                         {[]debezium.Event{sameRun, nextRun}, []bool{false, true}},
		"without a position nothing is known":               {[]debezium.Event{{Op: debezium.Create}, {Op: debezium.Create}}, []bool{false, false}},
	} {
		r, _ := remember()
		var got []bool
		for i := range c.events {
			got = append(got, r.of(&c.events[i]))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestAnotherServersPositionsAreNotRepetitions: the source was failed over, or set up anew, and its log begins again.
func TestAnotherServersPositionsAreNotRepetitions(t *testing.T) {
	t.Parallel()
	with := func(pos int64, change_ func(*debezium.Source)) debezium.Event {
		e := change(t, pos, 0, pos)
		change_(&e.Source)
		return e
	}
	gtid := func(g string) func(*debezium.Source) {
		return func(s *debezium.Source) { s.GTID, s.TsMs = g, 5 }
	}
	for name, c := range map[string]struct {
		before, after debezium.Event
		want          bool // repeated
	}{
		"repetition":             {with(90, func(*debezium.Source) {}), with(50, func(*debezium.Source) {}), true},
		"later by the clock":     {with(90, func(*debezium.Source) {}), with(50, func(s *debezium.Source) { s.TsMs = 5000 }), false},
		"another server's id":    {with(90, func(*debezium.Source) {}), with(50, func(s *debezium.Source) { s.ServerID = 2 }), false},
		"an earlier GTID":        {with(90, gtid("u:9")), with(50, gtid("u:8")), true},
		"a later GTID":           {with(90, gtid("u:9")), with(50, gtid("u:10")), false},
		"another server's GTID":  {with(90, gtid("u:9")), with(50, gtid("v:1")), false},
		"another binlog":         {with(90, gtid("u:9")), with(50, func(s *debezium.Source) { gtid("u:10")(s); s.File = "c.1" }), false},
		"another binlog's past":  {with(90, gtid("u:9")), with(50, func(s *debezium.Source) { gtid("u:8")(s); s.File = "c.1" }), true},
		"another binlog's clock": {with(90, func(*debezium.Source) {}), with(50, func(s *debezium.Source) { s.File = "c.1" }), false},
	} {
		r, log := remember()
		r.of(&c.before)
		if got := r.of(&c.after); got != c.want {
			t.Errorf("%s: repeated is %v, want %v", name, got, c.want)
		}
		after := c.after
		after.Source.Pos++
		after.After.Values = []debezium.Value{{Kind: debezium.Null}}
		after.Source.TsMs = 9000
		if r.of(&after) {
			t.Errorf("%s: what follows is taken for a repetition", name)
		}
		if got := strings.Count(log.String(), "another log"); !c.want && got != 1 || got > 1 {
			t.Errorf("%s: logged %d times: %s", name, got, log)
		}
	}
}

// TestEveryChangeIsAppliedOnce plays random logs to a connector that restarts, again and again and while it repeats, and
// to a pipeline that does the same.
func TestEveryChangeIsAppliedOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		connector := []string{"mysql", "postgresql", "sqlserver", "oracle"}[seed%4]
		list := randomLog(rng, connector)
		r, log := remember()
		var got, want []int64
		for i := range list {
			want = append(want, list[i].Offset)
		}
		now := time.Unix(1000, 1000)
		for at, restarts := 0, rng.IntN(6); at < len(list); {
			e := list[at]
			e.SentNs = now.UnixNano()
			now = now.Add(time.Duration(1+rng.IntN(900)) * time.Microsecond)
			if !r.of(&e) {
				got = append(got, e.Offset)
			}
			if at++; restarts > 0 && rng.IntN(8) == 0 {
				restarts--
				at = rng.IntN(at + 1)
				// A position of PostgreSQL is the least that its connector can go back to.
				for connector == "postgresql" && at > 0 && at < len(list) && list[at].Source.Sequence == list[at-1].Source.Sequence {
					at--
				}
				now = now.Add(time.Second)
			}
			if rng.IntN(10) == 0 {
				r = restart(t, r)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: applied %v, want %v", seed, got, want)
		}
		if log.Len() > 0 {
			t.Fatalf("seed %d: logged %s", seed, log)
		}
	}
}

// randomLog is what a connector sends of one table: transactions of statements of rows.
func randomLog(rng *rand.Rand, connector string) []debezium.Event {
	var list []debezium.Event
	lsn, commit := uint64(100), uint64(0)
	for txn := range 2 + rng.IntN(8) {
		begin := lsn
		if txn > 0 && connector == "postgresql" {
			begin -= uint64(rng.IntN(20)) // it overlaps with the one before
		}
		at := begin
		for range 1 + rng.IntN(3) {
			at += uint64(1 + rng.IntN(5))
			for row := range 1 + rng.IntN(4) {
				e := debezium.Event{Op: debezium.Create, Offset: int64(len(list)), Partition: debezium.Partition{Topic: "t"}}
				// Without a row number the rows of a COPY can be equal.
				e.After.Values = []debezium.Value{{Kind: debezium.IntValue, Num: int64(rng.IntN(2))}}
				e.Source = debezium.Source{Connector: connector, Name: "s", Database: "d", Table: "t", TsMs: int64(txn / 2)}
				s := &e.Source
				switch connector {
				case "mysql":
					s.File, s.Pos, s.RowNo = fmt.Sprintf("b.%d", 9+at/130), int64(at), int32(row)
				case "postgresql":
					s.Sequence, s.TxID = fmt.Sprintf(`["%d","%d"]`, commit, at), fmt.Sprint(txn)
				case "sqlserver":
					s.CommitLSN, s.ChangeLSN, s.Serial = fmt.Sprintf("00000001:%08x:0001", txn), fmt.Sprintf("00000001:%08x:0001", at), int64(row+1)
				case "oracle": // two transactions may commit at one SCN
					s.CommitSCN, s.SCN, s.TxID = fmt.Sprint(txn), fmt.Sprint(at), fmt.Sprint(txn)
					e.After.Values[0].Num = int64(len(list))
				}
				list = append(list, e)
			}
		}
		lsn = max(lsn, at) + uint64(1+rng.IntN(9))
		commit = lsn
	}
	return list
}
