package sqlgen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"replicator/debezium"
	"replicator/schema"
)

// statementsVersion begins what AppendStatements writes.
const statementsVersion = 1

// The kinds of arguments, as they are written.
const (
	argNull = iota
	argArray
	argBytes
	argText
	argInt
	argUint
	argFloat
	argFalse
	argTrue
)

// AppendStatements appends list as bytes that DecodeStatements reads back, in another process too. The origins of the rows are
// written, so that an error can still name its record. Slice is kept where it cuts each argument's array between rows, and is nil
// after decoding otherwise: a refused row of such a statement is known to be one of the statement's. In place of a
// statement that may not do, those that stand instead of it are written.
func AppendStatements(dst []byte, list []Statement) ([]byte, error) {
	w := statementWriter{dst: append(dst, statementsVersion), partitions: map[debezium.Partition]uint64{}}
	if err := w.list(Certain(list)); err != nil {
		return nil, err
	}
	for n := 0; n < len(w.exchanges); n++ {
		if err := w.list(Certain(w.exchanges[n].Statements())); err != nil {
			return nil, err
		}
	}
	return w.dst, nil
}

// Certain returns list with what stands instead of each statement that may not do.
func Certain(list []Statement) []Statement {
	var out []Statement
	for i := range list {
		if list[i].Instead != nil {
			out = append(out, list[i].Instead()...)
		} else {
			out = append(out, list[i])
		}
	}
	return out
}

// statementWriter writes lists of statements. Partitions and exchanges are numbered as they come up, and the exchanges'
// own statements follow the list.
type statementWriter struct {
	dst        []byte
	partitions map[debezium.Partition]uint64
	exchanges  []*Exchange
}

