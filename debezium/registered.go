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

// The headers in which Confluent's HeaderSchemaIdSerializer puts a schema's GUID.
const (
	confluentKey   = "__key_schema_id"
	confluentValue = "__value_schema_id"
)

// headerIDs are what a record's headers say of its schemas.
type headerIDs struct{ key, value headerID }

// headerID is the id of a key's or a value's schema; zero if there is none.
type headerID struct {
	SchemaID
	guid bool // Confluent's, which is not read
}

// read takes a header in. Of Apicurio's ids a global one is preferred: of the two it alone names one version.
func (ids *headerIDs) read(h *Header) error {
	id, name := &ids.key, ""
	switch {
	case h.Key == confluentKey:
		ids.key.guid = true
		return nil
	case h.Key == confluentValue:
		ids.value.guid = true
		return nil
	case strings.HasPrefix(h.Key, apicurioValue):
		id, name = &ids.value, h.Key[len(apicurioValue):]
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
	id.SchemaID = SchemaID{kind, int64(binary.BigEndian.Uint64(h.Value))}
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

// lookUp returns the schema that a key or value names, and what comes after its id; nil for JSON.
func (r *reading) lookUp(ctx context.Context, data []byte, header headerID) (*registered, []byte, error) {
	if r.format == JSON {
		return nil, nil, nil
	}
	id, rest := header.SchemaID, data
	if id.Kind == 0 {
		if len(data) == 0 || data[0] != magic {
			switch {
			case header.guid && (len(data) == 0 || data[0] != '{'):
				return nil, nil, errGUID
			case r.format != Auto:
				return nil, nil, fmt.Errorf("it is not %v with a schema id: neither does it begin with byte 0, nor have the headers Apicurio's ids; set source.format: auto if it is JSON", r.format)
			}
			r.chose(JSON)
			return nil, nil, nil
		}
		var err error
		if id, rest, err = wireID(data); err != nil {
			return nil, nil, err
		}
	}
	for i := range r.recent.registered {
		if known := &r.recent.registered[i]; known.schema != nil && known.id == id {
			return known.schema, rest, nil
		}
	}
	s, err := r.schemaOf(ctx, id, r.topicName)
	if err != nil {
		return nil, nil, err
	}
	if r.format != Auto && r.format != s.format() {
		return nil, nil, fmt.Errorf("its schema %v is one of %v, and source.format is %v; set it to auto", id, s.format(), r.format)
	}
	r.chose(s.format())
	r.recent.registered[r.recent.nextRegistered] = knownSchema{id, s}
	r.recent.nextRegistered = (r.recent.nextRegistered + 1) % len(r.recent.registered)
	return s, rest, nil
}

var errGUID = errors.New("its schema's id is in a header, as Confluent's HeaderSchemaIdSerializer writes it, which is not read; " +
	"set the converter's key.schema.id.serializer and value.schema.id.serializer to io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer")

// knownSchema is a schema and its id.
type knownSchema struct {
	id     SchemaID
	schema *registered
}

// registered is a registry's schema, ready to read records by: one of the two is set.
type registered struct {
	avro  *avroSchema
	proto *protoFile
	size  int // what it counts in the bound of all that are remembered
}

func (s *registered) format() Format {
	if s.proto != nil {
		return Protobuf
	}
	return Avro
}

// schemaOf returns the schema with an id: from memory, or from the registry.
func (d *Decoder) schemaOf(ctx context.Context, id SchemaID, topic string) (*registered, error) {
	d.mu.RLock()
	s := d.known[id]
	d.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	if d.schemas == nil {
		return nil, fmt.Errorf("it is Avro or Protobuf with the schema %v; set source.registry.url", id)
	}
	found, err := d.schemas.Schema(ctx, id, topic)
	if err != nil {
		err = fmt.Errorf("its schema %v: %w", id, err)
		if !errors.Is(err, ErrNoSchema) {
			err = &lookupError{err}
		}
		return nil, err
	}
	if found.Format == Protobuf && id.Kind != WireID {
		return nil, fmt.Errorf("it is Protobuf by Apicurio's serializer, with the schema %v: only Confluent's wire format is read", id)
	}
	made, err := d.prepare(found)
	if err != nil {
		return nil, fmt.Errorf("its %v schema %v: %w", found.Format, id, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s = d.known[id]; s != nil {
		return s, nil // another goroutine was first
	}
	if len(d.known) >= maxMessages || d.knownSize+made.size > maxRegistered {
		clear(d.known)
		d.knownSize = 0
	}
	d.known[id] = made
	d.knownSize += made.size
	return made, nil
}

// prepare makes a schema ready.
func (d *Decoder) prepare(s Registered) (*registered, error) {
	if s.Format == Protobuf {
		f, err := parseProto(s, d.fieldMetas)
		if err != nil {
			return nil, err
		}
		return &registered{proto: f, size: 1 + f.fields}, nil
	}
	a, err := parseAvro(s.Text, d.fieldMetas)
	if err != nil {
		return nil, err
	}
	return &registered{avro: a, size: a.node.nodes}, nil
}

// lookupError is a registry's failure that may pass: it is not the record's.
type lookupError struct{ error }

func (e *lookupError) Unwrap() error { return e.error }
