package debezium

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// reading is the decoding of one batch: what one goroutine owns. Values, lists and unescaped text are cut from slabs
// that all events of the batch share, so that there is no allocation for each row or column.
type reading struct {
	*Decoder
	topicName string
	topic     *topic
	recent    recent
	form      topicForm

	values []Value // slabs: what is cut off is never appended to
	lists  []List
	text   []byte
	used   int // values that were cut off
	done   int // records that were read, of
	total  int

	stack []Value  // elements of the arrays and objects that are being read
	names []string // and their members' names
	key   []byte   // scratch for appendNames
	scrap Value    // and for a field of the source block in Avro and Protobuf

	budget int // values that a record in Protobuf may still make
}

// The sizes of slabs.
const (
	firstSlab = 128     // values, where no record tells how many there are in one
	lastSlab  = 8 << 10 // values, at most
	listSlab  = 64      // lists
	textSlab  = 16 << 10
)

// row cuts n zero values off.
func (r *reading) row(n int) []Value {
	if n == 0 {
		return nil
	}
	if n > cap(r.values)-len(r.values) {
		r.values = make([]Value, 0, max(n, r.expected()))
	}
	r.used += n
	start := len(r.values)
	r.values = r.values[:start+n]
	return r.values[start : start+n : start+n]
}

// expected is how many values a slab has room for: those of the records that are left, so that little is cleared and
// collected in vain, if they are like the ones before.
func (r *reading) expected() int {
	each := r.recent.rowValues
	switch {
	case r.done > 0:
		each = perRecord(r.used, r.done)
	case each == 0:
		return firstSlab
	}
	return min(each*(r.total-r.done), lastSlab)
}

// perRecord is the average, rounded up.
func perRecord(values, records int) int { return (values + records - 1) / records }

func (r *reading) list() *List {
	if len(r.lists) == cap(r.lists) {
		r.lists = make([]List, 0, listSlab)
	}
	r.lists = r.lists[:len(r.lists)+1]
	return &r.lists[len(r.lists)-1]
}

// unescaped makes a string of what raw stands for.
func (r *reading) unescaped(raw []byte) (string, error) {
	if len(raw) > cap(r.text)-len(r.text) {
		if len(raw) > textSlab/4 { // its own allocation, so that the slab's rest is not lost
			b, err := unescape(make([]byte, 0, len(raw)), raw)
			return text(b), err
		}
		r.text = make([]byte, 0, textSlab)
	}
	start := len(r.text)
	b, err := unescape(r.text[start:start:cap(r.text)], raw)
	r.text = r.text[:start+len(b)]
	return text(b), err
}

// string moves c over a string and returns it.
func (r *reading) string(c *cursor) (string, error) {
	at := c.at
	if c.peek() == '"' { // most are ASCII without an escape
		if end := at + 1 + plain(c.data[at+1:]); end < len(c.data) && c.data[end] == '"' {
			c.at = end + 1
			return text(c.data[at+1 : end]), nil
		}
	}
	raw, escaped, err := c.raw()
	if err != nil {
		return "", err
	}
	if !escaped {
		return text(raw), nil
	}
	s, err := r.unescaped(raw)
	if err != nil {
		return "", &syntaxError{at, "a string with " + err.Error()}
	}
	return s, nil
}

// name moves c over a member's name and the colon.
func (r *reading) name(c *cursor) (string, error) {
	s, err := r.string(c)
	if err != nil {
		return "", err
	}
	return s, c.colon()
}

// outline is how the members of an object began in the last record, in their order, and which ones they are: all
// envelopes of a topic have the same ones.
type outline[P any] [24]struct {
	token string // "name":
	part  P
}

// maxOutlined bounds the names that an outline keeps.
const maxOutlined = 64

// member moves c over the name of an object's member i and the colon, and returns with the name what parts has for it.
func member[P any](r *reading, c *cursor, o *outline[P], i int, parts map[string]P) (string, P, error) {
	if i < len(o) && o[i].token != "" && c.has(o[i].token) {
		if c.peek() <= ' ' {
			c.space()
		}
		return o[i].token[1 : len(o[i].token)-2], o[i].part, nil
	}
	name, err := r.name(c)
	part := parts[name]
	if err == nil && i < len(o) && len(name) <= maxOutlined {
		o[i].token, o[i].part = token(name), part
	}
	return name, part, err
}

