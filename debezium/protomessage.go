package debezium

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxIndexes bounds how deep the message type of a record may be defined within others.
const maxIndexes = maxDepth

// protoIndexes moves c over the indexes of a record's message type in its schema: their number and themselves, each as a signed
// number in zigzag. The number 0 stands for the first type, which is what Kafka Connect's converter writes.
func protoIndexes(c *protoCursor) ([]int32, error) {
	at := c.at
	n, err := c.zigzag()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return firstIndex, nil
	}
	if n < 0 || n > maxIndexes {
		return nil, &syntaxError{at, fmt.Sprintf("%d message indexes", n)}
	}
	out := make([]int32, n)
	for i := range out {
		index, err := c.zigzag()
		if err != nil {
			return nil, err
		}
		if index != int64(int32(index)) {
			return nil, c.fail("a message index of more than 32 bits")
		}
		out[i] = int32(index)
	}
	return out, nil
}

var firstIndex = []int32{0}

func (c *protoCursor) zigzag() (int64, error) {
	u, err := c.varint()
	return protowire.DecodeZigZag(u), err
}

// protoSchema moves c over what says which of a file's message types the record has, and returns it.
func (r *reading) protoSchema(c *protoCursor, f *protoFile) (*protoSchema, error) {
	r.budget = protoBudget(len(c.data))
	indexes, err := protoIndexes(c)
	if err != nil {
		return nil, err
	}
	return f.schema(indexes)
}

// protoKey decodes a record's key in Protobuf and returns its layout. What is not there is zero: columns of a key are not null.
func (r *reading) protoKey(f *protoFile, data []byte, e *Event) (*layout, error) {
	c := protoCursor{data: data}
	s, err := r.protoSchema(&c, f)
	if err != nil {
		return nil, err
	}
	values, err := r.protoValues(&c, s.node, protoZero)
	if err != nil {
		return nil, err
	}
	e.Key = Row{s.root.Shape, values}
	return s.root, nil
}

// protoMessage decodes a record's value in Protobuf.
func (r *reading) protoMessage(f *protoFile, data []byte, record *Record, e *Event) error {
	c := protoCursor{data: data}
	s, err := r.protoSchema(&c, f)
	if err != nil {
		return err
	}
	if s.flat != nil && r.flatKnown(s.flat, e.Key, record.Headers) {
		values, err := r.protoValues(&c, s.node, protoRow)
		if err != nil {
			return err
		}
		return r.flatEvent(Row{s.flat.Shape, values}, s.flat, record, e)
	}
	var p payload
	if err := r.protoPayload(&c, s, e, &p); err != nil {
		return err
	}
	return r.eventOf(s.kind, &p, &s.message, e)
}

// protoPayload moves c over the fields of a message that is no row.
func (r *reading) protoPayload(c *protoCursor, s *protoSchema, e *Event, p *payload) error {
	for c.more() {
		at := c.at
		num, wire, err := c.tag()
		if err != nil {
			return err
		}
		i, ok := s.node.index[num]
		if !ok || s.parts[i] == 0 {
			if err := c.skip(num, wire); err != nil {
				return err
			}
			continue
		}
		part := s.parts[i]
		if p.has&part != 0 {
			return &syntaxError{at, fmt.Sprintf("%s for the second time", s.node.names[i])}
		}
		p.has |= part
		if err := r.protoPart(c, s, part, &s.node.fields[i], wire, e, p); err != nil {
			return fmt.Errorf("%s: %w", s.node.names[i], err)
		}
	}
	return nil
}

