package sqlgen

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"replicator/debezium"
	"replicator/schema"
)

// Row is one encoded row (see the package's text), in Target.Columns order, and the record that it came from.
type Row struct {
	Data      []byte
	Partition debezium.Partition
	Offset    int64
}

// Move is a row whose key changes: it is found by OldKey, encoded like a Row of the key columns alone in Target.Key
// order, and becomes Row.
type Move struct {
	OldKey []byte
	Row    Row
}

// Replacement is one row of a table without a key that changes: one row equal to Before becomes After.
type Replacement struct{ Before, After Row }

// Changes is what a batch folds to for one table. They are to be written in the order of the fields; no two of
// Deletes, Moves, Updates, Marks and Upserts mean the same row. The keys that moves take may be keys that other moves leave,
// in chains and in cycles.
type Changes struct {
	Truncate bool  // remove every row first
	Deletes  []Row // of key columns alone in Target.Key order; in a table without a key whole rows, one row each
	Moves    []Move
	Updates  []Row // rows with unavailable values: they exist and keep these
	Marks    []Row // soft deletes of rows that may exist: their key and some of their values
	Upserts  []Row // in a table with a key
	Created  int   // how many of Upserts, from the first, the source made: the target lacks them, if they come for the first time

	Replacements []Replacement // in a table without a key
	Inserts      []Row         // in a table without a key
}

// Batch folds events of any number of tables. It belongs to one goroutine.
type Batch struct {
	dialect Dialect
	tables  map[*Target]*table
	order   []*table
	seed    maphash.Seed
}

// table is the fold of one table: one of keyed and bag is in use, by whether the target has a key.
type table struct {
	t        *Target
	seed     maphash.Seed
	arena    []byte
	truncate bool
	keyed    keyed
	bag      bag
}

// NewBatch returns an empty batch.
func NewBatch(d Dialect) *Batch {
	return &Batch{dialect: d, tables: map[*Target]*table{}, seed: maphash.MakeSeed()}
}

// Add folds one event of table t into the batch, copying what it needs: the event's memory may be reused afterwards.
// Its error is a *RowError; after it the batch is good for nothing.
func (b *Batch) Add(t *Target, e *debezium.Event) error {
	if !e.Op.Row() || e.Unsure && !t.finds(e.Key) {
		return nil
	}
	tb := b.tables[t]
	if tb == nil {
		tb = &table{t: t, seed: b.seed}
		b.tables[t] = tb
		b.order = append(b.order, tb)
	}
	if err := tb.add(e); err != nil {
		err.Origin = Origin{Partition: e.Partition, Offset: e.Offset, Key: eventKey(t, e)}
		return err
	}
	return nil
}

func (tb *table) add(e *debezium.Event) *RowError {
	rules := &tb.t.config.Rules
	switch {
	case e.Op == debezium.Truncate && rules.Truncate == TruncateIgnore:
		return nil
	case e.Op == debezium.Truncate && rules.Truncate == TruncateStop:
		return tb.t.refuse(TruncateRefused, "", errTruncate)
	case e.Op == debezium.Delete && rules.Delete == DeleteIgnore && !e.NewKey.Sent():
		return nil
	case e.Op == debezium.Truncate:
		tb.reset()
		tb.truncate = true
		return nil
	case len(tb.t.Key) == 0:
		return tb.addBag(e)
	}
	return tb.addKeyed(e)
}

var errTruncate = errors.New("the source's table was truncated, and the rule says to stop (tables: truncate); " +
	"set it to apply or ignore to go on")

// What one element of the fold's own lists takes, with its part of the hash table.
const (
	placeBytes = 96
	trackBytes = 128
	itemBytes  = 144
)

// Statements writes the batch: what empties tables first, referencing tables before referenced ones, then what fills
// them the other way round, where the catalog told of foreign keys. The statements share the batch's memory: they
// are good until the next Add or Reset.
func (b *Batch) Statements() []Statement {
	parentsFirst := b.parentsFirst()
	written := make([][]Statement, len(parentsFirst))
	total := 0
	for i, tb := range parentsFirst {
		written[i] = b.dialect.Statements(tb.t, tb.changes())
		total += len(written[i])
	}
	out := make([]Statement, 0, total)
	for _, list := range slices.Backward(written) {
		for _, s := range list {
			if s.Kind.empties() {
				out = append(out, s)
			}
		}
	}
	for _, list := range written {
		for _, s := range list {
			if !s.Kind.empties() {
				out = append(out, s)
			}
		}
	}
	return out
}

func (k StatementKind) empties() bool { return k == TruncateTable || k == DeleteRows }

