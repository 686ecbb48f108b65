package sinktest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"replicator/schema"
	"replicator/sqlgen"
)

// table is one table's shape and rows. Rows are by key in a table with one, else a bag.
type table struct {
	shape schema.Table
	rows  map[string]stored
}

// stored is a row, and how many equal ones there are: always 1 in a table with a key.
type stored struct {
	cells []cell
	count int
}

func (t *table) clone() *table { return &table{shape: t.shape, rows: maps.Clone(t.rows)} }

// text returns the rows for people and tests: sorted, values joined by "|".
func (t *table) text() []string {
	out := make([]string, 0, len(t.rows))
	for _, r := range t.rows {
		values := make([]string, len(r.cells))
		for i, c := range r.cells {
			values[i] = c.String()
		}
		for range r.count {
			out = append(out, strings.Join(values, "|"))
		}
	}
	slices.Sort(out)
	return out
}

// image returns cells as bytes that are equal for equal cells.
func image(cells []cell) string {
	var b []byte
	for _, c := range cells {
		b = binary.BigEndian.AppendUint32(b, uint32(c.length))
		b = append(b, c.data...)
	}
	return string(b)
}

// place returns the row of c in the table's column order: columns that c does not have are unsent.
func (t *table) place(c change, row sqlgen.Row) ([]cell, error) {
	values, err := decodeRow(row.Data)
	if err != nil {
		return nil, err
	}
	if len(values) != len(c.columns) {
		return nil, fmt.Errorf("row has %d values, statement %d columns", len(values), len(c.columns))
	}
	out := make([]cell, len(t.shape.Columns))
	for i := range out {
		out[i] = cell{length: sqlgen.UnsentLength}
		if at := slices.Index(c.columns, t.shape.Columns[i].Name); at >= 0 {
			out[i] = values[at]
		}
	}
	return out, nil
}

// keyOf returns the key of a whole row in the statement's key order.
func (t *table) keyOf(c change, cells []cell) string {
	key := make([]cell, 0, len(c.key))
	for _, i := range c.key {
		at := slices.IndexFunc(t.shape.Columns, func(col schema.Column) bool { return col.Name == c.columns[i] })
		if at >= 0 {
			key = append(key, cells[at])
		}
	}
	return image(key)
}

// merge lays next over old, which may be nil. Unsent and unavailable values keep what was stored; a new row has
// its default for the unsent.
func (t *table) merge(old, next []cell) ([]cell, error) {
	out := slices.Clone(next)
	for i := range out {
		switch out[i].length {
		case sqlgen.UnsentLength:
			out[i] = defaultOf(t.shape.Columns[i])
			if old != nil {
				out[i] = old[i]
			}
		case sqlgen.UnavailableLength:
			if old == nil {
				return nil, &sqlgen.ValueError{Class: sqlgen.UnavailableValue, Err: errors.New("the source did not send the value, and no row holds it")}
			}
			out[i] = old[i]
		}
	}
	return out, nil
}

// put stores a row under key after the table's constraints were checked.
func (t *table) put(key string, cells []cell) error {
	for i, c := range cells {
		if col := t.shape.Columns[i]; col.NotNull && c.length == sqlgen.NullLength {
			return &columnError{col.Name, &sqlgen.ValueError{Class: sqlgen.NotNullViolation, Err: errors.New("NULL in a NOT NULL column")}}
		}
	}
	t.rows[key] = stored{cells, 1}
	return nil
}

// add adds n (which may be negative) equal rows to a bag.
func (t *table) add(cells []cell, n int) error {
	key := image(cells)
	count := t.rows[key].count + n
	switch {
	case count < 0:
		return &sqlgen.ValueError{Class: sqlgen.MissingRow, Err: errors.New("no such row")}
	case count == 0:
		delete(t.rows, key)
		return nil
	}
	if err := t.put(key, cells); err != nil {
		return err
	}
	t.rows[key] = stored{cells, count}
	return nil
}

// columnError says which column an error is about.
type columnError struct {
	column string
	error
}

func (e *columnError) Unwrap() error { return e.error }

// apply runs one statement. On an error it says which row it was, and the table is good for nothing.
func (t *table) apply(s *sqlgen.Statement, c change) error {
	p := &c.part
	if p.Truncate {
		clear(t.rows)
	}
	steps := []struct {
		n  int
		do func(i int) error
	}{
		{len(p.Deletes), func(i int) error { return t.remove(c, p.Deletes[i]) }},
		{len(p.Updates), func(i int) error { return t.upsert(c, p.Updates[i], true) }},
		{len(p.Marks), func(i int) error { return t.mark(c, p.Marks[i]) }},
		{len(p.Upserts), func(i int) error { return t.upsert(c, p.Upserts[i], false) }},
		{len(p.Replacements), func(i int) error { return t.replace(c, p.Replacements[i]) }},
		{len(p.Inserts), func(i int) error { return t.insert(c, p.Inserts[i]) }},
	}
	for _, step := range steps {
		for i := range step.n {
			if err := step.do(i); err != nil {
				return rowError(s, i, err)
			}
		}
	}
	return t.move(s, c)
}

