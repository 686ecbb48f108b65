package debezium_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// A wide stream is updates of a table with as many columns as asked for, both images sent. Envelopes, schemas and source
// blocks are those of recorded updates of the table customers; only its columns are replaced.
type wide struct {
	columns int
	headers []debezium.Header
	tails   [][]byte // recorded messages from their source block on; of flattened rows, from the metadata on
	schema  string   // the recorded message's schema, from the source block's or the metadata's on; of Avro, all of it
	id      []byte   // of the Avro schema, as the record begins
}

// wideColumn is one of the kinds of columns that wide tables have in turn, as Connect's JSON converter and as Avro's write
// them. Their types and texts are those of MySQL's BIGINT, VARCHAR, SMALLINT, nullable TEXT, INT, DECIMAL, VARCHAR and
// DATETIME(6).
type wideColumn struct {
	connect, avro string
	value         func(n int64) any // int64, string, []byte, or nil; the column is optional if its Avro type is a list
}

var wideColumns = []wideColumn{
	{`"type":"int64","optional":false`, `"long"`, func(n int64) any { return 1_000_000_007 * (n + 1) }},
	{`"type":"string","optional":false`, `"string"`, func(n int64) any { return fmt.Sprintf("customer%d@example.org", n) }},
	{`"type":"int16","optional":false,"default":0`, `{"type":"int","connect.type":"int16"}`, func(n int64) any { return n % 3 }},
	{`"type":"string","optional":true`, `["null","string"]`, func(n int64) any {
		if n%2 == 0 {
			return nil
		}
		return strings.Repeat("a note, ", int(n%7))
	}},
	{`"type":"int32","optional":true`, `["null","int"]`, func(n int64) any { return n * 977 % 100_003 }},
	{
		`"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2","connect.decimal.precision":"12"}`,
		`["null",{"type":"bytes","scale":2,"precision":12,"connect.version":1,"connect.parameters":{"scale":"2","connect.decimal.precision":"12"},` +
			`"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}]`,
		func(n int64) any { return binary.BigEndian.AppendUint64(nil, uint64(n*12_345))[4:] },
	},
	{`"type":"string","optional":true`, `["null","string"]`, func(n int64) any { return []string{"Zoë", "Bo", "Anne-Marie", "Łukasz"}[n%4] }},
	{
		`"type":"int64","optional":true,"name":"io.debezium.time.MicroTimestamp","version":1`,
		`["null",{"type":"long","connect.version":1,"connect.name":"io.debezium.time.MicroTimestamp"}]`,
		func(n int64) any { return 1_714_521_600_000_000 + n*7_654_321 },
	},
}

// newWide takes the recorded updates of connector: those of the schema that the topic began with.
func newWide(tb testing.TB, connector string, columns int) *wide {
	tb.Helper()
	topics, err := debeziumtest.Load(filepath.Join(captures, connector))
	if err != nil {
		tb.Fatal(err)
	}
	records := topics[connector+".shop.customers"]
	events, err := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas(tb)}).DecodeBatch(&debezium.Batch{Partition: records[0].Partition, Records: records})
	if err != nil {
		tb.Fatal(err)
	}
	w := &wide{columns: columns}
	for i := range events {
		if events[i].Op != debezium.Update || events[i].After.Shape != events[0].After.Shape {
			continue
		}
		w.headers = records[i].Headers
		value := records[i].Value
		switch connector {
		case "avro":
			w.id = value[:5]
			found, err := schemas(tb).Schema(tb.Context(), debezium.SchemaID{Kind: debezium.GlobalID, ID: int64(binary.BigEndian.Uint32(value[1:]))}, "")
			if err != nil {
				tb.Fatal(err)
			}
			w.schema = found.Text
			w.tail(tb, value, "\x163.6.1.Final")
		case "flat":
			w.schema = between(tb, value, `{"type":"string","optional":true,"field":"__deleted"}`, `},"payload":`)
			w.tail(tb, value, `"__deleted":`)
		case "plain":
			w.schema = between(tb, value, `{"type":"struct","fields":[{"type":"string","optional":false,"field":"version"}`, `},"payload":`)
			w.tail(tb, value, `"source":{"version"`)
		default:
			w.tail(tb, value, `"source":{"version"`)
		}
	}
	if len(w.tails) == 0 {
		tb.Fatalf("no recorded update of %s.shop.customers", connector)
	}
	return w
}

