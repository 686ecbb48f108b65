package sqlgen

import (
	"bytes"
	"encoding/hex"
	"io"
	"strconv"
	"strings"

	"replicator/schema"
)

// mysqlLoadRows is from how many rows on LOAD DATA is worth its round trips.
const mysqlLoadRows = 200

// mysqlLoadBuffer is about how many bytes of rows are written at once.
const mysqlLoadBuffer = 64 << 10

// loadOr writes the rows of a group by LOAD DATA, which costs the server half of what an INSERT does, where it can. The server skips
// a row whose key it has and bends a value that does not fit, with a warning for each: whoever sends the statement undoes it
// then, and instead of it does what write writes.
//
// The statement has one placeholder, for the name by which the sender's driver knows the rows.
func (w *mysqlWriter) loadOr(kind StatementKind, rows []Row, g group, write func(w *mysqlWriter)) {
	if !w.Load || len(g.rows) < mysqlLoadRows || !w.loadable(rows, g) {
		write(w)
		return
	}
	w.out = append(w.out, Statement{
		Table: w.t.Table.Name, Kind: kind, Rows: len(g.rows), Want: int64(len(g.rows)), SQL: w.load(g),
		Data: func() io.Reader { return &mysqlRows{w: w, rows: rows, group: g} },
		Instead: func() []Statement {
			other := mysqlWriter{MySQL: w.MySQL, t: w.t, name: w.name, literals: w.literals}
			write(&other)
			return other.out
		},
	})
}

// loadable says whether LOAD DATA does what an INSERT of the group would, or warns. It gives columns that it is not told of, and NULL in
// a column that has none, values of its own choice without a word.
func (w *mysqlWriter) loadable(rows []Row, g group) bool {
	if len(g.columns) < len(w.t.Table.Columns) {
		return false
	}
	for _, i := range g.rows {
		rest := rows[i].Data
		for c := 0; len(rest) > 0; c++ {
			var l int
			if l, _, rest = cut(rest); l == NullLength && w.t.Columns[c].NotNull {
				return false
			}
		}
	}
	return true
}

// load writes the statement. What stands between the fields is given in hexadecimal digits, so that it means the same in every sql_mode.
func (w *mysqlWriter) load(g group) string {
	fields := make([]string, len(g.columns))
	var set []string
	for i, c := range g.columns {
		fields[i] = w.column(c)
		if read := w.read(c); read != "" {
			fields[i] = "@r" + strconv.Itoa(i)
			set = append(set, w.column(c)+" = "+strings.Replace(read, "?", fields[i], 1))
		}
	}
	sql := "LOAD DATA LOCAL INFILE ? INTO TABLE " + w.name + " CHARACTER SET utf8mb4 FIELDS TERMINATED BY X'09' ESCAPED BY X'5C' LINES TERMINATED BY X'0A' (" +
		strings.Join(fields, ", ") + ")"
	if len(set) > 0 {
		sql += " SET " + strings.Join(set, ", ")
	}
	return sql
}

// read is what makes a column's value of its text where the text itself is not it: bytes are in hexadecimal digits, the text of a number would
// be a BIT's bytes, and YEAR takes the text 0 for the year 2000.
func (w *mysqlWriter) read(c int) string {
	switch t := w.t.Columns[c].Type; {
	case w.literals[c] == literalBytes:
		return "UNHEX(?)"
	case t.Kind == schema.Bit, t.Kind == schema.Year:
		return "CAST(? AS UNSIGNED)"
	}
	return ""
}

// mysqlRows reads rows as LOAD DATA does.
type mysqlRows struct {
	w     *mysqlWriter
	rows  []Row
	group group
	next  int // index into group.rows
	buf   []byte
	rest  []byte // of buf, to be read
}

func (r *mysqlRows) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.buf = r.buf[:0]
		for ; r.next < len(r.group.rows) && len(r.buf) < mysqlLoadBuffer; r.next++ {
			r.buf = r.w.appendLine(r.buf, r.rows[r.group.rows[r.next]].Data)
		}
		r.rest = r.buf
	}
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// appendLine appends a row of which every column was sent.
func (w *mysqlWriter) appendLine(dst, row []byte) []byte {
	for c := 0; len(row) > 0; c++ {
		var l int
		var elem []byte
		l, elem, row = cut(row)
		if c > 0 {
			dst = append(dst, '\t')
		}
		switch {
		case l < 0:
			dst = append(dst, `\N`...)
		case w.literals[c] == literalBytes:
			dst = hex.AppendEncode(dst, elem[4:])
		case w.literals[c] == literalText:
			dst = appendField(dst, elem[4:])
		default: // digits, and what stands between them
			dst = append(dst, elem[4:]...)
		}
	}
	return append(dst, '\n')
}

// appendField escapes text.
func appendField(dst, value []byte) []byte {
	for {
		i := bytes.IndexAny(value, "\\\t\n\x00")
		if i < 0 {
			return append(dst, value...)
		}
		dst = append(append(dst, value[:i]...), '\\')
		switch value[i] {
		case '\\':
			dst = append(dst, '\\')
		case '\t':
			dst = append(dst, 't')
		case '\n':
			dst = append(dst, 'n')
		default:
			dst = append(dst, '0')
		}
		value = value[i+1:]
	}
}
