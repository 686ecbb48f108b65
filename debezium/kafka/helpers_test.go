package kafka

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// patience bounds every wait of the tests. Nothing waits for it unless a test fails.
const patience = 30 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func startBroker(t *testing.T, o broker.Options) *broker.Broker {
	t.Helper()
	b, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// startTopic starts a broker of one node with a topic t of one partition.
func startTopic(t *testing.T) (*broker.Broker, debezium.Partition) {
	t.Helper()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t", 1, nil))
	return b, debezium.Partition{Topic: "t"}
}

func newSource(t *testing.T, b *broker.Broker, change func(*Config)) *Source {
	t.Helper()
	cfg := Config{Brokers: b.Addrs(), Topics: []string{"t.*"}, MaxWait: 50 * time.Millisecond, DiscoverEvery: 50 * time.Millisecond, GiveUp: 10 * time.Second}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	check(t, err)
	s.confirm = 200 * time.Millisecond
	return s
}

func open(t *testing.T, s *Source, from debezium.Positions) *Reader {
	t.Helper()
	r, err := s.Open(testContext(t), from)
	check(t, err)
	t.Cleanup(func() { check(t, r.Close()) })
	return r
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// record makes a record of p from its key and value; "" is empty, and not null.
func record(p debezium.Partition, key, value string) debezium.Record {
	return debezium.Record{Partition: p, Key: []byte(key), Value: []byte(value)}
}

func numbered(p debezium.Partition, from, n int) []debezium.Record {
	out := make([]debezium.Record, n)
	for i := range out {
		out[i] = record(p, fmt.Sprintf("key %d", from+i), fmt.Sprintf("value %d", from+i))
	}
	return out
}

// readToEnd takes batches until every partition known at Open is at its end, and checks what every batch promises. It
// returns each partition's records and where it is.
func readToEnd(t *testing.T, r *Reader) (map[debezium.Partition][]debezium.Record, map[debezium.Partition]int64) {
	t.Helper()
	ctx := testContext(t)
	out, at := map[debezium.Partition][]debezium.Record{}, map[debezium.Partition]int64{}
	for p, pos := range r.Start() {
		at[p] = pos.Offset
	}
	behind := func() bool {
		for p, end := range r.End() {
			if at[p] < end {
				return true
			}
		}
		return false
	}
	for behind() {
		b, err := r.Next(ctx)
		check(t, err)
		checkBatch(t, b, at[b.Partition])
		out[b.Partition] = append(out[b.Partition], b.Records...)
		at[b.Partition] = b.Next
	}
	return out, at
}

func checkBatch(t *testing.T, b debezium.Batch, at int64) {
	t.Helper()
	size := 0
	if b.Next <= at {
		t.Fatalf("batch of %v at %d does not move: next is %d", b.Partition, at, b.Next)
	}
	for _, rec := range b.Records {
		if rec.Partition != b.Partition || rec.Offset < at || rec.Offset >= b.Next {
			t.Fatalf("record %v at %d is in the batch of %v from %d to %d", rec.Partition, rec.Offset, b.Partition, at, b.Next)
		}
		at = rec.Offset + 1
		size += len(rec.Key) + len(rec.Value)
		for _, h := range rec.Headers {
			size += len(h.Key) + len(h.Value)
		}
	}
	if b.Bytes != size {
		t.Fatalf("batch of %v says %d bytes, not %d", b.Partition, b.Bytes, size)
	}
}

// oracle reads p as franz-go does in read_committed mode, from the offset from to the last stable offset.
func oracle(t *testing.T, b *broker.Broker, p debezium.Partition, from int64) []debezium.Record {
	t.Helper()
	ctx := testContext(t)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.BrokerMaxReadBytes(512<<20))
	check(t, err)
	defer c.Close()
	var out []debezium.Record
	for {
		res := rawFetch(ctx, t, c, b, p, from)
		opts := kgo.ProcessFetchPartitionOpts{Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: p.Topic, Partition: p.ID}
		fp, next := kgo.ProcessFetchPartition(opts, res, kgo.DefaultDecompressor(), nil)
		check(t, fp.Err)
		for _, rec := range fp.Records {
			out = append(out, fromOracle(rec))
		}
		if next >= res.LastStableOffset || next == from {
			return out
		}
		from = next
	}
}

func rawFetch(ctx context.Context, t *testing.T, c *kgo.Client, b *broker.Broker, p debezium.Partition, from int64) *kmsg.FetchResponseTopicPartition {
	t.Helper()
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr(p.Topic)
	meta.Topics = append(meta.Topics, mt)
	m, err := meta.RequestWith(ctx, c)
	check(t, err)
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.IsolationLevel, req.SessionEpoch = 256<<20, 1, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = p.Topic, m.Topics[0].TopicID
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = p.ID, from, 1<<20
	ft.Partitions = append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	res, err := c.Broker(int(b.Leader(p.Topic, p.ID))).RetriableRequest(ctx, req)
	check(t, err)
	return &res.(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

func fromOracle(rec *kgo.Record) debezium.Record {
	out := debezium.Record{
		Partition: debezium.Partition{Topic: rec.Topic, ID: rec.Partition}, Offset: rec.Offset,
		Time: rec.Timestamp, Key: rec.Key, Value: rec.Value,
	}
	for _, h := range rec.Headers {
		out.Headers = append(out.Headers, debezium.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

// same compares whole records, null and empty told apart.
func same(t *testing.T, got, want []debezium.Record) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if g, w := normal(got[i]), normal(want[i]); !reflect.DeepEqual(g, w) {
			t.Fatalf("record %d is %+v, not %+v", i, g, w)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, not %d: offsets %v, not %v", len(got), len(want), offsets(got), offsets(want))
	}
}

func normal(r debezium.Record) debezium.Record {
	r.Time = r.Time.UTC()
	return r
}

func offsets(records []debezium.Record) []int64 {
	out := make([]int64, len(records))
	for i := range records {
		out[i] = records[i].Offset
	}
	return out
}

// since returns the records from offset on.
func since(records []debezium.Record, offset int64) []debezium.Record {
	i, _ := slices.BinarySearchFunc(records, offset, func(r debezium.Record, o int64) int { return int(r.Offset - o) })
	return records[i:]
}

// sameFromEveryOffset reads p from each offset of its log, and compares with franz-go on the same log.
func sameFromEveryOffset(t *testing.T, b *broker.Broker, s *Source, p debezium.Partition) {
	t.Helper()
	infos, err := s.Describe(testContext(t))
	check(t, err)
	var info PartitionInfo
	for _, i := range infos {
		if i.Name == p.Topic {
			info = i.Partitions[p.ID]
		}
	}
	want := oracle(t, b, p, info.Earliest)
	for at := info.Earliest; at <= info.LastStable; at++ {
		from := debezium.Positions{p: {Offset: at}}
		r, err := s.Open(testContext(t), from)
		check(t, err)
		got, next := readToEnd(t, r)
		check(t, r.Close())
		same(t, got[p], since(want, at))
		if next[p] != info.LastStable {
			t.Fatalf("from %d: the position at the end is %d, not %d", at, next[p], info.LastStable)
		}
	}
}
