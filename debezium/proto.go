package debezium

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoMode says what a field is that is not in its message and cannot be null by its own type.
type protoMode uint8

const (
	protoRow    protoMode = iota // Unset, unless the schema shows that it is the type's zero
	protoZero                    // the type's zero: of keys, and where null means the same
	protoStrict                  // an error, unless the schema shows that it is the type's zero
	protoLoose                   // of schema changes, in which null means the same
)

// protoValues moves c over the fields of a message, to its end, and returns their values.
func (r *reading) protoValues(c *protoCursor, m *protoMessage, mode protoMode) ([]Value, error) {
	if err := r.spend(c, len(m.fields)); err != nil {
		return nil, err
	}
	values := r.row(len(m.fields))
	next := 0
	for c.more() {
		at := c.at
		num, wire, err := c.tag()
		if err != nil {
			return nil, err
		}
		i := next
		if i >= len(m.fields) || m.fields[i].number != num {
			var ok bool
			if i, ok = m.index[num]; !ok {
				return nil, &syntaxError{at, fmt.Sprintf("a field number %d, which the schema does not have,", num)}
			}
		}
		next = i + 1
		if values[i].Kind != Absent {
			return nil, inField(m.names[i], &syntaxError{at, "its value for the second time"})
		}
		if err := r.protoField(c, &m.fields[i], wire, mode, &values[i]); err != nil {
			return nil, inField(m.names[i], err)
		}
	}
	for i := range values {
		if values[i].Kind == Absent {
			if err := m.fields[i].missing(mode, &values[i]); err != nil {
				return nil, inField(m.names[i], err)
			}
		}
	}
	return values, nil
}

// spend counts the values that a record makes: a message of no bytes has as many as its type has fields.
func (r *reading) spend(c *protoCursor, n int) error {
	if r.budget -= n; r.budget < 0 {
		return c.fail("more values than the record's size allows")
	}
	return nil
}

// protoBudget is how many values a record of n bytes may make. One of an array has a byte at least, and Debezium's messages
// within arrays, the columns of a schema change, several for each of their fields.
func protoBudget(n int) int { return 8*n + maxProtoNodes }

var (
	errUnset = errors.New("it is not in the message, so that it was null or its type's zero, and the schema does not tell which: " +
		"set the connector's value.converter.optional.for.nullables to true")
	errUnsetList = errors.New("it is not in the message, so that it was null or empty, which Confluent's Protobuf converter writes alike: use Avro or JSON")
)

// missing makes v what the field is that its message does not have.
func (f *protoField) missing(mode protoMode, v *Value) error {
	switch {
	case f.optional:
		v.Kind = Null
	case mode == protoZero || f.sure:
		*v = f.zero()
	case mode == protoRow:
		*v = Value{Kind: Unset, List: &protoZeros[f.zeroKind()]}
	case mode == protoLoose && f.kind != protoBool:
		v.Kind = Null
	case mode == protoLoose:
		v.Kind = BoolValue
	case f.repeated:
		return errUnsetList
	default:
		return errUnset
	}
	return nil
}

// protoZeros are what a field may be that was not sent, one each: shared by all values of kind Unset, and never written to.
var protoZeros = [...]List{
	protoInt32:  {Values: []Value{{Kind: IntValue}}},
	protoInt64:  {Values: []Value{{Kind: IntValue}}},
	protoBool:   {Values: []Value{{Kind: BoolValue}}},
	protoFloat:  {Values: []Value{{Kind: NumberValue, Text: "0.0"}}},
	protoDouble: {Values: []Value{{Kind: NumberValue, Text: "0.0"}}},
	protoString: {Values: []Value{{Kind: StringValue}}},
	protoBytes:  {Values: []Value{{Kind: BytesValue}}},
	protoStruct: {Values: []Value{{Kind: ListValue, List: &List{}}}}, // an array
	protoMap:    {Values: []Value{{Kind: ListValue, List: &List{Names: []string{}}}}},
}

