package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/debezium/kafka/broker"
	"replicator/txnsink/postgres/pgserver"
)

// session is the shortest that the tests' broker allows.
const session = 2 * time.Second

// newClusterStack is a stack whose configuration has more lines, and whose broker allows short sessions.
func newClusterStack(t *testing.T, lines string) *stack {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{MaxPreparedTransactions: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	b, err := broker.Start(broker.Options{Configs: map[string]string{"group.min.session.timeout.ms": "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	s := &stack{server: server, broker: b}
	s.file = configFile(t, fmt.Sprintf("pipeline: shop\nsource: {brokers: [%s], topics: ['p\\.shop\\..*']}\ntarget: {url: '%s'}\nhttp: {listen: ''}\n"+
		"membership: {slots: 12, session_timeout: %v}\nlog: {level: info}\n%s", b.Addrs()[0], server.URL("postgres"), session, lines))
	return s
}

// change is one row event of a table of shop.
func change(topic string, partition int32, op, before, after string) debezium.Record {
	table := strings.TrimPrefix(topic, "p.shop.")
	r := debezium.Record{
		Partition: debezium.Partition{Topic: topic, ID: partition},
		Value: fmt.Appendf(nil, `{"before":%s,"after":%s,"source":{"connector":"mysql","name":"p","db":"shop","table":"%s","snapshot":"false"},"op":"%s"}`,
			before, after, table, op),
	}
	return r
}

// query returns the rows of a query, each as text.
func query(t *testing.T, s *stack, sql string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// untilRows waits until a query returns want.
func untilRows(t *testing.T, s *stack, sql string, want []string, who func() string) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.Now().Add(3 * time.Minute)
	for got := query(t, s, sql); !slices.Equal(got, want); got = query(t, s, sql) {
		if time.Now().After(limit) {
			t.Fatalf("%s: %d rows, want %d: lacks %v, has besides %v\n%s", sql, len(got), len(want), without(want, got), without(got, want), who())
		}
		<-tick.C
	}
}

// without returns at most five of a that b lacks.
func without(a, b []string) []string {
	count := map[string]int{}
	for _, v := range b {
		count[v]++
	}
	var out []string
	for _, v := range a {
		if count[v]--; count[v] < 0 && len(out) < 5 {
			out = append(out, v)
		}
	}
	return out
}

// fleet is the processes of a test's cluster.
type fleet struct {
	s    *stack
	live []*process
	all  []*process
}

func (f *fleet) start(t *testing.T) *process {
	t.Helper()
	p := start(t, "run", "--config", f.s.file)
	f.live, f.all = append(f.live, p), append(f.all, p)
	return p
}

// end kills a process with SIGKILL, or stops it with SIGTERM, and returns when it has ended.
func (f *fleet) end(t *testing.T, p *process, sig syscall.Signal) {
	t.Helper()
	f.live = slices.DeleteFunc(f.live, func(q *process) bool { return q == p })
	kill(t, p, sig)
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the process does not end by %v", sig)
	}
	if code := p.cmd.ProcessState.ExitCode(); sig == syscall.SIGTERM && code != exitDone {
		t.Fatalf("exit code %d\n%s", code, p.stderr.String())
	}
}

func kill(t *testing.T, p *process, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%v: %v; the process has ended: %s", sig, err, p.stderr.String())
	}
}

// logs is what the processes that have ended have said.
func (f *fleet) logs() string {
	var out strings.Builder
	for _, p := range f.live {
		if p.cmd.Process.Kill() == nil {
			<-p.done
		}
	}
	for i, p := range f.all {
		text := p.stderr.String()
		fmt.Fprintf(&out, "process %d:\n%s\n", i, text[max(0, len(text)-6000):])
	}
	return out.String()
}

// TestProcessesShareAPipeline has three processes share 12 partitions and more that appear, while they are killed, stopped for longer than a
// session and woken up again, added and taken away.
func TestProcessesShareAPipeline(t *testing.T) {
	t.Parallel()
	for _, d := range []checkpoint.Delivery{checkpoint.TwoPhase, checkpoint.OnePhase} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			s := newClusterStack(t, "cluster: true\ndelivery: "+string(d)+"\n")
			define(t, s, "CREATE TABLE account (id int PRIMARY KEY, n int); CREATE TABLE entry (line text); CREATE TABLE late (line text)")
			for _, topic := range []string{"p.shop.account", "p.shop.entry"} {
				if err := s.broker.CreateTopic(topic, 6, nil); err != nil {
					t.Fatal(err)
				}
			}
			random := rand.New(rand.NewPCG(uint64(len(d)), 4))
			f := &fleet{s: s}
			for range 3 {
				f.start(t)
			}
			balance := map[int]int{}
			var lines, late []string
			for round := range 12 {
				sends := random.IntN(3) + 1
				for range sends {
					f.produce(t, random, balance, &lines)
				}
				if round == 4 {
					late = f.produceLate(t)
				}
				switch victim := f.live[random.IntN(len(f.live))]; random.IntN(4) {
				case 0:
					f.end(t, victim, syscall.SIGKILL)
					f.start(t)
				case 1, 2:
					kill(t, victim, syscall.SIGSTOP)
					f.produce(t, random, balance, &lines)
					frozen(t, 2*session)
					kill(t, victim, syscall.SIGCONT)
				case 3:
					if len(f.live) > 3 {
						f.end(t, victim, syscall.SIGTERM)
					} else {
						f.start(t)
					}
				}
			}
			accounts := make([]string, 0, len(balance))
			for id, n := range balance {
				accounts = append(accounts, fmt.Sprintf("%03d=%d", id, n))
			}
			slices.Sort(accounts)
			slices.Sort(lines)
			untilRows(t, s, "SELECT lpad(id::text, 3, '0') || '=' || n FROM account ORDER BY 1", accounts, f.logs)
			untilRows(t, s, `SELECT line FROM entry ORDER BY line COLLATE "C"`, lines, f.logs)
			untilRows(t, s, `SELECT line FROM late ORDER BY line COLLATE "C"`, late, f.logs)
			for len(f.live) > 0 {
				f.end(t, f.live[0], syscall.SIGTERM)
			}
			untilRows(t, s, "SELECT gid FROM pg_prepared_xacts", nil, f.logs)
			untilRows(t, s, `SELECT line FROM entry ORDER BY line COLLATE "C"`, lines, f.logs) // and nothing more came
		})
	}
}

