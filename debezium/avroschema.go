package debezium

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
)

// maxAvroNodes bounds the types of one Avro schema, each counted as often as a value can hold it: a schema can name one
// type many times. MySQL's widest table has 4096 columns, each twice in an envelope.
const maxAvroNodes = 100_000

// avroType is how a value of one Avro type is read.
type avroType uint8

const (
	avroNull avroType = iota
	avroBoolean
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroBytes
	avroString
	avroFixed
	avroEnum
	avroArray
	avroMap
	avroRecord
)

// avroNode is a type of a writer's schema, ready to be read. An optional type, Avro's union of null and another, is one
// node.
type avroNode struct {
	kind     avroType
	union    bool  // an index comes first
	optional bool  // one index of the union is null
	null     int64 // that index: Debezium has null second where a column's default is not null
	length   int   // of a fixed
	symbols  []string
	items    *avroNode   // of an array or a map
	fields   []*avroNode // of a record
	names    []string    // their names; shared by all values
	layout   *layout     // of a record
	nodes    int         // this one and those below it
	field    Field       // Kafka Connect's view, without a name
}

// avroSchema is a writer's schema, as a decoder needs it.
type avroSchema struct {
	message
	node *avroNode
	// The fields of an envelope, and of its source block, as their names are to be looked up once.
	parts   []members
	sources []sourcePart
}

// parseAvro makes of an Avro schema's JSON what its records are read by.
func parseAvro(text string, p metaPrefix) (*avroSchema, error) {
	if err := checkJSON(text); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	var raw any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // defaults may have more digits than a float64
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	parser := avroParser{named: map[string]*avroNode{}}
	node, err := parser.parse(raw, "", 0)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	s := &avroSchema{node: node}
	if node.kind != avroRecord {
		return s, nil
	}
	s.root = node.layout
	s.kind = kindOf(s.root.Shape)
	if s.kind == unknownKind {
		if s.flat, err = flatten(s.root.Shape, p); err != nil {
			return nil, fmt.Errorf("the schema: %w", err)
		}
	}
	s.parts = make([]members, len(node.names))
	for i, name := range node.names {
		s.parts[i] = parts[name]
		switch child := node.fields[i]; {
		case child.kind != avroRecord:
		case s.parts[i] == beforeMember:
			s.before = child.layout
		case s.parts[i] == afterMember:
			s.after = child.layout
		case s.parts[i] == sourceMember:
			s.sources = make([]sourcePart, len(child.names))
			for j, name := range child.names {
				s.sources[j] = sourceParts[name]
			}
		}
	}
	if s.before != nil && s.after != nil && s.before != s.after && s.before.Name == s.after.Name && reflect.DeepEqual(s.before.Fields, s.after.Fields) {
		// Written out twice: one pointer, so that caches by shape hold it once.
		node.fields[s.root.Index("before")].layout, s.before = s.after, s.after
	}
	return s, nil
}

// checkJSON checks a schema's syntax and depth, as the JSON of records is checked.
func checkJSON(text string) error {
	c := cursor{data: []byte(text)}
	c.space()
	if err := c.skip(0); err != nil {
		return err
	}
	return c.end()
}

// avroParser knows the named types of the schema so far. A type that is being parsed is nil.
type avroParser struct{ named map[string]*avroNode }

var avroPrimitives = map[string]struct {
	kind avroType
	as   FieldType
}{
	"null": {avroNull, Any}, "boolean": {avroBoolean, Boolean}, "int": {avroInt, Int32}, "long": {avroLong, Int64}, "float": {avroFloat, Float32},
	"double": {avroDouble, Float64}, "bytes": {avroBytes, Bytes}, "string": {avroString, String},
}

