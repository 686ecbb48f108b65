package sqlgen

import (
	"slices"
	"strings"
)

// Statements implements Dialect. The order is that of the fields of [Changes]; a statement of deletes never depends on
// one of another kind, so that all of a batch's deletes may run first.
func (p Postgres) Statements(t *Target, c Changes) []Statement {
	w := pgWriter{Postgres: p, t: t, name: p.table(t.Table.Name)}
	if c.Truncate {
		w.truncate()
	}
	if len(t.Key) == 0 {
		w.bagDeletes(c.Deletes)
		w.bagReplacements(c.Replacements)
		w.inserts(c.Inserts)
		return w.out
	}
	w.deletes(c.Deletes)
	if t.Trades() {
		w.exchange = w.exchanging(c)
	}
	w.moves(c.Moves)
	w.updates(c.Updates, true)
	w.updates(c.Marks, false)
	w.creates(c.Upserts[:c.Created])
	w.changes(c.Upserts[c.Created:])
	return w.out
}

// exchanging is the exchange of all of c but for its deletes.
func (w *pgWriter) exchanging(c Changes) *Exchange {
	return &Exchange{Statements: func() []Statement {
		other := pgWriter{Postgres: w.Postgres, t: w.t, name: w.name}
		other.trade(c)
		return other.out
	}}
}

// pgWriter collects the statements of one table.
type pgWriter struct {
	Postgres
	t    *Target
	name string // quoted
	out  []Statement

	exchange *Exchange // of the statements to come
}

// truncate removes all rows by DELETE: TRUNCATE takes a lock that waits for every reader, and is refused for a table
// that another one references.
func (w *pgWriter) truncate() {
	w.out = append(w.out, Statement{
		Table: w.t.Table.Name, Kind: TruncateTable, SQL: "DELETE FROM " + w.name, Want: -1,
		Origin: func(int) Origin { return Origin{} },
	})
}

// add cuts the rows into statements.
func (w *pgWriter) add(s *pgStatement, n int) {
	s.scan = s.scan || !w.uniqueKey()
	s.exchange = w.exchange
	if s.instead != nil {
		s.instead.exchange = w.exchange
	}
	chunk(n, pgMaxRows, pgMaxBytes, func(i int) int { return len(s.row(i).Data) }, func(i, j int) { w.out = append(w.out, s.slice(i, j)) })
}

// group is rows that have values for the same columns.
type group struct {
	columns []int // indexes into Target.Columns
	mask    string
	rows    []int // indexes into the rows that were grouped
}

// grouped sorts n rows into groups, by which of their values has a length that in accepts.
func grouped(n int, row func(i int) []byte, in func(length int) bool) []group {
	var groups []group
	index := map[string]int{}
	var mask []byte
	last := -1
	for i := range n {
		mask = mask[:0]
		for rest := row(i); len(rest) > 0; {
			var l int
			l, _, rest = cut(rest)
			if in(l) {
				mask = append(mask, 1)
			} else {
				mask = append(mask, 0)
			}
		}
		if last < 0 || groups[last].mask != string(mask) {
			var ok bool
			if last, ok = index[string(mask)]; !ok {
				last = len(groups)
				index[string(mask)] = last
				groups = append(groups, newGroup(string(mask)))
			}
		}
		groups[last].rows = append(groups[last].rows, i)
	}
	return groups
}

func newGroup(mask string) group {
	g := group{mask: mask}
	for c := range len(mask) {
		if mask[c] == 1 {
			g.columns = append(g.columns, c)
		}
	}
	return g
}

func isSent(length int) bool { return length >= NullLength }

// rowsOf makes the statement for rows of one group of the columns sent.
func (w *pgWriter) rowsOf(kind StatementKind, sql string, rows []Row, g group) *pgStatement {
	layout := newRows(w.t, g.columns, len(w.t.Columns))
	row := func(i int) Row { return rows[g.rows[i]] }
	return &pgStatement{
		t: w.t, kind: kind, sql: sql, row: row, key: w.rowKey(row),
		args: func(i, j int) []any {
			return layout.arrays(j-i, func(k int) []byte { return row(i + k).Data }).args()
		},
	}
}

// rowKey returns how the key of a whole row is found, for errors.
func (w *pgWriter) rowKey(row func(i int) Row) func(i int) []byte {
	if len(w.t.Key) == 0 {
		return nil
	}
	return func(i int) []byte {
		key, ok := w.t.rowKey(nil, row(i).Data)
		if !ok {
			return slices.Repeat(null4, len(w.t.Key))
		}
		return key
	}
}

