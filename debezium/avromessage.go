package debezium

import (
	"fmt"
)

// avroKey decodes a record's key in Avro and returns its layout.
func (r *reading) avroKey(s *avroSchema, data []byte, e *Event) (*layout, error) {
	c := avroCursor{data: data}
	null, err := c.isNull(s.node)
	switch {
	case err != nil:
		return nil, err
	case null:
		return nil, c.end()
	case s.root == nil:
		return nil, errAvroStruct
	}
	if e.Key, err = r.avroRow(&c, s.node); err != nil {
		return nil, err
	}
	return s.root, c.end()
}

// avroMessage decodes a record's value in Avro. It reports null as messageValue does.
func (r *reading) avroMessage(s *avroSchema, data []byte, record *Record, e *Event) (null bool, err error) {
	if s.root == nil {
		return false, errAvroStruct
	}
	c := avroCursor{data: data}
	null, err = c.isNull(s.node)
	switch {
	case err != nil:
		return false, err
	case null:
		r.form.flattened = true
		return true, c.end()
	case s.flat != nil && r.flatKnown(s.flat, e.Key, record.Headers):
		return false, r.avroFlatRow(&c, s, record, e)
	}
	return false, r.avroEnvelope(&c, s, e)
}

// avroEnvelope moves c over the fields of a message that is no flattened row, and makes the event of it.
func (r *reading) avroEnvelope(c *avroCursor, s *avroSchema, e *Event) error {
	var p payload
	for i, f := range s.node.fields {
		if err := r.avroPart(c, s, s.parts[i], f, e, &p); err != nil {
			return fmt.Errorf("%s: %w", s.node.names[i], err)
		}
		p.has |= s.parts[i]
	}
	if err := c.end(); err != nil {
		return err
	}
	return r.eventOf(s.kind, &p, &s.message, e)
}

// avroFlatRow moves c over a flattened row, whose union's index was read, and makes the event of it.
func (r *reading) avroFlatRow(c *avroCursor, s *avroSchema, record *Record, e *Event) error {
	row, err := r.avroRow(c, s.node)
	if err != nil {
		return err
	}
	if err := c.end(); err != nil {
		return err
	}
	row.Shape = s.flat.Shape
	return r.flatEvent(row, s.flat, record, e)
}

// avroPart moves c over a field of a message.
func (r *reading) avroPart(c *avroCursor, s *avroSchema, part members, n *avroNode, e *Event, p *payload) error {
	switch part {
	case beforeMember, afterMember:
		row := &e.Before
		if part == afterMember {
			row = &e.After
		}
		return r.avroImage(c, n, row, p)
	case sourceMember:
		return r.avroSource(c, s, n, &e.Source)
	case opMember:
		return r.avroText(c, n, &p.op)
	case timeMember:
		ms, err := r.avroCount(c, n)
		e.sentMs(ms)
		return err
	case nanosMember:
		ns, err := r.avroCount(c, n)
		e.sentNs(ns)
		return err
	case orderMember:
		return r.avroTransaction(c, n, e)
	case statusMember:
		return r.avroText(c, n, &p.status)
	case idMember:
		return r.avroText(c, n, &p.id)
	case countMember:
		count, err := r.avroCount(c, n)
		p.count = count
		return err
	case collectionsMember:
		if s.kind != transactionKind {
			return c.skip(n)
		}
		var v Value
		if err := r.avroValue(c, n, &v); err != nil {
			return err
		}
		p.collections = appendJSON(nil, &v)
		return nil
	case ddlMember:
		return r.avroText(c, n, &p.ddl)
	case changesMember:
		if s.kind != schemaChangeKind {
			return c.skip(n)
		}
		var v Value
		if err := r.avroValue(c, n, &v); err != nil {
			return err
		}
		p.changes = appendJSON(nil, &v)
		return nil
	}
	return c.skip(n)
}

func (r *reading) avroImage(c *avroCursor, n *avroNode, row *Row, p *payload) error {
	if n.kind != avroRecord {
		p.has |= oddRowMember
		return c.skip(n)
	}
	null, err := c.isNull(n)
	if err != nil || null {
		return err
	}
	*row, err = r.avroRow(c, n)
	return err
}

func (r *reading) avroText(c *avroCursor, n *avroNode, s *string) error {
	var v Value
	if err := r.avroValue(c, n, &v); err != nil {
		return err
	}
	if v.Kind == StringValue {
		*s = v.Text
	}
	return nil
}

// avroCount moves c over a value and returns it if it is an integer that is not negative; otherwise 0.
func (r *reading) avroCount(c *avroCursor, n *avroNode) (int64, error) {
	v := &r.scrap
	*v = Value{}
	err := r.avroValue(c, n, v)
	if err != nil || v.Kind != IntValue || v.Num < 0 {
		return 0, err
	}
	return v.Num, nil
}

// avroTransaction moves c over the block that provide.transaction.metadata adds.
func (r *reading) avroTransaction(c *avroCursor, n *avroNode, e *Event) error {
	if n.kind != avroRecord {
		return c.skip(n)
	}
	null, err := c.isNull(n)
	if err != nil || null {
		return err
	}
	for i, f := range n.fields {
		switch n.names[i] {
		case "id":
			err = r.avroText(c, f, &e.Txn)
			e.Txn = txnOf(e.Txn)
		case "total_order":
			e.Order, err = r.avroCount(c, f)
		default:
			err = c.skip(f)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.names[i], err)
		}
	}
	return nil
}
