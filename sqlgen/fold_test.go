package sqlgen

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// itemShape is a row of the table that the fold is tested with.
var itemShape = &debezium.Shape{Fields: []debezium.Field{
	{Name: "id", Type: debezium.Int32},
	{Name: "a", Type: debezium.Int32, Optional: true},
	{Name: "b", Type: debezium.String, Optional: true},
}}

var idShape = &debezium.Shape{Fields: itemShape.Fields[:1]}

// itemTable also has a column that the source does not know.
func itemTable(key ...string) schema.Table {
	return schema.Table{
		Name: schema.Name{Schema: "shop", Table: "item"},
		Columns: []schema.Column{
			{Name: "id", Type: PostgresType("integer"), NotNull: true},
			{Name: "a", Type: PostgresType("integer")},
			{Name: "local", Type: PostgresType("text")},
			{Name: "b", Type: PostgresType("text")},
		},
		PrimaryKey: key,
	}
}

func mustTarget(tb testing.TB, t schema.Table) *Target {
	tb.Helper()
	target, err := NewTarget(Postgres{}, t, TargetConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	return target
}

func number32(n int) debezium.Value { return debezium.Value{Kind: debezium.IntValue, Num: int64(n)} }

func textValue(s string) debezium.Value { return debezium.Value{Kind: debezium.StringValue, Text: s} }

func idRow(id int) debezium.Row {
	return debezium.Row{Shape: idShape, Values: []debezium.Value{number32(id)}}
}

func itemRow(id int, a, b debezium.Value) debezium.Row {
	return debezium.Row{Shape: itemShape, Values: []debezium.Value{number32(id), a, b}}
}

var (
	nullValue        = debezium.Value{Kind: debezium.Null}
	unavailableValue = debezium.Value{Kind: debezium.Unavailable}
)

// store is what a target holds, in the memory of a test: rows by their key, or a bag of rows.
type store struct {
	t    *Target
	rows map[string][]string // by key: the values' elements by column
	bag  []string            // without a key
}

func newStore(t *Target) *store { return &store{t: t, rows: map[string][]string{}} }

func elements(row []byte) []string {
	var out []string
	for len(row) > 0 {
		var elem []byte
		_, elem, row = cut(row)
		out = append(out, string(elem))
	}
	return out
}

const (
	nullElement        = "\xFF\xFF\xFF\xFF"
	unsentElement      = "\xFF\xFF\xFF\xFE"
	unavailableElement = "\xFF\xFF\xFF\xFD"
)

// write puts row over was, which is nil for a new row.
func write(was []string, row []byte) []string {
	out := elements(row)
	for i, e := range out {
		if e == unsentElement || e == unavailableElement {
			out[i] = nullElement
			if was != nil {
				out[i] = was[i]
			}
		}
	}
	return out
}

func (s *store) key(row []byte) string {
	k, ok := s.t.rowKey(nil, row)
	if !ok {
		panic("a folded row has no key")
	}
	return string(k)
}

// apply does what Changes ask for, as its text says.
func (s *store) apply(c Changes) error {
	if c.Truncate {
		clear(s.rows)
		s.bag = nil
	}
	if len(s.t.Key) == 0 {
		return s.applyBag(c)
	}
	for _, d := range c.Deletes {
		delete(s.rows, string(d.Data))
	}
	taken := make([][]string, len(c.Moves))
	for i, m := range c.Moves {
		taken[i] = s.rows[string(m.OldKey)]
		if taken[i] == nil && holds(m.Row.Data, UnavailableLength) {
			return fmt.Errorf("a row that moves is not there and has unavailable values")
		}
	}
	for i, m := range c.Moves {
		delete(s.rows, string(m.OldKey))
		if taken[i] == nil {
			taken[i] = s.rows[s.key(m.Row.Data)]
		}
	}
	for i, m := range c.Moves {
		s.rows[s.key(m.Row.Data)] = write(taken[i], m.Row.Data)
	}
	for _, u := range c.Updates {
		was := s.rows[s.key(u.Data)]
		if was == nil {
			return fmt.Errorf("a row with unavailable values is not there")
		}
		s.rows[s.key(u.Data)] = write(was, u.Data)
	}
	for _, u := range c.Marks {
		if was := s.rows[s.key(u.Data)]; was != nil {
			s.rows[s.key(u.Data)] = write(was, u.Data)
		}
	}
	for _, u := range c.Upserts {
		s.rows[s.key(u.Data)] = write(s.rows[s.key(u.Data)], u.Data)
	}
	return nil
}

func (s *store) applyBag(c Changes) error {
	take := func(row Row) error {
		i := slices.Index(s.bag, string(row.Data))
		if i < 0 {
			return fmt.Errorf("no row equals the before image")
		}
		s.bag = slices.Delete(s.bag, i, i+1)
		return nil
	}
	for _, d := range c.Deletes {
		if err := take(d); err != nil {
			return err
		}
	}
	for _, r := range c.Replacements {
		if err := take(r.Before); err != nil {
			return err
		}
		s.bag = append(s.bag, string(r.After.Data))
	}
	for _, r := range c.Inserts {
		s.bag = append(s.bag, string(r.Data))
	}
	return nil
}

// content is the store's rows, sorted, as lists of elements.
func (s *store) content() []string {
	var out []string
	for _, r := range s.rows {
		out = append(out, fmt.Sprintf("%q", r))
	}
	for _, r := range s.bag {
		out = append(out, fmt.Sprintf("%q", elements([]byte(r))))
	}
	slices.Sort(out)
	return out
}

func changesOf(b *Batch) Changes {
	if len(b.order) == 0 {
		return Changes{}
	}
	return b.order[0].changes()
}

func TestFoldedEqualsAppliedOneByOne(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable("id"))
	for seed := range uint64(400) {
		for _, sc := range scenarios(seed) {
			s := newStore(target)
			h := sc.play(t, 4+int(seed%5), target, func(c Changes, _ []Statement) error { return s.apply(c) })
			if got, want := s.content(), h.wanted(target); !slices.Equal(got, want) {
				t.Fatalf("%+v:\n got %v\nwant %v", sc, got, want)
			}
		}
	}
}

