package kafka

import (
	"encoding/binary"
	"testing"

	"replicator/debezium"
)

// FuzzRecordBatch decodes any bytes, with the checksums made right: they would keep the fuzzer from what lies behind them.
func FuzzRecordBatch(f *testing.F) {
	for _, set := range sets {
		var raw []byte
		for _, b := range set.batches {
			raw = append(raw, b.encode(f)...)
		}
		f.Add(raw, int64(1), int64(7), int64(3))
	}
	p := debezium.Partition{Topic: "t"}
	f.Fuzz(func(t *testing.T, set []byte, position, producer, first int64) {
		for b := set; len(b) >= batchHeader; {
			n := int64(lengthCounted) + int64(int32(binary.BigEndian.Uint32(b[atLength:])))
			if n < batchHeader || n > int64(len(b)) {
				break
			}
			sealed(b[:n])
			b = b[n:]
		}
		const limit = 1 << 20
		got, err := newDecoder(limit).decode(p, position, set, []aborted{{producer, first}})
		at := position
		for _, r := range got.records {
			if r.Offset < at || r.Offset >= got.next {
				t.Fatalf("record at %d, position %d, next %d", r.Offset, at, got.next)
			}
			at = r.Offset + 1
		}
		if got.next < position {
			t.Fatalf("next is %d, before %d (error %v)", got.next, position, err)
		}
		if most := limit * (1 + len(set)/batchHeader); got.memory > most {
			t.Fatalf("%d bytes held by a set of %d", got.memory, len(set))
		}
	})
}

// FuzzResponses reads any bytes as each response in each version.
func FuzzResponses(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 't', 0})
	f.Fuzz(func(_ *testing.T, body []byte) {
		// Only that none panics or allocates by a count that the bytes cannot hold.
		for v := fetchMin; v <= fetchIDs; v++ {
			_, _ = parseFetch(v, body)
		}
		_, _ = parseMetadata(metadataPlain, body)
		_, _ = parseMetadata(metadataIDs, body)
		_, _ = parseOffsets(body)
		_, _ = parseVersions(body)
	})
}
