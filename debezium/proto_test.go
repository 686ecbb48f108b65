package debezium_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"replicator/debezium"
)

// protoEnvelope is the schema of change events with a row of these fields, as Confluent's converter writes it.
func protoEnvelope(fields string) string {
	return "syntax = \"proto3\";\npackage s.shop.items;\n\nimport \"google/protobuf/wrappers.proto\";\nimport \"confluent/meta.proto\";\n\n" +
		"message Envelope {\n  Value before = 1;\n  Value after = 2;\n  Source source = 3;\n  string op = 4;\n\n" +
		"  message Value {\n" + fields + "\n  }\n  message Source {\n    string db = 1;\n  }\n}\n"
}

// sized is a field's bytes after its number and wire type: their number and themselves, of less than 128.
func sized(b string) string { return string(rune(len(b))) + b }

// protoCreate is the value of a create event with this row, without the schema's id.
func protoCreate(row string) []byte {
	return []byte("\x00\x12" + sized(row) + "\x1a\x06\x0a\x04shop\x22\x01c")
}

// oneProto is a registry that has one Protobuf schema under every id.
type oneProto debezium.Registered

func (s oneProto) Schema(context.Context, debezium.SchemaID, string) (debezium.Registered, error) {
	s.Format = debezium.Protobuf
	return debezium.Registered(s), nil
}

// decodeProto decodes a value twice with one Decoder, as bytes after Confluent's prefix.
func decodeProto(t *testing.T, schema string, value []byte) ([]debezium.Event, error) {
	t.Helper()
	record := debezium.Record{Partition: shopItems, Offset: 7, Value: append([]byte{0, 0, 0, 0, 1}, value...)}
	return debezium.NewDecoder(debezium.DecoderConfig{Schemas: oneProto{Text: schema}}).
		DecodeBatchContext(t.Context(), &debezium.Batch{Partition: shopItems, Records: []debezium.Record{record, record}})
}

func listOf(names []string, values ...debezium.Value) debezium.Value {
	return debezium.Value{Kind: debezium.ListValue, List: &debezium.List{Names: names, Values: values}}
}

func integerOf(n int64) debezium.Value { return debezium.Value{Kind: debezium.IntValue, Num: n} }
func numberOf(s string) debezium.Value { return debezium.Value{Kind: debezium.NumberValue, Text: s} }

func wordOf(s string) debezium.Value   { return debezium.Value{Kind: debezium.StringValue, Text: s} }
func rawOf(s string) debezium.Value    { return debezium.Value{Kind: debezium.BytesValue, Text: s} }
func booleanOf(n int64) debezium.Value { return debezium.Value{Kind: debezium.BoolValue, Num: n} }

func unsetOr(v debezium.Value) debezium.Value {
	return debezium.Value{Kind: debezium.Unset, List: &debezium.List{Values: []debezium.Value{v}}}
}

var (
	nullValue  = debezium.Value{Kind: debezium.Null}
	unsentHere = debezium.Value{Kind: debezium.Unavailable}
)

const (
	connectDecimal = "org.apache.kafka.connect.data.Decimal"
	connectDate    = "org.apache.kafka.connect.data.Date"
	connectTime    = "org.apache.kafka.connect.data.Time"
	connectStamp   = "org.apache.kafka.connect.data.Timestamp"
)