func TestFoldedBagEqualsAppliedOneByOne(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable())
	for seed := range uint64(500) {
		s := newStore(target)
		list, want := bagHistory(seed, 60)
		b := NewBatch(Postgres{})
		for i := range list {
			if err := b.Add(target, &list[i]); err != nil {
				t.Fatal(err)
			}
			if seed%2 == 0 && i%7 == 0 || i == len(list)-1 {
				if err := s.apply(changesOf(b)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				b.Reset()
			}
		}
		var wanted []string
		for _, r := range want {
			row, err := target.encode(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			wanted = append(wanted, fmt.Sprintf("%q", elements(row)))
		}
		slices.Sort(wanted)
		if got := s.content(); !slices.Equal(got, wanted) {
			t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, wanted)
		}
	}
}

// fold returns what events fold to.
func fold(t *testing.T, target *Target, events ...debezium.Event) Changes {
	t.Helper()
	b := NewBatch(Postgres{})
	for i := range events {
		if err := b.Add(target, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return changesOf(b)
}

// stored makes a store that holds rows (1, 1, "local", "one") and (2, 2, "local", "two").
func stored(target *Target) *store {
	s := newStore(target)
	for i, b := range []string{"one", "two"} {
		row, err := target.encode(nil, itemRow(i+1, number32(i+1), textValue(b)))
		if err != nil {
			panic(err)
		}
		r := write(nil, row)
		r[2] = "\x00\x00\x00\x05local"
		s.rows[s.key(row)] = r
	}
	return s
}

func TestMovedRowKeepsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable("id"))
	left := debezium.Event{Op: debezium.Delete, Key: idRow(1), NewKey: idRow(9)}
	arrived := debezium.Event{Op: debezium.Create, Key: idRow(9), OldKey: idRow(1), After: itemRow(9, number32(7), unavailableValue)}
	for name, order := range map[string][]debezium.Event{
		"delete first": {left, arrived},
		"create first": {arrived, left},
	} {
		s := stored(target)
		want := maps.Clone(s.rows)
		moved := slices.Clone(want[string(idKey(1))])
		moved[0], moved[1] = "\x00\x00\x00\x04\x00\x00\x00\x09", "\x00\x00\x00\x04\x00\x00\x00\x07"
		delete(want, string(idKey(1)))
		want[string(idKey(9))] = moved
		if err := s.apply(fold(t, target, order...)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !maps.EqualFunc(s.rows, want, slices.Equal) {
			t.Errorf("%s:\n got %q\nwant %q", name, s.rows, want)
		}
	}
}

func idKey(id int) []byte { return []byte{0, 0, 0, 4, 0, 0, 0, byte(id)} }

func TestRowThatLeftAndNeverArrivedIsDeleted(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable("id"))
	got := fold(t, target, debezium.Event{Op: debezium.Delete, Key: idRow(1), NewKey: idRow(9), Offset: 5})
	if len(got.Deletes) != 1 || string(got.Deletes[0].Data) != string(idKey(1)) || got.Deletes[0].Offset != 5 {
		t.Errorf("got %+v, want one delete of key 1 by offset 5", got)
	}
	if len(got.Moves)+len(got.Updates)+len(got.Upserts) != 0 {
		t.Errorf("got %+v, want nothing but the delete", got)
	}
}

func TestDeleteOfACreatedRowIsStillDeleted(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable("id"))
	got := fold(t, target,
		debezium.Event{Op: debezium.Create, Key: idRow(3), After: itemRow(3, nullValue, nullValue)},
		debezium.Event{Op: debezium.Delete, Key: idRow(3)})
	if len(got.Deletes) != 1 || len(got.Upserts) != 0 {
		t.Errorf("got %+v, want a delete", got)
	}
}

func TestTruncateDropsWhatCameBefore(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable("id"))
	got := fold(t, target,
		debezium.Event{Op: debezium.Create, Key: idRow(1), After: itemRow(1, nullValue, nullValue)},
		debezium.Event{Op: debezium.Truncate},
		debezium.Event{Op: debezium.Create, Key: idRow(2), After: itemRow(2, nullValue, nullValue)})
	if !got.Truncate || len(got.Upserts) != 1 || string(got.Upserts[0].Data[:8]) != string(idKey(2)) {
		t.Errorf("got %+v, want a truncate and the upsert of key 2", got)
	}
}
