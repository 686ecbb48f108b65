package sqlgen

import (
	"bytes"
	"hash/maphash"

	"replicator/debezium"
)

// keyed folds a table with a key.
//
// A place is a key: what the target stores there before the batch, if anything, and which row is there now. A track is
// one row on its way through the batch: the place where the target stores it, the place where it is now, and its
// pending values. Most tracks stay where they are. A row whose key changes comes as two events, the delete of the old
// key (which names the new one) and the create of the new key (which names the old one). They may be in two
// partitions, so either half can come first, and other changes of both keys between them: an open half waits, by the
// pair of keys, for the other.
type keyed struct {
	places []place
	tracks []track
	index  map[uint64]int32 // hash of a key: the first place with it
	open   map[string]*halves
}

// none stands for no place and no track.
const none = int32(-1)

type place struct {
	key  span
	next int32 // the next place with the same hash
	now  int32 // the track that is here now
	left bool  // the row that the target stores here is that of a track (which may be gone elsewhere)
	gone bool  // the row that the target stores here is to be deleted, unless a row ends here
	by   ref   // what made it gone
}

type track struct {
	stored int32 // the place where the target stores the row; none: it stores none, as far as the batch tells
	now    int32 // the place where it is; none: deleted, or between the halves of a move
	row    span  // pending values; none before the first
	by     ref
	await  string // the pair of keys whose deleting half is still to come; empty: none
	mark   bool   // row is a soft delete's: the key and that it is deleted, of a row that may not exist
	ended  bool   // deleted; it may await its other half all the same, which is then no other row's
}

// halves are the open halves of moves from one key to another, each in order of arrival.
type halves struct {
	left    []int32 // tracks that left the old key, waiting for the create
	created []int32 // tracks that came with a create, waiting for the delete
}

func (k *keyed) reset() {
	k.places, k.tracks = k.places[:0], k.tracks[:0]
	clear(k.index)
	clear(k.open)
}

func (k *keyed) large() bool { return cap(k.places)*placeBytes+cap(k.tracks)*trackBytes > keepBytes }

func (tb *table) addKeyed(e *debezium.Event) *RowError {
	switch e.Op {
	case debezium.Delete:
		return tb.keyedDelete(e)
	case debezium.Update:
		return tb.keyedUpdate(e)
	}
	return tb.keyedCreate(e)
}

func (tb *table) keyedDelete(e *debezium.Event) *RowError {
	at, err := tb.placeOf(e.Before, e.Key)
	if err != nil {
		return err
	}
	to, ok, err := tb.otherKey(e.NewKey)
	switch {
	case err != nil:
		return err
	case ok && to != at:
		tb.leave(at, to, refOf(e))
	case tb.t.soft != nil:
		return tb.bury(at, e)
	default:
		tb.delete(at, refOf(e))
	}
	return nil
}

func (tb *table) keyedCreate(e *debezium.Event) *RowError {
	at, row, err := tb.after(e)
	if err != nil {
		return err
	}
	from, ok, err := tb.otherKey(e.OldKey)
	switch {
	case err != nil:
		return err
	case ok && from != at:
		tb.arrive(from, at, row, refOf(e))
	default:
		tb.put(at, row, refOf(e), true)
	}
	return nil
}

func (tb *table) keyedUpdate(e *debezium.Event) *RowError {
	at, row, err := tb.after(e)
	if err != nil {
		return err
	}
	from, ok, err := tb.otherKey(e.Before)
	switch {
	case err != nil:
		return err
	case ok && from != at: // some producers send a changed key so, as one event
		tb.leave(from, at, refOf(e))
		tb.arrive(from, at, row, refOf(e))
	default:
		tb.put(at, row, refOf(e), false)
	}
	return nil
}

// after encodes the event's row and finds its place.
func (tb *table) after(e *debezium.Event) (int32, span, *RowError) {
	if !e.After.Sent() {
		return none, span{}, tb.incomplete(e.Op, "after")
	}
	row, err := tb.encode(e.After)
	if err != nil {
		return none, span{}, err
	}
	mark := len(tb.arena)
	var ok bool
	if tb.arena, ok = tb.t.rowKey(tb.arena, tb.bytes(row)); ok {
		return tb.place(mark), row, nil
	}
	tb.arena = tb.arena[:mark]
	return none, span{}, tb.t.refuse(KeyMismatch, "", errNoKey)
}

