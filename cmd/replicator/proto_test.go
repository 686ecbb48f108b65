package main

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
	"replicator/schema"
)

// protoItems are the schemas of a table's records, by their ids: of the key, and of values with the converter's default options and with
// optional.for.nullables.
var protoItems = debeziumtest.Confluent{
	1: {Schema: "syntax = \"proto3\";\npackage p.shop.items;\nmessage Key {\n  int32 id = 1;\n}\n"},
	2: {Schema: protoEnvelope("int32 id = 1;\n    string name = 2;\n    string note = 3;\n    confluent.type.Decimal price = 4 [(confluent.field_meta) = {params: [{value: \"2\", key: \"scale\"}]}];\n    int64 at = 5;")},
	3: {Schema: protoEnvelope("int32 id = 1;\n    string name = 2;\n    optional string note = 3;\n    optional confluent.type.Decimal price = 4 [(confluent.field_meta) = {params: [{value: \"2\", key: \"scale\"}]}];\n    int64 at = 5;")},
}

func protoEnvelope(fields string) string {
	return "syntax = \"proto3\";\npackage p.shop.items;\n\nimport \"confluent/type/decimal.proto\";\n\nmessage Envelope {\n  Value before = 1;\n  Value after = 2;\n  Source source = 3;\n  string op = 4;\n\n" +
		"  message Value {\n    " + fields + "\n  }\n  message Source {\n    string connector = 1;\n    string db = 2;\n    string table = 3;\n  }\n}\n"
}

// protoItem is a create event's value with this row, by the schema with an id.
func protoItem(id byte, row string) []byte {
	const source = "\x0a\x05mysql\x12\x04shop\x1a\x05items"
	return []byte("\x00\x00\x00\x00" + string(rune(id)) + "\x00\x12" + string(rune(len(row))) + row + "\x1a" + string(rune(len(source))) + source + "\x22\x01c")
}

const (
	protoRow  = "\x08\x01\x12\x01a\x1a\x01n\x22\x07\x0a\x01\xfb\x10\x01\x18\x02\x28\x80\x80\xc0\xe0\xe0\xb9\x83\x03" // at: microseconds, in 2023
	protoZero = "\x1a\x00"                                                                                           // id 0 and name '', which are not sent, and note ''
)

