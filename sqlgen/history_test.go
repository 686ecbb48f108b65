package sqlgen

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
)

// history is what happens to a source's table, with the events that tell of it: a queue for each partition.
type history struct {
	rng    *rand.Rand
	rows   map[int][2]debezium.Value
	queues [][]debezium.Event
	n      int64
}

func newHistory(seed uint64, partitions int) *history {
	return &history{rng: rand.New(rand.NewPCG(seed, 1)), rows: map[int][2]debezium.Value{}, queues: make([][]debezium.Event, partitions)}
}

func (h *history) emit(id int, e debezium.Event) {
	p := id % len(h.queues)
	h.n++
	e.Partition, e.Offset = debezium.Partition{Topic: "item", ID: int32(p)}, h.n
	if e.Op != debezium.Truncate {
		e.Key = idRow(id)
	}
	h.queues[p] = append(h.queues[p], e)
}

// sent is a row of the source, and hides an unchanged value now and then if it may.
func (h *history) sent(id int, hide bool, was *[2]debezium.Value) debezium.Row {
	r := h.rows[id]
	out := itemRow(id, r[0], r[1])
	if hide && was != nil && was[1] == r[1] && h.rng.IntN(3) == 0 {
		out.Values[2] = unavailableValue
	}
	return out
}

func (h *history) value() [2]debezium.Value {
	out := [2]debezium.Value{number32(h.rng.IntN(4)), textValue(strings.Repeat("x", h.rng.IntN(3)))}
	for i := range out {
		if h.rng.IntN(4) == 0 {
			out[i] = nullValue
		}
	}
	return out
}

// step makes one change to a key below keys.
func (h *history) step(keys int, hide, single bool) {
	id := h.rng.IntN(keys)
	row, there := h.rows[id]
	switch op := h.rng.IntN(6); {
	case !there:
		h.rows[id] = h.value()
		h.emit(id, debezium.Event{Op: debezium.Create, After: h.sent(id, false, nil)})
	case op == 0:
		delete(h.rows, id)
		h.emit(id, debezium.Event{Op: debezium.Delete, Before: itemRow(id, row[0], row[1])})
	case op <= 3:
		next := h.value()
		if h.rng.IntN(2) == 0 {
			next[1] = row[1]
		}
		h.rows[id] = next
		h.emit(id, debezium.Event{Op: debezium.Update, Before: itemRow(id, row[0], row[1]), After: h.sent(id, hide, &row)})
	default:
		to := h.rng.IntN(keys)
		if _, taken := h.rows[to]; taken {
			return
		}
		h.move(id, to, row, hide, single)
	}
}

func (h *history) move(id, to int, row [2]debezium.Value, hide, single bool) {
	delete(h.rows, id)
	h.rows[to] = row
	before, after := itemRow(id, row[0], row[1]), h.sent(to, hide, &row)
	if single {
		h.emit(to, debezium.Event{Op: debezium.Update, Before: before, After: after})
		return
	}
	h.emit(id, debezium.Event{Op: debezium.Delete, Before: before, NewKey: idRow(to)})
	h.emit(to, debezium.Event{Op: debezium.Create, After: after, OldKey: idRow(id)})
}

// events merges the partitions at random, each in its order.
func (h *history) events() []debezium.Event {
	var out []debezium.Event
	for {
		var open []int
		for p, q := range h.queues {
			if len(q) > 0 {
				open = append(open, p)
			}
		}
		if len(open) == 0 {
			return out
		}
		p := open[h.rng.IntN(len(open))]
		for range 1 + h.rng.IntN(4) {
			if len(h.queues[p]) > 0 {
				out = append(out, h.queues[p][0])
				h.queues[p] = h.queues[p][1:]
			}
		}
	}
}

// wanted is the source's rows as content gives them.
func (h *history) wanted(t *Target) []string {
	var out []string
	for id, r := range h.rows {
		row, err := t.encode(nil, itemRow(id, r[0], r[1]))
		if err != nil {
			panic(err)
		}
		out = append(out, fmt.Sprintf("%q", write(nil, row)))
	}
	slices.Sort(out)
	return out
}

// scenario is one random history of a table with a key.
type scenario struct {
	seed       uint64
	partitions int
	cuts       bool // into batches; else one
	hide       bool // unavailable values
	single     bool // key changes as one event
	before     int  // steps that are in the target before the batch
}

func scenarios(seed uint64) []scenario {
	return []scenario{
		{seed: seed, partitions: 1, hide: true, single: true, before: 10},
		{seed: seed, partitions: 1, cuts: true, single: true, before: 10},
		{seed: seed, partitions: 3, hide: true, before: 10},
		{seed: seed, partitions: 3, cuts: true},
		{seed: seed, partitions: 7, hide: true, before: 20},
	}
}

// play runs the scenario: prepared events first, one by one in the source's order, then the rest in batches.
func (sc scenario) play(t *testing.T, keys int, target *Target, apply func(Changes, []Statement) error) *history {
	h := newHistory(sc.seed, sc.partitions)
	b := NewBatch(target.dialect)
	flush := func() {
		t.Helper()
		if err := apply(changesOf(b), b.Statements()); err != nil {
			t.Fatalf("%+v: %v", sc, err)
		}
		b.Reset()
	}
	add := func(list []debezium.Event) {
		for i := range list {
			if err := b.Add(target, &list[i]); err != nil {
				t.Fatalf("%+v: %v", sc, err)
			}
			if sc.cuts && h.rng.IntN(7) == 0 {
				flush()
			}
		}
	}
	for range sc.before {
		h.step(keys, false, sc.single)
		add(h.events())
		flush()
	}
	for range 40 {
		h.step(keys, sc.hide, sc.single)
	}
	add(h.events())
	flush()
	return h
}

// bagHistory is n changes of a table without a key, with many equal rows, and its rows at the end.
func bagHistory(seed uint64, n int) ([]debezium.Event, []debezium.Row) {
	rng := rand.New(rand.NewPCG(seed, 2))
	h := &history{rng: rng}
	var rows []debezium.Row
	var events []debezium.Event
	for i := range n {
		e := debezium.Event{Partition: debezium.Partition{Topic: "item"}, Offset: int64(i)}
		v := h.value()
		row := itemRow(rng.IntN(3), v[0], v[1])
		at := -1
		if len(rows) > 0 && rng.IntN(3) > 0 {
			at = rng.IntN(len(rows))
		}
		switch {
		case at < 0:
			e.Op, e.After = debezium.Create, row
			rows = append(rows, row)
		case rng.IntN(2) == 0:
			e.Op, e.Before = debezium.Delete, rows[at]
			rows = slices.Delete(rows, at, at+1)
		default:
			e.Op, e.Before, e.After = debezium.Update, rows[at], row
			rows[at] = row
		}
		events = append(events, e)
	}
	return events, rows
}
