package sqlgen

import (
	"slices"
	"strconv"
	"strings"
)

// mysqlDerived is rows as a derived table d(c1, c2, …) to join with. Its first part is no rows of the table itself, from
// which the columns of keys get their types and collations, or they could not be compared by the index. Others take
// the types of the values.
type mysqlDerived struct {
	head string
	row  string // what stands before a row
}

// derived is a derived table of these columns of the target.
func (w *mysqlWriter) derived(columns []int) mysqlDerived {
	typed := make([]string, len(columns))
	for i, c := range columns {
		typed[i] = "NULL"
		if slices.Contains(w.t.Key, c) {
			typed[i] = w.column(c)
		}
	}
	return w.derivedOf(typed)
}

// derivedOf is a derived table of columns with the types of these expressions.
func (w *mysqlWriter) derivedOf(typed []string) mysqlDerived {
	d := mysqlDerived{row: "ROW("}
	if w.MariaDB {
		d.row = "("
	}
	for i, name := range typed {
		typed[i] = name + " AS c" + strconv.Itoa(i+1)
	}
	d.head = "(SELECT " + strings.Join(typed, ", ") + " FROM " + w.name + " WHERE FALSE UNION ALL VALUES "
	return d
}

// column names a column by its number, from 0.
func (d mysqlDerived) column(i int) string { return column("d.c", i) }

// rows writes the table with n rows; appendRow appends the literals of one.
func (d mysqlDerived) rows(n int, appendRow func(dst []byte, i int) []byte) string {
	sql := []byte(d.head)
	for i := range n {
		if i > 0 {
			sql = append(sql, ',')
		}
		sql = append(appendRow(append(sql, d.row...), i), ')')
	}
	return string(sql) + ") AS d"
}

// keyEquals compares a table's key with derived columns; at gives the number of key column i among these.
func (w *mysqlWriter) keyEquals(table string, d mysqlDerived, at func(i int) int) string {
	var parts []string
	for i, c := range w.t.Key {
		stored, value := table+"."+w.column(c), d.column(at(i))
		parts = append(parts, stored+" = "+value)
		if exact := w.exact(c, stored); exact != stored {
			parts = append(parts, exact+" = "+w.exact(c, value))
		}
	}
	return strings.Join(parts, " AND ")
}
