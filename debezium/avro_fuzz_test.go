package debezium_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// oneSchema is a registry that has one schema under every id.
type oneSchema string

func (s oneSchema) Schema(context.Context, debezium.SchemaID, string) (debezium.Registered, error) {
	return debezium.Registered{Format: debezium.Avro, Text: string(s)}, nil
}

// decodeAvro decodes a value twice with one Decoder, as bytes after Confluent's prefix.
func decodeAvro(t *testing.T, schema string, value []byte) ([]debezium.Event, error) {
	t.Helper()
	record := debezium.Record{Value: append([]byte{0, 0, 0, 0, 1}, value...)}
	return debezium.NewDecoder(debezium.DecoderConfig{Schemas: oneSchema(schema)}).
		DecodeBatchContext(t.Context(), &debezium.Batch{Records: []debezium.Record{record, record}})
}

// FuzzAvro promises that no bytes, read by a schema that they do not have, make the decoder panic; that an error is a
// RecordError; and that a second reading gives the same.
func FuzzAvro(f *testing.F) {
	known := schemas(f)
	var ids []debezium.SchemaID
	for _, id := range slices.SortedFunc(maps.Keys(known), func(a, b debezium.SchemaID) int { return int(a.ID - b.ID) }) {
		if id.Kind == debezium.GlobalID {
			ids = append(ids, id)
		}
	}
	topics, err := debeziumtest.Load(filepath.Join(captures, "avro"))
	if err != nil {
		f.Fatal(err)
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		for _, r := range topics[topic] {
			if len(r.Value) > 5 && len(r.Value) < 4096 {
				i := slices.Index(ids, debezium.SchemaID{Kind: debezium.GlobalID, ID: int64(r.Value[4])})
				f.Add(uint8(i), r.Value[5:])
			}
		}
	}
	f.Fuzz(func(t *testing.T, schema uint8, value []byte) {
		events, err := decodeAvro(t, known[ids[int(schema)%len(ids)]], value)
		mustBeRecordError(t, err)
		if err == nil && !reflect.DeepEqual(events[0], events[1]) {
			t.Fatalf("decoded again: got %+v, want %+v", events[1], events[0])
		}
	})
}

// FuzzAvroSchema promises that no schema makes the parser, or the reader by it, panic or take more memory than the
// record's bytes bound.
func FuzzAvroSchema(f *testing.F) {
	for _, text := range schemas(f) {
		f.Add(text, []byte("\x00\x02\x02\x04ab\x00\x01"))
	}
	for _, text := range []string{
		`"null"`, `["null","string"]`, `{"type":{"type":"int","connect.type":"int8"}}`, `{"type":"array","items":"null"}`,
		`{"type":"record","name":"A","fields":[{"name":"a","type":["null","A"]}]}`,
		`{"type":"record","name":"E","fields":[{"name":"source","type":{"type":"record","name":"S","fields":[{"name":"db","type":"string"}]}},{"name":"op","type":"string"},{"name":"after","type":["null",{"type":"record","name":"V","fields":[{"name":"f","type":{"type":"fixed","name":"F","size":3}},{"name":"m","type":{"type":"map","values":"double"}},{"name":"e","type":{"type":"enum","name":"N","symbols":["a"]}}]}]}]}`,
	} {
		f.Add(text, []byte("\x02a\x02c\x02xyz\x02\x02k\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	}
	f.Fuzz(func(t *testing.T, schema string, value []byte) {
		events, err := decodeAvro(t, schema, value)
		mustBeRecordError(t, err)
		if err == nil && !reflect.DeepEqual(events[0], events[1]) {
			t.Fatalf("decoded again: got %+v, want %+v", events[1], events[0])
		}
	})
}

func mustBeRecordError(t *testing.T, err error) {
	t.Helper()
	var bad *debezium.RecordError
	if err != nil && !errors.As(err, &bad) {
		t.Fatalf("got error %v, want a RecordError", err)
	}
}
