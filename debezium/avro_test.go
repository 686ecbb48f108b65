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

// avroEnvelope is the schema of change events with a row of these fields.
func avroEnvelope(fields string) string {
	return `{"type":"record","name":"Envelope","namespace":"s.shop.items","fields":[` +
		`{"name":"before","type":["null",{"type":"record","name":"Value","fields":[` + fields + `],"connect.name":"s.shop.items.Value"}],"default":null},` +
		`{"name":"after","type":["null","Value"],"default":null},` +
		`{"name":"source","type":{"type":"record","name":"Source","namespace":"io.debezium.connector.mysql","fields":[{"name":"db","type":"string"}]}},` +
		`{"name":"op","type":"string"}],"connect.name":"s.shop.items.Envelope"}`
}

// avroCreate is the value of a create event with this row, without the schema's id.
func avroCreate(row string) []byte { return []byte("\x00\x02" + row + "\x08shop\x02c") }

// TestAvroValuesKeepWhatConnectSaysOfThem compares the row and the schema of one field at a time.
func TestAvroValuesKeepWhatConnectSaysOfThem(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	list := func(names []string, values ...debezium.Value) debezium.Value {
		return debezium.Value{Kind: debezium.ListValue, List: &debezium.List{Names: names, Values: values}}
	}
	number := func(s string) debezium.Value { return debezium.Value{Kind: debezium.NumberValue, Text: s} }
	word := func(s string) debezium.Value { return debezium.Value{Kind: debezium.StringValue, Text: s} }
	raw := func(s string) debezium.Value { return debezium.Value{Kind: debezium.BytesValue, Text: s} }
	integer := func(n int64) debezium.Value { return debezium.Value{Kind: debezium.IntValue, Num: n} }
	const decimal = "org.apache.kafka.connect.data.Decimal"
	for name, c := range map[string]struct {
		schema, row string
		field       debezium.Field
		want        debezium.Value
	}{
		"null second":  {`["string","null"],"default":"open"`, "\x02", debezium.Field{Type: debezium.String, Optional: true, Default: text(`"open"`)}, debezium.Value{Kind: debezium.Null}},
		"text first":   {`["string","null"],"default":"open"`, "\x00\x00", debezium.Field{Type: debezium.String, Optional: true, Default: text(`"open"`)}, word("")},
		"int16":        {`{"type":"int","connect.type":"int16","connect.default":-1}`, "\x03", debezium.Field{Type: debezium.Int16, Default: text("-1")}, integer(-2)},
		"int8":         {`{"type":"int","connect.type":"int8"}`, "\x02", debezium.Field{Type: debezium.Int8}, integer(1)},
		"long":         {`"long"`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", debezium.Field{Type: debezium.Int64}, integer(-1 << 63)},
		"boolean":      {`"boolean"`, "\x01", debezium.Field{Type: debezium.Boolean}, debezium.Value{Kind: debezium.BoolValue, Num: 1}},
		"float":        {`"float"`, "\xcd\xcc\xcc\x3d", debezium.Field{Type: debezium.Float32}, number("0.1")},
		"double":       {`"double"`, "\x00\x00\x00\x00\x00\x00\xf0\x3f", debezium.Field{Type: debezium.Float64}, number("1.0")},
		"big double":   {`"double"`, "\xea\x8c\xa0\x39\x59\x3e\x29\x46", debezium.Field{Type: debezium.Float64}, number("1e+30")},
		"zero below 0": {`"double"`, "\x00\x00\x00\x00\x00\x00\x00\x80", debezium.Field{Type: debezium.Float64}, number("-0.0")},
		"NaN":          {`"double"`, "\x00\x00\x00\x00\x00\x00\xf8\x7f", debezium.Field{Type: debezium.Float64}, number("NaN")},
		"-Infinity":    {`"float"`, "\x00\x00\x80\xff", debezium.Field{Type: debezium.Float32}, number("-Infinity")},
		"fixed":        {`{"type":"fixed","name":"F","size":2}`, "\x00\xff", debezium.Field{Type: debezium.Bytes}, raw("\x00\xff")},
		"enum":         {`{"type":"enum","name":"N","symbols":["a","b"]}`, "\x02", debezium.Field{Type: debezium.String}, word("b")},
		"decimal": {
			`{"type":"bytes","scale":2,"precision":5,"connect.version":1,"connect.parameters":{"scale":"2","connect.decimal.precision":"5"},"connect.default":"\u0000","connect.name":"` + decimal + `","logicalType":"decimal"}`, "\x02\xfb",
			debezium.Field{Type: debezium.Bytes, Semantic: decimal, Params: map[string]string{"scale": "2", "connect.decimal.precision": "5"}, Default: text(`"AA=="`)},
			raw("\xfb"),
		},
		"decimal without Connect": {
			`{"type":"bytes","scale":2,"precision":5,"logicalType":"decimal"}`, "\x02\xfb",
			debezium.Field{Type: debezium.Bytes, Semantic: decimal, Params: map[string]string{"scale": "2", "connect.decimal.precision": "5"}},
			raw("\xfb"),
		},
		"enum of Debezium": {
			`{"type":"string","connect.parameters":{"allowed":"a,b"},"connect.name":"io.debezium.data.Enum"}`, "\x02a",
			debezium.Field{Type: debezium.String, Semantic: "io.debezium.data.Enum", Params: map[string]string{"allowed": "a,b"}},
			word("a"),
		},
		"array in blocks": {
			`{"type":"array","items":["null","int"]}`, "\x02\x00\x01\x04\x02\x02\x00",
			debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.Int32, Optional: true}},
			list(nil, debezium.Value{Kind: debezium.Null}, integer(1)),
		},
		"map": {`{"type":"map","values":"string"}`, "\x02\x02k\x02v\x00", debezium.Field{Type: debezium.Map, Items: &debezium.Field{Type: debezium.String}}, list([]string{"k"}, word("v"))},
		"struct": {
			`{"type":"record","name":"VariableScaleDecimal","fields":[{"name":"scale","type":"int"},{"name":"value","type":"bytes"}],"connect.name":"io.debezium.data.VariableScaleDecimal"}`, "\x02\x02\x0f",
			debezium.Field{Type: debezium.Struct, Semantic: "io.debezium.data.VariableScaleDecimal", Fields: []debezium.Field{{Name: "scale", Type: debezium.Int32}, {Name: "value", Type: debezium.Bytes}}},
			list([]string{"scale", "value"}, integer(1), raw("\x0f")),
		},
		"unavailable text":  {`"string"`, "\x38__debezium_unavailable_value", debezium.Field{Type: debezium.String}, debezium.Value{Kind: debezium.Unavailable}},
		"unavailable bytes": {`"bytes"`, "\x38__debezium_unavailable_value", debezium.Field{Type: debezium.Bytes}, debezium.Value{Kind: debezium.Unavailable}},
		"unavailable list":  {`{"type":"array","items":"string"}`, "\x02\x38__debezium_unavailable_value\x00", debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.String}}, debezium.Value{Kind: debezium.Unavailable}},
	} {
		events, err := decodeAvro(t, avroEnvelope(`{"name":"f","type":`+c.schema+`}`), avroCreate(c.row))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.field.Name = "f"
		want := debezium.Event{
			Op: debezium.Create, Source: debezium.Source{Database: "shop"}, Bytes: 5 + len(avroCreate(c.row)),
			After: debezium.Row{Shape: &debezium.Shape{Name: "s.shop.items.Value", Fields: []debezium.Field{c.field}}, Values: []debezium.Value{c.want}},
		}
		if !reflect.DeepEqual(events[0], want) {
			t.Errorf("%s: got %+v, want %+v", name, events[0], want)
		}
		if events[0].After.Shape != events[1].After.Shape {
			t.Errorf("%s: two rows of one schema have two shapes", name)
		}
	}
}

func TestAvroThatContradictsItsSchemaIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, row, want string }{
		{`"string"`, "\xfe\xff\xff\xff\x0f", `after: field "f": a length of 2147483647 where 7 bytes are left`},
		{`"string"`, "\x01", "a length of -1"},
		{`"string"`, "\x04\xff\xfe", "not UTF-8"},
		{`"int"`, "\x80\x80\x80\x80\x20", "more than 32 bits"},
		{`"long"`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "more than 64 bits"},
		{`"boolean"`, "\x02", "the byte 2 where a boolean is due"},
		{`["null","int"]`, "\x04", "the number 2 where one of a union's types is chosen"},
		{`{"type":"enum","name":"N","symbols":["a"]}`, "\x02", "the number 1 where one of an enum's 1 symbols is due"},
		{`{"type":"array","items":"int"}`, "\xfe\xff\xff\xff\x0f", "a list of 2147483647 elements"},
		{`{"type":"array","items":"int"}`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "elements where"},
		{`{"type":"map","values":"int"}`, "\x04\x02k\x02\x02k\x02\x00", `a map with two keys "k"`},
		{`{"type":"fixed","name":"F","size":2000000000}`, "", "2000000000 bytes are due"},
		{`"int"`, "\x02\x00", "2 bytes more than the schema has fields for"},
		{`"int"`, "", "source"},
	} {
		_, err := decodeAvro(t, avroEnvelope(`{"name":"f","type":`+c.schema+`}`), avroCreate(c.row))
		var bad *debezium.RecordError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %x: got error %v, want a RecordError that says %q", c.schema, c.row, err, c.want)
		}
	}
}

