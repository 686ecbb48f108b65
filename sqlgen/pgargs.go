package sqlgen

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The bounds of one statement. More rows gain nothing, and the server holds all of a statement's arguments in memory.
const (
	pgMaxRows  = 5_000
	pgMaxBytes = 8 << 20
)

// pgArrays makes the arguments of a statement: one binary array for each of its columns (array_recv in arrayfuncs.c).
type pgArrays struct {
	wires []pgWire
	data  [][]byte
	n     int
}

const arrayHeader = 20

// newArrays begins n arrays of rows elements; size says how many bytes all elements of one may take.
func newArrays(wires []pgWire, rows int, size []int) *pgArrays {
	a := &pgArrays{wires: wires, data: make([][]byte, len(wires)), n: rows}
	for i, w := range wires {
		b := make([]byte, 0, arrayHeader+size[i])
		b = binary.BigEndian.AppendUint32(b, 1) // dimensions
		b = binary.BigEndian.AppendUint32(b, 0) // whether there is a NULL; the server does not rely on it
		b = binary.BigEndian.AppendUint32(b, w.elem)
		b = binary.BigEndian.AppendUint32(b, uint32(rows))
		a.data[i] = binary.BigEndian.AppendUint32(b, 1) // the lower bound
	}
	return a
}

// add appends one element, which is its length and its bytes.
func (a *pgArrays) add(column int, elem []byte) { a.data[column] = append(a.data[column], elem...) }

func (a *pgArrays) args() []any {
	out := make([]any, len(a.data))
	for i, w := range a.wires {
		out[i] = Array{OID: w.oid, Elem: w.elem, Data: a.data[i]}
	}
	return out
}

var null4 = []byte{0xFF, 0xFF, 0xFF, 0xFF}

// pgRows are rows, whole or of key columns alone, as arrays. Columns are indexes into a row's values.
type pgRows struct {
	wires   []pgWire // of the columns, in their order
	columns []int
	slot    []int // by index into a row's values: which of columns it is, or -1
}

func newRows(t *Target, columns []int, width int) pgRows {
	r := pgRows{columns: columns, slot: make([]int, width)}
	for i := range r.slot {
		r.slot[i] = -1
	}
	for i, c := range columns {
		r.slot[c] = i
		r.wires = append(r.wires, wireOf(t.Columns[c].Type))
	}
	return r
}

// keyRows are rows of key columns alone.
func keyRows(t *Target) pgRows {
	r := pgRows{columns: t.Key, slot: make([]int, len(t.Key))}
	for i, c := range t.Key {
		r.slot[i] = i
		r.wires = append(r.wires, wireOf(t.Columns[c].Type))
	}
	return r
}

// arrays makes arrays of n rows.
func (r pgRows) arrays(n int, row func(i int) []byte) *pgArrays {
	size := make([]int, len(r.columns))
	for i := range n {
		rest := row(i)
		for _, s := range r.slot {
			var elem []byte
			_, elem, rest = cut(rest)
			if s >= 0 {
				size[s] += len(elem)
			}
		}
	}
	a := newArrays(r.wires, n, size)
	for i := range n {
		rest := row(i)
		for _, s := range r.slot {
			var l int
			var elem []byte
			l, elem, rest = cut(rest)
			switch {
			case s < 0:
			case l < 0: // NULL, and what a statement for rows of several kinds passes over
				a.add(s, null4)
			default:
				a.add(s, elem)
			}
		}
	}
	return a
}

// unnest writes `unnest($1::int4[], $2::text[]) AS d(c1, c2)`, with parameters from first on.
func unnest(wires []pgWire, first int, alias string) string {
	var params, names strings.Builder
	for i, w := range wires {
		if i > 0 {
			params.WriteString(", ")
			names.WriteString(", ")
		}
		fmt.Fprintf(&params, "$%d::%s", first+i, w.array)
		fmt.Fprintf(&names, "c%d", i+1)
	}
	return fmt.Sprintf("unnest(%s) AS %s(%s)", params.String(), alias, names.String())
}

// value writes an unnested column as a value of its type.
func (w pgWire) value(column string) string {
	if w.cast == "" {
		return column
	}
	return column + "::" + w.cast
}

// chunk cuts [0, n) into parts of at most maxRows and, unless one row alone has more, maxBytes.
func chunk(n, maxRows, maxBytes int, size func(i int) int, part func(i, j int)) {
	from, bytes := 0, 0
	for i := range n {
		s := size(i)
		if i > from && (i-from >= maxRows || bytes+s > maxBytes) {
			part(from, i)
			from, bytes = i, 0
		}
		bytes += s
	}
	if n > from {
		part(from, n)
	}
}

// pgStatement is what the statements of one SQL text have in common, and how each row range becomes its arguments.
type pgStatement struct {
	t    *Target
	kind StatementKind
	sql  string
	want bool // each row must be there
	scan bool // no index serves it
	args func(i, j int) []any
	row  func(i int) Row
	key  func(i int) []byte // of row i, of key columns alone; nil: the table has none

	instead  *pgStatement // for rows that are not all there
	exchange *Exchange
}

func (s *pgStatement) slice(i, j int) Statement {
	out := Statement{Table: s.t.Table.Name, Kind: s.kind, SQL: s.sql, Args: s.args(i, j), Rows: j - i, Want: -1, Scans: s.scan, Exchange: s.exchange}
	if s.want {
		out.Want = int64(j - i)
	}
	out.Origin = func(k int) Origin {
		r := s.row(i + k)
		o := Origin{Partition: r.Partition, Offset: r.Offset}
		if s.key != nil {
			o.Key = keyText(s.t, s.key(i+k), pgValueText)
		}
		return o
	}
	if s.instead != nil {
		out.Instead = func() []Statement { return []Statement{s.instead.slice(i, j)} }
	}
	if j-i >= 2 {
		out.Slice = func(a, b int) Statement { return s.slice(i+a, i+b) }
	}
	return out
}