func (w *pgWriter) deletes(rows []Row) {
	if len(rows) == 0 {
		return
	}
	layout := keyRows(w.t)
	row := func(i int) Row { return rows[i] }
	w.add(&pgStatement{
		t: w.t, kind: DeleteRows, row: row, key: func(i int) []byte { return rows[i].Data },
		sql: "DELETE FROM " + w.name + " AS t USING " + unnest(layout.wires, 1, "d") + " WHERE " + w.keyEquals("t", identity),
		args: func(i, j int) []any {
			return layout.arrays(j-i, func(k int) []byte { return rows[i+k].Data }).args()
		},
	}, len(rows))
}

func identity(i int) int { return i }

// keyEquals compares the table's key with the columns of d, which are unnested; at gives the number of key column i among these.
func (w *pgWriter) keyEquals(table string, at func(i int) int) string {
	parts := make([]string, len(w.t.Key))
	for i, c := range w.t.Key {
		parts[i] = w.equal(table, c, wireOf(w.t.Columns[c].Type), column("d.c", at(i)))
	}
	return strings.Join(parts, " AND ")
}

// equal compares a column with an unnested one. Where the column folds, the texts themselves must be the same too: a row
// whose key is merely equal is another row of the source. Equality comes first all the same, for an index to be used.
func (w *pgWriter) equal(table string, c int, wire pgWire, sent string) string {
	stored, value := table+"."+w.Quote(w.t.Columns[c].Name), wire.value(sent)
	equal := stored + " = " + value
	if w.t.Columns[c].Folds {
		equal += " AND " + sameText(stored, value)
	}
	return equal
}

// sameText compares two texts byte by byte.
func sameText(a, b string) string { return a + `::text COLLATE "C" = ` + b + "::text" }

// updates changes rows that exist. They must if they have values that the source did not send.
func (w *pgWriter) updates(rows []Row, must bool) {
	for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
		s := w.rowsOf(UpdateRows, w.update(g), rows, g)
		s.want = must
		w.add(s, len(g.rows))
	}
}

// update writes the UPDATE of a group's columns.
func (w *pgWriter) update(g group) string {
	set := w.assignments(g, "d.c")
	if set == "" {
		set = w.touch() // the row must be there all the same
	}
	layout := newRows(w.t, g.columns, len(w.t.Columns))
	return "UPDATE " + w.name + " AS t SET " + set + " FROM " + unnest(layout.wires, 1, "d") + " WHERE " + w.keyEquals("t", w.keyIn(g))
}

// touch assigns a key column to itself.
func (w *pgWriter) touch() string {
	name := w.Quote(w.t.Columns[w.t.Key[0]].Name)
	return name + " = t." + name
}

// keyIn gives the number of a key column among the columns of a group.
func (w *pgWriter) keyIn(g group) func(i int) int {
	return func(i int) int { return slices.Index(g.columns, w.t.Key[i]) }
}

// assignments sets the columns of a group, but for the key, from unnested ones.
func (w *pgWriter) assignments(g group, prefix string) string {
	var parts []string
	for i, c := range g.columns {
		if !slices.Contains(w.t.Key, c) {
			parts = append(parts, w.Quote(w.t.Columns[c].Name)+" = "+wireOf(w.t.Columns[c].Type).value(column(prefix, i)))
		}
	}
	return strings.Join(parts, ", ")
}

// creates inserts rows that the target should not have.
func (w *pgWriter) creates(rows []Row) {
	for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
		w.copyOr(UpsertRows, rows, g, func(w *pgWriter) { w.upsertGroup(rows, g) })
	}
}

// changes changes rows that should be there. An UPDATE costs the server two thirds of an upsert, which locks a row
// before it changes it; the upsert follows where a row was not there.
func (w *pgWriter) changes(rows []Row) {
	for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
		if !w.uniqueKey() || len(g.columns) == len(w.t.Key) {
			w.upsertGroup(rows, g)
			continue
		}
		s := w.rowsOf(UpdateRows, w.update(g), rows, g)
		s.want, s.instead = true, w.upsert(rows, g)
		w.add(s, len(g.rows))
	}
}

