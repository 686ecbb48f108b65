package demo

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// sourceTable is a table as MySQL held it.
type sourceTable struct {
	name     string
	geometry []bool // of each column: MySQL's client prints its own binary geometry, a little-endian SRID and WKB
	rows     [][]*string
}

// The files of the source's rows. There is one a table, and one that describes the columns of all of them.
const (
	sourceFiles   = "source/mysql-02"
	columnsOfFile = "columns.jsonl"
)

// readOtherwise are the values that MySQL's client prints otherwise than its binary log, and so Debezium, has them.
var readOtherwise = []struct{ table, printed, sent string }{
	{"numbers", "0000", "2000"},          // the YEAR 0: Debezium sends 2000
	{"texts", "a b", "ab"},               // the client prints NUL as a blank ...
	{"texts", "nul inside", "nulinside"}, // ... and the demo's configuration strips it
}

// loadSource reads the source's tables.
func loadSource(files fs.FS) ([]sourceTable, error) {
	geometry, err := readColumns(files)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, path.Join(sourceFiles, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var out []sourceTable
	for _, name := range names {
		if path.Base(name) == columnsOfFile {
			continue
		}
		t := sourceTable{name: strings.TrimSuffix(path.Base(name), ".jsonl")}
		t.geometry = geometry[t.name]
		if t.rows, err = readRows(files, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		t.readOtherwise()
		out = append(out, t)
	}
	return out, nil
}

func (t *sourceTable) readOtherwise() {
	for _, row := range t.rows {
		for i, v := range row {
			for _, o := range readOtherwise {
				if v != nil && o.table == t.name && o.printed == *v {
					row[i] = &o.sent
				}
			}
		}
	}
}

// readColumns says of each table which of its columns are geometries.
func readColumns(files fs.FS) (map[string][]bool, error) {
	b, err := fs.ReadFile(files, path.Join(sourceFiles, columnsOfFile))
	if err != nil {
		return nil, err
	}
	out := map[string][]bool{}
	d := json.NewDecoder(bytes.NewReader(b))
	for d.More() {
		var column struct{ Table, Type string }
		if err := d.Decode(&column); err != nil {
			return nil, fmt.Errorf("%s: %w", columnsOfFile, err)
		}
		out[column.Table] = append(out[column.Table], column.Type == "point" || column.Type == "geometry")
	}
	return out, nil
}

func readRows(files fs.FS, name string) (rows [][]*string, err error) {
	b, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	for d.More() {
		row, err := readRow(d)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// readRow reads an object of texts and nulls: a row's values, in the order of its columns.
func readRow(d *json.Decoder) ([]*string, error) {
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var row []*string
	for d.More() {
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		var value *string
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		row = append(row, value)
	}
	_, err := d.Token()
	return row, err
}

// tally is what the comparison found of one table.
type tally struct {
	table                           string
	expected, found, lost, repeated int
	examples                        []string // of rows that differ
}

func (t *tally) right() bool { return t.lost == 0 && t.repeated == 0 && t.expected == t.found }

const maxExamples = 3

// compare counts the rows of want that got lacks, and those that it has too often or should not have.
func (t *tally) compare(want sourceTable, got [][]*string, types []uint32) {
	t.expected += len(want.rows)
	t.found += len(got)
	counts := map[string]int{}
	for _, row := range want.rows {
		counts[want.key(row, types, fromMySQL)]++
	}
	for _, row := range got {
		counts[want.key(row, types, fromPostgres)]--
	}
	for row, n := range counts {
		switch {
		case n > 0:
			t.lost += n
			t.example("lost: " + row)
		case n < 0:
			t.repeated -= n
			t.example("too much: " + row)
		}
	}
}

func (t *tally) example(row string) {
	if len(t.examples) < maxExamples {
		t.examples = append(t.examples, fmt.Sprintf("%.400s", row))
	}
}

// key writes a row in a form that is the same for equal rows of both databases. Columns go by position: the target may
// have a shorter name.
func (t *sourceTable) key(row []*string, types []uint32, form func(string, uint32, bool) (string, bool)) string {
	var b strings.Builder
	for i, v := range row {
		if i > 0 {
			b.WriteString(" | ")
		}
		if v == nil {
			b.WriteString("NULL")
			continue
		}
		kind, geometry := uint32(0), false
		if i < len(types) && i < len(t.geometry) {
			kind, geometry = types[i], t.geometry[i]
		}
		s, ok := form(*v, kind, geometry)
		if ok {
			b.WriteString(strconv.Quote(s))
		} else {
			b.WriteString("NULL")
		}
	}
	return b.String()
}

// fromMySQL writes a value that MySQL's client printed; false: it has no counterpart and is stored as NULL.
func fromMySQL(s string, kind uint32, geometry bool) (string, bool) {
	switch kind {
	case pgtype.BoolOID, pgtype.BitOID:
		if digits, ok := strings.CutPrefix(s, "0x"); ok {
			return number(digits, 16), true
		}
		return s, true
	case pgtype.ByteaOID:
		if geometry {
			return ewkb(strings.TrimPrefix(s, "0x")), true
		}
		return strings.ToLower(strings.TrimPrefix(s, "0x")), true
	case pgtype.DateOID, pgtype.TimestampOID, pgtype.TimestamptzOID:
		if strings.HasPrefix(s, "0000-00-00") {
			return "", false // MySQL's zero date: Debezium sends null
		}
	case pgtype.Float4ArrayOID:
		return floats(strings.TrimPrefix(s, "0x")), true
	}
	return common(s, kind), true
}

// fromPostgres writes a value that PostgreSQL printed.
func fromPostgres(s string, kind uint32, _ bool) (string, bool) {
	switch kind {
	case pgtype.BoolOID:
		return map[string]string{"t": "1", "f": "0"}[s], true
	case pgtype.BitOID:
		return number(s, 2), true
	case pgtype.ByteaOID:
		return strings.TrimPrefix(s, `\x`), true
	case pgtype.TimestamptzOID:
		return common(strings.TrimSuffix(s, "+00"), kind), true
	case pgtype.Float4ArrayOID:
		return s, true
	}
	return common(s, kind), true
}

// common writes what both print alike but for digits that mean nothing.
func common(s string, kind uint32) string {
	switch kind {
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return number(s, 10)
	case pgtype.Float4OID:
		return float(s, 32)
	case pgtype.Float8OID:
		return float(s, 64)
	case pgtype.TimestampOID, pgtype.TimestamptzOID, pgtype.TimeOID, pgtype.IntervalOID:
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
	case pgtype.JSONOID, pgtype.JSONBOID:
		return document(s)
	}
	return s
}

func number(s string, base int) string {
	if n, ok := new(big.Int).SetString(s, base); ok {
		return n.String()
	}
	return s
}

func float(s string, bits int) string {
	f, err := strconv.ParseFloat(s, bits)
	if err != nil {
		return s
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}

// document writes a JSON document with sorted members and exact numbers.
func document(s string) string {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return s
	}
	b, err := json.Marshal(exact(v))
	if err != nil {
		return s
	}
	return string(b)
}

// exact replaces numbers by fractions: 1.50 and 1.5 are one number.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return map[string]string{"number": r.RatString()}
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

// ewkb turns MySQL's geometry (SRID, then little-endian WKB) into EWKB: the SRID goes behind the type, which says so.
func ewkb(digits string) string {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) < 9 || b[4] != 1 {
		return digits
	}
	srid, wkb := b[:4], b[4:]
	if binary.LittleEndian.Uint32(srid) == 0 {
		return hex.EncodeToString(wkb)
	}
	const hasSRID = 0x20000000
	out := append([]byte{1}, binary.LittleEndian.AppendUint32(nil, binary.LittleEndian.Uint32(wkb[1:5])|hasSRID)...)
	return hex.EncodeToString(append(append(out, srid...), wkb[5:]...))
}

// floats writes MySQL's VECTOR (little-endian 4-byte floats) as PostgreSQL prints an array.
func floats(digits string) string {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b)%4 != 0 {
		return digits
	}
	var out []string
	for i := 0; i < len(b); i += 4 {
		out = append(out, strconv.FormatFloat(float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))), 'g', -1, 32))
	}
	return "{" + strings.Join(out, ",") + "}"
}
