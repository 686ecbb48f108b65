package debezium

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// maxProtoText bounds a Protobuf schema's text. A table of 4096 columns needs less than 1 MB.
const maxProtoText = 4 << 20

// protoType is a message type of a Protobuf schema, as it is written there.
type protoType struct {
	name     string // with its package, and the types that it is defined in
	parent   *protoType
	entry    bool // of a map
	fields   []protoDecl
	children []*protoType
	indexed  []*protoType // children without those that stand for maps, which have no place in a record's indexes
	enums    []string
}

// protoDecl is a field of a message type, as it is written in the schema.
type protoDecl struct {
	name     string
	number   int32
	scalar   descriptorpb.FieldDescriptorProto_Type // 0: typeName says it
	typeName string
	repeated bool
	optional bool // null is not its type's zero
	standard bool // it has a default of its own
	params   map[string]string
}

// protoSyntax is a file of a Protobuf schema, taken apart.
type protoSyntax struct {
	pkg   string
	types []*protoType
	enums []string
}

// parseProtoText takes a Protobuf schema apart: a .proto text, or the base64 of a compiled one (FileDescriptorProto).
// Types are not looked up yet.
func parseProtoText(text string) (*protoSyntax, error) {
	if len(text) > maxProtoText {
		return nil, fmt.Errorf("its text has more than %d bytes", maxProtoText)
	}
	b := protoBuilder{}
	if raw, ok := serializedProto(text); ok {
		b.file = &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, b.file); err != nil {
			return nil, fmt.Errorf("its base64 is no compiled schema: %w", err)
		}
	} else if err := b.parse(text); err != nil {
		return nil, err
	}
	if s := b.file.GetSyntax(); s != "proto3" && s != "proto2" && s != "" {
		return nil, fmt.Errorf("its syntax is %q; proto3 and proto2 are read", s)
	}
	out := &protoSyntax{pkg: b.file.GetPackage()}
	for _, e := range b.file.GetEnumType() {
		out.enums = append(out.enums, joinName(out.pkg, e.GetName()))
	}
	for _, m := range b.file.GetMessageType() {
		t, err := b.message(m, nil, out.pkg, 0)
		if err != nil {
			return nil, err
		}
		out.types = append(out.types, t)
	}
	return out, nil
}

// serializedProto says whether a text is base64, which no .proto text is, and decodes it.
func serializedProto(text string) ([]byte, bool) {
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsAny(text, ";{} \n") {
		return nil, false
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	return raw, err == nil
}

// protoBuilder makes protoTypes of a descriptor. syntax is nil for one that was compiled elsewhere.
type protoBuilder struct {
	file   *descriptorpb.FileDescriptorProto
	syntax parser.Result
}

func (b *protoBuilder) parse(text string) (err error) {
	if err := checkProtoDepth(text); err != nil {
		return err
	}
	// Of an escape that is none protocompile 0.14.1 looks up a place before the text, and panics. What a registry holds must not end the process.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its text is no schema: the parser says %v", p)
		}
	}()
	handler := reporter.NewHandler(nil)
	file, err := parser.Parse("schema", strings.NewReader(text), handler)
	if err != nil {
		return err
	}
	// Without its checks: a reader needs less than they ask for.
	if b.syntax, err = parser.ResultFromAST(file, false, handler); err != nil {
		return err
	}
	b.file = b.syntax.FileDescriptorProto()
	return nil
}

