package debezium_test

import (
	"reflect"
	"testing"

	"replicator/debezium"
)

// everyProtobuf has a field of every kind.
const everyProtobuf = `int32 a = 1; optional int64 b = 2; string c = 3; bytes d = 4; bool e = 5; float f = 6; double g = 7; repeated int32 h = 8; repeated string i = 9;
	map<string, string> j = 10; google.protobuf.StringValue k = 11; google.type.Date l = 12; google.type.TimeOfDay m = 13; google.protobuf.Timestamp n = 14;
	confluent.type.Decimal o = 15 [(confluent.field_meta).params = {key: "scale", value: "2"}]; confluent.type.Decimal p = 16; Own q = 17; repeated Own r = 18; Geometry s = 19;
	message Own { int32 a = 1; repeated Geometry b = 2; } message Geometry { bytes wkb = 1; int32 srid = 2; }`

// FuzzProtobuf promises that no bytes, read by a schema that they do not have, make the decoder panic; that an error is a RecordError;
// and that a second reading gives the same.
func FuzzProtobuf(f *testing.F) {
	f.Add(protoCreate(""))
	f.Add(protoCreate("\x08\x01\x10\x02\x1a\x01a\x22\x01b\x28\x01\x35\x00\x00\x80\x3f\x39\x00\x00\x00\x00\x00\x00\xf0\x3f\x42\x02\x01\x02\x4a\x01x"))
	f.Add(protoCreate("\x52\x06\x0a\x01k\x12\x01v\x5a\x03\x0a\x01w\x62\x07\x08\x9e\x0f\x10\x01\x18\x02\x6a\x00\x72\x00\x7a\x05\x0a\x01\xfb\x18\x02\x82\x01\x03\x0a\x01\xfb"))
	f.Add(protoCreate("\x8a\x01\x04\x08\x01\x12\x00\x92\x01\x00\x92\x01\x00\x9a\x01\x00"))
	f.Add([]byte("\x04\x00\x00"))
	f.Fuzz(func(t *testing.T, value []byte) {
		mustDecodeAlike(t, protoEnvelope(everyProtobuf), value)
	})
}

// FuzzProtobufSchema promises that no schema makes the parser, or the reader by it, panic or take more memory than the record's bytes bound.
func FuzzProtobufSchema(f *testing.F) {
	for _, fields := range []string{everyProtobuf, "Value f = 1;", "oneof f { int32 a = 1; string b = 2; }", "reserved 1 to max;", "repeated FEntry f = 1; message FEntry { string key = 1; FEntry value = 2; }"} {
		f.Add(protoEnvelope(fields), protoCreate("\x08\x01"))
	}
	f.Add("syntax = \"proto2\"; message M { required string op = 1; optional group G = 2 { } extensions 100 to max; }", []byte("\x00\x0a\x01c"))
	f.Add("edition = \"2023\"; message M {}", []byte("\x00"))
	f.Add("CgRhLnByb3RvEgF0IgcKAU0SAggB", []byte("\x00"))
	f.Fuzz(func(t *testing.T, schema string, value []byte) {
		mustDecodeAlike(t, schema, value)
	})
}

func mustDecodeAlike(t *testing.T, schema string, value []byte) {
	t.Helper()
	events, err := decodeProto(t, schema, value)
	mustBeRecordError(t, err)
	if err == nil && !reflect.DeepEqual(events[0].After, events[1].After) {
		t.Fatalf("decoded again: got %+v, want %+v", events[1], events[0])
	}
	if err == nil && debezium.Op(0) == events[0].Op {
		t.Fatalf("an event of no op: %+v", events[0])
	}
}
