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

// bankRecords are what a connector writes of a bank: money moves between accounts of two tables, and each transfer has a row of its own and
// changes a row that says its number.
func bankRecords(rng *rand.Rand) map[debezium.Partition][]debezium.Record {
	out := map[debezium.Partition][]debezium.Record{}
	pos := 0
	add := func(p debezium.Partition, key, value string) {
		out[p] = append(out[p], debezium.Record{Partition: p, Key: []byte(key), Value: []byte(value)})
	}
	balance := map[string]int{}
	for n := 1; n <= transfers; n++ {
		counts, order := map[string]int{}, 0
		row := func(table string, id int, op, before, after string) {
			pos, order = pos+1, order+1
			counts[table]++
			p := debezium.Partition{Topic: "p.shop." + table, ID: int32(id % 2)}
			add(p, fmt.Sprintf(`{"id":%d}`, id), fmt.Sprintf(`{"before":%s,"after":%s,"source":{"connector":"mysql","name":"p","ts_ms":%d,"snapshot":"false","db":"shop","table":"%s","server_id":1,`+
				`"file":"b.1","pos":%d,"row":0},"op":"%s","ts_ms":%d,"transaction":{"id":"u:%d","total_order":%d,"data_collection_order":1}}`, before, after, n, table, pos, op, n, n, order))
		}
		marker := func(text string) {
			add(debezium.Partition{Topic: "p.transaction"}, fmt.Sprintf(`{"id":"u:%d"}`, n), fmt.Sprintf(`{"id":"u:%d",%s,"ts_ms":%d}`, n, text, n))
		}
		marker(`"status":"BEGIN","event_count":null,"data_collections":null`)
		amount := 1 + rng.IntN(50)
		for _, sign := range []int{-1, 1} {
			table, id := []string{"checking", "savings"}[rng.IntN(2)], 1+rng.IntN(10)
			key := fmt.Sprint(table, id)
			before := balance[key]
			balance[key] += sign * amount
			row(table, id, "u", fmt.Sprintf(`{"id":%d,"balance":%d}`, id, before), fmt.Sprintf(`{"id":%d,"balance":%d}`, id, balance[key]))
		}
		row("ledger", n, "c", "null", fmt.Sprintf(`{"id":%d}`, n))
		row("pulse", 1, "u", fmt.Sprintf(`{"id":1,"n":%d}`, n-1), fmt.Sprintf(`{"id":1,"n":%d}`, n))
		var list []string
		for _, table := range slices.Sorted(maps.Keys(counts)) {
			list = append(list, fmt.Sprintf(`{"data_collection":"shop.%s","event_count":%d}`, table, counts[table]))
		}
		marker(fmt.Sprintf(`"status":"END","event_count":%d,"data_collections":[%s]`, order, strings.Join(list, ",")))
	}
	return out
}

// TestReadersSeeTransfersWhole: a reader of the target sees the bank's sum and ledger as they were at the source after some transfer,
// whichever partition is written first; and without source_transactions: preserve it does not, or this test could see nothing.
func TestReadersSeeTransfersWhole(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"preserve", "ignore"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, 10)
			for topic, partitions := range map[string]int32{"p.shop.checking": 2, "p.shop.savings": 2, "p.shop.ledger": 2, "p.shop.pulse": 2, "p.transaction": 1} {
				if err := s.broker.CreateTopic(topic, partitions, nil); err != nil {
					t.Fatal(err)
				}
			}
			define(t, s, `CREATE TABLE checking AS SELECT i::int AS id, 0 AS balance FROM generate_series(1, 10) i; ALTER TABLE checking ADD PRIMARY KEY (id);
				CREATE TABLE savings AS SELECT * FROM checking; ALTER TABLE savings ADD PRIMARY KEY (id);
				CREATE TABLE ledger (id int PRIMARY KEY); CREATE TABLE pulse (id int PRIMARY KEY, n int); INSERT INTO pulse VALUES (1, 0)`)
			d := startDaemon(t, "run", "--config", s.file, "--set", "source.transactions=p.transaction", "--set", "source_transactions="+mode, "--set", "checkpoint.rows=7")
			wrong := make(chan error, 1)
			go func() { wrong <- lookAtBank(t, s) }()
			rng := rand.New(rand.NewPCG(1, 2))
			records := bankRecords(rng)
			parts := slices.SortedFunc(maps.Keys(records), func(a, b debezium.Partition) int { return strings.Compare(a.String(), b.String()) })
			for len(parts) > 0 {
				i := rng.IntN(len(parts))
				p := parts[i]
				n := min(1+rng.IntN(40), len(records[p]))
				if err := s.broker.Produce(t.Context(), records[p][:n]...); err != nil {
					t.Fatal(err)
				}
				if records[p] = records[p][n:]; len(records[p]) == 0 {
					parts = slices.Delete(parts, i, i+1)
				}
			}
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
