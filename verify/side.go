package verify

import (
	"context"

	"replicator/schema"
)

// Side is one of the two databases. Its methods may be called by several goroutines.
type Side interface {
	// Tables lists the tables that rows can be read from, but for the system's.
	Tables(ctx context.Context) ([]schema.Name, error)

	// Table reads a table's shape from the catalog; nil: there is none. A name without a schema is the connection's default's.
	Table(ctx context.Context, name schema.Name) (*schema.Table, error)

	// Estimate is about how many rows the table has, from the server's statistics.
	Estimate(ctx context.Context, name schema.Name) (int64, error)

	// Quote returns ident as an identifier.
	Quote(ident string) string

	// Text returns an expression that is the column's value as text in a form, and NULL for NULL.
	Text(c schema.Column, f Form) string

	// Hash returns an expression that is the SHA-256 of a text's UTF-8, in lower-case hexadecimal digits. (MySQL 9.6 has no MD5.)
	Hash(text string) string

	// Number returns an expression that is the number which the first 15 hexadecimal digits of a hash are. Sums of it are exact.
	Number(hash string) string

	// Query returns the rows of a statement as text; nil is NULL. The statement bounds them.
	Query(ctx context.Context, sql string) ([][]*string, error)
}
