package sqlgen

import (
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
)

// jsonWriter collects the statements of one table.
type jsonWriter struct {
	t     *Target
	table []byte   // how each message's key begins
	names [][]byte // of the columns, as JSON with the colon behind
	out   []Statement
}

// jsonStatement collects the messages of one kind.
type jsonStatement struct {
	kind    StatementKind
	op      Op
	args    []any
	origins []Origin
}

// end adds what was collected, if that is anything.
func (w *jsonWriter) end(s *jsonStatement) {
	if len(s.origins) == 0 {
		return
	}
	origins := s.origins
	w.out = append(w.out, Statement{
		Table: w.t.Table.Name, Kind: s.kind, SQL: fmt.Sprintf("%s %s", s.op, w.t.Table.Name), Args: append([]any{string(s.op)}, s.args...),
		Rows: len(origins), Want: -1, Origin: func(i int) Origin { return origins[i] },
	})
	s.args, s.origins = nil, nil
}

// add adds one message.
func (s *jsonStatement) add(o Origin, key, value, other []byte) {
	part := func(b []byte) any {
		if b == nil {
			return nil
		}
		return b
	}
	s.args = append(s.args, part(key), part(value), part(other))
	s.origins = append(s.origins, o)
}

// refuse adds a statement that refuses a row for a NULL in a column that takes none.
func (w *jsonWriter) refuse(s *jsonStatement, o Origin, column string) {
	w.end(s)
	r := &jsonStatement{kind: s.kind, op: opRefuse}
	r.add(o, []byte(NotNullViolation), []byte(column), []byte("NULL in a column that is NOT NULL"))
	w.end(r)
}

// rows adds the messages of whole rows. other returns the third part of the message of row i; nil: it has none.
func (w *jsonWriter) rows(kind StatementKind, op Op, n int, row func(i int) Row, other func(i int) []byte) {
	s := &jsonStatement{kind: kind, op: op}
	for i := range n {
		r := row(i)
		key := w.keyOf(r.Data)
		o := w.origin(r, key)
		if column, bad := w.null(r.Data); bad && kind != DeleteRows {
			w.refuse(s, o, column)
			continue
		}
		var third []byte
		if other != nil {
			third = other(i)
		}
		s.add(o, w.key(key), w.object(nil, r.Data), third)
	}
	w.end(s)
}

// deletes adds the messages of rows that are gone from a table with a key.
func (w *jsonWriter) deletes(rows []Row) {
	s := &jsonStatement{kind: DeleteRows, op: OpDelete}
	for _, r := range rows {
		s.add(w.origin(r, r.Data), w.key(r.Data), nil, nil)
	}
	w.end(s)
}

// moves adds two messages for each row: all leave before the first one arrives, since the keys that some take are those that others
// leave.
func (w *jsonWriter) moves(moves []Move) {
	s := &jsonStatement{kind: DeleteRows, op: OpLeave}
	for _, m := range moves {
		s.add(w.origin(m.Row, m.OldKey), w.key(m.OldKey), nil, w.key(w.keyOf(m.Row.Data)))
	}
	w.end(s)
	w.rows(MoveRows, OpMove, len(moves), func(i int) Row { return moves[i].Row }, func(i int) []byte { return w.key(moves[i].OldKey) })
}

func (w *jsonWriter) replacements(list []Replacement) {
	s := &jsonStatement{kind: UpdateRows, op: OpReplace}
	for _, r := range list {
		o := w.origin(r.After, nil)
		if column, bad := w.null(r.After.Data); bad {
			w.refuse(s, o, column)
			continue
		}
		value := w.object([]byte(`{"before":`), r.Before.Data)
		value = w.object(append(value, `,"after":`...), r.After.Data)
		s.add(o, w.key(nil), append(value, '}'), nil)
	}
	w.end(s)
}

// origin names the record that a row came from; key is encoded, of key columns alone.
func (w *jsonWriter) origin(r Row, key []byte) Origin {
	o := Origin{Partition: r.Partition, Offset: r.Offset}
	if len(w.t.Key) > 0 {
		o.Key = keyText(w.t, key, jsonValueText)
	}
	return o
}

// jsonValueText decodes an encoded value for people.
func jsonValueText(_ schema.Type, v []byte) string {
	return strings.ToValidUTF8(string(v[:min(len(v), 2*maxKeyText)]), "")
}

// keyOf returns the key columns of an encoded row, in the order of Target.Key.
func (w *jsonWriter) keyOf(row []byte) []byte {
	var out []byte
	for _, c := range w.t.Key {
		rest := row
		var elem []byte
		for range c + 1 {
			_, elem, rest = cut(rest)
		}
		out = append(out, elem...)
	}
	return out
}

// key returns the key of the message of a row whose key is encoded, or without one of the table's messages.
func (w *jsonWriter) key(key []byte) []byte {
	out := slices.Clone(w.table)
	for i, c := range w.t.Key {
		if key == nil {
			break
		}
		open := byte(',')
		if i == 0 {
			out = append(out, `,"key":`...)
			open = '{'
		}
		var n int
		var elem []byte
		n, elem, key = cut(key)
		out = append(append(out, open), w.names[c]...)
		out = appendJSONElement(out, n, elem)
		if len(key) == 0 {
			return append(out, '}', '}')
		}
	}
	return append(out, '}')
}

// object appends the columns of an encoded row that have a value, or NULL.
func (w *jsonWriter) object(dst, row []byte) []byte {
	open := byte('{')
	for c := 0; len(row) > 0; c++ {
		var n int
		var elem []byte
		n, elem, row = cut(row)
		if n == UnsentLength || n == UnavailableLength {
			continue
		}
		dst = append(append(dst, open), w.names[c]...)
		dst = appendJSONElement(dst, n, elem)
		open = ','
	}
	if open == '{' {
		dst = append(dst, open)
	}
	return append(dst, '}')
}

func appendJSONElement(dst []byte, length int, elem []byte) []byte {
	if length < 0 {
		return append(dst, "null"...)
	}
	return append(dst, elem[4:]...)
}

// null returns a column that is NULL and must not be.
func (w *jsonWriter) null(row []byte) (column string, bad bool) {
	for c := 0; len(row) > 0; c++ {
		var n int
		n, _, row = cut(row)
		if n == NullLength && w.t.Columns[c].NotNull {
			return w.t.Columns[c].Name, true
		}
	}
	return "", false
}
