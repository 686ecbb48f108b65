package sqlgen

import (
	"encoding/binary"
	"strings"

	"replicator/schema"
)

// Rows of a table without a key are found by all of their values. Equal rows are one image with a number of copies:
// of the stored rows that equal it, numbered in the order of their places, as many are taken as it has copies. Images are
// put into one statement with those that are NULL in the same columns, so that the comparison is one by `=` alone,
// which the server can do by hash or index; IS NOT DISTINCT FROM cannot.

// copies numbers equal images: which image each of some rows has, and its number among the equal ones.
type copies struct {
	image []int32 // by row
	nth   []int64 // by row, from 1
	first []int   // by image: the first row that has it
	count []int64 // by image
}

func (w *pgWriter) copies(i, j int, row func(i int) []byte) copies {
	var c copies
	index := map[string]int32{}
	var buf []byte
	for k := i; k < j; k++ {
		buf = w.t.canonicalRow(buf[:0], row(k))
		n, ok := index[string(buf)]
		if !ok {
			n = int32(len(c.first))
			index[string(buf)] = n
			c.first, c.count = append(c.first, k), append(c.count, 0)
		}
		c.count[n]++
		c.image, c.nth = append(c.image, n), append(c.nth, c.count[n])
	}
	return c
}

// images are the arguments that describe images: their numbers, copies, and values.
func (c copies) images(layout pgRows, row func(i int) []byte) []any {
	n := len(c.first)
	a := newArrays([]pgWire{pgWires[schema.Int32], pgWires[schema.Int64]}, n, []int{8 * n, 12 * n})
	for i := range n {
		a.add(0, int4(int32(i)))
		a.add(1, int8elem(c.count[i]))
	}
	return append(a.args(), layout.arrays(n, func(i int) []byte { return row(c.first[i]) }).args()...)
}

// numbers are the arguments that say which copy of which image each row is.
func (c copies) numbers() []any {
	n := len(c.image)
	a := newArrays([]pgWire{pgWires[schema.Int32], pgWires[schema.Int64]}, n, []int{8 * n, 12 * n})
	for i := range n {
		a.add(0, int4(c.image[i]))
		a.add(1, int8elem(c.nth[i]))
	}
	return a.args()
}

func int4(n int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{0, 0, 0, 4}, uint32(n))
}

func int8elem(n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{0, 0, 0, 8}, uint64(n))
}

// found writes the query for the stored rows that the images take: their table (of a partitioned one, a partition),
// their place, the image and the number of the copy. Its parameters are those of images.
func (w *pgWriter) found(layout pgRows, nulls []int) string {
	var where []string
	for i, c := range layout.columns {
		name, wire, sent := "t."+w.Quote(w.t.Columns[c].Name), layout.wires[i], column("d.c", 2+i)
		if wire.noEqual {
			where = append(where, name+"::text = "+wire.value(sent)+"::text")
		} else {
			where = append(where, w.equal("t", c, wire, sent))
		}
	}
	for _, c := range nulls {
		where = append(where, "t."+w.Quote(w.t.Columns[c].Name)+" IS NULL")
	}
	wires := append([]pgWire{pgWires[schema.Int32], pgWires[schema.Int64]}, layout.wires...)
	return "SELECT t.tableoid, t.ctid, d.c1 AS image, d.c2 AS copies, row_number() OVER (PARTITION BY d.c1 ORDER BY t.tableoid, t.ctid) AS nth" +
		" FROM " + w.name + " AS t JOIN " + unnest(wires, 1, "d") + " ON " + strings.Join(where, " AND ")
}

// nullGroups sorts images by which columns are NULL and which were sent.
func nullGroups(n int, row func(i int) []byte) (groups []group, nulls [][]int) {
	for _, sent := range grouped(n, row, isSent) {
		for _, g := range grouped(len(sent.rows), func(i int) []byte { return row(sent.rows[i]) }, func(l int) bool { return l >= 0 }) {
			for i, r := range g.rows {
				g.rows[i] = sent.rows[r]
			}
			var null []int
			for _, c := range sent.columns {
				if g.mask[c] == 0 {
					null = append(null, c)
				}
			}
			groups, nulls = append(groups, g), append(nulls, null)
		}
	}
	return groups, nulls
}

// bagDeletes removes one stored row for each of rows.
func (w *pgWriter) bagDeletes(rows []Row) {
	groups, nulls := nullGroups(len(rows), func(i int) []byte { return rows[i].Data })
	for n, g := range groups {
		layout := newRows(w.t, g.columns, len(w.t.Columns))
		row := func(i int) []byte { return rows[g.rows[i]].Data }
		w.add(&pgStatement{
			t: w.t, kind: DeleteRows, want: true, row: func(i int) Row { return rows[g.rows[i]] },
			sql: "DELETE FROM " + w.name + " AS t USING (" + w.found(layout, nulls[n]) + ") AS f" +
				" WHERE t.tableoid = f.tableoid AND t.ctid = f.ctid AND f.nth <= f.copies",
			args: func(i, j int) []any { return w.copies(i, j, row).images(layout, row) },
		}, len(g.rows))
	}
}

// bagReplacements changes one stored row for each replacement.
func (w *pgWriter) bagReplacements(list []Replacement) {
	groups, nulls := nullGroups(len(list), func(i int) []byte { return list[i].Before.Data })
	for n, g := range groups {
		for _, sub := range grouped(len(g.rows), func(i int) []byte { return list[g.rows[i]].After.Data }, isSent) {
			rows := make([]Replacement, len(sub.rows))
			for i, r := range sub.rows {
				rows[i] = list[g.rows[r]]
			}
			w.replaceGroup(rows, g, nulls[n], sub)
		}
	}
}

func (w *pgWriter) replaceGroup(rows []Replacement, before group, nulls []int, after group) {
	old := newRows(w.t, before.columns, len(w.t.Columns))
	young := newRows(w.t, after.columns, len(w.t.Columns))
	beforeRow := func(i int) []byte { return rows[i].Before.Data }
	set := make([]string, len(after.columns))
	for i, c := range after.columns {
		set[i] = w.Quote(w.t.Columns[c].Name) + " = " + young.wires[i].value(column("n.c", 2+i))
	}
	wires := append([]pgWire{pgWires[schema.Int32], pgWires[schema.Int64]}, young.wires...)
	w.add(&pgStatement{
		t: w.t, kind: UpdateRows, want: true, row: func(i int) Row { return rows[i].After },
		sql: "UPDATE " + w.name + " AS t SET " + strings.Join(set, ", ") + " FROM (" + w.found(old, nulls) + ") AS f JOIN " +
			unnest(wires, 3+len(old.wires), "n") + " ON n.c1 = f.image AND n.c2 = f.nth WHERE t.tableoid = f.tableoid AND t.ctid = f.ctid",
		args: func(i, j int) []any {
			c := w.copies(i, j, beforeRow)
			args := append(c.images(old, beforeRow), c.numbers()...)
			return append(args, young.arrays(j-i, func(k int) []byte { return rows[i+k].After.Data }).args()...)
		},
	}, len(rows))
}