// logicalTypes are the names of Kafka Connect and Debezium for Avro's logical types, for a schema without connect.name.
var logicalTypes = map[string]string{
	"bytes decimal": "org.apache.kafka.connect.data.Decimal", "fixed decimal": "org.apache.kafka.connect.data.Decimal",
	"string uuid": "io.debezium.data.Uuid", "int date": "io.debezium.time.Date",
	"int time-millis": "io.debezium.time.Time", "long time-micros": "io.debezium.time.MicroTime",
	"long timestamp-millis": "io.debezium.time.Timestamp", "long local-timestamp-millis": "io.debezium.time.Timestamp",
	"long timestamp-micros": "io.debezium.time.MicroTimestamp", "long local-timestamp-micros": "io.debezium.time.MicroTimestamp",
	"long timestamp-nanos": "io.debezium.time.NanoTimestamp", "long local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}

func (p *avroParser) parse(raw any, namespace string, depth int) (*avroNode, error) {
	if depth > maxDepth {
		return nil, errors.New("types nested too deep")
	}
	switch s := raw.(type) {
	case string:
		if t, ok := avroPrimitives[s]; ok {
			return &avroNode{kind: t.kind, nodes: 1, field: Field{Type: t.as}}, nil
		}
		return p.reference(s, namespace)
	case []any:
		return p.union(s, namespace, depth)
	case map[string]any:
		return p.object(s, namespace, depth)
	}
	return nil, errors.New("a type is neither a name, an object nor a list")
}

func (p *avroParser) reference(name, namespace string) (*avroNode, error) {
	n, known := p.named[fullName(name, namespace)]
	if !known {
		n, known = p.named[name]
	}
	switch {
	case !known:
		return nil, fmt.Errorf("the type %q is not defined", name)
	case n == nil:
		return nil, fmt.Errorf("the type %q holds itself; Kafka Connect's types do not", name)
	}
	return n, nil
}

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

// union parses null and one other type, in either order, or one type alone.
func (p *avroParser) union(types []any, namespace string, depth int) (*avroNode, error) {
	var out *avroNode
	null := int64(-1)
	for i, t := range types {
		n, err := p.parse(t, namespace, depth+1)
		switch {
		case err != nil:
			return nil, err
		case n.union:
			return nil, errors.New("a union within a union")
		case n.kind == avroNull && null < 0:
			null = int64(i)
		case n.kind != avroNull && out == nil:
			copied := *n
			out = &copied
		default:
			return nil, errors.New("a union of several types; null and one other are read")
		}
	}
	if out == nil {
		return nil, errors.New("a union of no type but null")
	}
	out.union, out.null, out.optional = true, null, null >= 0
	out.field.Optional = out.optional
	return out, nil
}

func (p *avroParser) object(s map[string]any, namespace string, depth int) (*avroNode, error) {
	name, isName := s["type"].(string)
	if !isName {
		return p.parse(s["type"], namespace, depth+1) // {"type": {...}}
	}
	n := &avroNode{nodes: 1}
	var err error
	switch name {
	case "record", "error":
		err = p.record(n, s, namespace, depth)
	case "enum":
		err = p.enum(n, s, namespace)
	case "fixed":
		err = p.fixed(n, s, namespace)
	case "array":
		n.kind, n.field.Type = avroArray, Array
		err = p.items(n, s["items"], namespace, depth)
	case "map":
		n.kind, n.field.Type = avroMap, Map
		err = p.items(n, s["values"], namespace, depth)
	default:
		base, e := p.parse(name, namespace, depth+1)
		if e != nil {
			return nil, e
		}
		copied := *base
		n = &copied
	}
	if err != nil {
		return nil, err
	}
	return n, n.annotate(name, s)
}

// define names a type, so that it can be referred to from here on.
func (p *avroParser) define(s map[string]any, namespace string) (full, inner string, err error) {
	name, ok := s["name"].(string)
	if !ok || name == "" {
		return "", "", errors.New("a record, enum or fixed without a name")
	}
	if ns, ok := s["namespace"].(string); ok {
		namespace = ns
	}
	full = fullName(name, namespace)
	if _, again := p.named[full]; again {
		return "", "", fmt.Errorf("the type %q is defined twice", full)
	}
	p.named[full] = nil
	if i := strings.LastIndexByte(full, '.'); i >= 0 {
		inner = full[:i]
	}
	return full, inner, nil
}

func (p *avroParser) record(n *avroNode, s map[string]any, namespace string, depth int) error {
	full, inner, err := p.define(s, namespace)
	if err != nil {
		return err
	}
	list, ok := s["fields"].([]any)
	if !ok {
		return fmt.Errorf("the record %q has no list of fields", full)
	}
	n.kind, n.field.Type, n.field.Semantic = avroRecord, Struct, full
	n.field.Fields = make([]Field, 0, len(list))
	for _, e := range list {
		f, _ := e.(map[string]any)
		name, _ := f["name"].(string)
		if name == "" {
			return fmt.Errorf("a field of the record %q has no name", full)
		}
		child, err := p.parse(f["type"], inner, depth+1)
		if err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		if child.empty() {
			return fmt.Errorf("field %q: %w", name, errEmpty)
		}
		if err := n.hold(child); err != nil {
			return err
		}
		n.fields, n.names = append(n.fields, child), append(n.names, name)
		field := child.field
		field.Name = name
		if d, ok := f["default"]; ok && field.Default == nil {
			if field.Default, err = defaultText(field.Type, d); err != nil {
				return fmt.Errorf("field %q: %w", name, err)
			}
		}
		n.field.Fields = append(n.field.Fields, field)
	}
	if connect, ok := s["connect.name"].(string); ok {
		n.field.Semantic = connect
	}
	if n.layout, err = lay(&Shape{Name: n.field.Semantic, Fields: n.field.Fields}); err != nil {
		return err
	}
	p.named[full] = n
	return nil
}

// hold counts what is below n.
func (n *avroNode) hold(child *avroNode) error {
	if n.nodes += child.nodes; n.nodes > maxAvroNodes {
		return fmt.Errorf("more than %d types", maxAvroNodes)
	}
	return nil
}

func (p *avroParser) enum(n *avroNode, s map[string]any, namespace string) error {
	full, _, err := p.define(s, namespace)
	if err != nil {
		return err
	}
	list, _ := s["symbols"].([]any)
	for _, e := range list {
		symbol, ok := e.(string)
		if !ok {
			return fmt.Errorf("a symbol of the enum %q is no string", full)
		}
		n.symbols = append(n.symbols, symbol)
	}
	n.kind, n.field.Type = avroEnum, String
	p.named[full] = n
	return nil
}

func (p *avroParser) fixed(n *avroNode, s map[string]any, namespace string) error {
	full, _, err := p.define(s, namespace)
	if err != nil {
		return err
	}
	size, _ := s["size"].(json.Number)
	if n.length, err = strconv.Atoi(size.String()); err != nil || n.length < 0 {
		return fmt.Errorf("the fixed %q has no size", full)
	}
	n.kind, n.field.Type = avroFixed, Bytes
	p.named[full] = n
	return nil
}

func (p *avroParser) items(n *avroNode, raw any, namespace string, depth int) error {
	items, err := p.parse(raw, namespace, depth+1)
	if err != nil {
		return err
	}
	if items.empty() {
		return errEmpty
	}
	n.items = items
	n.field.Items = &items.field
	return n.hold(items)
}

// empty says whether values of n have no bytes.
func (n *avroNode) empty() bool {
	if n.union {
		return false
	}
	switch n.kind {
	case avroNull:
		return true
	case avroFixed:
		return n.length == 0
	case avroRecord:
		return len(n.fields) == 0
	}
	return false
}

// errEmpty is for types within others whose values have no bytes: nothing would bound how many a record holds.
var errEmpty = errors.New("a type whose values have no bytes")

// annotate reads what Kafka Connect's Avro converter adds to a type (io.confluent.connect.avro.AvroData), and, where it
// added nothing, Avro's logical types.
func (n *avroNode) annotate(name string, s map[string]any) error {
	f := &n.field
	switch s["connect.type"] {
	case "int8":
		f.Type = Int8
	case "int16":
		f.Type = Int16
	}
	if params, ok := s["connect.parameters"].(map[string]any); ok {
		f.Params = make(map[string]string, len(params))
		for k, v := range params {
			text, ok := v.(string)
			if !ok {
				return fmt.Errorf("the parameter %q in connect.parameters is no string", k)
			}
			f.Params[k] = text
		}
	}
	if d, ok := s["connect.default"]; ok {
		var err error
		if f.Default, err = defaultText(f.Type, d); err != nil {
			return err
		}
	}
	logical, _ := s["logicalType"].(string)
	if connect, ok := s["connect.name"].(string); ok {
		f.Semantic = connect
	} else if semantic, ok := logicalTypes[name+" "+logical]; ok {
		f.Semantic = semantic
	}
	if f.Semantic == "org.apache.kafka.connect.data.Decimal" && f.Params["scale"] == "" {
		params := map[string]string{"scale": "0"}
		for from, to := range map[string]string{"scale": "scale", "precision": "connect.decimal.precision"} {
			if v, ok := s[from].(json.Number); ok {
				params[to] = v.String()
			}
		}
		maps.Copy(params, f.Params)
		f.Params = params
	}
	return nil
}

// defaultText is a default's JSON as Kafka Connect's JSON converter has it: bytes are base64, and no default and null
// are the same. Avro writes a byte as the character of the same number.
func defaultText(t FieldType, d any) (*string, error) {
	if d == nil {
		return nil, nil
	}
	if s, ok := d.(string); ok && t == Bytes {
		raw := make([]byte, 0, len(s))
		for _, r := range s {
			if r > 0xff {
				return nil, errors.New("a default of bytes with a character that stands for no byte")
			}
			raw = append(raw, byte(r))
		}
		d = base64.StdEncoding.EncodeToString(raw)
	}
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("a default: %w", err)
	}
	text := string(b)
	return &text, nil
}
