package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// batch is a record batch to be encoded.
type batch struct {
	base        int64
	last        int32 // last offset delta
	attributes  int16 // beside the compression
	compression compress.Compression
	producer    int64
	first, max  int64 // times
	records     []rec
	frame       func([]byte) []byte // another compression of the payload
}

type rec struct {
	delta      int32
	key, value []byte
	headers    []debezium.Header
}

const (
	transactional = 16
	control       = 32
)

func (b batch) encode(t testing.TB) []byte {
	t.Helper()
	var payload []byte
	for _, r := range b.records {
		payload = appendRecord(payload, r)
	}
	switch {
	case b.frame != nil:
		payload = b.frame(payload)
	case b.compression != compress.None:
		var out bytes.Buffer
		w := b.compression.Codec().NewWriter(&out)
		_, err := w.Write(payload)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		payload = out.Bytes()
	}
	raw := kmsg.RecordBatch{
		FirstOffset: b.base, Length: int32(batchHeader - lengthCounted + len(payload)), Magic: 2,
		Attributes: b.attributes | int16(b.compression), LastOffsetDelta: b.last, FirstTimestamp: b.first, MaxTimestamp: b.max,
		ProducerID: b.producer, NumRecords: int32(len(b.records)), Records: payload,
	}
	return sealed(raw.AppendTo(nil))
}

func appendRecord(b []byte, r rec) []byte {
	var f []byte
	f = append(f, 0)
	f = binary.AppendVarint(f, int64(r.delta)) // the time, too
	f = binary.AppendVarint(f, int64(r.delta))
	f = appendField(appendField(f, r.key), r.value)
	f = binary.AppendVarint(f, int64(len(r.headers)))
	for _, h := range r.headers {
		f = appendField(appendField(f, []byte(h.Key)), h.Value)
	}
	return append(binary.AppendVarint(b, int64(len(f))), f...)
}

func appendField(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// sealed sets a batch's checksum.
func sealed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
	return b
}

func marker(base, producer int64, kind byte) batch {
	return batch{
		base: base, producer: producer, attributes: transactional | control,
		records: []rec{{key: []byte{0, 0, 0, kind}, value: []byte{0, 0, 0, 0, 0, 0}}},
	}
}

func some(deltas ...int32) []rec {
	out := make([]rec, len(deltas))
	for i, d := range deltas {
		out[i] = rec{delta: d, key: fmt.Append(nil, "k", d), value: fmt.Append(nil, "v", d)}
	}
	return out
}

var xerialFrames = func(payload []byte) []byte {
	out := append(bytes.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(payload) > 0 {
		n := min(len(payload), 10)
		chunk := s2.EncodeSnappy(nil, payload[:n])
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(chunk))), chunk...)
		payload = payload[n:]
	}
	return out
}

// ended is an aborted transaction, with the offset of its marker.
type ended struct{ producer, first, marker int64 }

