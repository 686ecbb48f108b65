package debezium

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The headers in which Apicurio's serializers put what is before the value otherwise, after apicurio.key. or
// apicurio.value. (io.apicurio.registry.serde.headers).
const (
	apicurio      = "apicurio."
	apicurioKey   = "apicurio.key."
	apicurioValue = "apicurio.value."
)

// apicurioIDs are the ids in a record's headers; zero if there are none.
type apicurioIDs struct{ key, value SchemaID }

// read takes a header in. A global id is preferred: of the two it alone names one version.
func (a *apicurioIDs) read(h *Header) error {
	id, name := &a.key, ""
	switch {
	case strings.HasPrefix(h.Key, apicurioValue):
		id, name = &a.value, h.Key[len(apicurioValue):]
	case strings.HasPrefix(h.Key, apicurioKey):
		name = h.Key[len(apicurioKey):]
	}
	kind := ContentID
	switch name {
	case "globalId":
		kind = GlobalID
	case "contentId":
		if id.Kind == GlobalID {
			return nil
		}
	case "encoding":
		if string(h.Value) != "BINARY" {
			return fmt.Errorf("the header %s says %q; only Avro's binary encoding is read (apicurio.registry.avro.encoding=BINARY)", h.Key, h.Value)
		}
		return nil
	default:
		return nil
	}
	if len(h.Value) != 8 {
		return fmt.Errorf("the header %s has %d bytes; an id has 8", h.Key, len(h.Value))
	}
	*id = SchemaID{kind, int64(binary.BigEndian.Uint64(h.Value))}
	return nil
}

// magic is the byte before an id: of Confluent's wire format, and of Apicurio's.
const magic = 0

// wireID splits a value that begins with the magic byte into its schema's id and the rest. An id of 8 bytes begins with
// four zeros, as numbers are today; as an id of 4 bytes that is 0, which no registry gives.
func wireID(data []byte) (SchemaID, []byte, error) {
	if len(data) < 5 {
		return SchemaID{}, nil, fmt.Errorf("%d bytes are too few for a schema id", len(data))
	}
	if id := binary.BigEndian.Uint32(data[1:]); id != 0 {
		return SchemaID{WireID, int64(id)}, data[5:], nil
	}
	if len(data) < 9 {
		return SchemaID{}, nil, errors.New("the schema id is 0")
	}
	return SchemaID{LongID, int64(binary.BigEndian.Uint64(data[1:]))}, data[9:], nil
}

// avro returns the schema of a key or value and its bytes, or nil for JSON.
func (r *reading) avro(ctx context.Context, data []byte, header SchemaID) (*avroSchema, []byte, error) {
	if r.format == JSON {
		return nil, nil, nil
	}
	id, rest := header, data
	if id.Kind == 0 {
		if len(data) == 0 || data[0] != magic {
			if r.format == Avro {
				return nil, nil, errors.New("it is not Avro with a schema id: neither does it begin with byte 0, nor have the headers Apicurio's ids; set source.format: auto if it is JSON")
			}
			r.chose(JSON)
			return nil, nil, nil
		}
		var err error
		if id, rest, err = wireID(data); err != nil {
			return nil, nil, err
		}
	}
	for i := range r.recent.avros {
		if known := &r.recent.avros[i]; known.schema != nil && known.id == id {
			return known.schema, rest, nil
		}
	}
	r.chose(Avro)
	s, err := r.avroSchema(ctx, id, r.topicName)
	if err != nil {
		return nil, nil, err
	}
	r.recent.avros[r.recent.nextAvro] = knownAvro{id, s}
	r.recent.nextAvro = (r.recent.nextAvro + 1) % len(r.recent.avros)
	return s, rest, nil
}

// knownAvro is a schema and its id.
type knownAvro struct {
	id     SchemaID
	schema *avroSchema
}

// avroSchema returns the schema with an id: from memory, or from the registry.
func (d *Decoder) avroSchema(ctx context.Context, id SchemaID, topic string) (*avroSchema, error) {
	d.mu.RLock()
	s := d.avros[id]
	d.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	if d.schemas == nil {
		return nil, fmt.Errorf("it is Avro with the schema %v; set source.registry.url", id)
	}
	text, err := d.schemas.Schema(ctx, id, topic)
	if err != nil {
		err = fmt.Errorf("its Avro schema %v: %w", id, err)
		if !errors.Is(err, ErrNoSchema) {
			err = &lookupError{err}
		}
		return nil, err
	}
	made, err := parseAvro(text, d.fieldMetas)
	if err != nil {
		return nil, fmt.Errorf("its Avro schema %v: %w", id, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s = d.avros[id]; s != nil {
		return s, nil // another goroutine was first
	}
	if len(d.avros) >= maxMessages || d.avroNodes+made.node.nodes > maxAvroMemory {
		clear(d.avros)
		d.avroNodes = 0
	}
	d.avros[id] = made
	d.avroNodes += made.node.nodes
	return made, nil
}

// lookupError is a registry's failure that may pass: it is not the record's.
type lookupError struct{ error }

func (e *lookupError) Unwrap() error { return e.error }

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
	switch s.kind {
	case envelopeKind:
		r.form.enveloped = true
		return p.envelope(e)
	case heartbeatKind:
		e.Op = Heartbeat
	case transactionKind:
		e.Op = Transaction
		return p.marker(e)
	case schemaChangeKind:
		e.Op = SchemaChange
		var err error
		e.Change, err = parseChange(p.ddl, p.changes, e.Source.Connector)
		return err
	default:
		return unrecognised(&s.message)
	}
	return nil
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
