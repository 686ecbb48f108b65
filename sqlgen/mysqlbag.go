package sqlgen

import (
	"encoding/binary"
	"strconv"
	"strings"

	"replicator/schema"
)

// Rows of a table without a key are changed by statements with a LIMIT, one for each different row: neither MySQL nor
// MariaDB tells where a row is stored, so that a join could take one of several equal ones. Each reads the table, or as
// much of it as one of its indexes leaves over; a table that changes much wants a key.

// bagDeletes removes one stored row for each of rows.
func (w *mysqlWriter) bagDeletes(rows []Row) {
	row := func(i int) Row { return rows[i] }
	for _, equal := range w.equal(len(rows), func(dst []byte, i int) []byte { return w.t.canonicalRow(dst, rows[i].Data) }) {
		w.limited(DeleteRows, equal, row, "DELETE FROM "+w.name+w.where(rows[equal[0]].Data))
	}
}

// bagReplacements changes one stored row for each replacement.
func (w *mysqlWriter) bagReplacements(list []Replacement) {
	row := func(i int) Row { return list[i].After }
	pair := func(dst []byte, i int) []byte {
		mark := len(dst)
		dst = w.t.canonicalRow(append(dst, 0, 0, 0, 0), list[i].Before.Data)
		binary.BigEndian.PutUint32(dst[mark:], uint32(len(dst)-mark))
		return append(dst, list[i].After.Data...)
	}
	for _, equal := range w.equal(len(list), pair) {
		r := list[equal[0]]
		var set []string
		for c, rest := 0, r.After.Data; len(rest) > 0; c++ {
			var l int
			var elem []byte
			if l, elem, rest = cut(rest); isSent(l) {
				set = append(set, w.column(c)+" = "+string(w.appendValue(nil, c, l, elem)))
			}
		}
		w.limited(UpdateRows, equal, row, "UPDATE "+w.name+" SET "+strings.Join(set, ", ")+w.where(r.Before.Data))
	}
}

// equal sorts n things by what image makes of them, in the order of the first of each.
func (w *mysqlWriter) equal(n int, image func(dst []byte, i int) []byte) [][]int {
	var out [][]int
	index := make(map[string]int, n)
	var buf []byte
	for i := range n {
		buf = image(buf[:0], i)
		at, ok := index[string(buf)]
		if !ok {
			at = len(out)
			index[string(buf)] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], i)
	}
	return out
}

// limited adds a statement that changes as many rows as there are equal ones.
func (w *mysqlWriter) limited(kind StatementKind, equal []int, row func(i int) Row, sql string) {
	s := &mysqlStatement{
		kind: kind, want: true, row: func(i int) Row { return row(equal[i]) },
		sql: func(i, j int) string { return sql + " LIMIT " + strconv.Itoa(j-i) },
	}
	w.out = append(w.out, w.slice(s, 0, len(equal)))
}

// where finds the rows that equal row in the columns that were sent.
func (w *mysqlWriter) where(row []byte) string {
	var parts []string
	for c := 0; len(row) > 0; c++ {
		var l int
		var elem []byte
		l, elem, row = cut(row)
		switch {
		case l == NullLength:
			parts = append(parts, w.column(c)+" IS NULL")
		case l >= 0:
			parts = append(parts, w.equals(c, string(w.appendValue(nil, c, l, elem))))
		}
	}
	return " WHERE " + strings.Join(parts, " AND ")
}

// equals compares a stored value with a literal: text by its bytes, but so that an index can be used, JSON as the
// document that it is.
func (w *mysqlWriter) equals(c int, literal string) string {
	name := w.column(c)
	switch t := w.t.Columns[c].Type; {
	case t.Kind == schema.JSON && !w.MariaDB:
		return name + " = CAST(" + literal + " AS JSON)"
	case t.Kind == schema.Vector: // MySQL compares a vector with nothing else
		return "HEX(" + name + ") = HEX(" + literal + ")"
	case t.Kind == schema.Text && !mysqlInet(t): // of which an index has no more than a prefix
		return w.exact(c, name) + " = " + literal
	case mysqlCollated(t):
		return name + " = " + literal + " AND " + w.exact(c, name) + " = " + literal
	}
	return name + " = " + literal
}
