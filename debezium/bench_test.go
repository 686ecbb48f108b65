package debezium_test

import (
	"path/filepath"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// BenchmarkDecode decodes batches of 500 records of one table: updates with both images, of about 4 KB with their
// schema, 1 KB without, and 0.5 KB in Avro.
func BenchmarkDecode(b *testing.B) {
	for _, connector := range []string{"plain", "bare", "avro", "avroh"} {
		b.Run(connector, func(b *testing.B) {
			batch := manyOf(b, connector, "shop.customers", debezium.Update, 500)
			d := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas(b)})
			b.SetBytes(int64(batch.Bytes))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.DecodeBatch(batch); err != nil {
					b.Fatal(err)
				}
			}
			events := float64(b.N * len(batch.Records))
			b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/events, "ns/event")
		})
	}
}

// manyOf returns a batch of n records, the recorded ones with this op over and over, each with its own memory.
func manyOf(tb testing.TB, connector, table string, op debezium.Op, n int) *debezium.Batch {
	tb.Helper()
	topics, err := debeziumtest.Load(filepath.Join(captures, connector))
	if err != nil {
		tb.Fatal(err)
	}
	records := topics[connector+"."+table]
	events, err := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas(tb)}).DecodeBatch(&debezium.Batch{Partition: records[0].Partition, Records: records})
	if err != nil {
		tb.Fatal(err)
	}
	batch := &debezium.Batch{Partition: records[0].Partition}
	for len(batch.Records) < n {
		before := len(batch.Records)
		for i := range events {
			// The records before the table's first change: one schema.
			if events[i].Op == op && events[i].After.Shape == events[0].After.Shape && len(batch.Records) < n {
				r := records[i]
				r.Value = append([]byte(nil), r.Value...)
				batch.Records = append(batch.Records, r)
				batch.Bytes += events[i].Bytes
			}
		}
		if len(batch.Records) == before {
			tb.Fatalf("no record of %s with op %v", table, op)
		}
	}
	return batch
}