// produce changes some accounts, each in the partition of its key, and adds lines to partitions at random.
func (f *fleet) produce(t *testing.T, random *rand.Rand, balance map[int]int, lines *[]string) {
	t.Helper()
	var records []debezium.Record
	for range 60 {
		id := random.IntN(100)
		old, known := balance[id]
		balance[id]++
		after := fmt.Sprintf(`{"id":%d,"n":%d}`, id, balance[id])
		if known {
			records = append(records, change("p.shop.account", int32(id%6), "u", fmt.Sprintf(`{"id":%d,"n":%d}`, id, old), after))
		} else {
			records = append(records, change("p.shop.account", int32(id%6), "c", "null", after))
		}
		records[len(records)-1].Key = fmt.Appendf(nil, `{"id":%d}`, id)
		line := fmt.Sprintf("line %05d", len(*lines))
		*lines = append(*lines, line)
		records = append(records, change("p.shop.entry", random.Int32N(6), "c", "null", `{"line":"`+line+`"}`))
	}
	if err := f.s.broker.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
}

// produceLate makes a topic, and then gives it more partitions.
func (f *fleet) produceLate(t *testing.T) []string {
	t.Helper()
	if err := f.s.broker.CreateTopic("p.shop.late", 2, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.s.broker.AddPartitions(t.Context(), "p.shop.late", 3); err != nil {
		t.Fatal(err)
	}
	var lines []string
	var records []debezium.Record
	for n := range int32(5) {
		line := fmt.Sprint("late ", n)
		lines = append(lines, line)
		records = append(records, change("p.shop.late", n, "c", "null", `{"line":"`+line+`"}`))
	}
	if err := f.s.broker.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	return lines
}

// frozen lets time pass for those that have a session: it is what the test is about.
func frozen(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
