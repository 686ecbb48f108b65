package sqlgen

import (
	"slices"
	"strings"

	"replicator/schema"
)

// upserts inserts rows or replaces their values. Those that release has deleted are inserted. created: the target should have none of
// them.
func (w *mysqlWriter) upserts(rows []Row, created bool) {
	for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
		rest := ""
		switch {
		case !w.uniqueKey(): // nothing would refuse a row that is there
			w.upsertWithoutIndex(rows, g)
			continue
		case !w.anew(g):
			rest = w.onDuplicate(g)
		}
		insert := func(w *mysqlWriter) { w.insertGroup(UpsertRows, rows, g, rest) }
		if created {
			w.loadOr(UpsertRows, rows, g, insert)
		} else {
			insert(w)
		}
	}
}

// anew says whether rows are deleted and inserted anew: those of a table with another unique index, if they are whole.
func (w *mysqlWriter) anew(g group) bool {
	return w.uniqueKey() && w.otherUnique() && len(g.columns) == len(w.t.Columns)
}

// release takes the values of other unique indexes than the key's away from the rows that are about to change: two rows that exchange a
// value cannot be changed one after the other. Whole rows are deleted, to be inserted anew. From those with values that were not sent it
// takes a column of each index that may be NULL; where the index has none, an exchange is refused.
func (w *mysqlWriter) release(upserts []Row, updates ...[]Row) {
	if !w.otherUnique() {
		return
	}
	for _, g := range grouped(len(upserts), func(i int) []byte { return upserts[i].Data }, isSent) {
		if w.anew(g) {
			row := func(i int) Row { return upserts[g.rows[i]] }
			w.deletes(UpsertRows, w.picked(upserts, g), w.rowKey(row))
		}
	}
	for _, rows := range updates {
		for _, g := range grouped(len(rows), func(i int) []byte { return rows[i].Data }, isSent) {
			w.emptied(w.picked(rows, g), g)
		}
	}
}

func (w *mysqlWriter) picked(rows []Row, g group) []Row {
	out := make([]Row, len(g.rows))
	for i, r := range g.rows {
		out[i] = rows[r]
	}
	return out
}

// emptied sets a column of each other unique index to NULL, of the columns that the rows change.
func (w *mysqlWriter) emptied(rows []Row, g group) {
	var set []string
	for _, index := range w.t.Table.Unique {
		if w.t.isKey(index) {
			continue
		}
		i := slices.IndexFunc(g.columns, func(c int) bool {
			return slices.Contains(index, w.t.Columns[c].Name) && !w.t.Columns[c].NotNull && !slices.Contains(w.t.Key, c)
		})
		if i < 0 {
			continue
		}
		if assign := w.column(g.columns[i]) + " = NULL"; !slices.Contains(set, assign) {
			set = append(set, assign)
		}
	}
	if len(set) == 0 {
		return
	}
	set = append(set, w.asTheyWere("", g.columns)...)
	key := w.rowKey(func(i int) Row { return rows[i] })
	w.add(&mysqlStatement{
		kind: UpdateRows, row: func(i int) Row { return rows[i] }, key: key,
		size: func(i int) int { return 2 * mysqlSize(key(i)) },
		sql: func(i, j int) string {
			return "UPDATE " + w.name + " SET " + strings.Join(set, ", ") + " WHERE " + w.keyList(j-i, func(k int) []byte { return key(i + k) })
		},
	}, len(rows))
}

// uniqueKey says whether the table has a unique index on just the key's columns.
func (w *mysqlWriter) uniqueKey() bool {
	return w.t.isKey(w.t.Table.PrimaryKey) || slices.ContainsFunc(w.t.Table.Unique, w.t.isKey)
}