// TestProtobufValuesKeepWhatTheConverterTellsOfThem compares the row and the schema of one field at a time. The field is number 1.
func TestProtobufValuesKeepWhatTheConverterTellsOfThem(t *testing.T) {
	t.Parallel()
	meta := func(params string) string { return ` [(confluent.field_meta) = {params: [` + params + `]}]` }
	scale := meta(`{value: "2", key: "scale"}, {value: "5", key: "precision"}`)
	unsure := func(t debezium.FieldType) debezium.Field { return debezium.Field{Type: t, NoPresence: true} }
	maybe := func(t debezium.FieldType, semantic string) debezium.Field {
		return debezium.Field{Type: t, Semantic: semantic, Optional: true}
	}
	two := map[string]string{"scale": "2", "connect.decimal.precision": "5"}
	decimal := debezium.Field{Type: debezium.Bytes, Semantic: connectDecimal, Params: two, Optional: true}
	variable := []debezium.Field{{Name: "scale", Type: debezium.Int32}, {Name: "value", Type: debezium.Bytes}}
	for name, c := range map[string]struct {
		schema, row string // of the field f, which is the first; and the row's bytes
		field       debezium.Field
		want        debezium.Value
	}{
		"int32":                  {"int32 f = 1;", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", unsure(debezium.Any), integerOf(-1)},
		"int16":                  {"int32 f = 1" + meta(`{key: "connect.type", value: "int16"}`) + ";", "\x08\x05", unsure(debezium.Any), integerOf(5)},
		"int64":                  {"int64 f = 1;", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", unsure(debezium.Any), integerOf(1<<63 - 1)},
		"null or 0":              {"int64 f = 1;", "", unsure(debezium.Any), unsetOr(integerOf(0))},
		"null or empty":          {"string f = 1;", "", unsure(debezium.Any), unsetOr(wordOf(""))},
		"null or no bytes":       {"bytes f = 1;", "", unsure(debezium.Any), unsetOr(rawOf(""))},
		"null or false":          {"bool f = 1;", "", unsure(debezium.Boolean), unsetOr(booleanOf(0))},
		"null or 0.0":            {"double f = 1;", "", unsure(debezium.Float64), unsetOr(numberOf("0.0"))},
		"null":                   {"optional int64 f = 1;", "", maybe(debezium.Any, ""), nullValue},
		"0":                      {"optional int64 f = 1;", "\x08\x00", maybe(debezium.Any, ""), integerOf(0)},
		"0 where others say":     {"int64 f = 1; optional string g = 2;", "", debezium.Field{Type: debezium.Any}, integerOf(0)},
		"0 where others wrap":    {"int64 f = 1; google.protobuf.StringValue g = 2;", "", debezium.Field{Type: debezium.Any}, integerOf(0)},
		"null wrapper":           {"google.protobuf.Int64Value f = 1;", "", maybe(debezium.Any, ""), nullValue},
		"wrapped 0":              {"google.protobuf.Int64Value f = 1;", "\x0a\x00", maybe(debezium.Any, ""), integerOf(0)},
		"wrapped 7":              {".google.protobuf.Int32Value f = 1;", "\x0a\x02\x08\x07", maybe(debezium.Any, ""), integerOf(7)},
		"wrapped text":           {"google.protobuf.StringValue f = 1;", "\x0a\x04\x0a\x02ab", maybe(debezium.Any, ""), wordOf("ab")},
		"wrapped boolean":        {"google.protobuf.BoolValue f = 1;", "\x0a\x00", maybe(debezium.Boolean, ""), booleanOf(0)},
		"boolean":                {"bool f = 1;", "\x08\x01", unsure(debezium.Boolean), booleanOf(1)},
		"float":                  {"float f = 1;", "\x0d\xcd\xcc\xcc\x3d", unsure(debezium.Float32), numberOf("0.1")},
		"double":                 {"double f = 1;", "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f", unsure(debezium.Float64), numberOf("1.0")},
		"zero below 0":           {"double f = 1;", "\x09\x00\x00\x00\x00\x00\x00\x00\x80", unsure(debezium.Float64), numberOf("-0.0")},
		"bytes":                  {"bytes f = 1;", "\x0a\x02\x00\xff", unsure(debezium.Any), rawOf("\x00\xff")},
		"decimal":                {"confluent.type.Decimal f = 1" + scale + ";", "\x0a\x07\x0a\x01\xfb\x10\x01\x18\x02", decimal, rawOf("\xfb")},
		"null decimal":           {"confluent.type.Decimal f = 1" + scale + ";", "", decimal, nullValue},
		"decimal of two options": {"confluent.type.Decimal f = 1 [(confluent.field_meta).params = {key: \"scale\", value: \"2\"}, (confluent.field_meta).params = {key: \"precision\", value: \"5\"}];", "\x0a\x05\x0a\x01\xfb\x18\x02", decimal, rawOf("\xfb")},
		"decimal without scale": {
			"confluent.type.Decimal f = 1;", "\x0a\x05\x0a\x01\xfb\x18\x02",
			debezium.Field{Type: debezium.Struct, Semantic: "io.debezium.data.VariableScaleDecimal", Fields: variable, Optional: true},
			listOf([]string{"scale", "value"}, integerOf(2), rawOf("\xfb")),
		},
		"date":                {"google.type.Date f = 1;", "\x0a\x07\x08\x9e\x0f\x10\x01\x18\x02", maybe(debezium.Int32, connectDate), integerOf(-7304)},
		"date before 1582":    {"google.type.Date f = 1;", "\x0a\x07\x08\xe7\x07\x10\x0c\x18\x1a", maybe(debezium.Int32, connectDate), integerOf(-354286)},
		"time":                {"google.type.TimeOfDay f = 1;", "\x0a\x0a\x08\x17\x10\x3b\x18\x3b\x20\xc0\x84\x3d", maybe(debezium.Int32, connectTime), integerOf(86399001)},
		"midnight":            {"google.type.TimeOfDay f = 1;", "\x0a\x00", maybe(debezium.Int32, connectTime), integerOf(0)},
		"timestamp":           {"google.protobuf.Timestamp f = 1;", "\x0a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\xc0\x84\x3d", maybe(debezium.Int64, connectStamp), integerOf(-999)},
		"null timestamp":      {"google.protobuf.Timestamp f = 1;", "", maybe(debezium.Int64, connectStamp), nullValue},
		"array":               {"repeated int32 f = 1;", "\x0a\x02\x01\x02", debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.Any}, NoPresence: true}, listOf(nil, integerOf(1), integerOf(2))},
		"array, not packed":   {"repeated int32 f = 1;", "\x08\x01\x08\x02", debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.Any}, NoPresence: true}, listOf(nil, integerOf(1), integerOf(2))},
		"array of texts":      {"repeated string f = 1;", "\x0a\x01a\x0a\x00", debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.Any}, NoPresence: true}, listOf(nil, wordOf("a"), wordOf(""))},
		"null or empty array": {"repeated string f = 1; optional string g = 2;", "", debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.Any}, NoPresence: true}, unsetOr(listOf(nil))},
		"map":                 {"map<string, string> f = 1;", "\x0a\x06\x0a\x01k\x12\x01v", debezium.Field{Type: debezium.Map, Items: &debezium.Field{Type: debezium.Any, NoPresence: true}, NoPresence: true}, listOf([]string{"k"}, wordOf("v"))},
		"map of messages":     {"repeated FEntry f = 1; message FEntry { string key = 1; google.protobuf.StringValue value = 2; }", "\x0a\x03\x0a\x01k", debezium.Field{Type: debezium.Map, Items: &debezium.Field{Type: debezium.Any, Optional: true}, NoPresence: true}, listOf([]string{"k"}, nullValue)},
		"keywords": {
			"optional int32 f = 1; int32 message = 2; int32 option = 3; int32 reserved = 4; int32 optional = 5; int32 repeated = 6; int32 oneof = 7; int32 syntax = 8; int32 package = 9; " +
				"int32 map = 10; int32 int32 = 11; int32 confluent = 12; int32 Value = 13; int32 group = 14; int32 extensions = 15; int32 returns = 16; int32 stream = 17; int32 import = 18; int32 true = 19; " +
				"int32 max = 20; int32 rpc = 21; int32 to = 22; int32 required = 23; int32 enum = 24; int32 string = 25; int32 service = 26; int32 extend = 27; int32 weak = 28; int32 public = 29; int32 edition = 30; int32 inf = 31;",
			"\x08\x05", maybe(debezium.Any, ""), integerOf(5),
		},
		"variable decimal":      {"VariableScaleDecimal f = 1; message VariableScaleDecimal { int32 scale = 1; bytes value = 2; }", "\x0a\x03\x12\x01\x0f", debezium.Field{Type: debezium.Struct, Semantic: "io.debezium.data.VariableScaleDecimal", Fields: []debezium.Field{{Name: "scale", NoPresence: true}, {Name: "value", NoPresence: true}}, Optional: true}, listOf([]string{"scale", "value"}, integerOf(0), rawOf("\x0f"))},
		"struct like a field":   {"GeometryMessage f = 1; message GeometryMessage { bytes wkb = 1; int32 srid = 2; }", "\x0a\x03\x0a\x01\x01", debezium.Field{Type: debezium.Struct, Semantic: "io.debezium.data.geometry.Geometry", Fields: []debezium.Field{{Name: "wkb", NoPresence: true}, {Name: "srid", NoPresence: true}}, Optional: true}, listOf([]string{"wkb", "srid"}, rawOf("\x01"), integerOf(0))},
		"unavailable text":      {"string f = 1;", "\x0a\x1c__debezium_unavailable_value", unsure(debezium.Any), unsentHere},
		"unavailable bytes":     {"bytes f = 1;", "\x0a\x1c__debezium_unavailable_value", unsure(debezium.Any), unsentHere},
		"unavailable array":     {"repeated string f = 1;", "\x0a\x1c__debezium_unavailable_value", debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.Any}, NoPresence: true}, unsentHere},
		"field of great number": {"int32 f = 536870911;", "\xf8\xff\xff\xff\x0f\x05", unsure(debezium.Any), integerOf(5)},
	} {
		events, err := decodeProto(t, protoEnvelope(c.schema), protoCreate(c.row))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.field.Name = "f"
		e := &events[0]
		if got := e.After.Shape.Fields[0]; !reflect.DeepEqual(got, c.field) {
			t.Errorf("%s: got field %+v, want %+v", name, got, c.field)
		}
		if got := e.After.Values[0]; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		if s := e.After.Shape; s.Name != "s.shop.items.Value" || !s.Schemaless || s != events[1].After.Shape {
			t.Errorf("%s: got shape %+v, and %p and %p", name, s, s, events[1].After.Shape)
		}
		if e.Op != debezium.Create || e.Source.Database != "shop" || e.Before.Sent() {
			t.Errorf("%s: got event %+v", name, e)
		}
	}
}

