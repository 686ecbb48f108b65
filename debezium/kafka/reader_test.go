package kafka

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

func TestEveryCodecReadsAsFranzGoDoes(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	at := time.UnixMilli(1_700_000_000_123)
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		check(t, b.ProduceWith(ctx, codec,
			debezium.Record{Partition: p, Key: []byte("k"), Value: nil, Time: at},
			debezium.Record{Partition: p, Key: []byte{}, Value: []byte{}, Time: at.Add(time.Hour)},
			debezium.Record{Partition: p, Key: nil, Value: []byte(strings.Repeat(codec, 1000)), Time: at, Headers: []debezium.Header{
				{Key: "__debezium.oldkey", Value: []byte("x")}, {Key: "", Value: nil}, {Key: "e", Value: []byte{}},
			}},
		))
		check(t, b.ProduceWith(ctx, codec, numbered(p, 10*i, 10)...))
	}
	sameFromEveryOffset(t, b, newSource(t, b, nil), p)
}

func TestAbortedAndControlRecordsAreSkippedAndMoveThePosition(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	check(t, b.Transact(ctx, "a", true, numbered(p, 1, 1)...))
	check(t, b.Transact(ctx, "b", false, numbered(p, 2, 2)...))
	check(t, b.Transact(ctx, "c", true, numbered(p, 4, 1)...))
	check(t, b.Transact(ctx, "d", false, numbered(p, 5, 1)...))
	s := newSource(t, b, nil)
	got, next := readToEnd(t, open(t, s, nil))
	same(t, got[p], oracle(t, b, p, 0))
	if want := []string{"value 1", "value 4"}; !slices.Equal(values(got[p]), want) {
		t.Errorf("read %q, not %q", values(got[p]), want)
	}
	if next[p] != 9 {
		t.Errorf("the position after the aborted tail is %d, not 9", next[p])
	}
	sameFromEveryOffset(t, b, s, p)
}

func values(records []debezium.Record) []string {
	out := make([]string, len(records))
	for i := range records {
		out[i] = string(records[i].Value)
	}
	return out
}

// Transactions of several producers overlap, end in any order and both ways, with records outside of any between them.
func TestInterleavedTransactionsReadAsFranzGoDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b, p := startTopic(t)
			interleave(t, b, p, rand.New(rand.NewPCG(seed, 1)), 60)
			sameFromEveryOffset(t, b, newSource(t, b, func(c *Config) { c.PartitionMax = 600 }), p)
		})
	}
}

func interleave(t *testing.T, b *broker.Broker, p debezium.Partition, rng *rand.Rand, steps int) {
	t.Helper()
	ctx := testContext(t)
	producers := []string{"a", "b", "c"}
	running := map[string]*broker.Txn{}
	end := func(id string) {
		txn := running[id]
		delete(running, id)
		if rng.IntN(2) == 0 {
			check(t, txn.Commit(ctx))
			return
		}
		check(t, txn.Abort(ctx))
	}
	for i := range steps {
		id := producers[rng.IntN(len(producers))]
		switch txn := running[id]; {
		case rng.IntN(4) == 0:
			check(t, b.Produce(ctx, numbered(p, 10*i, 1+rng.IntN(3))...))
		case txn == nil:
			txn, err := b.Begin(ctx, id)
			check(t, err)
			running[id] = txn
			check(t, txn.Produce(ctx, numbered(p, 10*i, 1)...))
		case rng.IntN(3) == 0:
			end(id)
		default:
			check(t, txn.Produce(ctx, numbered(p, 10*i, 1+rng.IntN(3))...))
		}
	}
	for _, id := range producers {
		if running[id] != nil {
			end(id)
		}
	}
}

func TestOpenTransactionHoldsReadingAtTheLastStableOffset(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	check(t, b.Produce(ctx, numbered(p, 0, 2)...))
	txn, err := b.Begin(ctx, "open")
	check(t, err)
	check(t, txn.Produce(ctx, numbered(p, 2, 2)...))
	check(t, b.Produce(ctx, numbered(p, 4, 1)...))
	r := open(t, newSource(t, b, nil), nil)
	got, next := readToEnd(t, r)
	if next[p] != 2 || r.End()[p] != 2 || len(got[p]) != 2 {
		t.Fatalf("position %d, end %d, %d records; all must be 2", next[p], r.End()[p], len(got[p]))
	}
	check(t, txn.Commit(ctx))
	for len(got[p]) < 5 {
		batch, err := r.Next(ctx)
		check(t, err)
		got[p] = append(got[p], batch.Records...)
	}
	same(t, got[p], oracle(t, b, p, 0))
}

