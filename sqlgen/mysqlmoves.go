package sqlgen

import (
	"slices"
	"strings"
)

// moves changes keys, and returns the rows that are still to be upserted: whole ones, which are removed under their old
// keys here, and those that may not have been stored.
//
// A row that has values which were not sent keeps what is stored under its old key. What is stored under its new key
// is removed first, if the row that comes there is stored (an earlier run of the same events may have left it). Where
// the new key of one such row is the old key of another, in a chain or a cycle, an UPDATE would meet a key that is not
// free yet: these are copied to their new keys by one statement, which reads all of them before it writes any.
func (w *mysqlWriter) moves(moves []Move) []Row {
	var arrived, left []Row
	var leftKeys [][]byte
	var partial []Move
	for _, m := range moves {
		switch {
		case !holds(m.Row.Data, UnsentLength) && !holds(m.Row.Data, UnavailableLength):
			arrived, left, leftKeys = append(arrived, m.Row), append(left, m.Row), append(leftKeys, m.OldKey)
		case !holds(m.Row.Data, UnavailableLength):
			arrived, partial = append(arrived, m.Row), append(partial, m)
		default:
			partial = append(partial, m)
		}
	}
	w.deletes(MoveRows, left, func(i int) []byte { return leftKeys[i] })
	chained, single := splitMoves(w.t, partial, false)
	w.clear(slices.Concat(single, chained))
	for _, must := range []bool{false, true} {
		rows := slices.DeleteFunc(slices.Clone(single), func(m movedRow) bool { return m.partial != must })
		for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Row.Data }, isSent) {
			w.rekeyGroup(rows, g, must)
		}
	}
	w.copyChained(chained)
	return arrived
}

// moved makes a statement of rows that are found by their old keys: its derived table has these, and then the columns
// of more.
func (w *mysqlWriter) moved(rows []movedRow, more []string, appendMore func(dst []byte, m *movedRow) []byte,
	sql func(d mysqlDerived, rows string) string,
) *mysqlStatement {
	typed := make([]string, 0, len(w.t.Key)+len(more))
	for _, c := range w.t.Key {
		typed = append(typed, w.column(c))
	}
	d := w.derivedOf(append(typed, more...))
	return &mysqlStatement{
		kind: MoveRows, row: func(i int) Row { return rows[i].Row }, key: func(i int) []byte { return rows[i].newKey },
		size: func(i int) int {
			return mysqlSize(rows[i].OldKey) + mysqlSize(rows[i].newKey) + mysqlSize(rows[i].Row.Data)
		},
		sql: func(i, j int) string {
			return sql(d, d.rows(j-i, func(dst []byte, k int) []byte {
				return appendMore(w.appendKey(dst, rows[i+k].OldKey), &rows[i+k])
			}))
		},
	}
}

// clear removes what is stored under the new keys, where the row that comes there is stored.
func (w *mysqlWriter) clear(rows []movedRow) {
	rows = slices.DeleteFunc(rows, func(m movedRow) bool { return !m.stale })
	key := make([]string, len(w.t.Key))
	for i, c := range w.t.Key {
		key[i] = w.column(c)
	}
	w.add(w.moved(rows, key, func(dst []byte, m *movedRow) []byte { return w.appendKey(append(dst, ','), m.newKey) },
		func(d mysqlDerived, rows string) string {
			return "DELETE t FROM " + rows + " STRAIGHT_JOIN " + w.name + " AS o ON " + w.keyEquals("o", d, identity) +
				" STRAIGHT_JOIN " + w.name + " AS t ON " + w.keyEquals("t", d, func(i int) int { return len(w.t.Key) + i })
		}), len(rows))
}

