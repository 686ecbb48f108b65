package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/segmentio/kafka-go/compress"

	"replicator/debezium"
)

// The header of a record batch ends with its record count; records follow. Offsets within it, by KIP-98.
const (
	atLength      = 8
	atMagic       = 16
	atCRC         = 17
	atAttributes  = 21
	atLastDelta   = 23
	atFirstTime   = 27
	atMaxTime     = 35
	atProducer    = 43
	atCount       = 57
	batchHeader   = 61
	lengthCounted = 12 // what precedes the part that the length counts

	controlBit = 32
)

// header is a batch's header, with the batch's bytes.
type header struct {
	raw        []byte // the whole batch
	base, last int64
	attributes uint16
}

func (h *header) compression() compress.Compression { return compress.Compression(h.attributes & 7) }
func (h *header) appendTime() bool                  { return h.attributes&8 != 0 }
func (h *header) transactional() bool               { return h.attributes&16 != 0 }
func (h *header) control() bool                     { return h.attributes&controlBit != 0 }
func (h *header) producer() int64                   { return int64(binary.BigEndian.Uint64(h.raw[atProducer:])) }

func (h *header) count() int { return int(int32(binary.BigEndian.Uint32(h.raw[atCount:]))) }

func (h *header) firstTime() int64 { return int64(binary.BigEndian.Uint64(h.raw[atFirstTime:])) }

func (h *header) maxTime() int64 { return int64(binary.BigEndian.Uint64(h.raw[atMaxTime:])) }

// aborted is an aborted transaction of a fetch response: its producer's records from first on, up to its abort marker.
type aborted struct{ producer, first int64 }

// decoded is what one partition's record set held for a reader at some position.
type decoded struct {
	records []debezium.Record
	next    int64 // after the last whole batch
	bytes   int   // keys, values and headers of records
	memory  int   // held by records: decompressed payloads and the records themselves
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errPartial = errors.New("the record set holds no whole batch")
	errMagic   = errors.New("message format before version 2")
)

const (
	recordMemory = int(unsafe.Sizeof(debezium.Record{}))
	headerMemory = int(unsafe.Sizeof(debezium.Header{}))
	minRecord    = 7 // a record's length, attributes, two deltas, and three lengths take a byte each at least
)

// decoder decodes record sets. It is not safe for concurrent use. Header keys recur, so it keeps a few.
type decoder struct {
	limit int // of memory for one batch
	keys  map[string]string
}

func newDecoder(limit int) *decoder { return &decoder{limit: limit, keys: map[string]string{}} }

// decode reads set, the records of p as a broker sent them for a fetch at position, as read_committed wants them. Records
// share set's memory. After an error, decoded still holds what the batches before the bad one held, and next is where it begins.
//
// What is aborted is known for one response only. A transaction is open from its first offset, which may lie in this batch, so
// aborted entries become active before the batch is looked at, and its producer's abort marker ends it (KIP-98, Consumer).
func (d *decoder) decode(p debezium.Partition, position int64, set []byte, gone []aborted) (decoded, error) {
	out := decoded{next: position}
	gone = slices.Clone(gone)
	slices.SortFunc(gone, func(a, b aborted) int {
		if a.first < b.first {
			return -1
		}
		if a.first > b.first {
			return 1
		}
		return 0
	})
	active := map[int64]bool{}
	first := true
	out.records = make([]debezium.Record, 0, d.expect(set, position))
	for len(set) > 0 {
		h, rest, err := nextBatch(set)
		if errors.Is(err, errPartial) && !first {
			return out, nil // the broker cuts the last batch where the maximum is reached
		}
		if err != nil {
			return out, err
		}
		first, set = false, rest
		for len(gone) > 0 && gone[0].first <= h.last {
			active[gone[0].producer] = true
			gone = gone[1:]
		}
		switch {
		case h.control():
			err = d.marker(h, active)
		case h.last < out.next, h.transactional() && active[h.producer()]:
		default:
			err = d.records(&out, p, h)
		}
		if err != nil {
			return out, fmt.Errorf("batch at offset %d: %w", h.base, err)
		}
		out.next = max(out.next, h.last+1)
	}
	return out, nil
}

