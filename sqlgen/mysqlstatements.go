package sqlgen

import (
	"slices"
	"strings"

	"replicator/schema"
)

// mysqlMaxRows bounds the rows of one statement, apart from its length: more gain nothing, and the range optimizer's
// memory (range_optimizer_max_mem_size) bounds the keys that a list of keys is searched by.
const mysqlMaxRows = 2_000

// Statements implements Dialect. The order is that of the fields of [Changes]; a statement of deletes never depends on
// one of another kind, so that all of a batch's deletes may run first.
func (m MySQL) Statements(t *Target, c Changes) []Statement {
	w := mysqlWriter{MySQL: m, t: t, name: m.tableName(t.Table.Name)}
	for _, col := range t.Columns {
		w.literals = append(w.literals, mysqlLiteralOf(col.Type))
	}
	if c.Truncate {
		w.truncate()
	}
	if len(t.Key) == 0 {
		w.bagDeletes(c.Deletes)
		w.bagReplacements(c.Replacements)
		w.inserts(c.Inserts)
		return w.out
	}
	w.deletes(DeleteRows, c.Deletes, func(i int) []byte { return c.Deletes[i].Data })
	upserts := append(w.moves(c.Moves), c.Upserts...)
	w.release(upserts, c.Updates, c.Marks)
	w.updates(c.Updates, true)
	w.updates(c.Marks, false)
	created := 0
	if w.Load {
		created = len(upserts) - len(c.Upserts) + c.Created
	}
	w.upserts(upserts[:created], true)
	w.upserts(upserts[created:], false)
	return w.out
}

// mysqlWriter collects the statements of one table.
type mysqlWriter struct {
	MySQL
	t        *Target
	name     string // quoted
	literals []mysqlLiteral
	out      []Statement
}

// mysqlStatement is what the statements of one kind have in common, and how each range of rows becomes one.
type mysqlStatement struct {
	kind StatementKind
	want bool // each row must be there
	sql  func(i, j int) string
	size func(i int) int // bounds the length of row i in the statement; nil: that of its literals
	row  func(i int) Row
	key  func(i int) []byte // of row i, of key columns alone; nil: the table has none
}

func (w *mysqlWriter) slice(s *mysqlStatement, i, j int) Statement {
	out := Statement{Table: w.t.Table.Name, Kind: s.kind, SQL: s.sql(i, j), Rows: j - i, Want: -1}
	if s.want {
		out.Want = int64(j - i)
	}
	t := w.t
	out.Origin = func(k int) Origin {
		r := s.row(i + k)
		o := Origin{Partition: r.Partition, Offset: r.Offset}
		if s.key != nil {
			o.Key = keyText(t, s.key(i+k), mysqlValueText)
		}
		return o
	}
	if j-i >= 2 {
		out.Slice = func(a, b int) Statement { return w.slice(s, i+a, i+b) }
	}
	return out
}

// add cuts n rows into statements.
func (w *mysqlWriter) add(s *mysqlStatement, n int) {
	size := s.size
	if size == nil {
		size = func(i int) int { return mysqlSize(s.row(i).Data) }
	}
	chunk(n, mysqlMaxRows, w.maxBytes(), size, func(i, j int) { w.out = append(w.out, w.slice(s, i, j)) })
}

// truncate removes all rows by DELETE: TRUNCATE is DDL, which commits, and which no XA transaction can hold.
func (w *mysqlWriter) truncate() {
	w.out = append(w.out, Statement{
		Table: w.t.Table.Name, Kind: TruncateTable, SQL: "DELETE FROM " + w.name, Want: -1,
		Origin: func(int) Origin { return Origin{} },
	})
}

// column returns the quoted name of column c.
func (w *mysqlWriter) column(c int) string { return w.Quote(w.t.Columns[c].Name) }

func (w *mysqlWriter) columns(list []int) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = w.t.Columns[c].Name
	}
	return w.list(names)
}

// exact returns a column of text as its bytes, which no collation folds; another one as it is.
func (w *mysqlWriter) exact(c int, name string) string {
	if !mysqlCollated(w.t.Columns[c].Type) {
		return name
	}
	return "CAST(CONVERT(" + name + " USING utf8mb4) AS BINARY)"
}

// mysqlCollated says whether values of the type are compared by a collation.
func mysqlCollated(t schema.Type) bool {
	switch t.Kind {
	case schema.Char, schema.Varchar, schema.Text, schema.Enum, schema.Set:
		return !mysqlInet(t)
	}
	return false
}

func (w *mysqlWriter) collatedKey() bool {
	return slices.ContainsFunc(w.t.Key, func(c int) bool { return mysqlCollated(w.t.Columns[c].Type) })
}

// appendRow appends the literals of some columns of a row, in the order of the columns, which must be ascending.
func (w *mysqlWriter) appendRow(dst []byte, row []byte, columns []int) []byte {
	next := 0
	for c := 0; len(row) > 0 && next < len(columns); c++ {
		var l int
		var elem []byte
		l, elem, row = cut(row)
		if columns[next] != c {
			continue
		}
		if next++; next > 1 {
			dst = append(dst, ',')
		}
		dst = w.appendValue(dst, c, l, elem)
	}
	return dst
}

func (w *mysqlWriter) appendValue(dst []byte, c, length int, elem []byte) []byte {
	if length < 0 {
		return append(dst, "NULL"...)
	}
	return w.literals[c].append(dst, elem[4:])
}

