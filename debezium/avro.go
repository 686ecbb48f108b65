package debezium

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// avroCursor reads one value in Avro's binary encoding (Avro's specification, "Binary encoding").
type avroCursor struct {
	data []byte
	at   int
}

func (c *avroCursor) fail(what string) error { return &syntaxError{c.at, what} }

func (c *avroCursor) left() int { return len(c.data) - c.at }

// end checks that nothing is left. A rest is the sign of another schema than the writer's.
func (c *avroCursor) end() error {
	if n := c.left(); n > 0 {
		return c.fail(fmt.Sprintf("%d bytes more than the schema has fields for", n))
	}
	return nil
}

// long moves over an int or a long: little endian in groups of 7 bits, the sign in the lowest.
func (c *avroCursor) long() (int64, error) {
	if c.at < len(c.data) && c.data[c.at] < 0x80 {
		u := c.data[c.at]
		c.at++
		return int64(u>>1) ^ -int64(u&1), nil
	}
	var u uint64
	for i, b := range c.data[c.at:] {
		if i == 9 && b > 1 {
			return 0, c.fail("a number of more than 64 bits")
		}
		u |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			c.at += i + 1
			return int64(u>>1) ^ -int64(u&1), nil
		}
	}
	return 0, c.fail("the record ends within a number")
}

func (c *avroCursor) int() (int64, error) {
	at := c.at
	n, err := c.long()
	if err == nil && n != int64(int32(n)) {
		return 0, &syntaxError{at, "a number of more than 32 bits"}
	}
	return n, err
}

// take moves over n bytes.
func (c *avroCursor) take(n int) ([]byte, error) {
	if n > c.left() {
		return nil, c.fail(fmt.Sprintf("%d bytes are due and %d are left", n, c.left()))
	}
	b := c.data[c.at : c.at+n]
	c.at += n
	return b, nil
}

// bytes moves over a length and as many bytes.
func (c *avroCursor) bytes() ([]byte, error) {
	at := c.at
	n, err := c.long()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > int64(c.left()) {
		return nil, &syntaxError{at, fmt.Sprintf("a length of %d where %d bytes are left", n, c.left())}
	}
	b := c.data[c.at : c.at+int(n)]
	c.at += int(n)
	return b, nil
}

func (c *avroCursor) string() (string, error) {
	at := c.at
	b, err := c.bytes()
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", &syntaxError{at, "a string that is not UTF-8"}
	}
	return text(b), nil
}

// isNull moves over a union's index and says whether null follows, which has no bytes.
func (c *avroCursor) isNull(n *avroNode) (bool, error) {
	if !n.union {
		return n.kind == avroNull, nil
	}
	at := c.at
	if n.optional && at < len(c.data) && c.data[at]&^2 == 0 { // 0 or 1, as Avro writes them
		c.at++
		return int64(c.data[at]>>1) == n.null, nil
	}
	i, err := c.long()
	switch {
	case err != nil:
		return false, err
	case i == 0 && !n.optional, n.optional && (i == 0 || i == 1):
		return n.optional && i == n.null, nil
	}
	return false, &syntaxError{at, fmt.Sprintf("the number %d where one of a union's types is chosen", i)}
}

// block moves over the head of an array's or a map's block and returns how many elements it has; 0 ends the list. Every
// element has a byte at least, so what is left bounds their number.
func (c *avroCursor) block() (int64, error) {
	at := c.at
	n, err := c.long()
	if err != nil || n >= 0 && n <= int64(c.left()) {
		return n, err
	}
	if n < 0 && n >= -int64(c.left()) { // the block's size in bytes comes next
		_, err := c.long()
		return -n, err
	}
	return 0, &syntaxError{at, fmt.Sprintf("a list of %d elements where %d bytes are left", n, c.left())}
}

// avroValue moves c over a value of type n.
func (r *reading) avroValue(c *avroCursor, n *avroNode, v *Value) error {
	null, err := c.isNull(n)
	if err != nil {
		return err
	}
	if null {
		v.Kind = Null
		return nil
	}
	switch n.kind {
	case avroString:
		v.Kind = StringValue
		if v.Text, err = c.string(); err == nil && r.unavailable.is(v.Text) {
			*v = Value{Kind: Unavailable}
		}
	case avroInt:
		v.Kind = IntValue
		v.Num, err = c.int()
	case avroLong:
		v.Kind = IntValue
		v.Num, err = c.long()
	case avroBytes:
		var b []byte
		b, err = c.bytes()
		r.bytesValue(v, b)
	case avroFixed:
		var b []byte
		b, err = c.take(n.length)
		r.bytesValue(v, b)
	case avroBoolean:
		err = c.boolean(v)
	case avroFloat, avroDouble:
		err = r.avroFloat(c, n, v)
	case avroEnum:
		err = c.enum(n, v)
	default:
		err = r.avroNested(c, n, v)
	}
	return err
}

func (r *reading) bytesValue(v *Value, b []byte) {
	v.Kind, v.Text = BytesValue, text(b)
	if len(b) == len(r.unavailable.bytes) && string(b) == string(r.unavailable.bytes) {
		*v = Value{Kind: Unavailable}
	}
}

func (c *avroCursor) boolean(v *Value) error {
	b, err := c.take(1)
	if err != nil {
		return err
	}
	if b[0] > 1 {
		c.at--
		return c.fail(fmt.Sprintf("the byte %d where a boolean is due", b[0]))
	}
	v.Kind, v.Num = BoolValue, int64(b[0])
	return nil
}