// TestProtobufRowsAreToldFromNoRows: an empty message is a row of zeros, and one that is not there is no row.
func TestProtobufRowsAreToldFromNoRows(t *testing.T) {
	t.Parallel()
	events, err := decodeProto(t, protoEnvelope("int64 f = 1;"), []byte("\x00\x0a\x00\x1a\x00\x22\x01d"))
	if err != nil {
		t.Fatal(err)
	}
	if e := &events[0]; e.Op != debezium.Delete || e.After.Sent() || !e.Before.Sent() || !reflect.DeepEqual(e.Before.Values, []debezium.Value{unsetOr(integerOf(0))}) {
		t.Errorf("got %+v, want a delete of a row of one field", e)
	}
}

// TestProtobufKeysAreReadByTheirIndexes: the type is the first, or another that the record names.
func TestProtobufKeysAreReadByTheirIndexes(t *testing.T) {
	t.Parallel()
	const schema = `syntax = "proto3"; package s.shop.items; message Other { message Key { int64 id = 1; string at = 2; } map<string, string> m = 1; message Unused {} }`
	for _, c := range []struct {
		indexes, want string
	}{
		{"\x04\x00\x00", "id=0 at=\"x\""},
		{"\x04\x00\x02", "a field number 2, which the schema does not have, at byte 3"}, // the map's entries do not count
		{"\x02\x02", "the message indexes [1] name none of its types"},
		{"\x04\x00\x01", "the message indexes [0 -1] name none of its types"},
		{"\x01", "-1 message indexes"},
		{"\xfe\xff\xff\xff\x0f", "message indexes"},
		{"\x02", "a number that does not end"},
	} {
		record := debezium.Record{Partition: shopItems, Offset: 7, Key: []byte("\x00\x00\x00\x00\x01" + c.indexes + "\x12\x01x"), Value: []byte(bare(`{"f":1}`))}
		if c.indexes == "\x02" {
			record.Key = record.Key[:6]
		}
		events, err := debezium.NewDecoder(debezium.DecoderConfig{Schemas: oneProto{Text: schema}}).
			DecodeBatchContext(t.Context(), &debezium.Batch{Partition: shopItems, Records: []debezium.Record{record}})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = printRow(events[0].Key)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%x: got %s, want %s", c.indexes, got, c.want)
		}
	}
}

func TestProtobufThatContradictsItsSchemaIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, row, want, column string }{
		{"string f = 1;", "\x0a\x7f", `after: field "f": a length of 127 where`, "f"},
		{"string f = 1;", "\x0a\x02\xff\xfe", "not UTF-8", "f"},
		{"string f = 1;", "\x08\x02", "wire type 0 where 2 is due", "f"},
		{"repeated string f = 1;", "\x08\x02", "wire type 0 where 2 is due", "f"},
		{"repeated double f = 1;", "\x0a\x02\x00\x00", "8 bytes are due", "f"},
		{"int32 f = 1;", "\x08\x80\x80\x80\x80\x10", "more than 32 bits", "f"},
		{"int64 f = 1;", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "more than 64 bits", "f"},
		{"bool f = 1;", "\x08\x02", "the number 2 where a boolean is due", "f"},
		{"int32 f = 1;", "\x08\x01\x08\x01", "for the second time", "f"},
		{"repeated string f = 1; int32 g = 2;", "\x0a\x01a\x10\x01\x0a\x01a", "for the second time", "f"},
		{"int32 f = 1;", "\x10\x01", "a field number 2, which the schema does not have,", ""},
		{"int32 f = 1;", "\x00", "no field's number", ""},
		{"confluent.type.Decimal f = 1 [(confluent.field_meta).params = {key: \"scale\", value: \"2\"}];", "\x0a\x05\x0a\x01\xfb\x18\x03", "a decimal of scale 3 where the schema says 2", "f"},
		{"confluent.type.Decimal f = 1;", "\x0a\x00", "a decimal without digits", "f"},
		{"google.type.Date f = 1;", "\x0a\x07\x08\xae\x0c\x10\x0a\x18\x05", "no date", "f"}, // 1582-10-05
		{"google.type.Date f = 1;", "\x0a\x07\x08\xe9\x0f\x10\x02\x18\x1e", "no date", "f"},
		{"google.type.Date f = 1;", "\x0a\x00", "no date", "f"},
		{"google.type.Date f = 1;", "\x0a\x02\x28\x01", "a field number 5 that is not due", "f"},
		{"google.type.TimeOfDay f = 1;", "\x0a\x02\x08\x18", "no date, time of day", "f"},
		{"google.protobuf.Timestamp f = 1;", "\x0a\x02\x10\x01", "instant in milliseconds", "f"},
		{"google.protobuf.Int64Value f = 1;", "\x0a\x02\x10\x01", "a wrapper with more than its value", "f"},
		{"map<string, string> f = 1;", "\x0a\x03\x0a\x01k", "null or its type's zero", "f"},
		{"map<string, string> f = 1;", "\x0a\x06\x0a\x01k\x12\x01v\x0a\x06\x0a\x01k\x12\x01v", `a map with two keys "k"`, "f"},
		{"repeated FEntry f = 1; message FEntry { string key = 1; string value = 2; } optional int32 g = 2;", "\x0a\x03\x0a\x01k", "null or its type's zero", "f"},
		{"Own f = 1; message Own { int32 a = 1; }", "\x0a\x00", `field "a": it is not in the message, so that it was null or its type's zero`, "f"},
		{"Own f = 1; message Own { repeated int32 a = 1; } optional int32 g = 2;", "\x0a\x00", "null or empty", "f"},
	} {
		_, err := decodeProto(t, protoEnvelope(c.schema), protoCreate(c.row))
		var bad *debezium.RecordError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "record s.shop.items[3] offset 7: the value: after: ") || bad.Column != c.column {
			t.Errorf("%s %x: got error %v of column %q, want a RecordError that says %q of %q", c.schema, c.row, err, bad.Column, c.want, c.column)
		}
	}
}

