package debezium

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/descriptorpb"
)

// maxProtoNodes bounds the fields of one Protobuf schema, each counted as often as a value can hold it, as maxAvroNodes does.
const maxProtoNodes = 100_000

// protoKind is how a value is read.
type protoKind uint8

const (
	protoInt32 protoKind = iota
	protoInt64
	protoBool
	protoFloat
	protoDouble
	protoString
	protoBytes
	protoStruct
	protoMap
	protoDecimal  // confluent.type.Decimal with the schema's scale
	protoVariable // confluent.type.Decimal, each with its own scale
	protoDate     // google.type.Date
	protoTime     // google.type.TimeOfDay
	protoInstant  // google.protobuf.Timestamp
)

// protoField is a field of a message type, ready to be read.
type protoField struct {
	name     string
	number   protowire.Number
	kind     protoKind
	wire     protowire.Type // of one value, not packed
	repeated bool
	wrapped  bool // by a message of google/protobuf/wrappers.proto, which tells null
	optional bool // what is not there is null
	sure     bool // what is not there is the type's zero: nothing in the schema can be null without saying so
	scale    int64
	message  *protoMessage // of a struct; of a map's entries
}

// protoMessage is a message type, ready to be read.
type protoMessage struct {
	fields []protoField
	index  map[protowire.Number]int
	names  []string // of the fields; shared by all values
	known  bool     // one of Debezium's own structs, in which null and zero say the same
	layout *layout
	nodes  int   // its fields and those below them
	field  Field // Kafka Connect's view, without a name
}

// protoSchema is a message type of a Protobuf schema as that of a key or a value.
type protoSchema struct {
	message
	node    *protoMessage
	parts   []members
	sources []sourcePart
}

// protoFile is a Protobuf schema. The types of its messages are made ready when a record names them.
type protoFile struct {
	syntax  *protoSyntax
	types   map[string]*protoType
	enums   map[string]bool
	fields  int  // of all types
	labels  bool // the converter was told to tell null from zero by the label optional,
	wraps   bool // and by wrappers
	metas   metaPrefix
	mu      sync.Mutex
	schemas map[*protoType]*protoSchema
}

// parseProto takes a Protobuf schema apart, with the files that it imports.
func parseProto(s Registered, p metaPrefix) (*protoFile, error) {
	main, err := parseProtoText(s.Text)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	f := &protoFile{syntax: main, types: map[string]*protoType{}, enums: map[string]bool{}, metas: p, schemas: map[*protoType]*protoSchema{}}
	f.define(main)
	f.findNulls(main.types)
	for _, name := range slices.Sorted(maps.Keys(s.Imports)) {
		imported, err := parseProtoText(s.Imports[name])
		if err != nil {
			return nil, fmt.Errorf("the imported schema %q: %w", name, err)
		}
		f.define(imported)
	}
	return f, nil
}

func (f *protoFile) define(s *protoSyntax) {
	for _, e := range s.enums {
		f.enums[e] = true
	}
	f.defineTypes(s.types)
}

func (f *protoFile) defineTypes(types []*protoType) {
	for _, t := range types {
		if f.types[t.name] == nil {
			f.types[t.name] = t
		}
		for _, e := range t.enums {
			f.enums[e] = true
		}
		f.fields += len(t.fields)
		f.defineTypes(t.children)
	}
}

// findNulls finds out whether a field shows that the converter tells null from zero: by the label optional, or by a wrapper. It
// then does so for every field that may be null, but that a map's values never have the label.
func (f *protoFile) findNulls(types []*protoType) {
	for _, t := range types {
		for i := range t.fields {
			_, wrapper := protoWrappers[strings.TrimPrefix(t.fields[i].typeName, ".")]
			f.labels = f.labels || t.fields[i].optional
			f.wraps = f.wraps || wrapper
		}
		f.findNulls(t.children)
	}
}