// sets are record sets that brokers send, with what they say is aborted.
var sets = map[string]struct {
	batches []batch
	aborted []ended
	want    []int64 // offsets delivered from the beginning
}{
	"empty batches between data": {
		batches: []batch{{base: 0, last: 1, records: some(0, 1)}, {base: 2, last: 3}, {base: 4, last: 5}, {base: 10, records: some(0)}},
		want:    []int64{0, 1, 10},
	},
	"only empty batches": {batches: []batch{{base: 0, last: 4}, {base: 5}}},
	"compacted, compressed, without its tail": {
		batches: []batch{{base: 0, last: 9, compression: compress.Zstd, records: some(1, 4)}, {base: 12, last: 3, compression: compress.Gzip, records: some(0)}},
		want:    []int64{1, 4, 12},
	},
	"aborted, with an abort of the same producer after a commit": {
		batches: []batch{
			{base: 0, last: 1, producer: 7, attributes: transactional, records: some(0, 1)},
			marker(2, 7, 1),
			{base: 3, producer: 7, attributes: transactional, records: some(0)},
			{base: 4, producer: 8, attributes: transactional, records: some(0)},
			{base: 5, records: some(0)},
			marker(6, 7, 0),
			{base: 7, producer: 7, attributes: transactional, records: some(0)},
			marker(8, 8, 1), marker(9, 7, 1),
		},
		aborted: []ended{{7, 3, 6}},
		want:    []int64{0, 1, 4, 5, 7},
	},
	"aborted list out of order, two of one producer": {
		batches: []batch{
			{base: 0, producer: 1, attributes: transactional, records: some(0)},
			marker(1, 1, 0),
			{base: 2, producer: 2, attributes: transactional, records: some(0)},
			{base: 3, producer: 1, attributes: transactional, records: some(0)},
			marker(4, 1, 0), marker(5, 2, 0),
			{base: 6, producer: 2, attributes: transactional, records: some(0)},
		},
		aborted: []ended{{1, 3, 4}, {2, 2, 5}, {1, 0, 1}},
		want:    []int64{6},
	},
	"control batch whose marker was compacted away": {
		batches: []batch{{base: 0, records: some(0)}, {base: 1, producer: 3, attributes: transactional | control}, {base: 2, records: some(0)}},
		want:    []int64{0, 2},
	},
	"a record of an idempotent producer that another aborted": {
		batches: []batch{{base: 0, producer: 1, records: some(0)}, {base: 1, producer: 1, attributes: transactional, records: some(0)}, marker(2, 1, 0)},
		aborted: []ended{{1, 0, 2}},
		want:    []int64{0},
	},
	"snappy in Java's framing": {
		batches: []batch{{base: 5, last: 2, compression: compress.Snappy, frame: xerialFrames, records: some(0, 1, 2)}},
		want:    []int64{5, 6, 7},
	},
	"times by the broker, or none": {
		batches: []batch{{base: 0, last: 1, attributes: 8, first: 5, max: 1_700_000_000_000, records: some(0, 1)}, {base: 2, first: -1, max: -1, records: some(0)}},
		want:    []int64{0, 1, 2},
	},
	"nulls, empties and headers": {
		batches: []batch{{base: 0, last: 3, records: []rec{
			{delta: 0},
			{delta: 1, key: []byte{}, value: []byte{}},
			{delta: 2, headers: []debezium.Header{{Key: "a", Value: nil}, {Key: "", Value: []byte{}}, {Key: "a", Value: []byte("x")}}},
			{delta: 3, key: []byte("k")},
		}}},
		want: []int64{0, 1, 2, 3},
	},
}

func TestDecoderAgreesWithFranzGoFromEveryOffset(t *testing.T) {
	t.Parallel()
	p := debezium.Partition{Topic: "t", ID: 3}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := set.batches[len(set.batches)-1]
			end := last.base + int64(last.last) + 1
			for at := range end {
				raw, gone := answerFrom(t, at, set.batches, set.aborted)
				got, err := newDecoder(maxBatch).decode(p, at, raw, gone)
				check(t, err)
				same(t, got.records, byFranzGo(t, p, at, raw, gone))
				if got.next != end {
					t.Errorf("from %d: next is %d, not %d", at, got.next, end)
				}
				if at == 0 && !slices.Equal(offsets(got.records), set.want) {
					t.Errorf("offsets %v, not %v", offsets(got.records), set.want)
				}
			}
		})
	}
}

// answerFrom is what a broker sends for a fetch at an offset: from the batch that holds it on, and the aborted transactions
// whose marker is not before it.
func answerFrom(t *testing.T, at int64, batches []batch, all []ended) ([]byte, []aborted) {
	t.Helper()
	var raw []byte
	for _, b := range batches {
		if b.base+int64(b.last) >= at {
			raw = append(raw, b.encode(t)...)
		}
	}
	var gone []aborted
	for _, e := range all {
		if e.marker >= at {
			gone = append(gone, aborted{e.producer, e.first})
		}
	}
	return raw, gone
}

func byFranzGo(t *testing.T, p debezium.Partition, at int64, set []byte, gone []aborted) []debezium.Record {
	t.Helper()
	in := kmsg.NewFetchResponseTopicPartition()
	in.Partition, in.RecordBatches, in.LastStableOffset, in.HighWatermark = p.ID, set, 1<<40, 1<<40
	for _, a := range gone {
		ka := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		ka.ProducerID, ka.FirstOffset = a.producer, a.first
		in.AbortedTransactions = append(in.AbortedTransactions, ka)
	}
	opts := kgo.ProcessFetchPartitionOpts{Offset: at, IsolationLevel: kgo.ReadCommitted(), Topic: p.Topic, Partition: p.ID}
	fp, _ := kgo.ProcessFetchPartition(opts, &in, kgo.DefaultDecompressor(), nil)
	check(t, fp.Err)
	var out []debezium.Record
	for _, r := range fp.Records {
		rec := fromOracle(r)
		if rec.Time.UnixMilli() < 0 { // franz-go has no "none"
			rec.Time = time.Time{}
		}
		out = append(out, rec)
	}
	return out
}