// appendKey appends the literals of an encoded key, in the order of Target.Key.
func (w *mysqlWriter) appendKey(dst []byte, key []byte) []byte {
	for i, c := range w.t.Key {
		if i > 0 {
			dst = append(dst, ',')
		}
		var l int
		var elem []byte
		l, elem, key = cut(key)
		dst = w.appendValue(dst, c, l, elem)
	}
	return dst
}

// keyList writes "(`a`, `b`) IN ((1,'x'),(2,'y'))", and where a collation could take another row's key for one of these,
// that their bytes are the same.
func (w *mysqlWriter) keyList(n int, key func(i int) []byte) string {
	open, end := "(", ")"
	if len(w.t.Key) == 1 {
		open, end = "", ""
	}
	var list []byte
	for i := range n {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(w.appendKey(append(list, open...), key(i)), end...)
	}
	sql := open + w.columns(w.t.Key) + end + " IN (" + string(list) + ")"
	if !w.collatedKey() {
		return sql
	}
	exact := make([]string, len(w.t.Key))
	for i, c := range w.t.Key {
		exact[i] = w.exact(c, w.column(c))
	}
	return sql + " AND " + open + strings.Join(exact, ", ") + end + " IN (" + string(list) + ")"
}

// deletes removes rows by key, if they are there.
func (w *mysqlWriter) deletes(kind StatementKind, rows []Row, key func(i int) []byte) {
	w.add(&mysqlStatement{
		kind: kind, row: func(i int) Row { return rows[i] }, key: key,
		size: func(i int) int { return 2 * mysqlSize(key(i)) },
		sql: func(i, j int) string {
			return "DELETE FROM " + w.name + " WHERE " + w.keyList(j-i, func(k int) []byte { return key(i + k) })
		},
	}, len(rows))
}

// rowKey returns how the key of a whole row is found.
func (w *mysqlWriter) rowKey(row func(i int) Row) func(i int) []byte {
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

// updates changes rows that exist. They must if they have values that the source did not send.
func (w *mysqlWriter) updates(rows []Row, must bool) {
	for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
		w.updateGroup(UpdateRows, rows, g, must)
	}
}

func (w *mysqlWriter) updateGroup(kind StatementKind, rows []Row, g group, must bool) {
	d := w.derived(g.columns)
	set := w.assignments(g.columns, func(c int) string { return d.column(slices.Index(g.columns, c)) })
	if set == "" {
		set = w.touch() // the row must be there all the same
	}
	row := func(i int) Row { return rows[g.rows[i]] }
	w.add(&mysqlStatement{
		kind: kind, want: must, row: row, key: w.rowKey(row),
		sql: func(i, j int) string {
			return "UPDATE " + d.rows(j-i, func(dst []byte, k int) []byte { return w.appendRow(dst, row(i+k).Data, g.columns) }) +
				" STRAIGHT_JOIN " + w.name + " AS t ON " + w.keyEquals("t", d, w.keyIn(g)) + " SET " + set
		},
	}, len(g.rows))
}

// touch assigns a key column to itself.
func (w *mysqlWriter) touch() string {
	name := "t." + w.column(w.t.Key[0])
	return name + " = " + name
}

// keyIn gives the number of a key column among the columns of a group.
func (w *mysqlWriter) keyIn(g group) func(i int) int {
	return func(i int) int { return slices.Index(g.columns, w.t.Key[i]) }
}

// assignments sets columns of t, but for the key.
func (w *mysqlWriter) assignments(columns []int, value func(c int) string) string {
	var parts []string
	for _, c := range columns {
		if !slices.Contains(w.t.Key, c) {
			parts = append(parts, "t."+w.column(c)+" = "+value(c))
		}
	}
	if len(parts) > 0 {
		parts = append(parts, w.asTheyWere("t.", columns)...)
	}
	return strings.Join(parts, ", ")
}

// asTheyWere assigns to themselves the columns that take the time of an update, but for those in columns: they keep what the source sent.
func (w *mysqlWriter) asTheyWere(prefix string, columns []int) []string {
	var out []string
	for c := range w.t.Columns {
		if w.t.Columns[c].OnUpdate && !slices.Contains(columns, c) {
			name := prefix + w.column(c)
			out = append(out, name+" = "+name)
		}
	}
	return out
}

// inserts adds rows to a table without a key.
func (w *mysqlWriter) inserts(rows []Row) {
	for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
		w.loadOr(InsertRows, rows, g, func(w *mysqlWriter) { w.insertGroup(InsertRows, rows, g, "") })
	}
}

// insertGroup writes INSERT … VALUES for the columns of a group, and what follows it.
func (w *mysqlWriter) insertGroup(kind StatementKind, rows []Row, g group, rest string) {
	row := func(i int) Row { return rows[g.rows[i]] }
	head := "INSERT INTO " + w.name + " (" + w.columns(g.columns) + ") VALUES "
	w.add(&mysqlStatement{
		kind: kind, row: row, key: w.rowKey(row),
		sql: func(i, j int) string {
			sql := []byte(head)
			for k := i; k < j; k++ {
				if k > i {
					sql = append(sql, ',')
				}
				sql = append(w.appendRow(append(sql, '('), row(k).Data, g.columns), ')')
			}
			return string(sql) + rest
		},
	}, len(g.rows))
}