// value moves c over a value of any kind.
func (r *reading) value(c *cursor, v *Value, depth int) error {
	switch c.peek() {
	case '"':
		s, err := r.string(c)
		if err != nil {
			return err
		}
		v.Kind, v.Text = StringValue, s
		if r.unavailable.is(s) {
			*v = Value{Kind: Unavailable}
		}
		return nil
	case '{', '[':
		return r.nested(c, v, depth)
	case 'n':
		v.Kind = Null
		return c.literal()
	case 't':
		v.Kind, v.Num = BoolValue, 1
		return c.literal()
	case 'f':
		v.Kind = BoolValue
		return c.literal()
	}
	at := c.at
	n, integer, err := c.number()
	if err != nil {
		return err
	}
	if integer {
		v.Kind, v.Num = IntValue, n
	} else {
		v.Kind, v.Text = NumberValue, text(c.data[at:c.at])
	}
	return nil
}

// nested moves c over an array or an object.
func (r *reading) nested(c *cursor, v *Value, depth int) error {
	if depth >= maxDepth {
		return c.fail("arrays and objects nested too deep")
	}
	object := c.peek() == '{'
	names, err := r.elements(c, object, depth)
	if err != nil {
		return err
	}
	l := r.list()
	l.Values = r.row(len(r.stack) - names.stack)
	copy(l.Values, r.stack[names.stack:])
	if object {
		if n := repeated(r.names[names.names:]); n != "" {
			return c.fail(fmt.Sprintf("an object with two members %q", n))
		}
		l.Names = r.keep(r.names[names.names:])
	}
	r.stack, r.names = r.stack[:names.stack], r.names[:names.names]
	v.Kind, v.List = ListValue, l
	if r.unavailable.isList(l) {
		*v = Value{Kind: Unavailable}
	}
	return nil
}

// marks are how high the stacks were before an array or object.
type marks struct{ stack, names int }

// elements pushes the elements of an array, or the members of an object.
func (r *reading) elements(c *cursor, object bool, depth int) (marks, error) {
	m := marks{len(r.stack), len(r.names)}
	open, end := byte('['), byte(']')
	if object {
		open, end = '{', '}'
	}
	empty, err := c.open(open, end)
	for more := !empty; more && err == nil; {
		name := len(r.names)
		if object {
			s, e := r.name(c)
			if e != nil {
				return m, e
			}
			r.names = append(r.names, s)
		}
		var v Value
		if err = r.value(c, &v, depth+1); err != nil {
			if object {
				err = inField(r.names[name], err)
			}
			return m, err
		}
		r.stack = append(r.stack, v)
		more, err = c.more(end)
	}
	return m, err
}

// keep returns names that do not share memory with the record, the same slice for the same names if they were seen of
// late: most structs are of the few types that a table has.
func (r *reading) keep(names []string) []string {
	for _, known := range r.recent.names {
		if known != nil && slices.Equal(known, names) {
			return known
		}
	}
	made := make([]string, len(names))
	for i, n := range names {
		made[i] = strings.Clone(n)
	}
	r.recent.names[r.recent.nextName] = made
	r.recent.nextName = (r.recent.nextName + 1) % len(r.recent.names)
	return made
}

// repeated returns a name that is there twice, or "".
func repeated(names []string) string {
	if len(names) <= 8 {
		for i, n := range names {
			if slices.Contains(names[:i], n) {
				return n
			}
		}
		return ""
	}
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if seen[n] {
			return n
		}
		seen[n] = true
	}
	return ""
}

// rowOf moves c over a row that has the layout l of its message's schema. Fields that the row lacks are Absent.
func (r *reading) rowOf(c *cursor, l *layout) (Row, error) {
	row := Row{l.Shape, r.row(len(l.Fields))}
	next := 0
	empty, err := c.open('{', '}')
	for more := !empty; more && err == nil; {
		i := next
		if i >= len(l.tokens) || l.tokens[i] == "" || !c.has(l.tokens[i]) {
			if i, err = r.field(c, l, next); err != nil {
				return Row{}, err
			}
		}
		if err = r.fieldValue(c, l, i, &row.Values[i]); err != nil {
			return Row{}, err
		}
		// As a rule the next member is the next field.
		for next = i + 1; next < len(l.tokens) && c.follows(l.tokens[next]); next++ {
			if err = r.fieldValue(c, l, next, &row.Values[next]); err != nil {
				return Row{}, err
			}
		}
		more, err = c.more('}')
	}
	return row, err
}

// fieldValue moves c over the value of field i, whose name it has passed.
func (r *reading) fieldValue(c *cursor, l *layout, i int, v *Value) error {
	if v.Kind != Absent {
		name := l.Fields[i].Name
		return &fieldError{name, c.fail(fmt.Sprintf("field %q for the second time", name))}
	}
	if c.peek() <= ' ' {
		c.space()
	}
	if err := r.value(c, v, 0); err != nil {
		return inField(l.Fields[i].Name, err)
	}
	return nil
}