func TestDamagedBatchesAreErrorsThatKeepWhatCameBefore(t *testing.T) {
	t.Parallel()
	p := debezium.Partition{Topic: "t"}
	good := batch{base: 0, last: 1, records: some(0, 1)}
	bad := func(change func([]byte)) []byte {
		b := batch{base: 2, last: 1, records: some(0, 1)}.encode(t)
		change(b)
		return sealed(b)
	}
	flipped := bad(func([]byte) {})
	flipped[len(flipped)-1] ^= 1
	for name, set := range map[string][]byte{
		"checksum":                  flipped,
		"less than that of its":     bad(func(b []byte) { binary.BigEndian.PutUint32(b[atLength:], 20) }),
		"before version 2 (1)":      bad(func(b []byte) { b[atMagic] = 1 }),
		"unknown magic 3":           bad(func(b []byte) { b[atMagic] = 3 }),
		"unknown compression 5":     bad(func(b []byte) { b[atAttributes+1] = 5 }),
		"gzip":                      bad(func(b []byte) { b[atAttributes+1] = 1 }),
		"last offset delta -1":      bad(func(b []byte) { binary.BigEndian.PutUint32(b[atLastDelta:], 1<<32-1) }),
		"records in":                bad(func(b []byte) { binary.BigEndian.PutUint32(b[atCount:], 1<<30) }),
		"-1 records":                bad(func(b []byte) { binary.BigEndian.PutUint32(b[atCount:], 1<<32-1) }),
		"after the last of 1":       bad(func(b []byte) { binary.BigEndian.PutUint32(b[atCount:], 1) }),
		"in a batch that ends at 2": bad(func(b []byte) { binary.BigEndian.PutUint32(b[atLastDelta:], 0) }),
		"record ends early":         bad(func(b []byte) { b[batchHeader] = 126 }),
		"record at offset 2 after":  batch{base: 2, last: 1, records: some(0, 0)}.encode(t),
		"control record with a key": batch{base: 2, attributes: control, records: some(0)}.encode(t),
	} {
		got, err := newDecoder(maxBatch).decode(p, 0, append(good.encode(t), set...), nil)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
		if len(got.records) != 2 || got.next != 2 {
			t.Errorf("%s: %d records up to %d remain, not 2 up to 2", name, len(got.records), got.next)
		}
	}
}

func TestLastBatchThatIsCutIsLeftForTheNextFetch(t *testing.T) {
	t.Parallel()
	first := batch{base: 0, last: 1, records: some(0, 1)}.encode(t)
	set := append(bytes.Clone(first), batch{base: 2, records: some(0)}.encode(t)...)
	for n := range set {
		got, err := newDecoder(maxBatch).decode(debezium.Partition{}, 0, set[:n], nil)
		switch {
		case n >= len(first):
			if err != nil || got.next != 2 || len(got.records) != 2 {
				t.Fatalf("%d bytes: next %d, error %v", n, got.next, err)
			}
		case n > 0:
			if err == nil || got.next != 0 {
				t.Fatalf("%d bytes: next %d, error %v", n, got.next, err)
			}
		}
	}
}

func TestBombsAreRefused(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	zeros := rec{value: make([]byte, 4*limit)}
	for _, codec := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		set := batch{compression: codec, records: []rec{zeros}}.encode(t)
		if _, err := newDecoder(limit).decode(debezium.Partition{}, 0, set, nil); !errors.Is(err, errTooLarge) {
			t.Errorf("%v of %d bytes: %v", codec, len(set), err)
		}
	}
	claim := batch{compression: compress.Snappy, frame: func([]byte) []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0} }}.encode(t)
	binary.BigEndian.PutUint32(claim[atCount:], 1)
	if _, err := newDecoder(maxBatch).decode(debezium.Partition{}, 0, sealed(claim), nil); !errors.Is(err, errTooLarge) {
		t.Errorf("snappy that claims 4 GiB: %v", err)
	}
	tiny := batch{last: 99_999, compression: compress.Gzip}
	for i := range int32(100_000) {
		tiny.records = append(tiny.records, rec{delta: i})
	}
	if _, err := newDecoder(limit).decode(debezium.Partition{}, 0, tiny.encode(t), nil); !errors.Is(err, errTooLarge) {
		t.Errorf("a batch whose records take more memory than its bytes: %v", err)
	}
}

