package debezium

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
)

// The headers by which Debezium links the two halves of a change of a row's key.
const (
	oldKeyHeader = "__debezium.oldkey"
	newKeyHeader = "__debezium.newkey"
)

// runHeader is where Debezium 3 names the run of the connector: it is another one after each start.
const runHeader = "__debezium.context.runId"

// event decodes one record, which in its batch comes after records, whose events are events.
func (r *reading) event(ctx context.Context, records []Record, events []Event, record *Record, e *Event) error {
	r.stack, r.names = r.stack[:0], r.names[:0]
	e.Partition, e.Offset = record.Partition, record.Offset
	e.Bytes = len(record.Key) + len(record.Value)
	var ids headerIDs
	for i := range record.Headers {
		h := &record.Headers[i]
		e.Bytes += len(h.Key) + len(h.Value)
		if r.format != JSON && (strings.HasPrefix(h.Key, apicurio) || strings.HasSuffix(h.Key, "_schema_id")) {
			if err := ids.read(h); err != nil {
				return err
			}
		}
	}
	keys, err := r.messageKey(ctx, record.Key, ids.key, e)
	if err != nil {
		return fmt.Errorf("the key: %w", err)
	}
	null := record.Value == nil
	if !null {
		null, err = r.messageValue(ctx, record, ids.value, e)
	}
	switch {
	case err != nil || !null:
	case len(records) == 0:
		err = r.tombstone(record, nil, nil, e)
	default:
		err = r.tombstone(record, events, &records[len(records)-1], e)
	}
	if err != nil {
		return fmt.Errorf("the value: %w", err)
	}
	if s := &e.Source; !named(s.Table) || !named(s.Schema) || !named(s.Database) {
		*s = Source{} // errors and dead letters name its topic's table instead
		return errName
	}
	for i := range record.Headers {
		switch h := &record.Headers[i]; h.Key {
		case oldKeyHeader:
			e.OldKey = r.headerKey(h.Value, keys, e.Key)
		case newKeyHeader:
			// A tombstone that is a delete and the first of its batch may follow the row that says the same: the key
			// moves only once.
			if again := record.Value == nil && e.Op == Delete && (e.Unsure || len(records) == 0); !again {
				e.NewKey = r.headerKey(h.Value, keys, e.Key)
			}
		case runHeader: // only ever compared: its converter is of no interest
			if string(h.Value) != r.recent.run {
				r.recent.run = string(h.Value)
			}
			e.Run = r.recent.run
		}
	}
	return nil
}

// messageKey decodes a record's key and returns its layout; nil if there is none.
func (r *reading) messageKey(ctx context.Context, data []byte, id headerID, e *Event) (*layout, error) {
	if data == nil {
		return nil, nil
	}
	if s, rest, err := r.lookUp(ctx, data, id); s != nil || err != nil {
		switch {
		case err != nil:
			return nil, err
		case s.proto != nil:
			return r.protoKey(s.proto, rest, e)
		}
		return r.avroKey(s.avro, rest, e)
	}
	m, c, err := r.unwrap(data, &r.recent.keys)
	if err != nil {
		return nil, err
	}
	c.space()
	var l *layout
	switch {
	case c.has("null"):
	case c.peek() != '{', m != nil && m.root == nil:
		return nil, errNotStruct
	case m != nil:
		l = m.root
		e.Key, err = r.rowOf(&c, l)
	default:
		e.Key, err = r.bareRow(&c, &r.recent.key)
		l = r.recent.key
	}
	if err != nil {
		return nil, err
	}
	return l, c.end()
}

// headerKey decodes the key in a header. It is JSON, whatever the records are, and has no schema: its fields are those of
// the record's own key. With some
// connector options it is no JSON, or holds other forms of the values than the key; then it is as if not sent.
func (r *reading) headerKey(data []byte, l *layout, key Row) Row {
	if !key.Sent() || len(data) == 0 {
		return Row{}
	}
	list := r.recent.keys // a copy: a header says nothing about the next key
	m, c, err := r.unwrap(data, &list)
	if err != nil {
		return Row{}
	}
	if m != nil && m.root != nil && len(m.root.Fields) == len(l.Fields) {
		l = m.root
	}
	c.space()
	row, err := r.rowOf(&c, l)
	if err != nil || c.end() != nil {
		return Row{}
	}
	for i := range row.Values {
		if !alike(row.Values[i].Kind, key.Values[i].Kind) {
			return Row{}
		}
	}
	return row
}

// alike says whether a header's and a key's values of the two kinds can be of one field. Bytes in JSON are base64.
func alike(a, b ValueKind) bool {
	if a == StringValue && b == BytesValue {
		return true
	}
	number := func(k ValueKind) bool { return k == IntValue || k == NumberValue }
	return a == b && a != Absent || number(a) && number(b)
}

// members are those of a message that tell what it is.
type members uint16