func (w *statementWriter) list(list []Statement) error {
	w.dst = binary.AppendUvarint(w.dst, uint64(len(list)))
	for i := range list {
		if err := w.statement(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *statementWriter) statement(s *Statement) error {
	w.dst = appendString(w.dst, s.Table.Schema)
	w.dst = appendString(w.dst, s.Table.Table)
	w.dst = appendString(w.dst, s.SQL)
	w.dst = append(w.dst, byte(s.Kind))
	w.dst = binary.AppendUvarint(w.dst, uint64(s.Rows))
	w.dst = binary.AppendVarint(w.dst, s.Want)
	w.dst = appendFlag(w.dst, s.Scans)
	w.dst = binary.AppendUvarint(w.dst, w.exchange(s.Exchange))
	w.dst = binary.AppendUvarint(w.dst, uint64(len(s.Args)))
	for n, a := range s.Args {
		var err error
		if w.dst, err = appendArg(w.dst, a); err != nil {
			return fmt.Errorf("argument %d of a statement on table %v: %w", n+1, s.Table, err)
		}
	}
	w.dst = appendFlag(w.dst, cutsArrays(s))
	w.dst = appendFlag(w.dst, s.Origin != nil)
	if s.Origin == nil {
		return nil
	}
	for row := range s.Rows {
		w.origin(s.Origin(row))
	}
	return nil
}

// exchange returns the number of an exchange from 1; 0 is none.
func (w *statementWriter) exchange(e *Exchange) uint64 {
	if e == nil {
		return 0
	}
	i := slices.Index(w.exchanges, e)
	if i < 0 {
		i = len(w.exchanges)
		w.exchanges = append(w.exchanges, e)
	}
	return uint64(i + 1)
}

func (w *statementWriter) origin(o Origin) {
	at, known := w.partitions[o.Partition]
	if !known {
		at = uint64(len(w.partitions))
		w.partitions[o.Partition] = at
	}
	w.dst = binary.AppendUvarint(w.dst, at)
	if !known {
		w.dst = appendString(w.dst, o.Partition.Topic)
		w.dst = binary.AppendVarint(w.dst, int64(o.Partition.ID))
	}
	w.dst = binary.AppendVarint(w.dst, o.Offset)
	w.dst = appendString(w.dst, o.Key)
}

func appendString[S string | []byte](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendFlag(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendArg(dst []byte, a any) ([]byte, error) {
	switch a := a.(type) {
	case nil:
		return append(dst, argNull), nil
	case Array:
		dst = binary.BigEndian.AppendUint32(append(dst, argArray), a.OID)
		dst = binary.BigEndian.AppendUint32(dst, a.Elem)
		return appendString(dst, a.Data), nil
	case []byte:
		return appendString(append(dst, argBytes), a), nil
	case string:
		return appendString(append(dst, argText), a), nil
	case int64:
		return binary.AppendVarint(append(dst, argInt), a), nil
	case uint64:
		return binary.AppendUvarint(append(dst, argUint), a), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, argFloat), math.Float64bits(a)), nil
	case bool:
		if a {
			return append(dst, argTrue), nil
		}
		return append(dst, argFalse), nil
	}
	return nil, fmt.Errorf("a %T cannot be written to a log", a)
}

// cutsArrays says whether s.Slice is what sliceArrays does. The first and the last row tell: where an array numbers the
// elements of another, the last differs.
func cutsArrays(s *Statement) bool {
	if s.Slice == nil || len(s.Args) == 0 {
		return false
	}
	for _, i := range []int{0, s.Rows - 1} {
		args, ok := sliceArrays(s.Args, s.Rows, i, i+1)
		if one := s.Slice(i, i+1); !ok || one.SQL != s.SQL || !reflect.DeepEqual(one.Args, args) {
			return false
		}
	}
	return true
}

// sliceArrays returns the elements [i, j) of arrays of rows elements each.
func sliceArrays(args []any, rows, i, j int) ([]any, bool) {
	out := make([]any, len(args))
	for n, a := range args {
		array, ok := a.(Array)
		if !ok || len(array.Data) < arrayHeader || binary.BigEndian.Uint32(array.Data[12:]) != uint32(rows) {
			return nil, false
		}
		rest := array.Data[arrayHeader:]
		var from, end int
		for at := range rows {
			if at == i {
				from = len(array.Data) - len(rest)
			}
			if len(rest) < 4 {
				return nil, false
			}
			size := 4 + max(0, int64(int32(binary.BigEndian.Uint32(rest))))
			if size > int64(len(rest)) {
				return nil, false
			}
			rest = rest[size:]
			if at == j-1 {
				end = len(array.Data) - len(rest)
			}
		}
		if len(rest) != 0 {
			return nil, false
		}
		data := append(append(make([]byte, 0, arrayHeader+end-from), array.Data[:arrayHeader]...), array.Data[from:end]...)
		binary.BigEndian.PutUint32(data[12:], uint32(j-i))
		out[n] = Array{OID: array.OID, Elem: array.Elem, Data: data}
	}
	return out, true
}

// DecodeStatements reads what AppendStatements wrote. The statements share b's memory.
func DecodeStatements(b []byte) ([]Statement, error) {
	d := decoder{rest: b}
	if v := d.byte(); v != statementsVersion && d.err == nil {
		return nil, fmt.Errorf("decode statements: their encoding is version %d, this program reads version %d", v, statementsVersion)
	}
	list := d.list()
	for n := 0; n < len(d.exchanges) && d.err == nil; n++ {
		own := d.list()
		d.exchanges[n].Statements = func() []Statement { return own }
	}
	if d.err == nil && len(d.rest) > 0 {
		d.fail()
	}
	if d.err != nil {
		return nil, fmt.Errorf("decode statements: %w", d.err)
	}
	return list, nil
}

func (d *decoder) list() []Statement {
	var list []Statement
	for range d.count() {
		s := d.statement()
		cuts, known := d.flag(), d.flag()
		if known {
			origins := d.origins(s.Rows)
			s.Origin = func(i int) Origin { return origins[i] }
		}
		if d.err != nil {
			return nil
		}
		if cuts {
			if _, ok := sliceArrays(s.Args, s.Rows, 0, s.Rows); !ok || s.Rows < 2 || len(s.Args) == 0 {
				d.fail()
				return nil
			}
			s.Slice = slicer(s)
		}
		list = append(list, s)
	}
	return list
}

// exchange reads the number of an exchange.
func (d *decoder) exchange() *Exchange {
	n := d.uvarint()
	switch {
	case n == 0:
		return nil
	case n == uint64(len(d.exchanges))+1:
		d.exchanges = append(d.exchanges, &Exchange{})
	case n > uint64(len(d.exchanges)):
		d.fail()
		return nil
	}
	return d.exchanges[n-1]
}

// slicer returns s.Slice, for a statement whose arrays hold an element for each row.
func slicer(s Statement) func(i, j int) Statement {
	return func(i, j int) Statement {
		out := s
		out.Args, _ = sliceArrays(s.Args, s.Rows, i, j) // decoding has tried it
		out.Rows, out.Slice = j-i, nil
		if s.Want >= 0 {
			out.Want = int64(j - i)
		}
		if s.Origin != nil {
			out.Origin = func(k int) Origin { return s.Origin(i + k) }
		}
		if out.Rows >= 2 {
			out.Slice = slicer(out)
		}
		return out
	}
}

// decoder reads from rest. After an error everything is empty.
type decoder struct {
	rest       []byte
	err        error
	partitions []debezium.Partition
	exchanges  []*Exchange
}

var errEncoding = errors.New("not what was written")

func (d *decoder) fail() { d.rest, d.err = nil, errEncoding }

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	v := d.rest[0]
	d.rest = d.rest[1:]
	return v
}

func (d *decoder) flag() bool {
	v := d.byte()
	if v > 1 {
		d.fail()
	}
	return v == 1
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// count reads how many things follow, each of which takes a byte at least.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return int(n)
}

// rows reads how many rows a statement has. They need not follow.
func (d *decoder) rows() int {
	n := d.uvarint()
	if n > math.MaxInt32 {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count()
	v := d.rest[:n:n]
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) fixed(n int) []byte {
	if len(d.rest) < n {
		d.fail()
		return make([]byte, n)
	}
	v := d.rest[:n]
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) statement() Statement {
	s := Statement{Table: schema.Name{Schema: string(d.bytes()), Table: string(d.bytes())}, SQL: string(d.bytes()), Kind: StatementKind(d.byte())}
	s.Rows, s.Want, s.Scans, s.Exchange = d.rows(), d.varint(), d.flag(), d.exchange()
	for range d.count() {
		s.Args = append(s.Args, d.arg())
	}
	return s
}

func (d *decoder) arg() any {
	switch kind := d.byte(); kind {
	case argNull:
		return nil
	case argArray:
		head := d.fixed(8)
		return Array{OID: binary.BigEndian.Uint32(head), Elem: binary.BigEndian.Uint32(head[4:]), Data: d.bytes()}
	case argBytes:
		return d.bytes()
	case argText:
		return string(d.bytes())
	case argInt:
		return d.varint()
	case argUint:
		return d.uvarint()
	case argFloat:
		return math.Float64frombits(binary.BigEndian.Uint64(d.fixed(8)))
	case argFalse, argTrue:
		return kind == argTrue
	}
	d.fail()
	return nil
}

// origins reads the origins of rows.
func (d *decoder) origins(rows int) []Origin {
	out := make([]Origin, 0, min(rows, len(d.rest)))
	for range rows {
		at := d.uvarint()
		if at == uint64(len(d.partitions)) {
			p := debezium.Partition{Topic: string(d.bytes())}
			id := d.varint()
			if id != int64(int32(id)) {
				d.fail()
			}
			p.ID = int32(id)
			d.partitions = append(d.partitions, p)
		}
		if at >= uint64(len(d.partitions)) {
			d.fail()
		}
		offset, key := d.varint(), string(d.bytes())
		if d.err != nil {
			return nil
		}
		out = append(out, Origin{Partition: d.partitions[at], Offset: offset, Key: key})
	}
	return out
}