func TestCompactedLogReadsAsFranzGoDoes(t *testing.T) {
	t.Parallel()
	for _, codec := range []string{"none", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, broker.Options{})
			p := debezium.Partition{Topic: "t"}
			check(t, b.CreateTopic("t", 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "0"}))
			ctx := testContext(t)
			for i := range 12 {
				records := numbered(p, i%5, 4)
				if i%4 == 3 {
					records[1].Value = nil
				}
				check(t, b.ProduceWith(ctx, codec, records...))
			}
			check(t, b.Transact(ctx, "x", false, numbered(p, 0, 3)...))
			check(t, b.Transact(ctx, "x", true, numbered(p, 2, 3)...))
			s := newSource(t, b, nil)
			before, _ := readToEnd(t, open(t, s, nil))
			b.Compact()
			after, _ := readToEnd(t, open(t, s, nil))
			if len(after[p]) >= len(before[p]) {
				t.Fatalf("%d records after compaction, %d before: nothing was compacted", len(after[p]), len(before[p]))
			}
			sameFromEveryOffset(t, b, s, p)
		})
	}
}

func TestRecordLargerThanTheFetchMaximumArrives(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Configs: map[string]string{"message.max.bytes": "20000000"}})
	p := debezium.Partition{Topic: "t"}
	check(t, b.CreateTopic("t", 1, map[string]string{"max.message.bytes": "20000000"}))
	ctx := testContext(t)
	big := record(p, "big", strings.Repeat("x", 5<<20))
	check(t, b.Produce(ctx, numbered(p, 0, 1)...))
	check(t, b.Produce(ctx, big))
	check(t, b.Produce(ctx, big))
	check(t, b.Produce(ctx, numbered(p, 1, 1)...))
	s := newSource(t, b, func(c *Config) { c.PartitionMax, c.Buffer = 64<<10, 128<<10 })
	got, _ := readToEnd(t, open(t, s, nil))
	same(t, got[p], oracle(t, b, p, 0))
}

// TestWhatCompressesWellComesInPieces: a fetch is bounded by what is sent, and what is decoded ahead by what it becomes. From within what was one
// batch of the broker's the reading goes on as from anywhere.
func TestWhatCompressesWellComesInPieces(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	const most, n = 64 << 10, 5000
	var records []debezium.Record
	for i := range n {
		records = append(records, record(p, fmt.Sprint(i), strings.Repeat("x", 100)))
	}
	check(t, b.ProduceWith(testContext(t), "zstd", records...))
	s := newSource(t, b, func(c *Config) { c.PartitionMax = most })
	r := open(t, s, nil)
	var got []debezium.Record
	var position debezium.Positions
	pieces := 0
	for at := int64(0); at < n; pieces++ {
		batch, err := r.Next(testContext(t))
		check(t, err)
		size := 0
		for i := range batch.Records {
			size += recordBytes(&batch.Records[i])
		}
		if size != batch.Bytes || size > most {
			t.Fatalf("a batch of %d bytes says %d, and may have %d", size, batch.Bytes, most)
		}
		got = append(got, batch.Records...)
		if at = batch.Next; at != int64(len(got)) {
			t.Fatalf("%d records are there, and the next is %d", len(got), at)
		}
		if pieces == 2 {
			position = debezium.Positions{p: {Offset: at, TopicID: batch.TopicID}}
		}
	}
	if pieces < n*100/most {
		t.Errorf("%d bytes came in %d pieces", n*100, pieces)
	}
	want := oracle(t, b, p, 0)
	same(t, got, want)
	rest, _ := readToEnd(t, open(t, s, position))
	same(t, rest[p], want[position[p].Offset:])
	r.mu.Lock()
	defer r.mu.Unlock()
	if queued := r.parts[p].queued; queued != 0 {
		t.Errorf("%d bytes count as queued when all is taken", queued)
	}
}

func TestManyPartitionsThroughASmallBuffer(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Nodes: 3})
	ctx := testContext(t)
	const topics, partitions, batches = 3, 8, 6
	want := map[debezium.Partition]int{}
	for i := range topics {
		name := fmt.Sprintf("t%d", i)
		check(t, b.CreateTopic(name, partitions, nil))
		for id := range int32(partitions) {
			p := debezium.Partition{Topic: name, ID: id}
			want[p] = batches * 20
			for j := range batches {
				check(t, b.Produce(ctx, numbered(p, 20*j, 20)...))
			}
		}
	}
	s := newSource(t, b, func(c *Config) { c.PartitionMax, c.Buffer = 4<<10, 16<<10 })
	got, _ := readToEnd(t, open(t, s, nil))
	for p, n := range want {
		if len(got[p]) != n {
			t.Errorf("%v: %d records, not %d", p, len(got[p]), n)
		}
		same(t, got[p], oracle(t, b, p, 0))
	}
}