// zeroKind is the kind whose zero the field's is. A message that is not repeated has none: it is null.
func (f *protoField) zeroKind() protoKind {
	if f.repeated && f.kind != protoMap {
		return protoStruct
	}
	return f.kind
}

func (f *protoField) zero() Value { return protoZeros[f.zeroKind()].Values[0] }

// protoField moves c over a field's value, whose tag it has passed; over all of a list's.
func (r *reading) protoField(c *protoCursor, f *protoField, wire protowire.Type, mode protoMode, v *Value) error {
	if f.repeated {
		return r.protoList(c, f, wire, mode, v)
	}
	if wire != f.wire {
		return c.fail(fmt.Sprintf("wire type %d where %d is due", wire, f.wire))
	}
	return r.protoValue(c, f, mode, v)
}

// protoValue moves c over one value.
func (r *reading) protoValue(c *protoCursor, f *protoField, mode protoMode, v *Value) error {
	if f.wrapped {
		return r.protoWrapped(c, f, v)
	}
	switch f.kind {
	case protoStruct:
		return r.protoNested(c, f, mode, v)
	case protoDecimal, protoVariable, protoDate, protoTime, protoInstant:
		return r.protoLogical(c, f, v)
	}
	return r.protoScalar(c, f.kind, v)
}

func (r *reading) protoScalar(c *protoCursor, kind protoKind, v *Value) error {
	at := c.at
	switch kind {
	case protoString:
		b, err := c.bytes()
		if err != nil {
			return err
		}
		if !utf8.Valid(b) {
			return &syntaxError{at, "a string that is not UTF-8"}
		}
		v.Kind, v.Text = StringValue, text(b)
		if r.unavailable.is(v.Text) {
			*v = Value{Kind: Unavailable}
		}
		return nil
	case protoBytes:
		b, err := c.bytes()
		if err == nil {
			r.bytesValue(v, b)
		}
		return err
	case protoFloat, protoDouble:
		return r.protoFloat(c, kind, v)
	}
	u, err := c.varint()
	if err != nil {
		return err
	}
	v.Kind, v.Num = IntValue, int64(u)
	switch {
	case kind == protoInt32 && v.Num != int64(int32(v.Num)):
		return &syntaxError{at, "a number of more than 32 bits"}
	case kind == protoBool && u > 1:
		return &syntaxError{at, fmt.Sprintf("the number %d where a boolean is due", u)}
	case kind == protoBool:
		v.Kind = BoolValue
	}
	return nil
}

func (r *reading) protoFloat(c *protoCursor, kind protoKind, v *Value) error {
	if kind == protoFloat {
		u, n := protowire.ConsumeFixed32(c.data[c.at:])
		if n < 0 {
			return c.fail("4 bytes are due and not left")
		}
		c.at += n
		r.floatValue(v, float64(math.Float32frombits(u)), 32)
		return nil
	}
	u, n := protowire.ConsumeFixed64(c.data[c.at:])
	if n < 0 {
		return c.fail("8 bytes are due and not left")
	}
	c.at += n
	r.floatValue(v, math.Float64frombits(u), 64)
	return nil
}

// protoWrapped moves c over a wrapper: a message of the value alone, which lacks it if it is the type's zero.
func (r *reading) protoWrapped(c *protoCursor, f *protoField, v *Value) error {
	in, err := c.inner()
	if err != nil {
		return err
	}
	for in.more() {
		num, wire, err := in.tag()
		if err != nil {
			return err
		}
		if num != 1 || v.Kind != Absent || wire != wireOf(f.kind) {
			return in.fail("a wrapper with more than its value")
		}
		if err := r.protoScalar(&in, f.kind, v); err != nil {
			return err
		}
	}
	if v.Kind == Absent {
		*v = protoZeros[f.kind].Values[0]
	}
	return nil
}