// placeOf finds the place of a row image, or of the message key where the image lacks it.
func (tb *table) placeOf(image, key debezium.Row) (int32, *RowError) {
	at, ok, err := tb.otherKey(image)
	if err == nil && !ok {
		at, ok, err = tb.otherKey(key)
	}
	if err == nil && !ok {
		err = tb.t.refuse(KeyMismatch, "", errNoKey)
	}
	return at, err
}

// otherKey finds the place of the key in r, if r holds one.
func (tb *table) otherKey(r debezium.Row) (int32, bool, *RowError) {
	mark := len(tb.arena)
	var ok bool
	var err *RowError
	tb.arena, ok, err = tb.t.encodeKey(tb.arena, r)
	if err != nil || !ok {
		tb.arena = tb.arena[:mark]
		return none, false, err
	}
	return tb.place(mark), true, nil
}

// place finds or makes the place of the key at the end of the arena, from mark; a known key is taken off again.
func (tb *table) place(mark int) int32 {
	k := &tb.keyed
	key := tb.arena[mark:]
	if k.index == nil {
		k.index = map[uint64]int32{}
	}
	h := maphash.Bytes(tb.seed, key)
	first, ok := k.index[h]
	if !ok {
		first = none
	}
	for i := first; i != none; i = k.places[i].next {
		if bytes.Equal(tb.bytes(k.places[i].key), key) {
			tb.arena = tb.arena[:mark]
			return i
		}
	}
	i := int32(len(k.places))
	k.places = append(k.places, place{key: span{mark, len(tb.arena)}, next: first, now: none})
	k.index[h] = i
	return i
}

// put writes row over what is at place at, or begins a track there.
func (tb *table) put(at int32, row span, by ref, created bool) {
	k := &tb.keyed
	if t := k.places[at].now; t != none {
		tr := &k.tracks[t]
		tr.row, tr.by, tr.mark = tb.merge(tr.row, row), by, false
		return
	}
	stored := none
	if !created && !k.places[at].left {
		stored = at
	}
	tb.begin(track{stored: stored, now: at, row: row, by: by})
}

// begin adds a track at its places.
func (tb *table) begin(tr track) int32 {
	k := &tb.keyed
	i := int32(len(k.tracks))
	k.tracks = append(k.tracks, tr)
	if tr.now != none {
		k.places[tr.now].now = i
	}
	if tr.stored != none {
		k.places[tr.stored].left = true
	}
	return i
}

// delete ends the row at place at. The target's row there is deleted even if the batch created the row: an earlier
// run of the same events, or a snapshot, may have stored it.
func (tb *table) delete(at int32, by ref) {
	k := &tb.keyed
	if t := k.places[at].now; t != none {
		tb.end(t, by)
	}
	k.places[at].gone, k.places[at].by = true, by
}

// bury deletes the row at place at softly. What the batch knows of the row stays; of one that it knows nothing of, the
// target's row is marked if there is one.
func (tb *table) bury(at int32, e *debezium.Event) *RowError {
	k := &tb.keyed
	t := k.places[at].now
	if t == none && (k.places[at].gone || k.places[at].left) {
		return nil // the batch has moved or removed the row
	}
	var row []byte
	if t != none && !k.tracks[t].row.none() {
		row = tb.bytes(k.tracks[t].row)
	}
	from := len(tb.arena)
	var err *RowError
	if tb.arena, err = tb.t.bury(tb.arena, row, tb.bytes(k.places[at].key), e); err != nil {
		return err
	}
	buried := span{from, len(tb.arena)}
	if t == none {
		tb.begin(track{stored: at, now: at, row: buried, by: refOf(e), mark: true})
		return nil
	}
	k.tracks[t].row, k.tracks[t].by = buried, refOf(e)
	return nil
}

// end drops track t and leaves the row that the target stores for it to be deleted.
func (tb *table) end(t int32, by ref) {
	k := &tb.keyed
	tr := &k.tracks[t]
	if tr.stored != none {
		p := &k.places[tr.stored]
		p.left, p.gone, p.by = false, true, by
	}
	if tr.now != none {
		k.places[tr.now].now = none
	}
	tr.stored, tr.now, tr.row, tr.ended = none, none, span{}, true
}