const (
	opMember members = 1 << iota
	sourceMember
	beforeMember
	afterMember
	oddRowMember // before or after that is neither an object nor null
	ddlMember
	changesMember
	statusMember
	idMember
	countMember
	collectionsMember
	timeMember
	nanosMember
	orderMember
	otherMember
)

// payload is what of a message is not an Event's yet.
type payload struct {
	has     members
	op      string
	status  string
	ddl     string
	changes []byte // JSON

	id          string // of a transaction
	count       int64
	collections []byte // JSON
}

// messageValue decodes a record's value. It reports null for a null that has bytes, by which a topic is known to be one of flattened
// rows: of a delete ExtractNewRecordState leaves the row's schema without a row (delete.tombstone.handling.mode: tombstone), and JSON's
// converter writes that. Of Debezium's own tombstones it leaves nothing.
func (r *reading) messageValue(ctx context.Context, record *Record, id headerID, e *Event) (null bool, err error) {
	if s, rest, err := r.lookUp(ctx, record.Value, id); s != nil || err != nil {
		switch {
		case err != nil:
			return false, err
		case s.proto != nil:
			return false, r.protoMessage(s.proto, rest, record, e)
		}
		return r.avroMessage(s.avro, rest, record, e)
	}
	m, c, err := r.unwrap(record.Value, &r.recent.values)
	if err != nil {
		return false, err
	}
	c.space()
	if c.has("null") {
		if m != nil || record.Value[0] != '{' { // older converters write {"schema":null,"payload":null} for Kafka's own null
			r.form.flattened = true
		}
		return true, c.end()
	}
	return false, r.jsonMessage(m, c, record, e)
}

// jsonMessage decodes a message in JSON that is not null.
func (r *reading) jsonMessage(m *message, c cursor, record *Record, e *Event) error {
	if c.peek() != '{' {
		return errNotStruct
	}
	if m != nil && m.flat != nil && r.flatKnown(m.flat, e.Key, record.Headers) {
		return r.flatRow(&c, m.flat, record, e)
	}
	start := c
	var p payload
	if err := r.payload(&c, m, e, &p); err != nil {
		return err
	}
	if err := c.end(); err != nil {
		return err
	}
	k := unknownKind
	if m != nil {
		k = m.kind
	}
	if k == unknownKind {
		k = p.kind(e)
	}
	if k == unknownKind && m == nil {
		*e = Event{Key: e.Key, Partition: e.Partition, Offset: e.Offset, Bytes: e.Bytes}
		if ok, err := r.bareFlatRow(&start, record, e); ok || err != nil {
			return err
		}
	}
	return r.eventOf(k, &p, m, e)
}

// eventOf makes the event of a message of kind k that held p, whatever it was written in. m is its schema, if it has one.
func (r *reading) eventOf(k kind, p *payload, m *message, e *Event) (err error) {
	switch k {
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
		e.Change, err = parseChange(p.ddl, p.changes, e.Source.Connector)
		return err
	default:
		return unrecognised(m)
	}
	return nil
}

func unrecognised(m *message) error {
	const hint = "; a row that ExtractNewRecordState took the envelope of is known by its message key, or by the fields of its option add.fields (such as op)"
	if m == nil {
		return errors.New("it is neither a change event nor another message of Debezium: it lacks the members op and source" + hint)
	}
	name := "of a primitive type"
	if m.root != nil {
		name = fmt.Sprintf("%q", m.root.Name)
	}
	return errors.New("it is neither a change event nor another message of Debezium: its schema is " + name + hint)
}

// kind tells by the members what a message is that no schema names.
func (p *payload) kind(e *Event) kind {
	has := func(m members) bool { return p.has&m == m }
	switch {
	case has(opMember) && (p.has&(sourceMember|beforeMember|afterMember) != 0 || !e.Key.Sent()):
		return envelopeKind // without a source it is a bad one, and not a row that has a column "op"
	case has(ddlMember | changesMember):
		return schemaChangeKind
	case has(statusMember|idMember|countMember|collectionsMember) && (p.status == "BEGIN" || p.status == "END"):
		return transactionKind
	case p.has == timeMember && e.Key.Sent() && len(e.Key.Values) == 1 && e.Key.Shape.Fields[0].Name == "serverName":
		return heartbeatKind
	}
	return unknownKind
}

// envelope checks that the parts of an envelope belong together.
func (p *payload) envelope(e *Event) error {
	if len(p.op) != 1 || !strings.Contains("rcudtm", p.op) {
		return fmt.Errorf("its op is %q; known are r, c, u, d, t and m", p.op)
	}
	e.Op = Op(p.op[0])
	if p.has&sourceMember == 0 {
		return errors.New("it has no source block, which names the table; if a transform takes it away, remove that transform from the connector")
	}
	if p.has&oddRowMember != 0 {
		return errors.New("its before or after is neither an object nor null")
	}
	switch e.Op {
	case Read, Create, Update:
		if !e.After.Sent() {
			return fmt.Errorf("its op is %q and it has no row after", p.op)
		}
	}
	return nil
}