func TestProtobufSchemasThatAreNotReadAreErrors(t *testing.T) {
	t.Parallel()
	wide := "message R0 { int32 a = 1; }"
	for i := 1; i < 6; i++ { // each has the one before ten times
		wide += fmt.Sprintf(" message R%d {", i)
		for j := 1; j <= 10; j++ {
			wide += fmt.Sprintf(" R%d a%d = %d;", i-1, j, j)
		}
		wide += " }"
	}
	for _, c := range []struct{ field, want string }{
		{"uint32 f = 1;", `field "f": the type uint32, which Kafka Connect's converter does not write`},
		{"E f = 1; enum E { A = 0; }", "the enum s.shop.items.Envelope.Value.E"},
		{"Other f = 1;", `the type "Other" is not defined`},
		{"Value f = 1;", `the message "s.shop.items.Envelope.Value" holds itself`},
		{"int32 f = 1; int32 g = 1;", "another field has its number 1"},
		{"int32 f = 1; int64 f = 2;", `two fields "f"`},
		{`int32 f = 1 [default = 5];`, "it has a default and no label optional"},
		{"map<int32, string> f = 1;", "a map whose keys are no strings"},
		{`confluent.type.Decimal f = 1 [(confluent.field_meta).params = {key: "scale", value: "many"}];`, `the scale of a decimal is "many"`},
		{"R5 f = 1; " + wide, "more than 100000 fields"},
		{"int32 f = ;", "syntax error"},
		{strings.Repeat("message A { ", 300) + strings.Repeat("}", 300), "nested too deep"},
		{"// " + strings.Repeat(" ", 4<<20), "more than 4194304 bytes"},
	} {
		_, err := decodeProto(t, protoEnvelope(c.field), protoCreate(""))
		var bad *debezium.RecordError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200s: got error %v, want a RecordError that says %q", c.field, err, c.want)
		}
	}
}

