// Package debezium turns Kafka records that Debezium wrote into change events.
//
// The shapes are those of Debezium's documentation (Connectors, "Data change events"): an envelope with before,
// after, source, op and ts_ms, wrapped by Kafka Connect's JSON converter as {"schema": ..., "payload": ...} or bare, or
// in Avro or Protobuf by a schema registry's converter.
//
// Rows that the transform ExtractNewRecordState has flattened are read as well: they become the events that they were made
// of, as far as their metadata say what these were (see flat.go).
//
// The package is pure: no network, clock or goroutine; a schema registry is what implements [Schemas]. A [Decoder] takes
// a [Batch] of records at a time and returns [Event]s whose values are Kafka Connect's primitives, still unconverted:
// what an int64 means (a count, microseconds since the epoch) is said by its [Field], and becomes a target's value only
// in package sqlgen. Nothing here passes through float64 but Avro's and Protobuf's own floats and doubles, and values point into the
// record's bytes wherever no escape must be undone.
//
// Nothing is repaired in silence. Text that is not UTF-8, half of a surrogate pair, a field that is there twice, a field
// that the message's own schema lacks, and a record that is neither a change nor one of Debezium's other messages are
// errors, a [RecordError] each. Only the keys in the headers of a changed key are optional: some connector options write
// them in forms that cannot be read.
//
// How a record is read, in the order of the files: decoder.go (what is remembered between batches), reading.go (one
// batch: values, rows, and the schema taken off), envelope.go (what a message is), flat.go (rows without an envelope),
// source.go, change.go (the schema-change topic), connect.go (schemas of Kafka Connect's JSON converter), json.go (the
// scanner); registered.go (ids of a registry's schemas); for Avro, avromessage.go (messages), avrosource.go (source blocks), avro.go (values), avroschema.go
// (schemas); for Protobuf the like (protomessage.go, proto.go, protoschema.go), and prototext.go (schemas' text).
package debezium
