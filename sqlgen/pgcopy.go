package sqlgen

import (
	"encoding/binary"
	"io"

	"replicator/schema"
)

// pgCopyRows is from how many rows on COPY is worth its round trips.
const pgCopyRows = 200

// copyOr writes the rows of a group by COPY, which costs the server a fraction of what an INSERT does, where it can:
// the columns' own types are sent, and the key's index tells when a row is there already. Otherwise, and instead if
// COPY is refused, write does it.
func (w *pgWriter) copyOr(kind StatementKind, rows []Row, g group, write func(w *pgWriter)) {
	if len(g.rows) < pgCopyRows || !w.copyable(kind, g) {
		write(w)
		return
	}
	names := make([]string, len(g.columns))
	for i, c := range g.columns {
		names[i] = w.t.Columns[c].Name
	}
	w.out = append(w.out, Statement{
		Table: w.t.Table.Name, Kind: kind, Rows: len(g.rows), Want: -1, Exchange: w.exchange,
		SQL:  "COPY " + w.name + " (" + w.list(names) + ") FROM STDIN (FORMAT binary)",
		Data: func() io.Reader { return &pgCopy{rows: rows, group: g, whole: len(g.columns) == len(w.t.Columns)} },
		Instead: func() []Statement {
			other := pgWriter{Postgres: w.Postgres, t: w.t, name: w.name, exchange: w.exchange}
			write(&other)
			return other.out
		},
	})
}

// copyable says whether COPY does what the group's INSERT would.
func (w *pgWriter) copyable(kind StatementKind, g group) bool {
	if kind == UpsertRows && !w.uniqueKey() {
		return false // nothing would refuse a row that is there
	}
	for _, c := range g.columns {
		t := w.t.Columns[c].Type
		if wireOf(t).cast != "" && t.Kind != schema.Enum { // whose binary form is the label
			return false
		}
	}
	return len(g.columns) > 0
}

// pgCopy reads rows in COPY's binary format (PostgreSQL's documentation of COPY, "Binary Format"). A row's fields are
// there what they are in its encoding.
type pgCopy struct {
	rows  []Row
	group group
	whole bool // every column is sent

	rest  []byte // of what is being read
	next  int    // index into group.rows; -1: the end was read
	begun bool
	body  bool // the next row's head was read
	buf   []byte
}

var (
	pgCopyHead = append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...) // no flags, no extension
	pgCopyTail = []byte{0xff, 0xff}
)

func (r *pgCopy) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(r.rest) == 0 && !r.advance() {
			break
		}
		c := copy(p[n:], r.rest)
		r.rest, n = r.rest[c:], n+c
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// advance takes up the next part.
func (r *pgCopy) advance() bool {
	switch {
	case !r.begun:
		r.begun, r.rest = true, pgCopyHead
	case r.next < 0:
		return false
	case r.next == len(r.group.rows):
		r.next, r.rest = -1, pgCopyTail
	case r.body:
		r.rest, r.body = r.rows[r.group.rows[r.next]].Data, false
		r.next++
	default:
		r.buf = binary.BigEndian.AppendUint16(r.buf[:0], uint16(len(r.group.columns)))
		if r.whole {
			r.body = true
		} else {
			r.pick(r.rows[r.group.rows[r.next]].Data)
			r.next++
		}
		r.rest = r.buf
	}
	return true
}

// pick appends the group's columns of a row.
func (r *pgCopy) pick(row []byte) {
	for c := range r.group.mask {
		var elem []byte
		_, elem, row = cut(row)
		if r.group.mask[c] == 1 {
			r.buf = append(r.buf, elem...)
		}
	}
}