func TestAvroSchemasThatAreNotReadAreErrors(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`["null",`, 70) + `"int"` + strings.Repeat("]", 70)
	wide := `{"type":"record","name":"R0","fields":[{"name":"a","type":"int"}]}`
	for i := 1; i < 6; i++ { // each has the one before ten times
		fields := fmt.Sprintf(`{"name":"a0","type":%s}`, wide)
		for j := 1; j < 10; j++ {
			fields += fmt.Sprintf(`,{"name":"a%d","type":"R%d"}`, j, i-1)
		}
		wide = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[%s]}`, i, fields)
	}
	for _, c := range []struct{ field, want string }{
		{`["null","int","string"]`, `field "f": a union of several types`},
		{`["null"]`, "no type but null"},
		{`["null",["null","int"]]`, "a union within a union"},
		{`"null"`, "no bytes"},
		{`{"type":"array","items":{"type":"record","name":"E","fields":[]}}`, "no bytes"},
		{`["null","Value"]`, "holds itself"},
		{`"Other"`, `the type "Other" is not defined`},
		{`{"type":"record","name":"Value","fields":[]}`, "defined twice"},
		{`{"type":"fixed","name":"F","size":-1}`, "has no size"},
		{`{"type":"string","connect.parameters":{"allowed":1}}`, "is no string"},
		{`7`, "neither a name, an object nor a list"},
		{many, "nested too deep"},
		{wide, "more than 100000 types"},
	} {
		_, err := decodeAvro(t, avroEnvelope(`{"name":"f","type":`+c.field+`}`), nil)
		var bad *debezium.RecordError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: got error %v, want a RecordError that says %q", c.field, err, c.want)
		}
	}
}

// TestSchemaIDsAreFoundWhereTheSerializersPutThem: after the byte 0 in 4 or 8 bytes, or in headers.
func TestSchemaIDsAreFoundWhereTheSerializersPutThem(t *testing.T) {
	t.Parallel()
	id := "\x00\x00\x00\x00\x00\x00\x01\x02"
	header := func(name, value string) debezium.Header { return debezium.Header{Key: name, Value: []byte(value)} }
	for name, c := range map[string]struct {
		prefix  string
		headers []debezium.Header
		want    debezium.SchemaID // zero: an error that says err
		err     string
	}{
		"Confluent":      {"\x00\x00\x00\x01\x02", nil, debezium.SchemaID{Kind: debezium.WireID, ID: 258}, ""},
		"a large id":     {"\x00\xff\x00\x01\x02", nil, debezium.SchemaID{Kind: debezium.WireID, ID: 0xff000102}, ""},
		"Apicurio":       {"\x00" + id, nil, debezium.SchemaID{Kind: debezium.LongID, ID: 258}, ""},
		"global id":      {"", []debezium.Header{header("apicurio.value.encoding", "BINARY"), header("apicurio.value.globalId", id)}, debezium.SchemaID{Kind: debezium.GlobalID, ID: 258}, ""},
		"content id":     {"", []debezium.Header{header("apicurio.value.contentId", id)}, debezium.SchemaID{Kind: debezium.ContentID, ID: 258}, ""},
		"both ids":       {"", []debezium.Header{header("apicurio.value.globalId", id), header("apicurio.value.contentId", "\x00\x00\x00\x00\x00\x00\x00\x09")}, debezium.SchemaID{Kind: debezium.GlobalID, ID: 258}, ""},
		"a short header": {"", []debezium.Header{header("apicurio.value.globalId", id[4:])}, debezium.SchemaID{}, "has 4 bytes"},
		"JSON encoding":  {"", []debezium.Header{header("apicurio.value.globalId", id), header("apicurio.value.encoding", "JSON")}, debezium.SchemaID{}, `says "JSON"`},
	} {
		asked := &askedSchemas{text: avroEnvelope(`{"name":"f","type":"int"}`)}
		record := debezium.Record{Value: append([]byte(c.prefix), avroCreate("\x02")...), Headers: c.headers}
		_, err := debezium.NewDecoder(debezium.DecoderConfig{Schemas: asked}).DecodeBatch(&debezium.Batch{Records: []debezium.Record{record, record}})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got error %v, want one that says %q", name, err, c.err)
			}
		case err != nil || !reflect.DeepEqual(asked.ids, []debezium.SchemaID{c.want}):
			t.Errorf("%s: got ids %v, error %v, want %v once", name, asked.ids, err, c.want)
		}
	}
}

// askedSchemas notes what it is asked for.
type askedSchemas struct {
	text string
	err  error
	ids  []debezium.SchemaID
}

func (s *askedSchemas) Schema(_ context.Context, id debezium.SchemaID, _ string) (debezium.Registered, error) {
	s.ids = append(s.ids, id)
	return debezium.Registered{Format: debezium.Avro, Text: s.text}, s.err
}

// TestRegistryThatFailsIsNotABadRecord: it may answer the next time, and then the record is read.
func TestRegistryThatFailsIsNotABadRecord(t *testing.T) {
	t.Parallel()
	asked := &askedSchemas{err: errors.New("connection refused")}
	d := debezium.NewDecoder(debezium.DecoderConfig{Schemas: asked})
	batch := &debezium.Batch{Partition: shopItems, Records: []debezium.Record{{Partition: shopItems, Offset: 7, Value: append([]byte{0, 0, 0, 0, 1}, avroCreate("\x02")...)}}}
	_, err := d.DecodeBatchContext(t.Context(), batch)
	var bad *debezium.RecordError
	if err == nil || errors.As(err, &bad) || !strings.Contains(err.Error(), "s.shop.items[3] offset 7: the value: its schema 1: connection refused") {
		t.Fatalf("got error %v, want one of the registry that names the record", err)
	}
	asked.text, asked.err = avroEnvelope(`{"name":"f","type":"int"}`), nil
	if _, err := d.DecodeBatchContext(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

// TestFormatIsToldByEachRecordAndSaidOnce: a topic whose converter was changed holds both.
func TestFormatIsToldByEachRecordAndSaidOnce(t *testing.T) {
	t.Parallel()
	var said []string
	d := debezium.NewDecoder(debezium.DecoderConfig{
		Schemas: oneSchema(avroEnvelope(`{"name":"f","type":"int"}`)),
		Chose:   func(topic string, f debezium.Format) { said = append(said, topic+" "+f.String()) },
	})
	var batch debezium.Batch
	for range 2 {
		batch.Records = append(batch.Records, debezium.Record{Value: []byte(bare(`{"f":1}`))}, debezium.Record{Value: append([]byte{0, 0, 0, 0, 1}, avroCreate("\x02")...)})
	}
	batch.Partition = shopItems
	for range 2 {
		if _, err := d.DecodeBatchContext(t.Context(), &batch); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"s.shop.items json", "s.shop.items avro"}; !reflect.DeepEqual(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
	if _, err := debezium.NewDecoder(debezium.DecoderConfig{Format: debezium.JSON}).DecodeBatch(&debezium.Batch{Records: batch.Records[1:]}); err == nil || !strings.Contains(err.Error(), "source.format") {
		t.Errorf("Avro as JSON: got error %v", err)
	}
	if _, err := debezium.NewDecoder(debezium.DecoderConfig{Format: debezium.Avro}).DecodeBatch(&debezium.Batch{Records: batch.Records[:1]}); err == nil || !strings.Contains(err.Error(), "source.format") {
		t.Errorf("JSON as Avro: got error %v", err)
	}
}