// leave is the deleting half of a move: the row at place from goes to place to.
func (tb *table) leave(from, to int32, by ref) {
	k := &tb.keyed
	t := k.places[from].now
	if t == none {
		stored := from
		if k.places[from].left {
			stored = none
		}
		t = tb.begin(track{stored: stored, now: none, by: by})
	}
	tr := &k.tracks[t]
	tr.now = none
	k.places[from].now = none
	if tr.stored != from {
		// Nothing is stored here, or what an earlier run of the same events left here.
		k.places[from].gone, k.places[from].by = true, by
	}
	h := tb.halves(from, to)
	if len(h.created) == 0 {
		h.left = append(h.left, t)
		return
	}
	other := h.created[0]
	h.created = h.created[1:]
	tb.join(t, other)
}

// arrive is the creating half of a move: the row that was at place from is at place to, with the values in row.
func (tb *table) arrive(from, to int32, row span, by ref) {
	k := &tb.keyed
	h := tb.halves(from, to)
	if len(h.left) == 0 {
		tb.put(to, row, by, true)
		t := k.places[to].now
		if k.tracks[t].await == "" {
			k.tracks[t].await = tb.pair(from, to)
			h.created = append(h.created, t)
		}
		return
	}
	t := h.left[0]
	h.left = h.left[1:]
	if was := k.places[to].now; was != none {
		tb.end(was, by)
	}
	tr := &k.tracks[t]
	tr.row, tr.by, tr.now = tb.merge(tr.row, row), by, to
	k.places[to].now = t
}

// join makes one track of the two halves of a move whose create came first: old left its key, and young is what it
// has become.
func (tb *table) join(old, young int32) {
	k := &tb.keyed
	o, y := &k.tracks[old], &k.tracks[young]
	y.await = ""
	if y.ended {
		tb.end(old, o.by)
		return
	}
	if !o.row.none() {
		y.row = tb.merge(o.row, y.row)
	}
	switch {
	case o.stored == none:
	case y.stored == none:
		y.stored = o.stored
	default: // two stored rows became one
		p := &k.places[o.stored]
		p.left, p.gone, p.by = false, true, o.by
	}
	if o.await != "" { // the old half itself waits for the delete of the key before
		y.await = o.await
		for i, t := range k.open[o.await].created {
			if t == old {
				k.open[o.await].created[i] = young
			}
		}
	}
	*o = track{stored: none, now: none, ended: true}
}

// pair names the move between two places in the map of open halves.
func (tb *table) pair(from, to int32) string {
	k := &tb.keyed
	return string(tb.bytes(k.places[from].key)) + string(tb.bytes(k.places[to].key))
}

func (tb *table) halves(from, to int32) *halves {
	k := &tb.keyed
	if k.open == nil {
		k.open = map[string]*halves{}
	}
	pair := tb.pair(from, to)
	h := k.open[pair]
	if h == nil {
		h = &halves{}
		k.open[pair] = h
	}
	return h
}

// keyedChanges reads the fold's result off the places and tracks.
func (tb *table) keyedChanges(c *Changes) {
	k := &tb.keyed
	for i := range k.tracks {
		if tr := &k.tracks[i]; tr.now == none && tr.stored != none {
			// It left its key and arrived nowhere in this batch: the other half is the next one's.
			p := &k.places[tr.stored]
			p.left, p.gone, p.by = false, true, tr.by
		}
	}
	for i := range k.places {
		if p := &k.places[i]; p.gone && p.now == none && !p.left {
			c.Deletes = append(c.Deletes, tb.row(p.key, p.by))
		}
	}
	var changed []Row
	for i := range k.tracks {
		tr := &k.tracks[i]
		if tr.now == none {
			continue
		}
		row := tb.row(tr.row, tr.by)
		switch {
		case tr.stored == none && !k.places[tr.now].gone && !holds(row.Data, UnavailableLength):
			c.Upserts = append(c.Upserts, row)
		case tr.stored != none && tr.stored != tr.now:
			c.Moves = append(c.Moves, Move{OldKey: tb.bytes(k.places[tr.stored].key), Row: row})
		case tr.mark:
			c.Marks = append(c.Marks, row)
		case holds(row.Data, UnavailableLength):
			c.Updates = append(c.Updates, row)
		default:
			changed = append(changed, row)
		}
	}
	c.Created = len(c.Upserts)
	c.Upserts = append(c.Upserts, changed...)
}
