package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
)

// benchSet is 1,000 records of about 600 bytes in batches of 100, as an insert without its schema is.
func benchSet(b *testing.B, codec compress.Compression) []byte {
	b.Helper()
	const records, inBatch = 1000, 100
	var raw []byte
	for base := 0; base < records; base += inBatch {
		x := batch{base: int64(base), last: inBatch - 1, compression: codec, first: 1_700_000_000_000}
		for i := range int32(inBatch) {
			x.records = append(x.records, rec{
				delta: i, key: fmt.Append(nil, `{"id":`, base+int(i), `}`),
				value: fmt.Append(nil, `{"before":null,"after":{"id":`, base+int(i), `,"name":"`, strings.Repeat("abc", 180), `"}}`),
			})
		}
		raw = append(raw, x.encode(b)...)
	}
	return raw
}

func BenchmarkDecode(b *testing.B) {
	p := debezium.Partition{Topic: "shop.shop.customers"}
	for _, codec := range []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		set := benchSet(b, codec)
		b.Run("codec="+codec.String(), func(b *testing.B) {
			b.ReportAllocs()
			d := newDecoder(maxBatch)
			records := 0
			for b.Loop() {
				got, err := d.decode(p, 0, set, nil)
				if err != nil {
					b.Fatal(err)
				}
				records += len(got.records)
			}
			b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/event")
		})
	}
}

// BenchmarkDecodeFranzGo is the same work by franz-go, to compare.
func BenchmarkDecodeFranzGo(b *testing.B) {
	for _, codec := range []compress.Compression{compress.None, compress.Zstd} {
		in := kmsg.NewFetchResponseTopicPartition()
		in.RecordBatches = benchSet(b, codec)
		b.Run("codec="+codec.String(), func(b *testing.B) {
			b.ReportAllocs()
			records := 0
			for b.Loop() {
				opts := kgo.ProcessFetchPartitionOpts{IsolationLevel: kgo.ReadCommitted(), Topic: "shop.shop.customers"}
				fp, _ := kgo.ProcessFetchPartition(opts, &in, kgo.DefaultDecompressor(), nil)
				records += len(fp.Records)
			}
			b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/event")
		})
	}
}