func TestPartitionThatIsNotTakenIsNotFetched(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	for i := range 50 {
		check(t, b.Produce(ctx, record(p, "k", strings.Repeat(fmt.Sprint(i%10), 10_000))))
	}
	const buffer, most = 60_000, 20_000
	r := open(t, newSource(t, b, func(c *Config) { c.Buffer, c.PartitionMax = buffer, most }), nil)
	// The buffer is full when no fetch is under way and none may begin.
	full := func() (held int64, ok bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.held, r.held >= buffer && !r.order[0].busy
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		held, ok := full()
		if held > buffer+2*most+10_000 {
			t.Fatalf("%d bytes held, by a buffer of %d", held, buffer)
		}
		if ok {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the buffer did not fill")
		}
	}
	got, _ := readToEnd(t, r)
	same(t, got[p], oracle(t, b, p, 0))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.order[0].queued != 0 {
		t.Errorf("%d bytes are counted as queued when all was taken", r.order[0].queued)
	}
}

// A partition whose batches fill its share must not make the others, which have room, wait for the broker's MaxWait.
func TestBusyPartitionIsNotSlowedByIdleOnes(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t", 4, nil))
	p := debezium.Partition{Topic: "t", ID: 2}
	ctx := testContext(t)
	for range 40 {
		check(t, b.Produce(ctx, record(p, "k", strings.Repeat("x", 10_000))))
	}
	s := newSource(t, b, func(c *Config) { c.MaxWait, c.PartitionMax, c.Buffer = 20*time.Second, 10_000, 40_000 })
	got, _ := readToEnd(t, open(t, s, nil)) // 40 fetches that waited would exceed the test's patience
	same(t, got[p], oracle(t, b, p, 0))
}

func TestStartPolicyAppliesWithoutPositionsOnly(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t", 2, nil))
	p0, p1 := debezium.Partition{Topic: "t"}, debezium.Partition{Topic: "t", ID: 1}
	ctx := testContext(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 4 {
		rec := record(p0, "k", fmt.Sprint(i))
		rec.Time = at.Add(time.Duration(i) * time.Minute)
		check(t, b.Produce(ctx, rec))
	}
	check(t, b.Produce(ctx, debezium.Record{Partition: p1, Value: []byte("old"), Time: at}))
	tests := []struct {
		start  string
		from   debezium.Positions
		p0, p1 int64
	}{
		{"", nil, 0, 0},
		{"earliest", nil, 0, 0},
		{"latest", nil, 4, 1},
		{"2026-01-02T03:06:05Z", nil, 2, 1},
		{"2030-01-01T00:00:00Z", nil, 4, 1},
		{"latest", debezium.Positions{p0: {Offset: 3}}, 3, 0},
	}
	for _, tt := range tests {
		r := open(t, newSource(t, b, func(c *Config) { c.Start = tt.start }), tt.from)
		got := r.Start()
		if got[p0].Offset != tt.p0 || got[p1].Offset != tt.p1 || len(got) != 2 {
			t.Errorf("start %q from %v: %v, not %d and %d", tt.start, tt.from, got, tt.p0, tt.p1)
		}
		if want := map[debezium.Partition]int64{p0: 4, p1: 1}; fmt.Sprint(r.End()) != fmt.Sprint(want) {
			t.Errorf("end %v, not %v", r.End(), want)
		}
		if got[p0].TopicID == "" || got[p0].TopicID != got[p1].TopicID {
			t.Errorf("topic ids %q and %q", got[p0].TopicID, got[p1].TopicID)
		}
	}
}

func TestHistoryReadsATopicToItsEnd(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("schema", 1, nil))
	check(t, b.CreateTopic("t", 2, nil))
	p := debezium.Partition{Topic: "schema"}
	ctx := testContext(t)
	s := newSource(t, b, nil)
	records, next, err := s.History(ctx, "schema", -1)
	check(t, err)
	if len(records) != 0 || next != 0 {
		t.Errorf("an empty topic has %d records and the next offset %d", len(records), next)
	}
	check(t, b.Produce(ctx, numbered(p, 0, 5)...))
	check(t, b.Transact(ctx, "x", false, numbered(p, 5, 5)...))
	for _, from := range []int64{-1, 0, 3, 11} {
		records, next, err = s.History(ctx, "schema", from)
		check(t, err)
		same(t, records, oracle(t, b, p, max(from, 0)))
		if next != 11 {
			t.Errorf("from %d: next is %d, not 11", from, next)
		}
	}
	for topic, class := range map[string]string{"t": PartitionMissing, "nowhere": TopicMissing} {
		_, _, err := s.History(ctx, topic, -1)
		wantClass(t, err, class)
	}
}