func newProtoRun(t *testing.T, values ...[]byte) (*caseRun, string) {
	t.Helper()
	name := "proto_" + fmt.Sprintf("%08x", hash(t.Name()))
	r := &caseRun{url: caseDatabase(t, name)}
	r.target = r.url
	r.exec(t, "CREATE TABLE items (id int PRIMARY KEY, name text NOT NULL, note text, price numeric(10,2), at timestamp(6) NOT NULL)")
	topic := name + ".shop.items"
	if err := caseBroker(t).CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		record := debezium.Record{Partition: debezium.Partition{Topic: topic}, Key: []byte("\x00\x00\x00\x00\x01\x00"), Value: v}
		if err := caseBroker(t).Produce(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(protoItems)
	t.Cleanup(server.Close)
	return r, fmt.Sprintf("pipeline: %[1]s\nsource:\n  brokers: [%[2]s]\n  topics: ['%[1]s\\.shop\\.items']\n  format: protobuf\n  time_precision: adaptive\n  registry: {url: '%[4]s'}\n"+
		"target: {url: '%[3]s'}\nhttp: {listen: ''}\n", name, strings.Join(caseBroker(t).Addrs(), ", "), r.url, server.URL)
}

// TestProtobufIsReadByTheTargetsColumns: where there is no schema-change topic they say what a number is, and which column takes no null.
func TestProtobufIsReadByTheTargetsColumns(t *testing.T) {
	t.Parallel()
	r, config := newProtoRun(t, protoItem(2, protoRow), protoItem(3, protoZero), protoItem(2, "\x08\x02\x12\x01b\x1a\x01m\x28\x01"))
	if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	var got []string
	for _, row := range r.exec(t, "SELECT format('%s %L %L %L %s', id, name, note, price, at) FROM items ORDER BY id") {
		got = append(got, *row[0])
	}
	want := []string{"0 '' '' NULL 1970-01-01 00:00:00", "1 'a' 'n' '-0.05' 2023-12-31 13:14:37.063168", "2 'b' 'm' NULL 1970-01-01 00:00:00.000001"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestProtobufThatCannotBeReadStops: the error says which record, and which column.
func TestProtobufThatCannotBeReadStops(t *testing.T) {
	t.Parallel()
	good := protoItem(2, protoRow)
	for name, c := range map[string]struct {
		value []byte
		words []string
	}{
		"null or empty":   {protoItem(2, "\x08\x01\x12\x01a\x28\x01"), []string{"bad_record: table public.items, column note, ", "key id=1", "NULL or else 0, false or empty", "value.converter.optional.for.nullables"}},
		"unknown id":      {protoItem(9, protoRow), []string{"bad_record: table shop.items, ", "schema 9", "404 Not Found"}},
		"truncated":       {good[:12], []string{"bad_record: table shop.items, ", "a length of"}},
		"wrong wire type": {protoItem(2, "\x08\x01\x10\x05"), []string{"bad_record: table shop.items, column name, ", "wire type 0 where 2 is due"}},
		"unknown field":   {protoItem(2, "\x30\x01"), []string{"bad_record: table shop.items, ", "a field number 6, which the schema does not have"}},
		"unknown message": {append([]byte("\x00\x00\x00\x00\x02\x02\x06"), good[6:]...), []string{"bad_record: table shop.items, ", "the message indexes [3] name none"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, config := newProtoRun(t, good, c.value)
			code, stderr := r.runConfig(t.Context(), t, config)
			r.stopped(t, code, stderr, append(c.words, "[0] offset 1")...)
		})
	}
}

// TestCaptureOfNullsThatAreZeros replays what a real connector sent with the converter's default options: the first row that may have
// been null or zero stops it.
func TestCaptureOfNullsThatAreZeros(t *testing.T) {
	t.Parallel()
	r := &caseRun{url: caseDatabase(t, "capture_proto"), config: map[string]string{"schema.types.nul": "strip", "schema.evolve": "ignore"}}
	r.target = r.url
	schemas := captureSchemas(t, "proto")
	server := httptest.NewServer(schemas)
	t.Cleanup(server.Close)
	produceCapture(t, "proto", "", schemas, nil)
	config := fmt.Sprintf("pipeline: capture-proto\nsource:\n  brokers: [%s]\n  topics: ['proto\\.shop\\.customers']\n  schema_changes: proto\n  registry: {url: '%s'}\n"+
		"target: {url: '%s'}\nhttp: {listen: ''}\n", strings.Join(caseBroker(t).Addrs(), ", "), server.URL, r.url)
	code, stderr := r.runConfig(t.Context(), t, config)
	r.stopped(t, code, stderr, "bad_record: table public.customers, column profile, proto.shop.customers[0] offset 1, key id=2", "value.converter.optional.for.nullables")
	if rows := r.exec(t, "SELECT * FROM customers"); len(rows) > 1 {
		t.Errorf("%d rows are there, want no more than came before the refused one", len(rows))
	}
}

// TestNullsThatAreNotToldAreFound: check warns of the columns in which a row would be refused, and of no other.
func TestNullsThatAreNotToldAreFound(t *testing.T) {
	t.Parallel()
	s := sampleFindings{where: map[string][]string{}}
	image := &debezium.Shape{Schemaless: true, Fields: []debezium.Field{{Name: "a", NoPresence: true}, {Name: "b", NoPresence: true}, {Name: "c"}, {Name: "v", NoPresence: true}}}
	for _, c := range []schema.Column{{Name: "a"}, {Name: "b", NotNull: true}, {Name: "c"}, {Name: "v", Type: schema.Type{Kind: schema.Vector}}} {
		s.column(image, &c, &knownTable{source: "shop.items"})
	}
	if want := map[string][]string{"connector/nulls": {"shop.items.a"}}; !reflect.DeepEqual(s.where, want) {
		t.Errorf("got %v, want %v", s.where, want)
	}
}