// otherUnique says whether rows with different keys can meet in a unique index.
func (w *mysqlWriter) otherUnique() bool {
	other := func(index []string) bool { return len(index) > 0 && !w.t.isKey(index) }
	special := func(x schema.Index) bool { return x.Unique && x.Special != "" }
	return other(w.t.Table.PrimaryKey) || slices.ContainsFunc(w.t.Table.Unique, other) || slices.ContainsFunc(w.t.Table.Indexes, special)
}

// onDuplicate writes what becomes of a row that is stored: its values are replaced, if it has the key.
func (w *mysqlWriter) onDuplicate(g group) string {
	if w.MariaDB {
		return w.duplicate(g.columns, func(c int) string { return "VALUES(" + w.column(c) + ")" })
	}
	alias := w.alias()
	return " AS " + alias + w.duplicate(g.columns, func(c int) string { return alias + "." + w.column(c) })
}

// alias is a name for the row that is inserted, other than the table's.
func (w *mysqlWriter) alias() string {
	if strings.EqualFold(w.t.Table.Name.Table, "new") {
		return "`new_row`"
	}
	return "`new`"
}

// duplicate writes ON DUPLICATE KEY UPDATE. It is any unique index that a row meets another in, and any row whose key
// the collation takes for this one's: the first assignment, of a key column to itself, makes the statement fail where
// the other row's key is not this one, to the byte. The errors are those of MySQLGuards; NULL keeps the column's type.
func (w *mysqlWriter) duplicate(columns []int, value func(c int) string) string {
	const (
		otherKey  = "(SELECT NULL UNION ALL SELECT NULL)"
		collision = "IF(18446744073709551615 + CHAR_LENGTH(%) + 1, NULL, NULL)"
	)
	var equal, exact []string
	for _, c := range w.t.Key {
		stored := w.name + "." + w.column(c)
		equal = append(equal, stored+" <=> "+value(c))
		exact = append(exact, w.exact(c, stored)+" <=> "+w.exact(c, value(c)))
	}
	first := w.name + "." + w.column(w.t.Key[0])
	otherwise := otherKey
	if w.collatedKey() {
		otherwise = "IF(" + strings.Join(equal, " AND ") + ", " + strings.ReplaceAll(collision, "%", first) + ", " + otherKey + ")"
	}
	same := first
	if w.t.Columns[w.t.Key[0]].Type.Kind == schema.Float32 {
		same += " + 0e0" // IF passes a FLOAT on in 6 digits
	}
	set := []string{first + " = IF(" + strings.Join(exact, " AND ") + ", " + same + ", " + otherwise + ")"}
	for _, c := range columns {
		if !slices.Contains(w.t.Key, c) {
			set = append(set, w.name+"."+w.column(c)+" = "+value(c))
		}
	}
	set = append(set, w.asTheyWere(w.name+".", columns)...)
	return " ON DUPLICATE KEY UPDATE " + strings.Join(set, ", ")
}

// upsertWithoutIndex updates the rows that are there, and inserts the others: the key is one by configuration only.
func (w *mysqlWriter) upsertWithoutIndex(rows []Row, g group) {
	if len(g.columns) > len(w.t.Key) {
		w.updateGroup(UpsertRows, rows, g, false)
	}
	d := w.derived(g.columns)
	row := func(i int) Row { return rows[g.rows[i]] }
	values := make([]string, len(g.columns))
	for i := range values {
		values[i] = d.column(i)
	}
	w.add(&mysqlStatement{
		kind: UpsertRows, row: row, key: w.rowKey(row),
		sql: func(i, j int) string {
			return "INSERT INTO " + w.name + " (" + w.columns(g.columns) + ") SELECT " + strings.Join(values, ", ") + " FROM " +
				d.rows(j-i, func(dst []byte, k int) []byte { return w.appendRow(dst, row(i+k).Data, g.columns) }) +
				" WHERE NOT EXISTS (SELECT 1 FROM " + w.name + " AS t WHERE " + w.keyEquals("t", d, w.keyIn(g)) + ")"
		},
	}, len(g.rows))
}