// payload moves c over the members of a message.
func (r *reading) payload(c *cursor, m *message, e *Event, p *payload) error {
	empty, err := c.open('{', '}')
	for i, more := 0, !empty; more && err == nil; i++ {
		at := c.at
		name, is, e1 := member(r, c, &r.recent.payloads, i, parts)
		if e1 != nil {
			return e1
		}
		if is, err = r.part(c, is, m, e, p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if once := is &^ (oddRowMember | otherMember); p.has&once != 0 {
			c.at = at
			return c.fail(fmt.Sprintf("the member %q for the second time", name))
		}
		p.has |= is
		more, err = c.more('}')
	}
	return err
}

// parts are the members of a message that are read; the others are moved over.
var parts = map[string]members{
	"before": beforeMember, "after": afterMember, "source": sourceMember, "op": opMember, "ts_ms": timeMember, "ts_ns": nanosMember,
	"transaction": orderMember, "ddl": ddlMember, "tableChanges": changesMember, "status": statusMember, "id": idMember,
	"event_count": countMember, "data_collections": collectionsMember,
}

// part moves c over the value of a member, by its name, and returns which one it is.
func (r *reading) part(c *cursor, name members, m *message, e *Event, p *payload) (members, error) {
	switch name {
	case beforeMember:
		odd, err := r.image(c, m, name, &e.Before)
		return name | odd, err
	case afterMember:
		odd, err := r.image(c, m, name, &e.After)
		return name | odd, err
	case sourceMember:
		if c.peek() == '{' {
			return name, r.source(c, &e.Source)
		}
		name = otherMember
	case opMember:
		return name, r.textOrSkip(c, &p.op)
	case timeMember:
		ms, err := r.count(c)
		e.sentMs(ms)
		return name, err
	case nanosMember:
		ns, err := r.count(c)
		e.sentNs(ns)
		return name, err
	case orderMember:
		if c.peek() == '{' {
			return name, r.transaction(c, e)
		}
		name = otherMember
	case ddlMember:
		return name, r.textOrSkip(c, &p.ddl)
	case changesMember:
		at := c.at
		err := c.skip(0)
		p.changes = c.data[at:c.at]
		return name, err
	case statusMember:
		return name, r.textOrSkip(c, &p.status)
	case idMember:
		return name, r.textOrSkip(c, &p.id)
	case countMember:
		n, err := r.count(c)
		p.count = n
		return name, err
	case collectionsMember:
		at := c.at
		err := c.skip(0)
		p.collections = c.data[at:c.at]
		return name, err
	case 0:
		name = otherMember
	}
	return name, c.skip(0)
}

const nanosInMilli = 1_000_000

// sentMs takes an envelope's ts_ms in; ts_ns says the same more exactly, and may have come before.
func (e *Event) sentMs(ms int64) {
	if e.SentNs == 0 && ms <= math.MaxInt64/nanosInMilli {
		e.SentNs = ms * nanosInMilli
	}
}

func (e *Event) sentNs(ns int64) {
	if ns != 0 {
		e.SentNs = ns
	}
}

// count moves c over a value and returns it if it is a whole number that is not negative; otherwise 0.
func (r *reading) count(c *cursor) (int64, error) {
	if b := c.peek(); b < '0' || b > '9' {
		return 0, c.skip(0)
	}
	n, ok, err := c.number()
	if !ok {
		n = 0
	}
	return n, err
}

// transaction moves c over the block that provide.transaction.metadata adds.
func (r *reading) transaction(c *cursor, e *Event) error {
	empty, err := c.open('{', '}')
	for more := !empty; more && err == nil; {
		var name string
		if name, err = r.name(c); err != nil {
			return err
		}
		switch name {
		case "id":
			err = r.textOrSkip(c, &e.Txn)
			e.Txn = txnOf(e.Txn)
		case "total_order":
			e.Order, err = r.count(c)
		default:
			err = c.skip(0)
		}
		if err == nil {
			more, err = c.more('}')
		}
	}
	return err
}

// image moves c over a row image, or over what is none.
func (r *reading) image(c *cursor, m *message, name members, row *Row) (odd members, err error) {
	switch {
	case c.peek() != '{':
		if !c.has("null") {
			odd = oddRowMember
			err = c.skip(0)
		}
	case m != nil && name == beforeMember && m.before != nil:
		*row, err = r.rowOf(c, m.before)
	case m != nil && name == afterMember && m.after != nil:
		*row, err = r.rowOf(c, m.after)
	case name == beforeMember:
		*row, err = r.bareRow(c, &r.recent.before)
	default:
		*row, err = r.bareRow(c, &r.recent.after)
	}
	return odd, err
}

// textOrSkip moves c over a value and takes it if it is a string.
func (r *reading) textOrSkip(c *cursor, s *string) (err error) {
	if c.peek() != '"' {
		return c.skip(0)
	}
	*s, err = r.string(c)
	return err
}
