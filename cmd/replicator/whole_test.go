package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/debezium"
)

// transfers is how many transactions the bank of these tests makes.
const transfers = 300

// sourceLog is what a connector writes of a source's transactions: to the topics of its tables, which have two partitions each, and to the
// transaction topic.
type sourceLog struct {
	records    map[debezium.Partition][]debezium.Record
	n          int // of the present transaction
	pos, order int
	counts     map[string]int
}

func (l *sourceLog) add(p debezium.Partition, key, value string) {
	if l.records == nil {
		l.records = map[debezium.Partition][]debezium.Record{}
	}
	l.records[p] = append(l.records[p], debezium.Record{Partition: p, Key: []byte(key), Value: []byte(value)})
}

func (l *sourceLog) marker(text string) {
	l.add(debezium.Partition{Topic: "p.transaction"}, fmt.Sprintf(`{"id":"u:%d"}`, l.n), fmt.Sprintf(`{"id":"u:%d",%s,"ts_ms":%d}`, l.n, text, l.n))
}

func (l *sourceLog) begin() {
	l.n, l.order, l.counts = l.n+1, 0, map[string]int{}
	l.marker(`"status":"BEGIN","event_count":null,"data_collections":null`)
}

func (l *sourceLog) row(table string, id int, op, before, after string) {
	l.pos, l.order = l.pos+1, l.order+1
	l.counts[table]++
	l.add(debezium.Partition{Topic: "p.shop." + table, ID: int32(id % 2)}, fmt.Sprintf(`{"id":%d}`, id),
		fmt.Sprintf(`{"before":%s,"after":%s,"source":{"connector":"mysql","name":"p","ts_ms":%d,"snapshot":"false","db":"shop","table":"%s","server_id":1,`+
			`"file":"b.1","pos":%d,"row":0},"op":"%s","ts_ms":%d,"transaction":{"id":"u:%d","total_order":%d,"data_collection_order":1}}`, before, after, l.n, table, l.pos, op, l.n, l.n, l.order))
}

func (l *sourceLog) end() {
	var list []string
	for _, table := range slices.Sorted(maps.Keys(l.counts)) {
		list = append(list, fmt.Sprintf(`{"data_collection":"shop.%s","event_count":%d}`, table, l.counts[table]))
	}
	l.marker(fmt.Sprintf(`"status":"END","event_count":%d,"data_collections":[%s]`, l.order, strings.Join(list, ",")))
}

// createTopics makes the topics of tables, and the transaction topic.
func (s *stack) createTopics(t *testing.T, tables ...string) {
	t.Helper()
	partitions := map[string]int32{"p.transaction": 1}
	for _, table := range tables {
		partitions["p.shop."+table] = 2
	}
	for topic, n := range partitions {
		if err := s.broker.CreateTopic(topic, n, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// produceJumbled writes records, each partition's in their order and the partitions in none.
func (s *stack) produceJumbled(t *testing.T, rng *rand.Rand, records map[debezium.Partition][]debezium.Record) {
	t.Helper()
	parts := slices.SortedFunc(maps.Keys(records), func(a, b debezium.Partition) int { return strings.Compare(a.String(), b.String()) })
	for len(parts) > 0 {
		i := rng.IntN(len(parts))
		list := records[parts[i]]
		n := min(1+rng.IntN(40), len(list))
		if err := s.broker.Produce(t.Context(), list[:n]...); err != nil {
			t.Fatal(err)
		}
		if records[parts[i]] = list[n:]; n == len(list) {
			parts = slices.Delete(parts, i, i+1)
		}
	}
}

// bankRecords are what a connector writes of a bank: money moves between accounts of two tables, and each transfer has a row of its own and
// changes a row that says its number.
func bankRecords(rng *rand.Rand) map[debezium.Partition][]debezium.Record {
	l := &sourceLog{}
	balance := map[string]int{}
	for n := 1; n <= transfers; n++ {
		l.begin()
		amount := 1 + rng.IntN(50)
		for _, sign := range []int{-1, 1} {
			table, id := []string{"checking", "savings"}[rng.IntN(2)], 1+rng.IntN(10)
			key := fmt.Sprint(table, id)
			before := balance[key]
			balance[key] += sign * amount
			l.row(table, id, "u", fmt.Sprintf(`{"id":%d,"balance":%d}`, id, before), fmt.Sprintf(`{"id":%d,"balance":%d}`, id, balance[key]))
		}
		l.row("ledger", n, "c", "null", fmt.Sprintf(`{"id":%d}`, n))
		l.row("pulse", 1, "u", fmt.Sprintf(`{"id":1,"n":%d}`, n-1), fmt.Sprintf(`{"id":1,"n":%d}`, n))
		l.end()
	}
	return l.records
}

// TestReadersSeeTransfersWhole: a reader of the target sees the bank's sum and ledger as they were at the source after some transfer,
// whichever partition is written first; and without source_transactions: preserve it does not, or this test could see nothing.
func TestReadersSeeTransfersWhole(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"preserve", "ignore"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, 10)
			s.createTopics(t, "checking", "savings", "ledger", "pulse")
			define(t, s, `CREATE TABLE checking AS SELECT i::int AS id, 0 AS balance FROM generate_series(1, 10) i; ALTER TABLE checking ADD PRIMARY KEY (id);
				CREATE TABLE savings AS SELECT * FROM checking; ALTER TABLE savings ADD PRIMARY KEY (id);
				CREATE TABLE ledger (id int PRIMARY KEY); CREATE TABLE pulse (id int PRIMARY KEY, n int); INSERT INTO pulse VALUES (1, 0)`)
			d := startDaemon(t, "run", "--config", s.file, "--set", "source.transactions=p.transaction", "--set", "source_transactions="+mode, "--set", "checkpoint.rows=7")
			wrong := make(chan error, 1)
			go func() { wrong <- lookAtBank(t, s) }()
			rng := rand.New(rand.NewPCG(1, 2))
			s.produceJumbled(t, rng, bankRecords(rng))
			switch err := <-wrong; {
			case mode == "preserve" && err != nil:
				t.Errorf("%v\n%s", err, d.errs.String())
			case mode == "ignore" && err == nil:
				t.Error("readers saw nothing that the source did not have")
			}
			d.stop(t)
		})
	}
}

// lookAtBank looks until the last transfer is there, and returns the first state that the source did not have.
func lookAtBank(t *testing.T, s *stack) (wrong error) {
	c, err := pgx.Connect(t.Context(), s.server.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Close(t.Context()); wrong == nil {
			wrong = err
		}
	}()
	for n, lines, last, sum := 0, 0, 0, 0; n < transfers || lines < transfers || sum != 0; {
		err := c.QueryRow(t.Context(), `SELECT (SELECT n FROM pulse), (SELECT count(*) FROM ledger), (SELECT coalesce(max(id), 0) FROM ledger),
			(SELECT sum(balance) FROM (SELECT * FROM checking UNION ALL SELECT * FROM savings) a)`).Scan(&n, &lines, &last, &sum)
		if err != nil {
			return err
		}
		if wrong == nil && (sum != 0 || lines != n || last != n) {
			wrong = fmt.Errorf("a reader saw the sum %d after transfer %d, with %d lines up to %d", sum, n, lines, last)
		}
	}
	return wrong
}