func (c *avroCursor) enum(n *avroNode, v *Value) error {
	at := c.at
	i, err := c.long()
	if err != nil {
		return err
	}
	if i < 0 || i >= int64(len(n.symbols)) {
		return &syntaxError{at, fmt.Sprintf("the number %d where one of an enum's %d symbols is due", i, len(n.symbols))}
	}
	v.Kind, v.Text = StringValue, n.symbols[i]
	return nil
}

// maxFloatText bounds the text of a double.
const maxFloatText = 32

// avroFloat moves c over a float or a double.
func (r *reading) avroFloat(c *avroCursor, n *avroNode, v *Value) error {
	size, bits := 4, 32
	if n.kind == avroDouble {
		size, bits = 8, 64
	}
	b, err := c.take(size)
	if err != nil {
		return err
	}
	var u uint64
	for i := range b {
		u |= uint64(b[i]) << (8 * i)
	}
	x := math.Float64frombits(u)
	if bits == 32 {
		x = float64(math.Float32frombits(uint32(u)))
	}
	r.floatValue(v, x, bits)
	return nil
}

// floatValue makes a number's shortest text that reads back as the same number, as JSON has it.
func (r *reading) floatValue(v *Value, x float64, bits int) {
	v.Kind = NumberValue
	switch {
	case x != x:
		v.Text = "NaN"
		return
	case math.IsInf(x, 0):
		v.Text = "Infinity"
		if x < 0 {
			v.Text = "-Infinity"
		}
		return
	}
	if cap(r.text)-len(r.text) < maxFloatText {
		r.text = make([]byte, 0, textSlab)
	}
	start := len(r.text)
	r.text = strconv.AppendFloat(r.text, x, 'g', -1, bits)
	if out := r.text[start:]; isDigits(out) {
		r.text = append(r.text, ".0"...) // as Java writes it: a fraction says that it is no integer
	}
	v.Text = text(r.text[start:])
}

func isDigits(b []byte) bool {
	for _, x := range b {
		if x == '.' || x == 'e' {
			return false
		}
	}
	return true
}

// avroNested moves c over an array, a map or a record within a row.
func (r *reading) avroNested(c *avroCursor, n *avroNode, v *Value) error {
	mark := marks{len(r.stack), len(r.names)}
	var err error
	if n.kind == avroRecord {
		err = r.avroFields(c, n)
	} else {
		err = r.avroElements(c, n)
	}
	if err != nil {
		return err
	}
	l := r.list()
	l.Values = r.row(len(r.stack) - mark.stack)
	copy(l.Values, r.stack[mark.stack:])
	switch n.kind {
	case avroRecord:
		l.Names = n.names
	case avroMap:
		if name := repeated(r.names[mark.names:]); name != "" {
			return c.fail(fmt.Sprintf("a map with two keys %q", name))
		}
		l.Names = r.keep(r.names[mark.names:])
	}
	r.stack, r.names = r.stack[:mark.stack], r.names[:mark.names]
	v.Kind, v.List = ListValue, l
	if n.kind != avroRecord && r.unavailable.isList(l) {
		*v = Value{Kind: Unavailable}
	}
	return nil
}

// avroFields pushes the fields of a record.
func (r *reading) avroFields(c *avroCursor, n *avroNode) error {
	for i, f := range n.fields {
		var v Value
		if err := r.avroValue(c, f, &v); err != nil {
			return fmt.Errorf("field %q: %w", n.names[i], err)
		}
		r.stack = append(r.stack, v)
	}
	return nil
}

// avroElements pushes the elements of an array, or the members of a map.
func (r *reading) avroElements(c *avroCursor, n *avroNode) error {
	for {
		count, err := c.block()
		if err != nil || count == 0 {
			return err
		}
		for range count {
			if n.kind == avroMap {
				name, err := c.string()
				if err != nil {
					return err
				}
				r.names = append(r.names, name)
			}
			var v Value
			if err := r.avroValue(c, n.items, &v); err != nil {
				return err
			}
			r.stack = append(r.stack, v)
		}
	}
}

// avroRow moves c over a row, whose union's index was read.
func (r *reading) avroRow(c *avroCursor, n *avroNode) (Row, error) {
	row := Row{n.layout.Shape, r.row(len(n.fields))}
	for i, f := range n.fields {
		if err := r.avroValue(c, f, &row.Values[i]); err != nil {
			return Row{}, inField(n.names[i], err)
		}
	}
	return row, nil
}

// skip moves over a value of type n.
func (c *avroCursor) skip(n *avroNode) error {
	null, err := c.isNull(n)
	if err != nil || null {
		return err
	}
	switch n.kind {
	case avroInt, avroLong, avroEnum:
		_, err = c.long()
	case avroString, avroBytes:
		_, err = c.bytes()
	case avroBoolean:
		_, err = c.take(1)
	case avroFloat:
		_, err = c.take(4)
	case avroDouble:
		_, err = c.take(8)
	case avroFixed:
		_, err = c.take(n.length)
	case avroRecord:
		for _, f := range n.fields {
			if err := c.skip(f); err != nil {
				return err
			}
		}
	case avroArray, avroMap:
		err = c.skipList(n)
	}
	return err
}

func (c *avroCursor) skipList(n *avroNode) error {
	for {
		count, err := c.block()
		if err != nil || count == 0 {
			return err
		}
		for range count {
			if n.kind == avroMap {
				if _, err := c.bytes(); err != nil {
					return err
				}
			}
			if err := c.skip(n.items); err != nil {
				return err
			}
		}
	}
}

var errAvroStruct = errors.New("its Avro schema is no record; Debezium's keys and values are")
