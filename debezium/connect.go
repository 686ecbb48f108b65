package debezium

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// maxFields bounds the fields of one struct. MySQL's tables have up to 4096 columns.
const maxFields = 10000

// kind is what a message is.
type kind uint8

const (
	unknownKind kind = iota // only its members can tell
	envelopeKind
	heartbeatKind
	transactionKind
	schemaChangeKind
)

// message is a schema of Kafka Connect's JSON converter as a decoder needs it: what the messages are, and the layouts of
// their rows.
type message struct {
	raw           []byte // the schema's JSON
	kind          kind
	root          *layout // nil if the schema is no struct
	before, after *layout // of an envelope; nil if it has none
	flat          *flatLayout
}

// layout is a Shape and what speeds reading its rows up.
type layout struct {
	*Shape
	tokens []string // of each field's name
}

// verbatim is the JSON of a text, if it needs no escape; or else empty.
func verbatim(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
		return ""
	}
	return `"` + text + `"`
}

// token is how a member called name begins, if JSON needs no escape to write the name; or else empty.
func token(name string) string {
	if q := verbatim(name); q != "" {
		return q + ":"
	}
	return ""
}

// lay makes the layout of a shape. It fails if two fields have the same name.
func lay(s *Shape) (*layout, error) {
	if len(s.Fields) > maxFields {
		return nil, fmt.Errorf("a struct of %d fields; at most %d are read", len(s.Fields), maxFields)
	}
	l := &layout{Shape: s, tokens: make([]string, len(s.Fields))}
	seen := make(map[string]bool, len(s.Fields))
	for i := range s.Fields {
		name := s.Fields[i].Name
		if !named(name) {
			return nil, errName
		}
		if seen[name] {
			return nil, fmt.Errorf("a struct with two fields %q", name)
		}
		seen[name] = true
		l.tokens[i] = token(name)
	}
	return l, nil
}

// find returns the index of the field called name, which is most often at or after next; or -1.
func (l *layout) find(name string, next int) int {
	for i := next; i < len(l.Fields); i++ {
		if l.Fields[i].Name == name {
			return i
		}
	}
	for i := range min(next, len(l.Fields)) {
		if l.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// connectSchema is a schema as Kafka Connect's JsonConverter writes it.
type connectSchema struct {
	Type       string            `json:"type"`
	Optional   bool              `json:"optional"`
	Name       string            `json:"name"`
	Parameters map[string]string `json:"parameters"`
	Default    json.RawMessage   `json:"default"`
	Field      string            `json:"field"`
	Fields     []connectSchema   `json:"fields"`
	Items      *connectSchema    `json:"items"`
	Values     *connectSchema    `json:"values"` // of a map; its keys are strings in JSON, or pairs in an array
}

var fieldTypes = map[string]FieldType{
	"boolean": Boolean, "int8": Int8, "int16": Int16, "int32": Int32, "int64": Int64, "float": Float32, "double": Float64,
	"string": String, "bytes": Bytes, "array": Array, "map": Map, "struct": Struct,
}

// parseSchema parses a schema's JSON, whose syntax and depth have been checked. p is what the names of
// a flattened row's metadata begin with.
func parseSchema(raw []byte, p metaPrefix) (*message, error) {
	var s connectSchema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	root, err := s.field()
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	m := &message{raw: slices.Clone(raw)}
	if root.Type != Struct {
		return m, nil
	}
	if m.root, err = lay(&Shape{Name: root.Semantic, Fields: root.Fields}); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	m.kind = kindOf(m.root.Shape)
	if m.kind == unknownKind {
		if m.flat, err = flatten(m.root.Shape, p); err != nil {
			return nil, fmt.Errorf("the schema: %w", err)
		}
	}
	if m.kind != envelopeKind {
		return m, nil
	}
	if m.before, err = rowLayout(root.Fields, "before"); err != nil {
		return nil, err
	}
	if m.after, err = rowLayout(root.Fields, "after"); err != nil {
		return nil, err
	}
	if m.before != nil && m.after != nil && m.before.Name == m.after.Name && reflect.DeepEqual(m.before.Fields, m.after.Fields) {
		m.before = m.after // one pointer, so that caches by shape hold it once
	}
	return m, nil
}

func rowLayout(fields []Field, name string) (*layout, error) {
	for i := range fields {
		if f := &fields[i]; f.Name == name && f.Type == Struct {
			l, err := lay(&Shape{Name: f.Semantic, Fields: f.Fields})
			if err != nil {
				return nil, fmt.Errorf("the schema of %q: %w", name, err)
			}
			return l, nil
		}
	}
	return nil, nil
}

// kindOf knows messages by the names that Debezium gives their schemas, and envelopes by their members: their names
// are free.
func kindOf(s *Shape) kind {
	switch {
	case s.Name == "io.debezium.connector.common.Heartbeat":
		return heartbeatKind
	case s.Name == "io.debezium.connector.common.TransactionMetadataValue":
		return transactionKind
	case strings.HasPrefix(s.Name, "io.debezium.connector.") && strings.HasSuffix(s.Name, ".SchemaChangeValue"):
		return schemaChangeKind
	}
	if i := s.Index("source"); i >= 0 && s.Fields[i].Type == Struct && s.Index("op") >= 0 {
		return envelopeKind
	}
	return unknownKind
}

func (s *connectSchema) field() (Field, error) {
	t, ok := fieldTypes[s.Type]
	if !ok {
		return Field{}, fmt.Errorf("field %q has the type %q, which Kafka Connect does not know", s.Field, s.Type)
	}
	f := Field{Name: s.Field, Type: t, Optional: s.Optional, Semantic: s.Name, Params: s.Parameters}
	if len(s.Default) > 0 {
		text := string(s.Default)
		f.Default = &text
	}
	switch t {
	case Struct:
		f.Fields = make([]Field, len(s.Fields))
		for i := range s.Fields {
			var err error
			if f.Fields[i], err = s.Fields[i].field(); err != nil {
				return Field{}, err
			}
		}
	case Array, Map:
		items := s.Items
		if t == Map {
			items = s.Values
		}
		if items == nil {
			return Field{}, errors.New("field " + s.Field + " is a list whose elements have no type")
		}
		item, err := items.field()
		if err != nil {
			return Field{}, err
		}
		f.Items = &item
	}
	return f, nil
}
