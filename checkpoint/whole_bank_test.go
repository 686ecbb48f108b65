package checkpoint_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/schema"
	"replicator/txnsink"
	"replicator/txnsink/sinktest"
)

// A bank: money moves between accounts of two tables, and each transfer is an entry of a table without a key.
var (
	checking = schema.Name{Table: "checking"}
	savings  = schema.Name{Table: "savings"}
	entries  = schema.Name{Table: "entries"}
	banking  = []schema.Name{checking, savings, entries}
)

// bank is a source, and what its connector writes of it.
type bank struct {
	rng     *rand.Rand
	rows    map[string]map[string]bool // by table
	states  []string                   // after the snapshot and after each transaction
	log     []sentRecord               // what the connector has to say, once
	pos     int
	snapped int // how much of log is the snapshot
}

// sentRecord is one record and its partition. txn is the number of its transaction; 0: the snapshot.
type sentRecord struct {
	to    debezium.Partition
	value string
	txn   int
	begin bool
}

var transactionTopic = debezium.Partition{Topic: "s.transaction"}

func newBank(seed uint64, transactions int) *bank {
	b := &bank{rng: rand.New(rand.NewPCG(seed, 1)), rows: map[string]map[string]bool{"checking": {}, "savings": {}, "entries": {}}}
	for _, table := range []string{"checking", "savings"} {
		for id := range 4 {
			b.change(0, 0, table, id, "", fmt.Sprintf(`{"id":%d,"v":"100"}`, id), "r")
		}
	}
	b.snapped = len(b.log)
	b.states = append(b.states, b.state())
	balance := map[string]int{}
	for n := 1; n <= transactions; n++ {
		b.marker(n, `"BEGIN","id":"%s","event_count":null,"data_collections":null`)
		counts, order := map[string]int{}, 0
		row := func(table string, id int, before, after, op string) {
			order++
			counts[table]++
			b.change(n, order, table, id, before, after, op)
		}
		for range 1 + b.rng.IntN(3) {
			amount := 1 + b.rng.IntN(9)
			for _, sign := range []int{-1, 1} {
				table, id := []string{"checking", "savings"}[b.rng.IntN(2)], b.rng.IntN(4)
				key := fmt.Sprint(table, id)
				image := func() string { return fmt.Sprintf(`{"id":%d,"v":"%d"}`, id, 100+balance[key]) }
				before := image()
				balance[key] += sign * amount
				row(table, id, before, image(), "u")
			}
			if b.rng.IntN(3) > 0 {
				row("entries", 0, "", fmt.Sprintf(`{"line":"transfer %d of %d"}`, amount, n), "c")
			}
		}
		var list []string
		for _, table := range slices.Sorted(maps.Keys(counts)) {
			list = append(list, fmt.Sprintf(`{"data_collection":"d.%s","event_count":%d}`, table, counts[table]))
		}
		b.marker(n, fmt.Sprintf(`"END","id":"%%s","event_count":%d,"data_collections":[%s]`, order, strings.Join(list, ",")))
		b.states = append(b.states, b.state())
	}
	return b
}

func txnID(n int) string { return fmt.Sprintf("u:%d", n) }

func (b *bank) marker(n int, text string) {
	text = fmt.Sprintf(text, txnID(n))
	b.log = append(b.log, sentRecord{transactionTopic, `{"status":` + text + `,"ts_ms":1}`, n, strings.Contains(text, "BEGIN")})
}

func (b *bank) change(n, order int, table string, id int, before, after, op string) {
	b.pos++
	value := rowAt(b.pos, table, op, before, after)
	if n > 0 {
		value = strings.TrimSuffix(value, "}") + fmt.Sprintf(`,"transaction":{"id":"%s","total_order":%d,"data_collection_order":1}}`, txnID(n), order)
	}
	to := debezium.Partition{Topic: "s.d." + table}
	if table == "checking" {
		to.ID = int32(id % 2)
	}
	b.log = append(b.log, sentRecord{to, value, n, false})
	held := b.rows[table]
	delete(held, asRow(before))
	if after != "" {
		held[asRow(after)+strings.Repeat(" ", b.repeats(table, after))] = true
	}
}

// repeats keeps equal lines of the table without a key apart.
func (b *bank) repeats(table, after string) (n int) {
	for table == "entries" && b.rows[table][asRow(after)+strings.Repeat(" ", n)] {
		n++
	}
	return n
}

// asRow is an image as sinktest.Memory shows a row.
func asRow(image string) string {
	var out []string
	for _, part := range strings.Split(strings.Trim(image, "{}"), ",") {
		_, v, _ := strings.Cut(part, ":")
		out = append(out, strings.Trim(v, `"`))
	}
	return strings.Join(out, "|")
}

func (b *bank) state() string {
	var out []string
	for _, table := range banking {
		var rows []string
		for row := range b.rows[table.Table] {
			rows = append(rows, strings.TrimRight(row, " "))
		}
		slices.Sort(rows)
		out = append(out, table.Table+": "+strings.Join(rows, ", "))
	}
	return strings.Join(out, "\n")
}