// upserts inserts rows or replaces their values.
func (w *pgWriter) upserts(rows []Row) {
	for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
		w.upsertGroup(rows, g)
	}
}

func (w *pgWriter) upsertGroup(rows []Row, g group) {
	if w.uniqueKey() {
		w.add(w.upsert(rows, g), len(g.rows))
		return
	}
	w.upsertWithoutIndex(rows, g)
}

func (w *pgWriter) upsert(rows []Row, g group) *pgStatement {
	var set []string
	key := make([]string, len(w.t.Key))
	for i, c := range w.t.Key {
		key[i] = w.t.Columns[c].Name
	}
	for _, c := range g.columns {
		if name := w.Quote(w.t.Columns[c].Name); !slices.Contains(w.t.Key, c) {
			set = append(set, name+" = EXCLUDED."+name)
		}
	}
	same := w.sameKey()
	if len(set) == 0 && same != "" {
		set = append(set, w.Quote(key[0])+" = EXCLUDED."+w.Quote(key[0])) // a row that stays as it is, and is counted
	}
	sql := w.insert(g) + " ON CONFLICT (" + w.list(key) + ") DO "
	if len(set) == 0 {
		sql += "NOTHING"
	} else {
		sql += "UPDATE SET " + strings.Join(set, ", ") + same
	}
	s := w.rowsOf(UpsertRows, sql, rows, g)
	s.want = same != ""
	return s
}

// sameKey is the condition under which an upsert may replace the row that it meets: where a column of the key folds, that
// row can be another one of the source. The statement then changes fewer rows than it carries.
func (w *pgWriter) sameKey() string {
	var parts []string
	for _, c := range w.t.Key {
		if name := w.Quote(w.t.Columns[c].Name); w.t.Columns[c].Folds {
			parts = append(parts, sameText(w.name+"."+name, "EXCLUDED."+name))
		}
	}
	if parts == nil {
		return ""
	}
	return " WHERE " + strings.Join(parts, " AND ")
}

// uniqueKey says whether the table has a unique index on just the key's columns, which ON CONFLICT needs.
func (w *pgWriter) uniqueKey() bool {
	return w.t.isKey(w.t.Table.PrimaryKey) || slices.ContainsFunc(w.t.Table.Unique, w.t.isKey)
}

// upsertWithoutIndex updates the rows that are there, and inserts the others: the key is one by configuration only.
func (w *pgWriter) upsertWithoutIndex(rows []Row, g group) {
	layout := newRows(w.t, g.columns, len(w.t.Columns))
	if set := w.assignments(g, "d.c"); set != "" {
		w.add(w.rowsOf(UpsertRows, "UPDATE "+w.name+" AS t SET "+set+" FROM "+unnest(layout.wires, 1, "d")+
			" WHERE "+w.keyEquals("t", w.keyIn(g)), rows, g), len(g.rows))
	}
	sql := w.insert(g) + " WHERE NOT EXISTS (SELECT FROM " + w.name + " AS t WHERE " + w.keyEquals("t", w.keyIn(g)) + ")"
	w.add(w.rowsOf(UpsertRows, sql, rows, g), len(g.rows))
}

// insert writes INSERT INTO … SELECT … FROM unnest(…) for the columns of a group.
func (w *pgWriter) insert(g group) string {
	names := make([]string, len(g.columns))
	values := make([]string, len(g.columns))
	wires := make([]pgWire, len(g.columns))
	for i, c := range g.columns {
		names[i] = w.t.Columns[c].Name
		wires[i] = wireOf(w.t.Columns[c].Type)
		values[i] = wires[i].value(column("d.c", i))
	}
	return "INSERT INTO " + w.name + " (" + w.list(names) + ")" + w.overriding(g.columns) + " SELECT " +
		strings.Join(values, ", ") + " FROM " + unnest(wires, 1, "d")
}

// overriding lets an identity column that is GENERATED ALWAYS take the source's value.
func (w *pgWriter) overriding(columns []int) string {
	for _, c := range columns {
		if w.t.Columns[c].AutoIncrement {
			return " OVERRIDING SYSTEM VALUE"
		}
	}
	return ""
}

// inserts adds rows to a table without a key.
func (w *pgWriter) inserts(rows []Row) {
	for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
		w.copyOr(InsertRows, rows, g, func(w *pgWriter) { w.add(w.rowsOf(InsertRows, w.insert(g), rows, g), len(g.rows)) })
	}
}