// rowError says which record asked for row i of s.
func rowError(s *sqlgen.Statement, i int, err error) error {
	out := &sqlgen.RowError{Class: sqlgen.InvalidValue, Table: s.Table, Origin: s.Origin(i), Err: err}
	var v *sqlgen.ValueError
	if errors.As(err, &v) {
		out.Class, out.Err = v.Class, v.Err
	}
	var col *columnError
	if errors.As(err, &col) {
		out.Column = col.column
	}
	return out
}

func (t *table) remove(c change, row sqlgen.Row) error {
	if len(c.key) == 0 {
		cells, err := t.place(c, row)
		if err != nil {
			return err
		}
		if cells, err = t.merge(nil, cells); err != nil {
			return err
		}
		return t.add(cells, -1)
	}
	key, err := decodeRow(row.Data)
	if err != nil {
		return err
	}
	delete(t.rows, image(key))
	return nil
}

func (t *table) upsert(c change, row sqlgen.Row, mustExist bool) error {
	cells, err := t.place(c, row)
	if err != nil {
		return err
	}
	key := t.keyOf(c, cells)
	old, found := t.rows[key]
	if mustExist && !found {
		return &sqlgen.ValueError{Class: sqlgen.UnavailableValue, Err: errors.New("the source did not send every value, and there is no such row")}
	}
	if cells, err = t.merge(old.cells, cells); err != nil {
		return err
	}
	return t.put(key, cells)
}

// mark changes a row if it is there.
func (t *table) mark(c change, row sqlgen.Row) error {
	cells, err := t.place(c, row)
	if err != nil {
		return err
	}
	if _, found := t.rows[t.keyOf(c, cells)]; !found {
		return nil
	}
	return t.upsert(c, row, true)
}

func (t *table) insert(c change, row sqlgen.Row) error {
	cells, err := t.place(c, row)
	if err != nil {
		return err
	}
	if cells, err = t.merge(nil, cells); err != nil {
		return err
	}
	return t.add(cells, 1)
}

func (t *table) replace(c change, r sqlgen.Replacement) error {
	before, err := t.place(c, r.Before)
	if err != nil {
		return err
	}
	if before, err = t.merge(nil, before); err != nil {
		return err
	}
	after, err := t.place(c, r.After)
	if err != nil {
		return err
	}
	if after, err = t.merge(before, after); err != nil {
		return err
	}
	if err := t.add(before, -1); err != nil {
		return err
	}
	return t.add(after, 1)
}

// move takes every old row away before it stores the first new one: keys may be swapped.
func (t *table) move(s *sqlgen.Statement, c change) error {
	gone := make([][]cell, len(c.part.Moves))
	for i, m := range c.part.Moves {
		key, err := decodeRow(m.OldKey)
		if err != nil {
			return rowError(s, i, err)
		}
		gone[i] = t.rows[image(key)].cells
		delete(t.rows, image(key))
	}
	for i, m := range c.part.Moves {
		cells, err := t.place(c, m.Row)
		if err != nil {
			return rowError(s, i, err)
		}
		if cells, err = t.merge(gone[i], cells); err != nil {
			return rowError(s, i, err)
		}
		if err := t.put(t.keyOf(c, cells), cells); err != nil {
			return rowError(s, i, err)
		}
	}
	return nil
}

// keys returns the rows of a table with a key that the statement touches, by key.
func (c change) keys(t *table) []string {
	if len(c.key) == 0 {
		return nil
	}
	var out []string
	add := func(b []byte) {
		if key, err := decodeRow(b); err == nil {
			out = append(out, image(key))
		}
	}
	whole := func(r sqlgen.Row) {
		if cells, err := t.place(c, r); err == nil {
			out = append(out, t.keyOf(c, cells))
		}
	}
	for _, r := range c.part.Deletes {
		add(r.Data)
	}
	for _, m := range c.part.Moves {
		add(m.OldKey)
		whole(m.Row)
	}
	for _, r := range c.part.Updates {
		whole(r)
	}
	for _, r := range c.part.Marks {
		whole(r)
	}
	for _, r := range c.part.Upserts {
		whole(r)
	}
	return out
}