// protoPart moves c over a field of a message.
func (r *reading) protoPart(c *protoCursor, s *protoSchema, part members, f *protoField, wire protowire.Type, e *Event, p *payload) error {
	switch part {
	case beforeMember:
		return r.protoImage(c, f, wire, &e.Before, p)
	case afterMember:
		return r.protoImage(c, f, wire, &e.After, p)
	case sourceMember:
		return r.protoSource(c, s, f, wire, &e.Source)
	case orderMember:
		return r.protoTransaction(c, f, wire, e)
	case changesMember, collectionsMember:
		if part == changesMember != (s.kind == schemaChangeKind) || part == collectionsMember != (s.kind == transactionKind) {
			return c.skip(f.number, wire)
		}
	}
	v := &r.scrap
	*v = Value{}
	if err := r.protoField(c, f, wire, protoLoose, v); err != nil {
		return err
	}
	switch part {
	case changesMember:
		p.changes = appendJSON(nil, v)
	case collectionsMember:
		p.collections = appendJSON(nil, v)
	case timeMember:
		e.sentMs(countOf(v))
	case nanosMember:
		e.sentNs(countOf(v))
	case countMember:
		p.count = countOf(v)
	case opMember:
		takeText(&p.op, v)
	case statusMember:
		takeText(&p.status, v)
	case idMember:
		takeText(&p.id, v)
	case ddlMember:
		takeText(&p.ddl, v)
	}
	return nil
}

// countOf is a value that is an integer and not negative; otherwise 0.
func countOf(v *Value) int64 {
	if v.Kind != IntValue || v.Num < 0 {
		return 0
	}
	return v.Num
}

func takeText(s *string, v *Value) {
	if v.Kind == StringValue {
		*s = v.Text
	}
}

func (r *reading) protoImage(c *protoCursor, f *protoField, wire protowire.Type, row *Row, p *payload) error {
	if f.kind != protoStruct || f.repeated {
		p.has |= oddRowMember
		return c.skip(f.number, wire)
	}
	in, err := c.within(f, wire)
	if err != nil {
		return err
	}
	values, err := r.protoValues(&in, f.message, protoRow)
	*row = Row{f.message.layout.Shape, values}
	if err != nil {
		*row = Row{}
	}
	return err
}

// within returns a cursor at the message that is a field's value.
func (c *protoCursor) within(f *protoField, wire protowire.Type) (protoCursor, error) {
	if wire != f.wire {
		return protoCursor{}, c.fail(fmt.Sprintf("wire type %d where %d is due", wire, f.wire))
	}
	return c.inner()
}

// protoSource moves c over an envelope's source block.
func (r *reading) protoSource(c *protoCursor, s *protoSchema, f *protoField, wire protowire.Type, source *Source) error {
	if f.kind != protoStruct || f.repeated {
		return errors.New("it is no message")
	}
	return r.protoBlock(c, f, wire, func(i int, v *Value) error {
		return source.set(s.sources[i], &r.recent.source, v)
	}, func(i int) bool { return s.sources[i] != otherPart })
}

// protoTransaction moves c over the block that provide.transaction.metadata adds.
func (r *reading) protoTransaction(c *protoCursor, f *protoField, wire protowire.Type, e *Event) error {
	if f.kind != protoStruct || f.repeated {
		return c.skip(f.number, wire)
	}
	names := f.message.names
	return r.protoBlock(c, f, wire, func(i int, v *Value) error {
		if names[i] == "total_order" {
			e.Order = countOf(v)
			return nil
		}
		takeText(&e.Txn, v)
		e.Txn = txnOf(e.Txn)
		return nil
	}, func(i int) bool { return names[i] == "id" || names[i] == "total_order" })
}

// protoBlock moves c over a message and calls set for the fields that wanted says yes to. What is not there is not set.
func (r *reading) protoBlock(c *protoCursor, f *protoField, wire protowire.Type, set func(i int, v *Value) error, wanted func(i int) bool) error {
	in, err := c.within(f, wire)
	if err != nil {
		return err
	}
	m := f.message
	next := 0
	for in.more() {
		num, wire, err := in.tag()
		if err != nil {
			return err
		}
		i, ok := next, true
		if i >= len(m.fields) || m.fields[i].number != num {
			i, ok = m.index[num]
		}
		if !ok || !wanted(i) {
			if err := in.skip(num, wire); err != nil {
				return err
			}
			next = i + 1
			continue
		}
		next = i + 1
		v := &r.scrap
		*v = Value{}
		if err = r.protoField(&in, &m.fields[i], wire, protoLoose, v); err == nil {
			err = set(i, v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.names[i], err)
		}
	}
	return nil
}
