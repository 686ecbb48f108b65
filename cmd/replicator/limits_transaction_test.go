package main

import (
	"flag"
	"fmt"
	"testing"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// transactionRows is how many rows the one transaction of the source has. docs/reliability.md says what ten million need.
var transactionRows = flag.Int("transaction-rows", 500_000, "rows of the largest source transaction that is tested")

// largeTransaction replicates one transaction of the source that is larger than anything that is kept of it. Without source_transactions
// it is cut into checkpoints; with preserve it waits for its end, mostly on disk, and is one checkpoint.
func largeTransaction(t *testing.T, p program) {
	b, err := broker.Start(broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := newCaseRun(t, &caseFile{})
	markers := r.topic("transaction")
	r.produceTransaction(t, b, markers, *transactionRows)
	for _, mode := range []string{"ignore", "preserve"} {
		r.exec(t, "DROP SCHEMA IF EXISTS replicator CASCADE; DROP TABLE IF EXISTS entry; CREATE TABLE entry (id int PRIMARY KEY, v int)")
		peak := p.run(t, r, b, "--set", "source.transactions="+markers, "--set", "source_transactions="+mode, "--set", "preserve.memory=8MiB", "--set", "preserve.wait=1h")
		t.Logf("source_transactions: %s: at most %d MiB resident for a transaction of %d rows", mode, peak>>20, *transactionRows)
		if peak > 700<<20 {
			t.Errorf("source_transactions: %s: the process held %d MiB for a transaction of %d rows", mode, peak>>20, *transactionRows)
		}
		n := int64(*transactionRows)
		got := rowsText(r.exec(t, "SELECT count(*), count(DISTINCT id), sum(v::bigint - id), sum(id::bigint) FROM entry"))
		if want := fmt.Sprintf("\"%d\" | \"%d\" | \"0\" | \"%d\"\n", n, n, n*(n+1)/2); got != want {
			t.Errorf("source_transactions: %s: got %s, want %s", mode, got, want)
		}
		got = rowsText(r.exec(t, "SELECT count(*) FILTER (WHERE (document->>'rows')::int BETWEEN 1 AND "+fmt.Sprint(n-1)+") > 0 FROM replicator.checkpoints"))
		if want := map[string]string{"ignore": "\"t\"\n", "preserve": "\"f\"\n"}[mode]; got != want {
			t.Errorf("source_transactions: %s: whether a checkpoint has a part of the transaction: got %s, want %s", mode, got, want)
		}
	}
}

// produceTransaction writes a transaction of as many new rows, in batches that are compressed.
func (r *caseRun) produceTransaction(t *testing.T, b *broker.Broker, markers string, rows int) {
	t.Helper()
	entry := debezium.Partition{Topic: r.topic("shop.entry")}
	for _, topic := range []string{markers, entry.Topic} {
		if err := b.CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	produce := func(records ...debezium.Record) {
		if err := b.ProduceWith(t.Context(), "zstd", records...); err != nil {
			t.Fatal(err)
		}
	}
	marker := func(text string) {
		produce(debezium.Record{Partition: debezium.Partition{Topic: markers}, Key: []byte(`{"id":"u:1"}`), Value: []byte(`{"id":"u:1",` + text + `,"ts_ms":1}`)})
	}
	marker(`"status":"BEGIN","event_count":null,"data_collections":null`)
	const batch = 20_000
	for from := 1; from <= rows; from += batch {
		var records []debezium.Record
		for n := from; n <= min(rows, from+batch-1); n++ {
			records = append(records, debezium.Record{
				Partition: entry, Key: fmt.Appendf(nil, `{"id":%d}`, n),
				Value: fmt.Appendf(nil, `{"before":null,"after":{"id":%[1]d,"v":%[1]d},"source":{"connector":"mysql","name":"p","ts_ms":1,"snapshot":"false","db":"shop","table":"entry","server_id":1,`+
					`"file":"b.1","pos":%[1]d,"row":0},"op":"c","ts_ms":1,"transaction":{"id":"u:1","total_order":%[1]d,"data_collection_order":%[1]d}}`, n),
			})
		}
		produce(records...)
	}
	marker(fmt.Sprintf(`"status":"END","event_count":%d,"data_collections":[{"data_collection":"shop.entry","event_count":%[1]d}]`, rows))
}
