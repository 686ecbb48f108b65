package sqlgen

import (
	"hash/maphash"
	"slices"

	"replicator/debezium"
)

// Spread says whether rows of the table depend on nothing but their own keys, so that rows of different keys may be written
// in any order and by several sessions at once. It does not hold of a table without a key, nor where another unique index or
// a foreign key that the target checks ties rows together.
func (t *Target) Spread() bool { return len(t.Key) > 0 && !t.Table.Tied && !t.Trades() }

// Clone returns the same target for another goroutine.
func (t *Target) Clone() *Target {
	out := *t
	out.plans = map[*debezium.Shape]*plan{}
	return &out
}

// Keys appends to dst a hash of each key that e touches: that of its row, and where the key changes that of the other half,
// whichever half e is. Equal keys have equal hashes under one seed. buf is memory to work in, and is returned for the
// next call. An event without a key that can be read has none; folding it says why.
func (t *Target) Keys(dst []uint64, seed maphash.Seed, buf []byte, e *debezium.Event) (keys []uint64, _ []byte) {
	var rows [3]debezium.Row
	switch e.Op {
	case debezium.Delete:
		rows = [3]debezium.Row{e.Before, e.NewKey}
		if !e.Before.Sent() {
			rows[0] = e.Key
		}
	default:
		rows = [3]debezium.Row{e.After, e.Before, e.OldKey}
	}
	for _, r := range rows {
		key, ok, err := t.encodeKey(buf[:0], r)
		if err == nil && ok {
			if h := maphash.Bytes(seed, key); !slices.Contains(dst, h) {
				dst = append(dst, h)
			}
		}
		buf = key
	}
	return dst, buf
}
