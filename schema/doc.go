// Package schema describes tables and the types of their columns, free of any database's or connector's words.
//
// It is the left end of the import chain: pure values, no I/O. A [Table] is either what a source has (read from
// Debezium's schema-change records or from an event's own schema) or what a target has (read from its catalog).
// The mapping between the two is the business of package sqlgen's dialects.
package schema