// field moves c over a member's name and returns its index in l.
func (r *reading) field(c *cursor, l *layout, next int) (int, error) {
	name, err := r.name(c)
	if err != nil {
		return 0, err
	}
	i := l.find(name, next)
	if i < 0 {
		return 0, &fieldError{name, c.fail(fmt.Sprintf("field %q, which the message's schema does not have,", name))}
	}
	return i, nil
}

// bareRow moves c over a row without a schema, which most likely has the layout guess, and makes what it has the next
// guess.
func (r *reading) bareRow(c *cursor, guess **layout) (Row, error) {
	at := c.at
	if *guess != nil {
		if row, ok := r.guessedRow(c, *guess); ok {
			return row, nil
		}
		c.at = at
	}
	m, err := r.elements(c, true, 0)
	if err != nil {
		return Row{}, err
	}
	r.key = appendNames(r.key[:0], r.names[m.names:])
	l, err := r.topic.row(r.key, r.names[m.names:])
	if err != nil {
		return Row{}, err
	}
	row := Row{l.Shape, r.row(len(l.Fields))}
	copy(row.Values, r.stack[m.stack:])
	r.stack, r.names = r.stack[:m.stack], r.names[:m.names]
	*guess = l
	return row, nil
}

// guessedRow moves c over a row that has exactly the members of l in their order, or reports that it is not one.
func (r *reading) guessedRow(c *cursor, l *layout) (Row, bool) {
	row := Row{l.Shape, r.row(len(l.Fields))}
	empty, err := c.open('{', '}')
	if err != nil || empty != (len(l.Fields) == 0) {
		return Row{}, false
	}
	for i, token := range l.tokens {
		known := i > 0 && c.follows(token)
		if i == 0 {
			known = token != "" && c.has(token)
		}
		if !known {
			return Row{}, false
		}
		if c.peek() <= ' ' {
			c.space()
		}
		if r.value(c, &row.Values[i], 0) != nil {
			return Row{}, false
		}
	}
	if len(l.tokens) > 0 {
		if more, err := c.more('}'); err != nil || more {
			return Row{}, false
		}
	}
	return row, true
}

// appendNames appends names so that different sequences differ.
func appendNames(dst []byte, names []string) []byte {
	for _, n := range names {
		dst = binary.AppendUvarint(dst, uint64(len(n)))
		dst = append(dst, n...)
	}
	return dst
}

// unwrap takes a message apart: {"schema": ..., "payload": ...} into the schema and a cursor at the payload. A message
// that is not wrapped has no schema and is its own payload. After the payload the caller calls c.end.
func (r *reading) unwrap(data []byte, list *[recentMessages]*message) (*message, cursor, error) {
	const first, second = `{"schema":`, `,"payload":`
	if len(data) > len(first) && string(data[:len(first)]) == first {
		rest := data[len(first):]
		m := use(list, func(m *message) bool {
			n := len(m.raw)
			return len(rest) > n+len(second) && rest[n] == ',' && bytes.Equal(rest[:n], m.raw) && string(rest[n:n+len(second)]) == second
		})
		// Only a message that ends like the converter's is cut here: what is before the last byte is the payload.
		if m != nil && data[len(data)-1] == '}' {
			return m, cursor{data[:len(data)-1], len(first) + len(m.raw) + len(second)}, nil
		}
	}
	return r.unwrapAny(data, list)
}

// unwrapAny is unwrap for a schema that was not used of late, and for members in any order.
func (r *reading) unwrapAny(data []byte, list *[recentMessages]*message) (*message, cursor, error) {
	c := cursor{data: data}
	c.space()
	bare := c
	empty, err := c.open('{', '}')
	switch {
	case err == nil:
	case c.has("null"):
		return nil, bare, nil
	default:
		if len(data) > 0 && data[0] == 0 {
			return nil, bare, errors.New("it begins with byte 0, as Avro and Protobuf by a schema registry do, and not as JSON; see source.format")
		}
		return nil, bare, errNotStruct
	}
	var schema, payload []byte
	for more := !empty; more; {
		name, err := r.name(&c)
		if err != nil {
			return nil, bare, err
		}
		var member *[]byte
		switch {
		case name == "schema" && schema == nil:
			member = &schema
		case name == "payload" && payload == nil:
			member = &payload
		default:
			return nil, bare, nil
		}
		at := c.at
		if err := c.skip(0); err != nil {
			return nil, bare, err
		}
		*member = data[at:c.at]
		if more, err = c.more('}'); err != nil {
			return nil, bare, err
		}
	}
	if schema == nil || payload == nil || schema[0] != '{' && schema[0] != 'n' {
		return nil, bare, nil
	}
	if err := c.end(); err != nil {
		return nil, bare, err
	}
	inner := cursor{data: payload}
	if schema[0] == 'n' {
		return nil, inner, nil
	}
	m, err := r.message(schema)
	if err == nil {
		add(list, m)
	}
	return m, inner, err
}