// expect returns how many records of set are worth room before they are decoded: what its headers say, but no more than the
// set's own memory again.
func (d *decoder) expect(set []byte, position int64) int {
	most, sum := len(set)/recordMemory, 0
	for b := set; len(b) >= batchHeader && sum < most; {
		size := lengthCounted + int(int32(binary.BigEndian.Uint32(b[atLength:])))
		if size < batchHeader || size > len(b) {
			break
		}
		last := int64(binary.BigEndian.Uint64(b)) + int64(int32(binary.BigEndian.Uint32(b[atLastDelta:])))
		if n := int(int32(binary.BigEndian.Uint32(b[atCount:]))); n > 0 && b[atAttributes+1]&controlBit == 0 && last >= position {
			sum += n
		}
		b = b[size:]
	}
	return min(sum, most)
}

// nextBatch checks the batch at the beginning of set and returns what follows it.
func nextBatch(set []byte) (header, []byte, error) {
	if len(set) < atCRC {
		return header{}, nil, errPartial
	}
	base := int64(binary.BigEndian.Uint64(set))
	if magic := set[atMagic]; magic < 2 {
		return header{}, nil, fmt.Errorf("batch at offset %d: %w (%d)", base, errMagic, magic)
	} else if magic > 2 {
		return header{}, nil, fmt.Errorf("batch at offset %d: unknown magic %d", base, magic)
	}
	size := lengthCounted + int(int32(binary.BigEndian.Uint32(set[atLength:])))
	if size < batchHeader {
		return header{}, nil, fmt.Errorf("batch at offset %d: size %d is less than that of its header", base, size)
	}
	if size > len(set) {
		return header{}, nil, errPartial
	}
	raw := set[:size:size]
	if got, want := crc32.Checksum(raw[atAttributes:], castagnoli), binary.BigEndian.Uint32(raw[atCRC:]); got != want {
		return header{}, nil, fmt.Errorf("batch at offset %d: checksum %08x, not %08x", base, got, want)
	}
	delta := int64(int32(binary.BigEndian.Uint32(raw[atLastDelta:])))
	if base < 0 || delta < 0 || base > math.MaxInt64-delta-1 {
		return header{}, nil, fmt.Errorf("batch at offset %d: last offset delta %d", base, delta)
	}
	return header{raw: raw, base: base, last: base + delta, attributes: binary.BigEndian.Uint16(raw[atAttributes:])}, set[size:], nil
}

// marker takes the transaction that a control batch ends out of active if it was aborted. A batch whose marker was compacted
// away says nothing.
func (d *decoder) marker(h header, active map[int64]bool) error {
	if h.count() == 0 {
		return nil
	}
	payload, err := decompress(h.compression(), h.raw[batchHeader:], d.limit)
	if err != nil {
		return err
	}
	var rec debezium.Record
	if _, err := d.record(&rec, &h, payload); err != nil {
		return err
	}
	if len(rec.Key) < 4 {
		return fmt.Errorf("control record with a key of %d bytes", len(rec.Key))
	}
	const abort = 0
	if binary.BigEndian.Uint16(rec.Key[2:]) == abort {
		delete(active, h.producer())
	}
	return nil
}

