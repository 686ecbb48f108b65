package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/debezium"
)

const (
	listTransactions = 250
	listKills        = 4
	listKeys         = 8 // even ones are of one table, odd ones of another
)

func listTable(key int) string { return []string{"even", "odd"}[key%2] }

// listLog is a source whose transactions append to lists, some of them twice to one, and some are rolled back. It returns what a connector
// writes of them, in a Kafka transaction that is aborted of those that are rolled back, as a connector that dies leaves one; and what the source's
// client saw and did.
func listLog(rng *rand.Rand) (committed, aborted map[debezium.Partition][]debezium.Record, txns []listTxn) {
	good, bad := &sourceLog{}, &sourceLog{}
	lists, value := map[int][]int{}, 0
	for range listTransactions {
		t := listTxn{reads: map[int][]int{}, aborted: rng.IntN(8) == 0}
		l := good
		if t.aborted {
			l = bad
			l.n, l.pos = 10_000+l.n, good.pos // no other's numbers
		}
		own := maps.Clone(lists)
		l.begin()
		for range 2 + rng.IntN(4) {
			key := rng.IntN(listKeys)
			if _, was := t.reads[key]; !was {
				t.reads[key] = own[key]
			}
			value++
			t.appends = append(t.appends, listAppend{key, value})
			before := own[key]
			own[key] = append(slices.Clone(before), value)
			l.row(listTable(key), key, "u", listRow(key, before), listRow(key, own[key]))
		}
		l.end()
		if !t.aborted {
			lists = own
		}
		txns = append(txns, t)
	}
	return good.records, bad.records, txns
}

func listRow(key int, list []int) string {
	return fmt.Sprintf(`{"id":%d,"list":"%s"}`, key, strings.Trim(fmt.Sprint(list), "[]"))
}

// TestHistoriesOfListsAreSerial has a reader look at lists that transactions of the source append to, while the program is killed again and
// again. By what the reader saw, with the source's transactions, nothing speaks against all of them having run one after the other; and
// without source_transactions: preserve something does, or this test could see nothing.
func TestHistoriesOfListsAreSerial(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"preserve", "ignore"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, 10)
			s.createTopics(t, "even", "odd")
			define(t, s, `CREATE TABLE even AS SELECT 2 * i AS id, ''::text AS list FROM generate_series(0, 3) i; ALTER TABLE even ADD PRIMARY KEY (id);
				CREATE TABLE odd AS SELECT id + 1 AS id, list FROM even; ALTER TABLE odd ADD PRIMARY KEY (id)`)
			rng := rand.New(rand.NewPCG(3, 4))
			committed, aborted, txns := listLog(rng)
			r := readLists(t, s)
			run := func() *process {
				return start(t, "run", "--config", s.file, "--set", "source.transactions=p.transaction", "--set", "source_transactions="+mode, "--set", "checkpoint.rows=7")
			}
			p, sent := run(), 0
			for kill := range listKills + 1 {
				part := map[debezium.Partition][]debezium.Record{}
				for at, list := range committed {
					part[at] = list[kill*len(list)/(listKills+1) : (kill+1)*len(list)/(listKills+1)]
					if at.Topic != "p.transaction" {
						sent += len(part[at])
					}
				}
				more := r.values() + 1
				if mode == "ignore" {
					more = sent // which ends within a transaction, and that is seen
				}
				s.produceJumbled(t, rng, part)
				for at, list := range aborted {
					if err := s.broker.Transact(t.Context(), fmt.Sprint(at, kill), false, list[kill*len(list)/(listKills+1):(kill+1)*len(list)/(listKills+1)]...); err != nil {
						t.Fatal(err)
					}
				}
				if kill == listKills {
					break
				}
				eventually(t, "more is seen", func() bool { return r.values() >= more })
				kill9(t, p)
				p = run()
			}
			want := 0
			for _, txn := range txns {
				if !txn.aborted {
					want += len(txn.appends)
				}
			}
			eventually(t, "all is there", func() bool { return r.values() >= want })
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := p.exitCode(t, nil); code != exitDone {
				t.Errorf("exit code %d\n%s", code, p.stderr.String())
			}
			reads := r.end(t)
			found := judgeLists(append(txns, reads...))
			t.Logf("%d transactions, %d states seen: %v", len(txns), len(reads), found)
			switch fractured := found["G-single"] != ""; {
			case mode == "preserve" && len(found) > 0:
				t.Errorf("found %v", found)
			case mode == "ignore" && !fractured:
				t.Errorf("found %v: no reader saw a part of a transaction, and this test can see nothing", found)
			}
			if last := reads[len(reads)-1].reads; !reflect.DeepEqual(last, listsAfter(txns)) {
				t.Errorf("at last %v, want %v", last, listsAfter(txns))
			}
		})
	}
}

func kill9(t *testing.T, p *process) {
	t.Helper()
	kill(t, p, syscall.SIGKILL)
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatal("a process that was killed does not end")
	}
}

// listsAfter are the lists at the source.
func listsAfter(txns []listTxn) map[int][]int {
	out := map[int][]int{}
	for key := range listKeys {
		out[key] = []int{}
	}
	for _, t := range txns {
		for _, a := range t.appends {
			if !t.aborted {
				out[a.key] = append(out[a.key], a.value)
			}
		}
	}
	return out
}

// listReader looks at all lists in one statement, again and again.
type listReader struct {
	stop  chan struct{}
	seen  chan int // how many values the last look saw
	ended chan error
	reads []listTxn // that differ from the one before
}

func readLists(t *testing.T, s *stack) *listReader {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	r := &listReader{stop: make(chan struct{}), seen: make(chan int, 1), ended: make(chan error, 1)}
	r.seen <- 0
	go func() {
		err := r.look(t.Context(), c)
		if cerr := c.Close(context.WithoutCancel(t.Context())); err == nil {
			err = cerr
		}
		r.ended <- err
	}()
	return r
}

func (r *listReader) values() int {
	n := <-r.seen
	r.seen <- n
	return n
}

// end looks once more, and returns what was seen as transactions of a process of its own.
func (r *listReader) end(t *testing.T) []listTxn {
	t.Helper()
	close(r.stop)
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
	return r.reads
}

func (r *listReader) look(ctx context.Context, c *pgx.Conn) error {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for last := false; !last; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.stop:
			last = true
		case <-tick.C:
		}
		now := listTxn{process: 1, reads: map[int][]int{}}
		rows, err := c.Query(ctx, "SELECT id, list FROM even UNION ALL SELECT id, list FROM odd")
		if err != nil {
			return err
		}
		var key, n int
		var text string
		_, err = pgx.ForEachRow(rows, []any{&key, &text}, func() error {
			now.reads[key] = []int{}
			for field := range strings.FieldsSeq(text) {
				value, err := strconv.Atoi(field)
				if err != nil {
					return err
				}
				now.reads[key], n = append(now.reads[key], value), n+1
			}
			return nil
		})
		if err != nil {
			return err
		}
		if k := len(r.reads); k == 0 || !reflect.DeepEqual(r.reads[k-1], now) {
			r.reads = append(r.reads, now)
		}
		<-r.seen
		r.seen <- n
	}
	return nil
}
