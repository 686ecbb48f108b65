// Package sqlgen folds change events and writes them as SQL: one statement per table and kind, not one per row.
//
// # Fold
//
// A [Batch] takes events in order ([Batch.Add]) and keeps what remains of them. In a table with a key, successive
// changes of one row become one: a create then a delete is a delete, a delete then a create is an update, and a key
// that changes (Debezium sends the delete of the old and the create of the new one, tied together by headers) is one
// move of the row, which keeps the values that the source did not send. In a table without a key the rows are a bag:
// an insert and a delete of equal rows cancel out.
//
// # Rows
//
// A row is kept encoded, in the target's own columns: for each written column a 4-byte big-endian length and as many
// bytes; the negative lengths [NullLength], [UnsentLength] and [UnavailableLength] stand for what has no bytes. The
// bytes of a value are what the dialect's [Encoder] made of it. They are canonical, or the dialect makes them so (see
// [Canonicalizer]): equal values have equal bytes, and the fold compares keys and rows by bytes alone.
//
// # Dialects
//
// A [Dialect] knows one database: how identifiers are quoted, which type stands for which, how a value is encoded, and how
// folded [Changes] are written as statements. SQL is built there and nowhere else. To PostgreSQL values are arguments; to
// MySQL and MariaDB they are literals, which one function for each kind of value writes (see [MySQL]). A target that is a log
// gets messages in place of statements, as [JSON] or as [SQLText].
//
// # Files
//
// In the order of an event's way: target.go and rules.go (which field goes to which column), meaning.go (what a sent value is, whatever
// the connector's options) with decimal.go and instant.go, then a dialect's encoder (pgencode.go, pgtextual.go, mysqlencode.go,
// jsonencode.go), fold.go with keyed.go and bag.go, and a dialect's statements (pgstatements.go, pgmoves.go, pgbag.go; mysql…, json…
// likewise). A change of a table goes by evolve.go, and from there by pgevolve.go, mysqlevolve.go or jsonevolve.go.
package sqlgen
