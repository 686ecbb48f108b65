package sqlgen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator/schema"
)

// column names an unnested column by its number, from 0.
func column(prefix string, i int) string { return prefix + strconv.Itoa(i+1) }

// moves changes keys. In three steps: what is stored under a new key is removed if the row that comes there is
// stored (an earlier run of the same events may have left it); the rows get their new keys and values; and rows that
// have all of their values are upserted, in case that they were not stored under the old key (any more).
//
// Where the new key of one is the old key of another, in a chain or a cycle, an UPDATE can meet a key that is not free
// yet, since unique indexes are checked row by row. These are deleted and inserted again by one statement, and so are
// rows whose key is an identity column, which an UPDATE cannot set.
func (w *pgWriter) moves(moves []Move) {
	if len(moves) == 0 {
		return
	}
	identity := slices.ContainsFunc(w.t.Key, func(c int) bool { return w.t.Columns[c].AutoIncrement })
	chained, single := splitMoves(w.t, moves, identity)
	w.clear(single, chained)
	w.rekey(single)
	w.reinsert(chained)
	w.upserts(whole(moves))
}

// whole returns the rows that have all of their values.
func whole(moves []Move) []Row {
	var rows []Row
	for _, m := range moves {
		if !holds(m.Row.Data, UnavailableLength) {
			rows = append(rows, m.Row)
		}
	}
	return rows
}

// trade writes changes of rows that may trade values of unique indexes: as moves, of which most are to the key that the row has.
func (w *pgWriter) trade(c Changes) {
	moves := slices.Clone(c.Moves)
	for _, rows := range [][]Row{c.Updates, c.Upserts} {
		for _, r := range rows {
			if key, ok := w.t.rowKey(nil, r.Data); ok {
				moves = append(moves, Move{OldKey: key, Row: r})
			}
		}
	}
	chained, _ := splitMoves(w.t, moves, true)
	w.clear(chained)
	w.reinsert(chained)
	w.upserts(whole(moves))
	w.updates(c.Marks, false)
}

// movedRow is a move with its canonical new key.
type movedRow struct {
	Move
	newKey  []byte
	partial bool // it has unavailable values, so it must be stored
	stale   bool // its new key is nobody's old key: what is stored there is of no use
}

// splitMoves tells the moves whose keys meet those of others, or all of them, from those that stand alone.
func splitMoves(t *Target, moves []Move, all bool) (chained, single []movedRow) {
	oldKeys, newKeys := make(map[string]bool, len(moves)), make(map[string]bool, len(moves))
	rows := make([]movedRow, len(moves))
	for i, m := range moves {
		key, _ := t.rowKey(nil, m.Row.Data) // a row's key has values, or it would not have been folded
		rows[i] = movedRow{Move: m, newKey: key, partial: holds(m.Row.Data, UnavailableLength)}
		oldKeys[string(m.OldKey)], newKeys[string(key)] = true, true
	}
	for _, m := range rows {
		m.stale = !oldKeys[string(m.newKey)]
		if all || !m.stale || newKeys[string(m.OldKey)] {
			chained = append(chained, m)
		} else {
			single = append(single, m)
		}
	}
	return chained, single
}

// moveStatement makes a statement whose arguments are the old keys, and then what more adds.
func (w *pgWriter) moveStatement(sql string, rows []movedRow, more func(i, j int) []any) *pgStatement {
	old := keyRows(w.t)
	return &pgStatement{
		t: w.t, kind: MoveRows, sql: sql,
		row: func(i int) Row { return rows[i].Row },
		key: func(i int) []byte { return rows[i].newKey },
		args: func(i, j int) []any {
			args := old.arrays(j-i, func(k int) []byte { return rows[i+k].OldKey }).args()
			return append(args, more(i, j)...)
		},
	}
}