func (w *wide) tail(tb testing.TB, value []byte, from string) {
	tb.Helper()
	i := bytes.LastIndex(value, []byte(from))
	if i < 0 {
		tb.Fatalf("no %s in %q", from, value)
	}
	w.tails = append(w.tails, value[i:])
}

func between(tb testing.TB, value []byte, from, to string) string {
	tb.Helper()
	i, j := bytes.Index(value, []byte(from)), bytes.Index(value, []byte(to))
	if i < 0 || j < i {
		tb.Fatalf("no %s, then %s, in %s", from, to, value)
	}
	return string(value[i:j])
}

// wideBatch returns n records of a wide table, each with its own memory, and where their schemas are.
func wideBatch(tb testing.TB, connector string, columns, n int) (*debezium.Batch, debezium.Schemas) {
	tb.Helper()
	if connector == "proto2" {
		return wideProtobuf(tb, columns, n)
	}
	w := newWide(tb, connector, columns)
	p := debezium.Partition{Topic: connector + ".shop.wide"}
	batch := &debezium.Batch{Partition: p, Records: make([]debezium.Record, n)}
	schema := w.avroSchema(tb)
	for i := range batch.Records {
		r := &batch.Records[i]
		r.Partition, r.Offset, r.Headers = p, int64(i), w.headers
		tail := w.tails[i%len(w.tails)]
		switch connector {
		case "plain":
			r.Key = []byte(`{"schema":{"type":"struct","fields":[{` + wideColumns[0].connect + `,"field":"column_00"}],"optional":false,"name":"plain.shop.wide.Key"},"payload":{"column_00":` + fmt.Sprint(i) + `}}`)
			row := `{"type":"struct","fields":[` + w.connect() + `],"optional":true,"name":"plain.shop.wide.Value","field":`
			r.Value = fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[%s"before"},%s"after"},%s},"payload":{"before":{%s},"after":{%s},%s`,
				row, row, w.schema, w.json(i), w.json(i+1), tail)
		case "bare":
			r.Key = fmt.Appendf(nil, `{"column_00":%d}`, i)
			r.Value = fmt.Appendf(nil, `{"before":{%s},"after":{%s},%s`, w.json(i), w.json(i+1), tail)
		case "flat":
			r.Key = []byte(`{"schema":{"type":"struct","fields":[{` + wideColumns[0].connect + `,"field":"column_00"}],"optional":false,"name":"flat.shop.wide.Key"},"payload":{"column_00":` + fmt.Sprint(i) + `}}`)
			r.Value = fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[%s,%s},"payload":{%s,%s`, w.connect(), w.schema, w.json(i+1), tail)
		case "avro":
			r.Key = binary.AppendVarint([]byte{0, 0, 0, 0, wideKey}, int64(i))
			r.Value = append(w.avro(append([]byte(nil), w.id...), i), tail...)
		}
		batch.Bytes += len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			batch.Bytes += len(h.Key) + len(h.Value)
		}
	}
	return batch, schema
}

