package debezium_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// protoWide are the kinds of wideColumns as Confluent's converter declares them with optional.for.nullables.
var protoWide = []string{
	"int64", "string", "int32", "optional string", "optional int32",
	`optional confluent.type.Decimal %s = %d [(confluent.field_meta) = {params: [{value: "12", key: "precision"}, {value: "2", key: "scale"}]}];`,
	"optional string", "optional int64",
}

// wideProtobuf is wideBatch for Protobuf: the recorded envelope and source block with other columns.
func wideProtobuf(tb testing.TB, columns, n int) (*debezium.Batch, debezium.Schemas) {
	tb.Helper()
	topics, err := debeziumtest.Load(filepath.Join(captures, "proto2"))
	if err != nil {
		tb.Fatal(err)
	}
	recorded := topics["proto2.shop.customers"]
	update := recorded[len(recorded)-1]
	for _, r := range recorded {
		if len(r.Value) > len(update.Value) {
			update = r
		}
	}
	found, err := schemasOf(tb, "proto2").Schema(tb.Context(), debezium.SchemaID{Kind: debezium.WireID, ID: int64(binary.BigEndian.Uint32(update.Value[1:]))}, "")
	if err != nil {
		tb.Fatal(err)
	}
	tail := update.Value[6:]
	for {
		num, wire, size := protowire.ConsumeTag(tail)
		if num > 2 || size < 0 {
			break
		}
		tail = tail[size+protowire.ConsumeFieldValue(num, wire, tail[size:]):]
	}
	w := wide{columns: columns}
	p := debezium.Partition{Topic: "proto2.shop.wide"}
	batch := &debezium.Batch{Partition: p, Records: make([]debezium.Record, n)}
	for i := range batch.Records {
		value := []byte{0, 0, 0, 0, wideKey + 1, 0}
		for image := range 2 {
			value = protowire.AppendTag(value, protowire.Number(image+1), protowire.BytesType)
			value = protowire.AppendBytes(value, w.protobuf(i+image))
		}
		key := []byte{0, 0, 0, 0, wideKey, 0}
		if i > 0 {
			key = protowire.AppendVarint(append(key, 8), uint64(i))
		}
		r := debezium.Record{Partition: p, Offset: int64(i), Headers: update.Headers, Key: key, Value: append(value, tail...)}
		batch.Records[i] = r
		batch.Bytes += len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			batch.Bytes += len(h.Key) + len(h.Value)
		}
	}
	return batch, wideProto{w.protoSchema(tb, found.Text)}
}

// wideProto are the schemas of a wide table: of its key, with the id wideKey, and of its value, with any other.
type wideProto struct{ value string }

func (s wideProto) Schema(_ context.Context, id debezium.SchemaID, _ string) (debezium.Registered, error) {
	text := s.value
	if id.ID == wideKey {
		text = "syntax = \"proto3\";\npackage proto2.shop.wide;\nmessage Key {\n  int64 column_00 = 1;\n}\n"
	}
	return debezium.Registered{Format: debezium.Protobuf, Text: text}, nil
}

// protoSchema puts the wide table's columns into the recorded schema.
func (w *wide) protoSchema(tb testing.TB, recorded string) string {
	tb.Helper()
	const begin, end = "  message Value {\n", "\n  }\n"
	from := strings.Index(recorded, begin)
	to := strings.Index(recorded[max(from, 0):], end) + from
	if from < 0 || to < from {
		tb.Fatalf("no message Value in %s", recorded)
	}
	var b strings.Builder
	b.WriteString(recorded[:from] + begin)
	for i := range w.columns {
		declared := protoWide[i%len(protoWide)]
		if !strings.Contains(declared, "%s") {
			declared += " %s = %d;"
		}
		fmt.Fprintf(&b, declared+"\n", fmt.Sprintf("column_%02d", i), i+1)
	}
	b.WriteString(recorded[to+1:])
	return b.String()
}

// protobuf is the n-th row.
func (w *wide) protobuf(n int) []byte {
	var b []byte
	for i := range w.columns {
		num := protowire.Number(i + 1)
		optional := strings.HasPrefix(protoWide[i%len(protoWide)], "optional")
		switch v := w.value(n, i).(type) {
		case int64:
			if v != 0 || optional {
				b = protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(v))
			}
		case string:
			if v != "" || optional {
				b = protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
			}
		case []byte:
			var d []byte
			d = protowire.AppendBytes(protowire.AppendTag(d, 1, protowire.BytesType), v)
			d = protowire.AppendVarint(protowire.AppendTag(d, 2, protowire.VarintType), 8)
			d = protowire.AppendVarint(protowire.AppendTag(d, 3, protowire.VarintType), 2)
			b = protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), d)
		}
	}
	return b
}
