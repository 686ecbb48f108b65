// Package debezium turns Kafka records that Debezium wrote into change events.
//
// The shapes are those of Debezium's documentation (Connectors, "Data change events"): an envelope with before,
// after, source, op and ts_ms, wrapped by Kafka Connect's JSON converter as {"schema": ..., "payload": ...} or bare.
//
// The package is pure: no network, clock or goroutine. A [Decoder] takes one [Record] at a time and returns [Event]s
// whose values are Kafka Connect's primitives, still unconverted: what an int64 means (a count, microseconds since
// the epoch) is said by its [Field], and becomes a target's value only in package sqlgen. Nothing here passes through
// float64, and values point into the record's bytes wherever no escape must be undone.
package debezium
