package debezium

import (
	"cmp"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
)

// DefaultUnavailable is what Debezium's connectors send in place of a value that the source did not give them (option
// unavailable.value.placeholder), such as PostgreSQL's unchanged TOAST values.
const DefaultUnavailable = "__debezium_unavailable_value"

// DecoderConfig is how a Decoder reads records.
type DecoderConfig struct {
	// Unavailable is the connector's unavailable.value.placeholder, also in its form "hex:...".
	// Empty means DefaultUnavailable.
	Unavailable string
	// FieldPrefix and HeaderPrefix are ExtractNewRecordState's add.fields.prefix and add.headers.prefix. Empty means
	// DefaultMetaPrefix: without any prefix metadata cannot be told from columns.
	FieldPrefix, HeaderPrefix string
	// Format is what keys and values are; with Auto each says it for itself.
	Format Format
	// Schemas is where the schemas of Avro and Protobuf records are; nil: nowhere, and such a record is an error.
	Schemas Schemas
	// Chose is called at the first record of a topic in each format that Format: Auto finds there; may be nil. It is
	// called by the goroutine that decodes.
	Chose func(topic string, f Format)
}

// Decoder turns records into events. Messages may be JSON with a schema, JSON without one, or Avro or Protobuf with a schema
// registry, each record for itself. It is safe for concurrent use; a batch is decoded by one goroutine.
//
// It remembers the schemas that it has parsed, by their bytes or their ids, and the rows without a schema that it has
// seen, by their names: rows of one layout have the same *[Shape].
type Decoder struct {
	unavailable placeholder
	fieldMetas  metaPrefix
	headerMetas metaPrefix
	format      Format
	schemas     Schemas
	onChoice    func(topic string, f Format)

	mu        sync.RWMutex
	messages  map[string]*message // by the schema's bytes
	size      int                 // bytes of the keys of messages
	known     map[SchemaID]*registered
	knownSize int // types and fields in known
	topics    map[string]*topic
}

// The bounds of what a Decoder remembers. When one is met all of its kind is forgotten; shapes then get new pointers.
const (
	maxMessages     = 4096     // schemas
	maxMessageBytes = 64 << 20 // bytes of schemas
	maxRegistered   = 1 << 20  // types and fields of a registry's schemas
	maxRows         = 256      // layouts of rows without a schema, of one topic
)

// topic is what a Decoder remembers of one topic.
type topic struct {
	mu     sync.Mutex
	recent recent
	form   topicForm
	rows   map[string]*layout // layouts of rows without a schema, by their names
	chose  [Protobuf + 1]bool // by format: whether a record was found in it
	flats  map[*layout]*flatLayout
}

// recentMessages is how many schemas of a topic are tried before the bytes of a record's schema are looked up: more
// than one, because a topic can hold several tables, and a table's change.
const recentMessages = 8

// recent is what the last records of a topic were like, and the next ones most likely are.
type recent struct {
	keys, values       [recentMessages]*message // the last used first
	registered         [4]knownSchema           // a ring: those of keys and of values
	nextRegistered     int
	key, before, after *layout // of rows without a schema
	flatGuess          *layout // of a row without a schema and without an envelope
	source             Source
	quoted             Source // JSON: its texts with their quotes
	payloads           outline[members]
	sources            outline[sourcePart]
	run                string
	names              [4][]string // of structs within rows; a ring
	nextName           int
	rowValues          int                // of a record's rows, on the average
	chose              [Protobuf + 1]bool // what the topic's chose is known to be
}

// NewDecoder returns a Decoder.
func NewDecoder(c DecoderConfig) *Decoder {
	if c.Unavailable == "" {
		c.Unavailable = DefaultUnavailable
	}
	return &Decoder{
		unavailable: newPlaceholder(c.Unavailable),
		fieldMetas:  metaPrefix(cmp.Or(c.FieldPrefix, DefaultMetaPrefix)),
		headerMetas: metaPrefix(cmp.Or(c.HeaderPrefix, DefaultMetaPrefix)),
		format:      c.Format,
		schemas:     c.Schemas,
		onChoice:    c.Chose,
		messages:    map[string]*message{},
		known:       map[SchemaID]*registered{},
		topics:      map[string]*topic{},
	}
}