// connect returns the columns as the schema of Connect's JSON converter has them.
func (w *wide) connect() string {
	var b strings.Builder
	for i := range w.columns {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{%s,"field":"column_%02d"}`, wideColumns[i%len(wideColumns)].connect, i)
	}
	return b.String()
}

// value returns the value of a column in the n-th row. An image differs from the one before in some columns.
func (w *wide) value(n, column int) any {
	return wideColumns[column%len(wideColumns)].value(int64((n + column) / 2))
}

func (w *wide) json(n int) string {
	var b strings.Builder
	for i := range w.columns {
		if i > 0 {
			b.WriteByte(',')
		}
		v := w.value(n, i)
		if raw, ok := v.([]byte); ok {
			v = base64.StdEncoding.EncodeToString(raw)
		}
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("null")
		}
		fmt.Fprintf(&b, `"column_%02d":%s`, i, text)
	}
	return b.String()
}

// avro appends both images, each after the index of its union.
func (w *wide) avro(b []byte, n int) []byte {
	for image := range 2 {
		b = append(b, 2)
		for i := range w.columns {
			v := w.value(n+image, i)
			if strings.HasPrefix(wideColumns[i%len(wideColumns)].avro, "[") {
				if v == nil {
					b = append(b, 0)
					continue
				}
				b = append(b, 2)
			}
			switch v := v.(type) {
			case int64:
				b = binary.AppendVarint(b, v)
			case string:
				b = append(binary.AppendVarint(b, int64(len(v))), v...)
			case []byte:
				b = append(binary.AppendVarint(b, int64(len(v))), v...)
			}
		}
	}
	return b
}

// wideSchemas are the Avro schemas of a wide table: of its key, with the id wideKey, and of its value, with any other.
type wideSchemas struct{ value string }

const wideKey = 1

func (s wideSchemas) Schema(_ context.Context, id debezium.SchemaID, _ string) (debezium.Registered, error) {
	text := s.value
	if id.ID == wideKey {
		text = `{"type":"record","name":"Key","namespace":"avro.shop.wide","fields":[{"name":"column_00","type":"long"}]}`
	}
	return debezium.Registered{Format: debezium.Avro, Text: text}, nil
}

// avroSchema puts the wide table's columns into the recorded schema.
func (w *wide) avroSchema(tb testing.TB) debezium.Schemas {
	tb.Helper()
	if w.id == nil {
		return nil
	}
	var schema struct {
		Type        string           `json:"type"`
		Name        string           `json:"name"`
		Namespace   string           `json:"namespace"`
		Fields      []map[string]any `json:"fields"`
		ConnectName string           `json:"connect.name"`
	}
	if err := json.Unmarshal([]byte(w.schema), &schema); err != nil {
		tb.Fatal(err)
	}
	row, ok := schema.Fields[0]["type"].([]any)[1].(map[string]any)
	if !ok {
		tb.Fatalf("before is not null or a record in %s", w.schema)
	}
	fields := make([]any, w.columns)
	for i := range fields {
		fields[i] = map[string]any{"name": fmt.Sprintf("column_%02d", i), "type": json.RawMessage(wideColumns[i%len(wideColumns)].avro)}
	}
	row["fields"] = fields
	text, err := json.Marshal(schema)
	if err != nil {
		tb.Fatal(err)
	}
	return wideSchemas{string(text)}
}

// The benchmarks' formats are the same rows, in whatever form, and none is cut short.
func TestWideRowsAreTheSameInEveryFormat(t *testing.T) {
	t.Parallel()
	const columns, records = 16, 20
	rows := func(connector string) (out [][]string) {
		batch, schemas := wideBatch(t, connector, columns, records)
		events, err := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas}).DecodeBatch(batch)
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			row := make([]string, columns)
			for c := range row {
				v := events[i].After.Values[c]
				if v.Kind == debezium.BytesValue {
					v.Kind, v.Text = debezium.StringValue, base64.StdEncoding.EncodeToString([]byte(v.Text))
				}
				row[c] = fmt.Sprintf("%s %d %d %s", events[i].After.Shape.Fields[c].Name, v.Kind, v.Num, v.Text)
			}
			out = append(out, row)
		}
		return out
	}
	want := rows("plain")
	if len(want) != records {
		t.Fatalf("%d rows, not %d", len(want), records)
	}
	for _, connector := range []string{"bare", "flat", "avro", "proto2"} {
		if got := rows(connector); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, not %v", connector, got, want)
		}
	}
}