// checkProtoDepth bounds how deep a text nests, whatever its brackets are: the parser's own bound is the memory. One within
// a string counts too, which no converter's names have.
func checkProtoDepth(text string) error {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{', '[', '(', '<':
			if depth++; depth > 4*maxDepth {
				return errors.New("its text is nested too deep")
			}
		case '}', ']', ')', '>':
			depth--
		}
	}
	return nil
}

func joinName(scope, name string) string {
	if scope == "" {
		return name
	}
	return scope + "." + name
}

func (b *protoBuilder) message(m *descriptorpb.DescriptorProto, parent *protoType, scope string, depth int) (*protoType, error) {
	if depth > maxDepth {
		return nil, errors.New("its messages are nested too deep")
	}
	t := &protoType{name: joinName(scope, m.GetName()), parent: parent, entry: m.GetOptions().GetMapEntry()}
	for _, e := range m.GetEnumType() {
		t.enums = append(t.enums, joinName(t.name, e.GetName()))
	}
	for _, n := range m.GetNestedType() {
		child, err := b.message(n, t, t.name, depth+1)
		if err != nil {
			return nil, err
		}
		t.children = append(t.children, child)
		if !child.entry {
			t.indexed = append(t.indexed, child)
		}
	}
	for _, f := range m.GetField() {
		t.fields = append(t.fields, b.field(f))
	}
	return t, nil
}

func (b *protoBuilder) field(f *descriptorpb.FieldDescriptorProto) protoDecl {
	d := protoDecl{
		name: f.GetName(), number: f.GetNumber(), typeName: f.GetTypeName(),
		repeated: f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED,
		// In proto2 every field that is not repeated has it, in proto3 those that say so or are one of several.
		optional: f.GetProto3Optional() || f.OneofIndex != nil || b.file.GetSyntax() != "proto3",
		standard: f.DefaultValue != nil,
		params:   map[string]string{},
	}
	if f.Type != nil {
		d.scalar = f.GetType()
	}
	switch d.scalar {
	case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, descriptorpb.FieldDescriptorProto_TYPE_ENUM:
		d.scalar = 0
	}
	compiledParams(f.GetOptions().ProtoReflect().GetUnknown(), d.params)
	for _, o := range f.GetOptions().GetUninterpretedOption() {
		name := o.GetName()
		switch {
		case len(name) == 1 && !name[0].GetIsExtension() && name[0].GetNamePart() == "default":
			d.standard = true
		case len(name) > 0 && name[0].GetIsExtension() && strings.TrimPrefix(name[0].GetNamePart(), ".") == "confluent.field_meta":
			if value, ok := b.syntax.OptionNode(o).(*ast.OptionNode); ok {
				readParams(value.Val, len(name) == 2 && name[1].GetNamePart() == "params", d.params)
			}
		}
	}
	return d
}

// readParams reads the params of Confluent's option field_meta, a map, as the text has them: either all of the option, or
// params alone.
func readParams(v ast.ValueNode, isParams bool, out map[string]string) {
	switch list := v.Value().(type) {
	case []ast.ValueNode:
		for _, e := range list {
			readParams(e, isParams, out)
		}
	case []*ast.MessageFieldNode:
		key, value := "", ""
		for _, f := range list {
			text, _ := f.Val.Value().(string)
			switch {
			case !isParams && f.Name.Value() == "params":
				readParams(f.Val, true, out)
			case isParams && f.Name.Value() == "key":
				key = text
			case isParams && f.Name.Value() == "value":
				value = text
			}
		}
		if key != "" {
			out[key] = value
		}
	}
}

// fieldMeta is the number of Confluent's option field_meta, and metaParams that of params in it (confluent/meta.proto).
const (
	fieldMeta  = 1088
	metaParams = 2
)

// compiledParams reads the params of a compiled option.
func compiledParams(options []byte, out map[string]string) {
	for _, meta := range protoChildren(options, fieldMeta) {
		for _, entry := range protoChildren(meta, metaParams) {
			key, value := protoChildren(entry, 1), protoChildren(entry, 2)
			if len(key) == 1 && len(value) == 1 {
				out[string(key[0])] = string(value[0])
			}
		}
	}
}

// protoChildren returns the fields of a message that have a number and are of bytes. What is no message has none.
func protoChildren(data []byte, number protowire.Number) [][]byte {
	var out [][]byte
	for len(data) > 0 {
		num, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(num, wire, data[n:])
		if size < 0 {
			return nil
		}
		if num == number && wire == protowire.BytesType {
			b, _ := protowire.ConsumeBytes(data[n:])
			out = append(out, b)
		}
		data = data[n+size:]
	}
	return out
}

// at returns the message type that indexes name, as a record has them: each is a place among the types that are defined
// within the one before.
func (s *protoSyntax) at(indexes []int32) (*protoType, error) {
	types := s.types
	var t *protoType
	for _, i := range indexes {
		if i < 0 || int(i) >= len(types) {
			return nil, fmt.Errorf("the message indexes %v name none of its types", indexes)
		}
		t = types[i]
		types = t.indexed
	}
	return t, nil
}