// clear removes what is stored under the new keys, where the row that comes there is stored.
func (w *pgWriter) clear(lists ...[]movedRow) {
	var rows []movedRow
	for _, list := range lists {
		for _, m := range list {
			if m.stale {
				rows = append(rows, m)
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	key := keyRows(w.t)
	n := len(key.wires)
	sql := "DELETE FROM " + w.name + " AS t USING " + unnest(append(key.wires[:n:n], key.wires...), 1, "d") +
		" WHERE " + w.keyEquals("t", func(i int) int { return n + i }) +
		" AND EXISTS (SELECT FROM " + w.name + " AS o WHERE " + w.keyEquals("o", identity) + ")"
	w.add(w.moveStatement(sql, rows, func(i, j int) []any {
		return key.arrays(j-i, func(k int) []byte { return rows[i+k].newKey }).args()
	}), len(rows))
}

// rekey gives rows new keys that are free.
func (w *pgWriter) rekey(moves []movedRow) {
	for _, partial := range []bool{false, true} {
		var rows []movedRow
		for _, m := range moves {
			if m.partial == partial {
				rows = append(rows, m)
			}
		}
		for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Row.Data }, isSent) {
			w.rekeyGroup(rows, g, partial)
		}
	}
}

func (w *pgWriter) rekeyGroup(all []movedRow, g group, partial bool) {
	rows := make([]movedRow, len(g.rows))
	for i, r := range g.rows {
		rows[i] = all[r]
	}
	key, layout := keyRows(w.t), newRows(w.t, g.columns, len(w.t.Columns))
	n := len(key.wires)
	set := make([]string, len(g.columns))
	for i, c := range g.columns {
		set[i] = w.Quote(w.t.Columns[c].Name) + " = " + layout.wires[i].value(column("d.c", n+i))
	}
	sql := "UPDATE " + w.name + " AS t SET " + strings.Join(set, ", ") +
		" FROM " + unnest(append(key.wires[:n:n], layout.wires...), 1, "d") + " WHERE " + w.keyEquals("t", identity)
	s := w.moveStatement(sql, rows, func(i, j int) []any {
		return layout.arrays(j-i, func(k int) []byte { return rows[i+k].Row.Data }).args()
	})
	s.want = partial
	w.add(s, len(rows))
}

// reinsert deletes the rows of chains and cycles, and inserts them under their new keys with the values that they had
// where none were sent. It is one statement however many rows there are, since what is cut apart is a chain again.
// Comparing the count of the deleted rows makes the server finish the deletes before the first insert: it is computed
// once, before any row of the join.
func (w *pgWriter) reinsert(rows []movedRow) {
	if len(rows) == 0 {
		return
	}
	key, columns := keyRows(w.t), w.allColumns()
	layout := newRows(w.t, columns, len(columns))
	n := len(key.wires)
	flagged := unevenColumns(rows, len(columns))
	wires := append(append([]pgWire{}, key.wires...), layout.wires...)
	values := make([]string, len(columns))
	names := make([]string, len(columns))
	for c := range columns {
		names[c] = w.t.Columns[c].Name
		stored, sent := "g."+w.Quote(names[c]), layout.wires[c].value(column("d.c", n+c))
		switch flagged[c] {
		case allSent:
			values[c] = sent
		case noneSent:
			values[c] = stored
		default:
			values[c] = fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", column("d.c", len(wires)), sent, stored)
			wires = append(wires, pgWires[schema.Bool])
		}
	}
	from := unnest(wires, 1, "d")
	sql := "WITH g AS (DELETE FROM " + w.name + " AS t USING " + from + " WHERE " + w.keyEquals("t", identity) + " RETURNING t.*)" +
		" INSERT INTO " + w.name + " (" + w.list(names) + ")" + w.overriding(columns) + " SELECT " + strings.Join(values, ", ") +
		" FROM g JOIN " + from + " ON " + w.keyEquals("g", identity) + " WHERE (SELECT count(*) FROM g) > 0"
	s := w.moveStatement(sql, rows, func(i, j int) []any {
		args := layout.arrays(j-i, func(k int) []byte { return rows[i+k].Row.Data }).args()
		for c := range columns {
			if flagged[c] == someSent {
				args = append(args, sentFlags(rows[i:j], c))
			}
		}
		return args
	})
	s.scan, s.exchange = true, w.exchange // it reads all of the deleted rows, to join them
	w.out = append(w.out, s.slice(0, len(rows)))
	w.checkPartial(rows)
}

// checkPartial makes sure that the rows of chains that have unavailable values were stored: an update of nothing,
// that must find them.
func (w *pgWriter) checkPartial(all []movedRow) {
	var rows []movedRow
	for _, m := range all {
		if m.partial {
			rows = append(rows, m)
		}
	}
	if len(rows) == 0 {
		return
	}
	key := keyRows(w.t)
	name := w.Quote(w.t.Columns[w.nonIdentity()].Name)
	s := &pgStatement{
		t: w.t, kind: MoveRows, want: true,
		sql: "UPDATE " + w.name + " AS t SET " + name + " = t." + name + " FROM " + unnest(key.wires, 1, "d") + " WHERE " + w.keyEquals("t", identity),
		row: func(i int) Row { return rows[i].Row },
		key: func(i int) []byte { return rows[i].newKey },
		args: func(i, j int) []any {
			return key.arrays(j-i, func(k int) []byte { return rows[i+k].newKey }).args()
		},
	}
	w.add(s, len(rows))
}

// nonIdentity is a column that an UPDATE may set.
func (w *pgWriter) nonIdentity() int {
	for i, c := range w.t.Columns {
		if !c.AutoIncrement {
			return i
		}
	}
	return 0
}

func (w *pgWriter) allColumns() []int {
	all := make([]int, len(w.t.Columns))
	for i := range all {
		all[i] = i
	}
	return all
}

// evenness says in how many of some rows a column has a value.
type evenness uint8

const (
	noneSent evenness = iota
	someSent
	allSent
)

func unevenColumns(rows []movedRow, columns int) []evenness {
	count := make([]int, columns)
	for _, m := range rows {
		rest := m.Row.Data
		for c := range columns {
			var l int
			if l, _, rest = cut(rest); isSent(l) {
				count[c]++
			}
		}
	}
	out := make([]evenness, columns)
	for c, n := range count {
		switch n {
		case 0:
		case len(rows):
			out[c] = allSent
		default:
			out[c] = someSent
		}
	}
	return out
}

// sentFlags is a bool[] that says which rows have a value for column c.
func sentFlags(rows []movedRow, c int) Array {
	a := newArrays([]pgWire{pgWires[schema.Bool]}, len(rows), []int{5 * len(rows)})
	for _, m := range rows {
		rest := m.Row.Data
		var l int
		for range c + 1 {
			l, _, rest = cut(rest)
		}
		flag := byte(0)
		if isSent(l) {
			flag = 1
		}
		a.add(0, []byte{0, 0, 0, 1, flag})
	}
	w := pgWires[schema.Bool]
	return Array{OID: w.oid, Elem: w.elem, Data: a.data[0]}
}
