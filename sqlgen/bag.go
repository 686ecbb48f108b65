package sqlgen

import (
	"bytes"
	"errors"
	"hash/maphash"

	"replicator/debezium"
)

// bag folds a table without a key, whose rows are told apart by their values alone. An item is one row on its way
// through the batch, from what the target stores to what it becomes; two items with equal images are as good as each
// other.
type bag struct {
	items []item
	now   map[uint64]int32 // by the hash of what an item is now: the first such item
	gone  map[uint64]int32 // by the hash of what a deleted item was: the first such item
}

// item is one row. A deleted one has no after, one that the batch inserted no before, and one that cancelled out
// neither.
type item struct {
	before, after image
	next          int32
}

// image is an encoded row, its canonical form that it is compared by, and the record that it came from.
type image struct {
	row, canonical span
	by             ref
}

func (i image) none() bool { return i.row.none() }

func (b *bag) reset() {
	b.items = b.items[:0]
	clear(b.now)
	clear(b.gone)
}

func (b *bag) large() bool { return cap(b.items)*itemBytes > keepBytes }

func (tb *table) addBag(e *debezium.Event) *RowError {
	switch e.Op {
	case debezium.Delete:
		before, err := tb.beforeImage(e)
		if err != nil {
			return err
		}
		if tb.t.soft == nil {
			tb.remove(before)
			return nil
		}
		from := len(tb.arena)
		if tb.arena, err = tb.t.bury(tb.arena, tb.bytes(before.row), nil, e); err != nil {
			return err
		}
		tb.replace(before, tb.image(span{from, len(tb.arena)}, e))
		return nil
	case debezium.Update:
		before, err := tb.beforeImage(e)
		if err != nil {
			return err
		}
		after, err := tb.afterImage(e, before.row)
		if err != nil {
			return err
		}
		tb.replace(before, after)
		return nil
	}
	after, err := tb.afterImage(e, span{})
	if err != nil {
		return err
	}
	tb.insert(after)
	return nil
}

var errNoImage = errors.New("a row of a table without a key is found by all of its values, and the event's before image is not complete; " +
	"give the table a key (tables: key), or have the source send whole rows (PostgreSQL: REPLICA IDENTITY FULL, MySQL: binlog_row_image=FULL)")

// beforeImage encodes the event's before image, which must hold a value for every field.
func (tb *table) beforeImage(e *debezium.Event) (image, *RowError) {
	if !e.Before.Sent() {
		return image{}, tb.t.refuse(KeyMismatch, "", errNoImage)
	}
	for i := range e.Before.Values {
		if k := e.Before.Values[i].Kind; k == debezium.Absent || k == debezium.Unavailable {
			return image{}, tb.t.refuse(KeyMismatch, "", errNoImage)
		}
	}
	row, err := tb.encode(e.Before)
	if err != nil {
		return image{}, err
	}
	if holdsNoValue(tb.bytes(row)) {
		return image{}, tb.t.refuse(KeyMismatch, "", errNoImage)
	}
	return tb.image(row, e), nil
}

// holdsNoValue says whether nothing of row was sent.
func holdsNoValue(row []byte) bool {
	for len(row) > 0 {
		var n int
		if n, _, row = cut(row); n != UnsentLength {
			return false
		}
	}
	return true
}

// afterImage encodes the event's row. What the source did not send of an update is as it was before.
func (tb *table) afterImage(e *debezium.Event, before span) (image, *RowError) {
	if !e.After.Sent() {
		return image{}, tb.incomplete(e.Op, "after")
	}
	row, err := tb.encode(e.After)
	if err != nil {
		return image{}, err
	}
	row = tb.merge(before, row)
	if holdsNoValue(tb.bytes(row)) {
		return image{}, tb.t.refuse(BadRecord, "", errors.New("the event has a value for none of the table's columns"))
	}
	if holds(tb.bytes(row), UnavailableLength) {
		return image{}, tb.t.refuse(UnavailableValue, "", errNoImage)
	}
	return tb.image(row, e), nil
}

func (tb *table) image(row span, e *debezium.Event) image {
	canonical := row
	for _, f := range tb.t.canonical {
		if f != nil {
			from := len(tb.arena)
			tb.arena = tb.t.canonicalRow(tb.arena, tb.bytes(row))
			canonical = span{from, len(tb.arena)}
			break
		}
	}
	return image{row: row, canonical: canonical, by: refOf(e)}
}

// insert adds a row, or calls off the delete of an equal one.
func (tb *table) insert(after image) {
	b := &tb.bag
	if i := tb.take(b.gone, after.canonical); i != none {
		b.items[i].before = image{}
		return
	}
	b.items = append(b.items, item{after: after})
	tb.file(int32(len(b.items) - 1))
}

// remove deletes one row that equals before: one that the batch inserted or changed, or else one that is stored.
func (tb *table) remove(before image) {
	b := &tb.bag
	i := tb.take(b.now, before.canonical)
	if i == none {
		b.items = append(b.items, item{before: before})
		tb.file(int32(len(b.items) - 1))
		return
	}
	b.items[i].after = image{}
	tb.file(i)
}

// replace changes one row that equals before.
func (tb *table) replace(before, after image) {
	b := &tb.bag
	i := tb.take(b.now, before.canonical)
	if i == none {
		b.items = append(b.items, item{before: before, after: after})
		tb.file(int32(len(b.items) - 1))
		return
	}
	b.items[i].after = after
	tb.file(i)
}

// file enters item i in the map that it is found by. One that is neither stored nor there any more is in none; one
// that is again what is stored stays, for a later event to find.
func (tb *table) file(i int32) {
	b := &tb.bag
	it := &b.items[i]
	if b.now == nil {
		b.now, b.gone = map[uint64]int32{}, map[uint64]int32{}
	}
	m, key := b.now, it.after.canonical
	if it.after.none() {
		m, key = b.gone, it.before.canonical
	}
	if key.none() {
		return
	}
	h := maphash.Bytes(tb.seed, tb.bytes(key))
	it.next = none
	if first, ok := m[h]; ok {
		it.next = first
	}
	m[h] = i
}

// take finds an item by its image and removes it from the map.
func (tb *table) take(m map[uint64]int32, key span) int32 {
	b := &tb.bag
	h := maphash.Bytes(tb.seed, tb.bytes(key))
	i, ok := m[h]
	if !ok {
		return none
	}
	last := none
	for ; i != none; last, i = i, b.items[i].next {
		it := &b.items[i]
		k := it.after.canonical
		if it.after.none() {
			k = it.before.canonical
		}
		if !bytes.Equal(tb.bytes(k), tb.bytes(key)) {
			continue
		}
		switch {
		case last != none:
			b.items[last].next = it.next
		case it.next == none:
			delete(m, h)
		default:
			m[h] = it.next
		}
		return i
	}
	return none
}

func (tb *table) bagChanges(c *Changes) {
	for i := range tb.bag.items {
		it := &tb.bag.items[i]
		before, after := tb.row(it.before.row, it.before.by), tb.row(it.after.row, it.after.by)
		switch {
		case it.before.none() && it.after.none():
		case it.before.none():
			c.Inserts = append(c.Inserts, after)
		case it.after.none():
			c.Deletes = append(c.Deletes, before)
		case !bytes.Equal(before.Data, after.Data):
			c.Replacements = append(c.Replacements, Replacement{Before: before, After: after})
		}
	}
}
