//go:build unix

package debezium_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"replicator/debezium"
)

// BenchmarkDecode decodes batches of 500 records of one table: updates with both images, or flattened, with their keys and
// headers. Its events/s and ns/event are by the processor's time, which is one core's and includes the collection of garbage;
// MB/s are by the clock, and mean little while other work is done.
func BenchmarkDecode(b *testing.B) {
	for _, format := range []struct{ name, recorded string }{{"json-schema", "plain"}, {"json", "bare"}, {"flattened", "flat"}, {"avro", "avro"}, {"protobuf", "proto2"}} {
		for _, columns := range []int{4, 16, 64} {
			b.Run(fmt.Sprintf("format=%s/columns=%d", format.name, columns), func(b *testing.B) {
				batch, schemas := wideBatch(b, format.recorded, columns, 500)
				benchmarkDecode(b, batch, schemas)
			})
		}
	}
}

func benchmarkDecode(b *testing.B, batch *debezium.Batch, schemas debezium.Schemas) {
	d := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas})
	b.SetBytes(int64(batch.Bytes))
	b.ReportAllocs()
	began := cpuTime(b)
	for b.Loop() {
		if _, err := d.DecodeBatch(batch); err != nil {
			b.Fatal(err)
		}
	}
	spent := cpuTime(b) - began
	events := float64(b.N * len(batch.Records))
	b.ReportMetric(events/spent.Seconds(), "events/s")
	b.ReportMetric(float64(spent.Nanoseconds())/events, "ns/event")
	b.ReportMetric(float64(batch.Bytes)/float64(len(batch.Records)), "size-B/event")
}

// cpuTime is what this process has used of all cores.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