// records appends h's records from out.next on. If one is bad, none of the batch is added.
func (d *decoder) records(out *decoded, p debezium.Partition, h header) error {
	n := h.count()
	if n == 0 {
		return nil // compaction leaves empty batches behind
	}
	payload, err := decompress(h.compression(), h.raw[batchHeader:], d.limit)
	if err != nil {
		return err
	}
	if n < 0 || n > len(payload)/minRecord {
		return fmt.Errorf("%d records in %d bytes", n, len(payload))
	}
	if n > (d.limit-len(payload))/recordMemory {
		return fmt.Errorf("%d records: %w", n, errTooLarge)
	}
	records := slices.Grow(out.records, n)
	size, last, headers := 0, h.base-1, 0
	for range n {
		records = append(records, debezium.Record{Partition: p})
		rec := &records[len(records)-1]
		if payload, err = d.record(rec, &h, payload); err != nil {
			return err
		}
		if rec.Offset <= last || rec.Offset > h.last {
			return fmt.Errorf("record at offset %d after %d in a batch that ends at %d", rec.Offset, last, h.last)
		}
		last = rec.Offset
		if rec.Offset < out.next {
			records = records[:len(records)-1]
			continue
		}
		size += recordBytes(rec)
		headers += len(rec.Headers)
		if headers > d.limit/headerMemory {
			return fmt.Errorf("%d headers: %w", headers, errTooLarge)
		}
	}
	if len(payload) > 0 {
		return fmt.Errorf("%d bytes after the last of %d records", len(payload), n)
	}
	out.memory += (len(records)-len(out.records))*recordMemory + headers*headerMemory
	if h.compression() != compress.None {
		out.memory += size
	}
	out.records, out.bytes = records, out.bytes+size
	return nil
}

// recordBytes is what a record counts as in Batch.Bytes.
func recordBytes(rec *debezium.Record) int {
	size := len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		size += len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	return size
}

var errRecord = errors.New("record ends early or holds an impossible length")

// record decodes the record at the beginning of b into rec and returns what follows it.
func (d *decoder) record(rec *debezium.Record, h *header, b []byte) ([]byte, error) {
	size, n := binary.Varint(b)
	if n <= 0 || size < minRecord-1 || size > int64(len(b)-n) {
		return nil, errRecord
	}
	rest := b[n+int(size):]
	b = b[n+1 : n+int(size)] // attributes are unused
	ms, n := binary.Varint(b)
	if n <= 0 {
		return nil, errRecord
	}
	b = b[n:]
	delta, n := binary.Varint(b)
	if n <= 0 || delta < 0 || delta > math.MaxInt32 {
		return nil, errRecord
	}
	b = b[n:]
	rec.Offset = h.base + delta
	if ms += h.firstTime(); h.appendTime() {
		ms = h.maxTime()
	}
	if ms >= 0 {
		rec.Time = time.UnixMilli(ms)
	}
	var ok bool
	if rec.Key, b, ok = field(b); !ok {
		return nil, errRecord
	}
	if rec.Value, b, ok = field(b); !ok {
		return nil, errRecord
	}
	return rest, d.headers(rec, b)
}

func (d *decoder) headers(rec *debezium.Record, b []byte) error {
	count, n := binary.Varint(b)
	if b = b[max(n, 0):]; n <= 0 || count < 0 || count > int64(len(b)/2) || int(count) > d.limit/headerMemory {
		return errRecord
	}
	if count > 0 {
		rec.Headers = make([]debezium.Header, count)
	}
	for i := range rec.Headers {
		key, rest, ok := field(b)
		if !ok || key == nil {
			return errRecord
		}
		if rec.Headers[i].Value, b, ok = field(rest); !ok {
			return errRecord
		}
		rec.Headers[i].Key = d.intern(key)
	}
	if len(b) > 0 {
		return errRecord
	}
	return nil
}

// field reads a length and as many bytes; a length of -1 is null, and nil only then.
func field(b []byte) (value, rest []byte, ok bool) {
	size, n := binary.Varint(b)
	if n <= 0 || size < -1 || size > int64(len(b)-n) {
		return nil, nil, false
	}
	if size == -1 {
		return nil, b[n:], true
	}
	end := n + int(size)
	return b[n:end:end], b[end:], true
}

// intern returns key as a string, the same one for the first keys that a decoder meets.
func (d *decoder) intern(key []byte) string {
	const most = 64
	if s, ok := d.keys[string(key)]; ok {
		return s
	}
	s := string(key)
	if len(d.keys) < most && len(s) <= 128 {
		d.keys[s] = s
	}
	return s
}