func wireOf(kind protoKind) protowire.Type {
	switch kind {
	case protoString, protoBytes:
		return protowire.BytesType
	case protoFloat:
		return protowire.Fixed32Type
	case protoDouble:
		return protowire.Fixed64Type
	}
	return protowire.VarintType
}

// protoNested moves c over a struct within a row.
func (r *reading) protoNested(c *protoCursor, f *protoField, mode protoMode, v *Value) error {
	in, err := c.inner()
	if err != nil {
		return err
	}
	l := r.list()
	if l.Values, err = r.protoValues(&in, f.message, mode.within(f.message)); err != nil {
		return err
	}
	l.Names = f.message.names
	v.Kind, v.List = ListValue, l
	return nil
}

// within is the mode of a struct's fields.
func (mode protoMode) within(m *protoMessage) protoMode {
	switch {
	case mode != protoRow:
		return mode
	case m.known:
		return protoZero
	}
	return protoStrict
}

// protoList moves c over an array or a map: values that each have the field's tag, one after the other, or, of numbers, all of them
// after one.
func (r *reading) protoList(c *protoCursor, f *protoField, wire protowire.Type, mode protoMode, v *Value) error {
	mark := marks{len(r.stack), len(r.names)}
	err := r.protoElements(c, f, wire, mode)
	if err == nil {
		err = r.spend(c, len(r.stack)-mark.stack)
	}
	if err != nil {
		return err
	}
	l := r.list()
	l.Values = r.row(len(r.stack) - mark.stack)
	copy(l.Values, r.stack[mark.stack:])
	if f.kind == protoMap {
		if name := repeated(r.names[mark.names:]); name != "" {
			return c.fail(fmt.Sprintf("a map with two keys %q", name))
		}
		l.Names = r.keep(r.names[mark.names:])
	}
	r.stack, r.names = r.stack[:mark.stack], r.names[:mark.names]
	v.Kind, v.List = ListValue, l
	if r.unavailable.isList(l) {
		*v = Value{Kind: Unavailable}
	}
	return nil
}

// protoElements pushes the elements of an array, or the members of a map.
func (r *reading) protoElements(c *protoCursor, f *protoField, wire protowire.Type, mode protoMode) error {
	for {
		switch {
		case wire == f.wire && f.kind == protoMap:
			if err := r.protoEntry(c, f.message, mode); err != nil {
				return err
			}
		case wire == f.wire:
			var v Value
			if err := r.protoValue(c, f, mode, &v); err != nil {
				return err
			}
			r.stack = append(r.stack, v)
		case wire == protowire.BytesType:
			in, err := c.inner()
			if err != nil {
				return err
			}
			for in.more() {
				var v Value
				if err := r.protoScalar(&in, f.kind, &v); err != nil {
					return err
				}
				r.stack = append(r.stack, v)
			}
		default:
			return c.fail(fmt.Sprintf("wire type %d where %d is due", wire, f.wire))
		}
		if !c.more() {
			return nil
		}
		at := c.at
		num, next, err := c.tag()
		if err != nil {
			return err
		}
		if num != f.number {
			c.at = at
			return nil
		}
		wire = next
	}
}

// protoEntry pushes a member of a map.
func (r *reading) protoEntry(c *protoCursor, m *protoMessage, mode protoMode) error {
	in, err := c.inner()
	if err != nil {
		return err
	}
	if mode == protoRow {
		mode = protoStrict
	}
	value := m.value()
	var pair [2]Value
	for in.more() {
		num, wire, err := in.tag()
		if err != nil {
			return err
		}
		i, ok := m.index[num]
		if !ok || pair[i].Kind != Absent {
			return in.fail("a map's entry with more than a key and a value")
		}
		if err := r.protoField(&in, &m.fields[i], wire, mode, &pair[i]); err != nil {
			return err
		}
	}
	if pair[value].Kind == Absent {
		if err := m.fields[value].missing(mode, &pair[value]); err != nil {
			return err
		}
	}
	r.names = append(r.names, pair[1-value].Text)
	r.stack = append(r.stack, pair[value])
	return nil
}