// The same crafted sets through a broker: the position passes what holds nothing, to the log's very end.
func TestReaderPassesEmptyBatches(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	var log []batch
	for i := range int64(10) {
		log = append(log, batch{base: 10 * i, last: 9, records: some(0)}, batch{base: 10*i + 1, last: 8})
		if i%3 == 0 {
			log = log[:len(log)-1]
		}
	}
	const end = 100
	serve(t, b, p, log, end)
	for _, most := range []int{1, 150, 1 << 20} {
		s := newSource(t, b, func(c *Config) { c.PartitionMax, c.Buffer = most, int64(most) })
		got, next := readToEnd(t, open(t, s, debezium.Positions{p: {Offset: 0}}))
		if want := []int64{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}; !reflect.DeepEqual(offsets(got[p]), want) || next[p] != end {
			t.Errorf("offsets %v up to %d", offsets(got[p]), next[p])
		}
	}
}

// serve has the broker answer fetches of p from log, whole batches from the position on and at least one.
func serve(t *testing.T, b *broker.Broker, p debezium.Partition, log []batch, end int64) {
	t.Helper()
	raw := make([][]byte, len(log))
	for i := range log {
		raw[i] = log[i].encode(t)
	}
	b.Intercept(kmsg.ListOffsets, func(req kmsg.Request) (kmsg.Response, error, bool) {
		in := req.(*kmsg.ListOffsetsRequest)
		res := in.ResponseKind().(*kmsg.ListOffsetsResponse)
		st := kmsg.NewListOffsetsResponseTopic()
		st.Topic = p.Topic
		sp := kmsg.NewListOffsetsResponseTopicPartition()
		if sp.Partition, sp.Offset = p.ID, 0; in.Topics[0].Partitions[0].Timestamp == atEnd {
			sp.Offset = end
		}
		st.Partitions = append(st.Partitions, sp)
		res.Topics = append(res.Topics, st)
		return res, nil, true
	})
	b.Intercept(kmsg.Fetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
		in := req.(*kmsg.FetchRequest)
		res := in.ResponseKind().(*kmsg.FetchResponse)
		st := kmsg.NewFetchResponseTopic()
		st.Topic, st.TopicID = in.Topics[0].Topic, in.Topics[0].TopicID
		sp := kmsg.NewFetchResponseTopicPartition()
		sp.Partition, sp.HighWatermark, sp.LastStableOffset = p.ID, end, end
		ask := in.Topics[0].Partitions[0]
		for i, l := range log {
			if l.base+int64(l.last) < ask.FetchOffset {
				continue
			}
			if len(sp.RecordBatches) > 0 && len(sp.RecordBatches)+len(raw[i]) > int(ask.PartitionMaxBytes) {
				break
			}
			sp.RecordBatches = append(sp.RecordBatches, raw[i]...)
		}
		st.Partitions = append(st.Partitions, sp)
		res.Topics = append(res.Topics, st)
		return res, nil, true
	})
}

func TestBatchThatStaysDamagedStops(t *testing.T) {
	t.Parallel()
	for class, change := range map[string]func([]byte){
		CorruptBatch:      func(b []byte) { b[len(b)-1] ^= 1 },
		UnsupportedFormat: func(b []byte) { b[atMagic] = 1 },
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			b, p := startTopic(t)
			check(t, b.Produce(testContext(t), numbered(p, 0, 1)...))
			raw := batch{records: some(0)}.encode(t)
			change(raw)
			fetches := 0
			b.Intercept(kmsg.Fetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
				fetches++
				res := failedFetch(req.(*kmsg.FetchRequest), nil)
				res.Topics[0].Partitions[0].RecordBatches = raw
				return res, nil, true
			})
			e := classed(t, nextError(t, open(t, newSource(t, b, nil), nil)), class)
			if e.Partition != p || e.Offset != 0 {
				t.Errorf("%+v", e)
			}
		})
	}
}