// schema returns the type of the message that a record's indexes name.
func (f *protoFile) schema(indexes []int32) (*protoSchema, error) {
	t, err := f.syntax.at(indexes)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.schemas[t]; s != nil {
		return s, nil
	}
	if _, primitive := protoWrappers[t.name]; primitive {
		return nil, errors.New("its schema is that of a primitive; Debezium's keys and values are structs")
	}
	b := protoBinder{file: f, done: map[*protoType]*protoMessage{}}
	m, err := b.message(t, 0)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	s, err := m.schema(f.metas)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	f.schemas[t] = s
	return s, nil
}

// schema makes m the type of keys or values.
func (m *protoMessage) schema(p metaPrefix) (*protoSchema, error) {
	s := &protoSchema{node: m}
	s.root, s.kind = m.layout, kindOf(m.layout.Shape)
	if s.kind == unknownKind {
		var err error
		if s.flat, err = flatten(s.root.Shape, p); err != nil {
			return nil, err
		}
	}
	s.parts = make([]members, len(m.names))
	for i, name := range m.names {
		s.parts[i] = parts[name]
		switch child := m.fields[i].message; {
		case child == nil || m.fields[i].repeated:
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
	return s, nil
}

// protoBinder makes message types ready. One that is being made is nil in done.
type protoBinder struct {
	file *protoFile
	done map[*protoType]*protoMessage
}

func (b *protoBinder) message(t *protoType, depth int) (*protoMessage, error) {
	if m, again := b.done[t]; again {
		if m == nil {
			return nil, fmt.Errorf("the message %q holds itself; Kafka Connect's structs do not", t.name)
		}
		return m, nil
	}
	if depth > maxDepth {
		return nil, errors.New("messages nested too deep")
	}
	b.done[t] = nil
	m := &protoMessage{index: make(map[protowire.Number]int, len(t.fields)), field: Field{Type: Struct}}
	for i := range t.fields {
		if err := b.add(m, t, &t.fields[i], depth); err != nil {
			return nil, fmt.Errorf("field %q: %w", t.fields[i].name, err)
		}
	}
	m.field.Semantic, m.known = protoStructs[t.name[strings.LastIndexByte(t.name, '.')+1:]].semantic(m.names)
	var err error
	if m.layout, err = lay(&Shape{Name: t.connectName(b.file.syntax.pkg), Schemaless: true, Fields: m.field.Fields}); err != nil {
		return nil, err
	}
	b.done[t] = m
	return m, nil
}

// add makes a field ready and adds it to m.
func (b *protoBinder) add(m *protoMessage, t *protoType, d *protoDecl, depth int) error {
	f := protoField{name: d.name, number: protowire.Number(d.number), repeated: d.repeated, optional: d.optional && !d.repeated}
	if !f.number.IsValid() {
		return fmt.Errorf("its number is %d", d.number)
	}
	if _, twice := m.index[f.number]; twice {
		return fmt.Errorf("another field has its number %d", d.number)
	}
	// ExtractNewRecordState's fields begin with underscores, which the converter's option scrub.invalid.names adds an x to.
	if bare, ok := strings.CutPrefix(d.name, "x_"); ok && b.file.metas.meta("_"+bare) != "" {
		f.name = "_" + bare
	}
	field, err := b.bind(&f, t, d, depth)
	if err != nil {
		return err
	}
	f.sure = !f.repeated && (b.file.wraps || b.file.labels && !t.entry && !t.isEntry())
	if d.standard && !f.optional {
		return errors.New("it has a default and no label optional, so that it is not known what a value that is missing means; a later version of the converter leaves such defaults out")
	}
	field.Name, field.Optional, field.NoPresence = f.name, f.optional, !f.optional && !f.sure
	m.index[f.number] = len(m.fields)
	m.fields, m.names = append(m.fields, f), append(m.names, f.name)
	m.field.Fields = append(m.field.Fields, field)
	m.nodes++
	if f.message != nil {
		m.nodes += f.message.nodes
	}
	if m.nodes > maxProtoNodes {
		return fmt.Errorf("more than %d fields", maxProtoNodes)
	}
	return nil
}

// bind finds out how a field is read, and what Kafka Connect's type of it is.
func (b *protoBinder) bind(f *protoField, t *protoType, d *protoDecl, depth int) (Field, error) {
	field, err := b.single(f, t, d, depth)
	if err != nil || !f.repeated {
		return field, err
	}
	if f.kind == protoMap {
		value := f.message.field.Fields[f.message.value()]
		value.Name = ""
		return Field{Type: Map, Items: &value}, nil
	}
	return Field{Type: Array, Items: &field}, nil
}

// single is bind for one value of a field.
func (b *protoBinder) single(f *protoField, t *protoType, d *protoDecl, depth int) (Field, error) {
	if d.scalar != 0 {
		s, ok := protoScalars[d.scalar]
		if !ok {
			return Field{}, fmt.Errorf("the type %s, which Kafka Connect's converter does not write", strings.ToLower(strings.TrimPrefix(d.scalar.String(), "TYPE_")))
		}
		f.kind, f.wire = s.kind, s.wire
		return Field{Type: s.as}, nil
	}
	name, local := b.file.lookUp(t, d.typeName)
	f.wire = protowire.BytesType
	f.optional = !f.repeated
	if scalar, ok := protoWrappers[name]; ok {
		s := protoScalars[scalar]
		f.kind, f.wrapped = s.kind, true
		return Field{Type: s.as}, nil
	}
	if logical, ok := protoLogical[name]; ok {
		f.kind = logical.kind
		if f.kind == protoDecimal {
			return f.decimal(d.params)
		}
		return logical.field, nil
	}
	switch {
	case b.file.enums[name]:
		return Field{}, fmt.Errorf("the enum %s; Debezium's enums are strings", name)
	case local == nil:
		return Field{}, fmt.Errorf("the type %q is not defined, neither here nor in what the registry says that the schema refers to", d.typeName)
	}
	var err error
	if f.message, err = b.message(local, depth+1); err != nil {
		return Field{}, err
	}
	f.kind = protoStruct
	if d.repeated && local.isEntry() {
		f.kind = protoMap
		if key := f.message.fields[1-f.message.value()]; key.kind != protoString || key.wrapped {
			return Field{}, errors.New("a map whose keys are no strings")
		}
	}
	return f.message.field, nil
}

// decimal is a decimal's field. Without the schema's scale each value has its own.
func (f *protoField) decimal(params map[string]string) (Field, error) {
	text, ok := params["scale"]
	if !ok {
		f.kind = protoVariable
		return Field{Type: Struct, Semantic: "io.debezium.data.VariableScaleDecimal", Fields: []Field{{Name: "scale", Type: Int32}, {Name: "value", Type: Bytes}}}, nil
	}
	var err error
	if f.scale, err = strconv.ParseInt(text, 10, 32); err != nil {
		return Field{}, fmt.Errorf("the scale of a decimal is %q", text)
	}
	out := Field{Type: Bytes, Semantic: "org.apache.kafka.connect.data.Decimal", Params: map[string]string{"scale": text}}
	if precision, ok := params["precision"]; ok {
		out.Params["connect.decimal.precision"] = precision
	}
	return out, nil
}

// isEntry says whether t is the type of a map's entries. Kafka Connect's converter does not always mark them.
func (t *protoType) isEntry() bool {
	if len(t.fields) != 2 || !strings.HasSuffix(t.name, "Entry") {
		return false
	}
	has := func(d protoDecl) bool { return d.name == "key" && d.number == 1 || d.name == "value" && d.number == 2 }
	return has(t.fields[0]) && has(t.fields[1]) && t.fields[0].number != t.fields[1].number
}

// value is the index of the value in a map's entries, which have two fields.
func (m *protoMessage) value() int { return m.index[2] }

// connectName is the name that Kafka Connect has for a type: the package is part of it, and the type that it is defined in is not.
func (t *protoType) connectName(pkg string) string {
	if t.parent == nil {
		return t.name
	}
	return joinName(pkg, t.name[strings.LastIndexByte(t.name, '.')+1:])
}

// lookUp finds the type that a name means within t: its full name, and the type itself if the schema defines it. The scopes are
// t and those around it, the innermost first.
func (f *protoFile) lookUp(t *protoType, name string) (string, *protoType) {
	full, absolute := strings.CutPrefix(name, ".")
	for scope := t.name; !absolute && scope != ""; {
		candidate := scope + "." + name
		if local := f.types[candidate]; local != nil || f.enums[candidate] {
			return candidate, local
		}
		i := strings.LastIndexByte(scope, '.')
		scope = scope[:max(i, 0)]
	}
	return full, f.types[full]
}

// protoScalars are the types that Kafka Connect's converter writes a primitive as. An integer, a text and bytes may be anything:
// the names that Debezium gives them are not in the schema. So their type is [Any], as of rows without a schema.
var protoScalars = map[descriptorpb.FieldDescriptorProto_Type]struct {
	kind protoKind
	wire protowire.Type
	as   FieldType
}{
	descriptorpb.FieldDescriptorProto_TYPE_INT32:  {protoInt32, protowire.VarintType, Any},
	descriptorpb.FieldDescriptorProto_TYPE_INT64:  {protoInt64, protowire.VarintType, Any},
	descriptorpb.FieldDescriptorProto_TYPE_BOOL:   {protoBool, protowire.VarintType, Boolean},
	descriptorpb.FieldDescriptorProto_TYPE_FLOAT:  {protoFloat, protowire.Fixed32Type, Float32},
	descriptorpb.FieldDescriptorProto_TYPE_DOUBLE: {protoDouble, protowire.Fixed64Type, Float64},
	descriptorpb.FieldDescriptorProto_TYPE_STRING: {protoString, protowire.BytesType, Any},
	descriptorpb.FieldDescriptorProto_TYPE_BYTES:  {protoBytes, protowire.BytesType, Any},
}

var protoWrappers = map[string]descriptorpb.FieldDescriptorProto_Type{
	"google.protobuf.Int32Value":  descriptorpb.FieldDescriptorProto_TYPE_INT32,
	"google.protobuf.Int64Value":  descriptorpb.FieldDescriptorProto_TYPE_INT64,
	"google.protobuf.BoolValue":   descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	"google.protobuf.FloatValue":  descriptorpb.FieldDescriptorProto_TYPE_FLOAT,
	"google.protobuf.DoubleValue": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	"google.protobuf.StringValue": descriptorpb.FieldDescriptorProto_TYPE_STRING,
	"google.protobuf.BytesValue":  descriptorpb.FieldDescriptorProto_TYPE_BYTES,
}

// protoLogical are the messages that Kafka Connect's logical types are written as.
var protoLogical = map[string]struct {
	kind  protoKind
	field Field
}{
	"confluent.type.Decimal":    {kind: protoDecimal},
	"google.type.Date":          {protoDate, Field{Type: Int32, Semantic: "org.apache.kafka.connect.data.Date"}},
	"google.type.TimeOfDay":     {protoTime, Field{Type: Int32, Semantic: "org.apache.kafka.connect.data.Time"}},
	"google.protobuf.Timestamp": {protoInstant, Field{Type: Int64, Semantic: "org.apache.kafka.connect.data.Timestamp"}},
}

// ownStruct names a struct of Debezium's by what of its name the converter keeps, and its fields.
type ownStruct struct {
	name   string
	fields []string
}

// protoStructs are Debezium's structs within rows. One that is called like its field has Message added.
var protoStructs = withMessage(map[string]ownStruct{
	"VariableScaleDecimal": {"io.debezium.data.VariableScaleDecimal", []string{"scale", "value"}},
	"Geometry":             {"io.debezium.data.geometry.Geometry", []string{"wkb", "srid"}},
	"Geography":            {"io.debezium.data.geometry.Geography", []string{"wkb", "srid"}},
	"Point":                {"io.debezium.data.geometry.Point", []string{"x", "y", "wkb", "srid"}},
})

func withMessage(structs map[string]ownStruct) map[string]ownStruct {
	for name, s := range maps.Clone(structs) {
		structs[name+"Message"] = s
	}
	return structs
}

// semantic returns the name of the struct, if it has these fields.
func (s ownStruct) semantic(names []string) (string, bool) {
	if s.name == "" || !slices.Equal(s.fields, names) {
		return "", false
	}
	return s.name, true
}