// rekeyGroup gives rows new keys that are free.
func (w *mysqlWriter) rekeyGroup(all []movedRow, g group, must bool) {
	rows := make([]movedRow, len(g.rows))
	for i, r := range g.rows {
		rows[i] = all[r]
	}
	more := make([]string, len(g.columns))
	for i := range more {
		more[i] = "NULL"
	}
	s := w.moved(rows, more, func(dst []byte, m *movedRow) []byte { return w.appendRow(append(dst, ','), m.Row.Data, g.columns) },
		func(d mysqlDerived, rows string) string {
			set := make([]string, len(g.columns))
			for i, c := range g.columns {
				set[i] = "t." + w.column(c) + " = " + d.column(len(w.t.Key)+i)
			}
			set = append(set, w.asTheyWere("t.", g.columns)...)
			return "UPDATE " + rows + " STRAIGHT_JOIN " + w.name + " AS t ON " + w.keyEquals("t", d, identity) + " SET " + strings.Join(set, ", ")
		})
	s.want = must
	w.add(s, len(rows))
}

// copyChained writes the rows of chains and cycles under their new keys, with the values that they had where none were
// sent, and removes those that nothing has taken the place of. It is one statement however many rows there are, since
// what is cut apart is a chain again.
func (w *mysqlWriter) copyChained(rows []movedRow) {
	if len(rows) == 0 {
		return
	}
	w.checkStored(rows)
	all := make([]int, len(w.t.Columns))
	more := make([]string, 2*len(all))
	for c := range all {
		all[c], more[2*c], more[2*c+1] = c, "NULL", "0"
	}
	appendAll := func(dst []byte, m *movedRow) []byte {
		rest := m.Row.Data
		for c := range all {
			var l int
			var elem []byte
			l, elem, rest = cut(rest)
			dst = w.appendValue(append(dst, ','), c, l, elem)
			if isSent(l) {
				dst = append(dst, ",1"...)
			} else {
				dst = append(dst, ",0"...)
			}
		}
		return dst
	}
	sent := unevenColumns(rows, len(all))
	s := w.moved(rows, more, appendAll, func(d mysqlDerived, rows string) string {
		values := make([]string, len(all))
		for c := range all {
			value, flag := d.column(len(w.t.Key)+2*c), d.column(len(w.t.Key)+2*c+1)
			stored := "o." + w.column(c)
			switch sent[c] {
			case noneSent:
				value = stored
			case someSent:
				value = "IF(" + flag + ", " + value + ", " + stored + ")"
			}
			values[c] = value + " AS " + w.column(c)
		}
		alias := w.alias()
		return "INSERT INTO " + w.name + " (" + w.columns(all) + ") SELECT * FROM (SELECT " + strings.Join(values, ", ") + " FROM " + rows +
			" STRAIGHT_JOIN " + w.name + " AS o ON " + w.keyEquals("o", d, identity) + ") AS " + alias +
			w.duplicate(all, func(c int) string { return alias + "." + w.column(c) })
	})
	w.out = append(w.out, w.slice(s, 0, len(rows)))
	newKeys := make(map[string]bool, len(rows))
	for _, m := range rows {
		newKeys[string(m.newKey)] = true
	}
	gone := slices.DeleteFunc(slices.Clone(rows), func(m movedRow) bool { return newKeys[string(m.OldKey)] })
	origins := make([]Row, len(gone))
	for i, m := range gone {
		origins[i] = m.Row
	}
	w.deletes(MoveRows, origins, func(i int) []byte { return gone[i].OldKey })
}

// checkStored makes sure that the rows of chains that have unavailable values are stored: an update of nothing, that
// must find them.
func (w *mysqlWriter) checkStored(all []movedRow) {
	rows := slices.DeleteFunc(slices.Clone(all), func(m movedRow) bool { return !m.partial })
	s := w.moved(rows, nil, func(dst []byte, _ *movedRow) []byte { return dst }, func(d mysqlDerived, rows string) string {
		return "UPDATE " + rows + " STRAIGHT_JOIN " + w.name + " AS t ON " + w.keyEquals("t", d, identity) + " SET " + w.touch()
	})
	s.want = true
	w.add(s, len(rows))
}