// TestProtobufTypesAreFoundInImports: with skip.known.types=false the converter registers each file that the schema imports.
func TestProtobufTypesAreFoundInImports(t *testing.T) {
	t.Parallel()
	s := oneProto{Text: protoEnvelope("other.Own f = 1;"), Imports: map[string]string{"own.proto": "syntax = \"proto3\"; package other; message Own { int32 a = 1; }"}}
	record := debezium.Record{Value: append([]byte{0, 0, 0, 0, 1}, protoCreate("\x0a\x02\x08\x05")...)}
	events, err := debezium.NewDecoder(debezium.DecoderConfig{Schemas: s}).DecodeBatchContext(t.Context(), &debezium.Batch{Records: []debezium.Record{record}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := events[0].After.Values[0], listOf([]string{"a"}, integerOf(5)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestRegistrysFormatIsToldByTheSchema: Avro and Protobuf begin alike.
func TestRegistrysFormatIsToldByTheSchema(t *testing.T) {
	t.Parallel()
	avro := &debezium.Batch{Partition: shopItems, Records: []debezium.Record{{Value: append([]byte{0, 0, 0, 0, 1}, avroCreate("\x02")...)}}}
	proto := &debezium.Batch{Partition: shopItems, Records: []debezium.Record{{Value: append([]byte{0, 0, 0, 0, 1}, protoCreate("\x08\x01")...)}}}
	avroSchemas, protoSchemas := oneSchema(avroEnvelope(`{"name":"f","type":"int"}`)), oneProto{Text: protoEnvelope("int32 f = 1;")}
	for _, c := range []struct {
		format  debezium.Format
		schemas debezium.Schemas
		batch   *debezium.Batch
		want    string // an error; empty: none
	}{
		{debezium.Auto, avroSchemas, avro, ""},
		{debezium.Auto, protoSchemas, proto, ""},
		{debezium.Protobuf, protoSchemas, proto, ""},
		{debezium.Avro, protoSchemas, proto, "its schema 1 is one of protobuf, and source.format is avro"},
		{debezium.Protobuf, avroSchemas, avro, "its schema 1 is one of avro, and source.format is protobuf"},
	} {
		var said []string
		d := debezium.NewDecoder(debezium.DecoderConfig{Format: c.format, Schemas: c.schemas, Chose: func(_ string, f debezium.Format) { said = append(said, f.String()) }})
		_, err := d.DecodeBatchContext(t.Context(), c.batch)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want %q", c.format, err, c.want)
		}
		if c.format == debezium.Auto && len(said) != 1 {
			t.Errorf("got formats %q, want one", said)
		}
	}
}

// TestSchemaIDsThatAreNotReadAreNamed: in a header there is nothing before the value that would tell.
func TestSchemaIDsThatAreNotReadAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		record debezium.Record
		want   string
	}{
		{debezium.Record{Value: protoCreate("")[1:], Headers: []debezium.Header{{Key: "__value_schema_id", Value: make([]byte, 18)}}}, "the value: its schema's id is in a header"},
		{debezium.Record{Key: []byte("\x08\x01"), Headers: []debezium.Header{{Key: "__key_schema_id", Value: make([]byte, 18)}}}, "the key: its schema's id is in a header"},
		{debezium.Record{Value: append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1}, protoCreate("")...)}, "only Confluent's wire format is read"},
	} {
		_, err := debezium.NewDecoder(debezium.DecoderConfig{Schemas: oneProto{Text: protoEnvelope("int32 f = 1;")}}).DecodeBatchContext(t.Context(), &debezium.Batch{Records: []debezium.Record{c.record}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want %q", err, c.want)
		}
	}
}

// TestNamesAreScrubbedAsTheConverterDoes compares with its option scrub.invalid.names.
func TestNamesAreScrubbedAsTheConverterDoes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"id": "id", "user-name": "user_name", "a b": "a_b", "1st": "x1st", "_op": "x_op", "__deleted": "x__deleted", "é": "_C3_A9", "a*b~c": "a_b_7Ec", "": "", "ÄÖ 1": "_C3_84_C3_96_1",
	} {
		if got := debezium.ProtobufName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
		if !debezium.Adjusts(name, want) {
			t.Errorf("%q is not known as %q", name, want)
		}
	}
}