// RecordError says that the bytes of a record are not what Debezium writes, or are not read here. It does not pass:
// the same record fails again.
type RecordError struct {
	Partition Partition
	Offset    int64
	Source    Source // the source's table, as far as the record tells, or else its topic's name
	Column    string // the field of a row or key that is wrong; empty: it is something else
	Err       error
}

// fieldError is an error in one field of a row or key.
type fieldError struct {
	name string
	err  error
}

func (e *fieldError) Error() string { return e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// inField says in which field err is.
func inField(name string, err error) error {
	return &fieldError{name, fmt.Errorf("field %q: %w", name, err)}
}

// recordError makes err one of the record, which was read into e so far.
func (r *reading) recordError(record *Record, e *Event, err error) *RecordError {
	out := &RecordError{Partition: record.Partition, Offset: record.Offset, Source: e.Source, Err: err}
	if out.Source.Table == "" {
		out.Source = r.topicSource(record)
	}
	var f *fieldError // the outermost: a row's, and not that of a struct in it
	if errors.As(err, &f) {
		out.Column = f.name
	}
	return out
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("record %v offset %d: %v", e.Partition, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *RecordError) Unwrap() error { return e.Err }

// DecodeBatch is [Decoder.DecodeBatchContext] without an end to the wait for a schema registry.
func (d *Decoder) DecodeBatch(b *Batch) ([]Event, error) {
	return d.DecodeBatchContext(context.Background(), b)
}

// DecodeBatchContext decodes a batch, one event for each record. The events share memory with the records. ctx ends the
// wait for a schema registry. An error is for the first record that cannot be read, and the events of those before it
// are returned with it: a *[RecordError], or, where the registry could not be asked, another one, which may pass.
func (d *Decoder) DecodeBatchContext(ctx context.Context, b *Batch) ([]Event, error) {
	t := d.topic(b.Partition.Topic)
	t.mu.Lock()
	r := reading{Decoder: d, topicName: b.Partition.Topic, topic: t, recent: t.recent, form: t.form, total: len(b.Records)}
	t.mu.Unlock()
	events := make([]Event, len(b.Records))
	for i := range b.Records {
		record := &b.Records[i]
		r.done = i
		if err := r.event(ctx, b.Records[:i], events[:i], record, &events[i]); err != nil {
			r.form.settle(events[:i])
			var lookup *lookupError
			if errors.As(err, &lookup) {
				return events[:i], fmt.Errorf("record %v offset %d: %w", record.Partition, record.Offset, err)
			}
			return events[:i], r.recordError(record, &events[i], err)
		}
	}
	r.form.settle(events)
	if r.total > 0 {
		r.recent.rowValues = perRecord(r.used, r.total)
	}
	t.mu.Lock()
	t.recent = r.recent
	t.form.enveloped = t.form.enveloped || r.form.enveloped
	t.form.flattened = t.form.flattened || r.form.flattened
	t.mu.Unlock()
	return events, nil
}

// chose notes a format that Auto found.
func (r *reading) chose(f Format) {
	if r.recent.chose[f] || r.format != Auto {
		return
	}
	r.recent.chose[f] = true
	r.topic.mu.Lock()
	known := r.topic.chose[f]
	r.topic.chose[f] = true
	r.topic.mu.Unlock()
	if !known && r.onChoice != nil {
		r.onChoice(r.topicName, f)
	}
}

func (d *Decoder) topic(name string) *topic {
	d.mu.RLock()
	t := d.topics[name]
	d.mu.RUnlock()
	if t != nil {
		return t
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if t = d.topics[name]; t == nil {
		t = &topic{rows: map[string]*layout{}}
		d.topics[strings.Clone(name)] = t
	}
	return t
}

// message returns the parsed schema raw, whose syntax and depth have been checked.
func (d *Decoder) message(raw []byte) (*message, error) {
	d.mu.RLock()
	m := d.messages[string(raw)]
	d.mu.RUnlock()
	if m != nil {
		return m, nil
	}
	made, err := parseSchema(raw, d.fieldMetas)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if m = d.messages[string(raw)]; m != nil {
		return m, nil // another goroutine was first
	}
	if len(d.messages) >= maxMessages || d.size+len(raw) > maxMessageBytes {
		clear(d.messages)
		d.size = 0
	}
	d.messages[string(raw)] = made
	d.size += len(raw)
	return made, nil
}

// row returns the layout of rows with these names; key is made of them by appendNames.
func (t *topic) row(key []byte, names []string) (*layout, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.rows[string(key)]; l != nil {
		return l, nil
	}
	s := &Shape{Schemaless: true, Fields: make([]Field, len(names))}
	for i, n := range names {
		s.Fields[i].Name = strings.Clone(n)
	}
	l, err := lay(s)
	if err != nil {
		return nil, err
	}
	if len(t.rows) >= maxRows {
		clear(t.rows)
	}
	t.rows[string(key)] = l
	return l, nil
}

// use moves what matches to the front and returns it; nil if there is none.
func use(list *[recentMessages]*message, matches func(*message) bool) *message {
	for i, m := range list {
		if m == nil {
			return nil
		}
		if matches(m) {
			if i > 0 {
				copy(list[1:], list[:i])
				list[0] = m
			}
			return m
		}
	}
	return nil
}

// add puts m to the front of list; the last one is forgotten.
func add(list *[recentMessages]*message, m *message) {
	copy(list[1:], list[:])
	list[0] = m
}

// placeholder is the value that stands for one that the source did not give, in the forms that it is sent in:
// text; bytes as base64, base64-url-safe or hex, by the connector's binary.handling.mode; a list of one of them; a list
// of the bytes as numbers, signed as Java's are; for a list of UUIDs the one made of the bytes; a map from it to itself.
type placeholder struct {
	bytes []byte
	forms map[string]bool
	sizes uint64 // bit n: a form has n bytes, modulo 64
}

func newPlaceholder(option string) placeholder {
	raw := []byte(option)
	if digits, ok := strings.CutPrefix(option, "hex:"); ok {
		if b, err := hex.DecodeString(digits); err == nil {
			raw = b
		}
	}
	sum := md5.Sum(raw) // Java's UUID.nameUUIDFromBytes
	sum[6], sum[8] = sum[6]&0x0f|0x30, sum[8]&0x3f|0x80
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:])
	p := placeholder{bytes: raw, forms: map[string]bool{
		string(raw): true, base64.StdEncoding.EncodeToString(raw): true, base64.URLEncoding.EncodeToString(raw): true,
		hex.EncodeToString(raw): true, uuid: true,
	}}
	for form := range maps.Keys(p.forms) {
		p.sizes |= 1 << (len(form) % 64)
	}
	return p
}

// is says whether text is the placeholder.
func (p *placeholder) is(text string) bool {
	return p.sizes&(1<<(len(text)%64)) != 0 && p.forms[text]
}

// isList says whether a list with these elements stands for the placeholder.
func (p *placeholder) isList(l *List) bool {
	if len(l.Values) == 1 && l.Values[0].Kind == Unavailable {
		return l.Names == nil || p.is(l.Names[0])
	}
	if l.Names != nil || len(l.Values) != len(p.bytes) {
		return false
	}
	for i := range l.Values {
		if v := &l.Values[i]; v.Kind != IntValue || v.Num != int64(int8(p.bytes[i])) {
			return false
		}
	}
	return true
}

var errNotStruct = errors.New("it is no JSON object; Debezium's keys and values are, with the converter org.apache.kafka.connect.json.JsonConverter")