// parentsFirst returns the tables so that each comes after those that it references; in a cycle of references the
// one that was added first comes first.
func (b *Batch) parentsFirst() []*table {
	byName := make(map[schema.Name]*table, len(b.order))
	for _, tb := range b.order {
		byName[tb.t.Table.Name] = tb
	}
	out := make([]*table, 0, len(b.order))
	seen := make(map[*table]bool, len(b.order))
	var visit func(tb *table)
	visit = func(tb *table) {
		if seen[tb] {
			return
		}
		seen[tb] = true
		for _, parent := range tb.t.Table.References {
			if p := byName[parent]; p != nil {
				visit(p)
			}
		}
		out = append(out, tb)
	}
	for _, tb := range b.order {
		visit(tb)
	}
	return out
}

// keepBytes is how much memory of one table a Reset keeps for the next batch; a burst's is given back.
const keepBytes = 16 << 20

// Reset empties the batch and keeps its memory, within a bound. Tables that the last batch did not touch are forgotten.
func (b *Batch) Reset() {
	kept := b.order[:0]
	for _, tb := range b.order {
		if len(tb.arena) == 0 && !tb.truncate {
			delete(b.tables, tb.t)
			continue
		}
		if cap(tb.arena) > keepBytes || tb.keyed.large() || tb.bag.large() {
			*tb = table{t: tb.t, seed: tb.seed}
		}
		tb.reset()
		tb.truncate = false
		kept = append(kept, tb)
	}
	clear(b.order[len(kept):])
	b.order = kept
}

func (tb *table) reset() {
	tb.arena = tb.arena[:0]
	tb.keyed.reset()
	tb.bag.reset()
}

func (tb *table) changes() Changes {
	c := Changes{Truncate: tb.truncate}
	if len(tb.t.Key) == 0 {
		tb.bagChanges(&c)
	} else {
		tb.keyedChanges(&c)
	}
	return c
}

// span is a part of a table's arena; the zero span is none.
type span struct{ from, to int }

func (s span) none() bool { return s.to == 0 }

func (tb *table) bytes(s span) []byte { return tb.arena[s.from:s.to:s.to] }

// ref names the record that something came from.
type ref struct {
	partition debezium.Partition
	offset    int64
}

func refOf(e *debezium.Event) ref { return ref{e.Partition, e.Offset} }

func (tb *table) row(s span, r ref) Row {
	return Row{Data: tb.bytes(s), Partition: r.partition, Offset: r.offset}
}

// encode appends the row r to the arena.
func (tb *table) encode(r debezium.Row) (span, *RowError) {
	from := len(tb.arena)
	var err *RowError
	tb.arena, err = tb.t.encode(tb.arena, r)
	return span{from, len(tb.arena)}, err
}

// merge appends the merge of two rows to the arena (see mergeRow); none as older means that nothing is known.
func (tb *table) merge(older, newer span) span {
	if older.none() || !holds(tb.bytes(newer), UnsentLength) && !holds(tb.bytes(newer), UnavailableLength) {
		return newer
	}
	from := len(tb.arena)
	// The two rows are read from the arena as it is now; that it may move while it grows does not harm them.
	tb.arena = mergeRow(tb.arena, tb.bytes(older), tb.bytes(newer))
	return span{from, len(tb.arena)}
}

// eventKey is the key of an event that cannot be added, for people: what the event says, as its encoding may be what
// is wrong.
func eventKey(t *Target, e *debezium.Event) string {
	for _, r := range []debezium.Row{e.After, e.Before, e.Key} {
		if s := rowText(t, r); s != "" {
			return s
		}
	}
	return ""
}

// maxKeyText bounds the text of a key in an error.
const maxKeyText = 100

func rowText(t *Target, r debezium.Row) string {
	if !r.Sent() {
		return ""
	}
	var parts []string
	for _, c := range t.Key {
		name := t.Columns[c].Name
		i := slices.IndexFunc(r.Shape.Fields, func(f debezium.Field) bool {
			as, ok := t.config.Rules.named(f.Name)
			return ok && (as == name || strings.EqualFold(t.dialect.ShortName(as), name))
		})
		if i < 0 || i >= len(r.Values) || r.Values[i].Kind <= debezium.Unavailable {
			return ""
		}
		parts = append(parts, name+"="+valueText(r.Values[i]))
	}
	return clip(strings.Join(parts, ", "))
}

func valueText(v debezium.Value) string {
	switch v.Kind {
	case debezium.BoolValue, debezium.IntValue:
		return strconv.FormatInt(v.Num, 10)
	case debezium.NumberValue, debezium.StringValue:
		return v.Text
	case debezium.BytesValue:
		return fmt.Sprintf("%x", v.Text[:min(len(v.Text), maxKeyText)])
	case debezium.Unset:
		return valueText(v.List.Values[0])
	}
	return "?"
}

// clip shortens s to maxKeyText bytes, at a whole character.
func clip(s string) string {
	if len(s) <= maxKeyText {
		return s
	}
	n := maxKeyText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) + "…"
}

// incomplete is the error of an event without the image that its op must have.
func (tb *table) incomplete(op debezium.Op, image string) *RowError {
	return tb.t.refuse(BadRecord, "", fmt.Errorf("an event of op %q has no %s image", op, image))
}

var errNoKey = errors.New("the event has no value for every column of the key that the target's rows are matched by")