// send writes what the connector says to a log. It restarts now and then: of what it said last each partition has lost the
// end, and it goes back to before that, to the BEGIN of a transaction or to the middle of one.
func (b *bank) send(restarts int) *memoryLog {
	at := map[debezium.Partition][]string{}
	for next := 0; next < len(b.log); next++ {
		r := b.log[next]
		at[r.to] = append(at[r.to], r.value)
		if restarts == 0 || next < b.snapped+3 || b.rng.IntN(len(b.log)/(2*restarts)) > 0 {
			continue
		}
		restarts--
		lost := min(b.rng.IntN(6), next-b.snapped)
		first := next + 1
		gone := map[debezium.Partition]int{}
		for i := next; i > next-lost; i-- {
			p := b.log[i].to
			if gone[p] < 0 || b.rng.IntN(2) == 0 {
				gone[p] = -1 // of this partition all before is there
				continue
			}
			at[p] = at[p][:len(at[p])-1]
			first = i
		}
		back := max(b.snapped, first-b.rng.IntN(20))
		if b.rng.IntN(2) == 0 { // a BEGIN
			for !b.log[back].begin {
				back--
			}
		}
		next = back - 1
	}
	l := &memoryLog{}
	for _, p := range slices.SortedFunc(maps.Keys(at), func(a, b debezium.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID))
	}) {
		for values := at[p]; len(values) > 0; {
			n := min(1+b.rng.IntN(5), len(values))
			l.add(p, int64(b.rng.IntN(3)/2), values[:n]...)
			values = values[n:]
		}
	}
	return l
}

// jumbled reads the partitions in an order without rule: one may be far ahead of another.
type jumbled struct {
	*memoryLog
	rng *rand.Rand
}

func (j jumbled) Open(ctx context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	r, err := j.memoryLog.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	m := r.(*memoryReader)
	all := m.order
	m.order = nil
	for len(m.order) < 300 {
		p := all[j.rng.IntN(len(all))]
		for range 1 + j.rng.IntN(10) {
			m.order = append(m.order, p)
		}
	}
	m.order = append(m.order, all...)
	return m, nil
}

// history is what readers of the target saw, in order.
type history struct {
	mu   sync.Mutex
	seen []string
}

// watchedSink notes the target's state after each commit.
type watchedSink struct {
	txnsink.Sink
	database *sinktest.Memory
	h        *history
}

type watchedTxn struct {
	txnsink.Txn
	s watchedSink
}

func (s watchedSink) look() {
	var out []string
	for _, table := range banking {
		rows := slices.Clone(s.database.Rows(table))
		slices.Sort(rows)
		out = append(out, table.Table+": "+strings.Join(rows, ", "))
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.seen = append(s.h.seen, strings.Join(out, "\n"))
}

func (s watchedSink) Commit(ctx context.Context, id txnsink.ID) error {
	defer s.look()
	return s.Sink.Commit(ctx, id)
}

func (s watchedSink) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	t, err := s.Sink.Begin(ctx, id)
	if err != nil {
		return nil, err
	}
	return watchedTxn{t, s}, nil
}

func (t watchedTxn) Commit(ctx context.Context, note []byte) error {
	defer t.s.look()
	return t.Txn.Commit(ctx, note)
}

// judge says what is wrong with what readers saw, if the source went through states: what is no state of the source, what is an earlier
// one than was seen before, and what the end lacks. Before the first state, the snapshot's, parts of it may be seen.
func judge(states, seen []string) error {
	known := map[string][]int{}
	for i, s := range states {
		known[s] = append(known[s], i)
	}
	at := -1
	for n, s := range seen {
		list, is := known[s]
		switch later := slices.IndexFunc(list, func(i int) bool { return i >= at }); {
		case is && later >= 0:
			at = list[later]
		case is:
			return fmt.Errorf("look %d saw state %d of the source after state %d", n, list[len(list)-1], at)
		case at < 0 && isPart(s, states[0]):
		default:
			return fmt.Errorf("look %d saw what the source never had, after its state %d:\n%s", n, at, s)
		}
	}
	if len(seen) == 0 || seen[len(seen)-1] != states[len(states)-1] {
		return fmt.Errorf("the last look saw state %d of the source, and not the last, %d", at, len(states)-1)
	}
	return nil
}

// isPart says whether every row of s is one of whole.
func isPart(s, whole string) bool {
	tables := strings.Split(whole, "\n")
	for i, table := range strings.Split(s, "\n") {
		_, rows, _ := strings.Cut(table, ": ")
		_, all, _ := strings.Cut(tables[i], ": ")
		list := strings.Split(all, ", ")
		for _, row := range strings.Split(rows, ", ") {
			if row != "" && !slices.Contains(list, row) {
				return false
			}
		}
	}
	return true
}
