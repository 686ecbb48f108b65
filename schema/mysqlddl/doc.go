// Package mysqlddl reads the statements that change a schema at MySQL and MariaDB: the ddl text of Debezium's schema-change
// records.
//
// It tells what the structured part of those records does not: which column was renamed (there it is one that vanished and
// one that appeared), and what happens to indexes and foreign keys. The shape of a table, its types and defaults
// are taken from the structured part, never from here.
//
// The package is pure. A statement that it cannot read is a [*ParseError], and the structured part then decides alone.
package mysqlddl
