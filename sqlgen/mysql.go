package sqlgen

import (
	"strings"

	"replicator/schema"
)

// MySQL is the dialect of MySQL, 8.0.19 and later, and of MariaDB, 10.11 and later. A statement is its complete text,
// values included, and has no arguments: prepared statements hold 65,535 placeholders and cost two more turns.
//
// The session must be set so that the text means the same on every server:
//   - character_set_client utf8mb4 and time_zone '+00:00';
//   - sql_mode with STRICT_ALL_TABLES, or values are cut and rounded, and NO_AUTO_VALUE_ON_ZERO, or a 0 in an
//     AUTO_INCREMENT column becomes another number; without ANSI_QUOTES or NO_ZERO_DATE. Literals do not depend on
//     NO_BACKSLASH_ESCAPES;
//   - foreign_key_checks off, as rows are deleted and inserted again to exchange unique values, which must not cascade;
//   - the client flag CLIENT_FOUND_ROWS, since [Statement.Want] counts rows that are found, changed or not.
//
// Rows are matched by the bytes of their key. Where a column's collation takes two keys of the source for one, as a
// case-insensitive one does, a statement fails (see [MySQLGuards]) and merges nothing.
type MySQL struct {
	MariaDB bool
	Vector  bool // the server has the type VECTOR: MySQL 9.0, MariaDB 11.7
	Load    bool // the sender can have LOAD DATA LOCAL read a [Statement.Data]
	// MaxPacket is the server's max_allowed_packet; 0 is 16 MiB. A statement of several rows is never longer. One of
	// a single row may be: whoever sends it must look.
	MaxPacket int
}

var (
	_ Dialect       = MySQL{}
	_ Canonicalizer = MySQL{}
)

// MySQLGuards are the numbers of the errors by which a statement of this dialect stops itself, and what they say of the
// row. No statement raises them for another reason, but for a trigger or a generated column of the target's own.
var MySQLGuards = map[uint16]Class{
	1242: UniqueViolation, // a row with another key holds one of the row's unique values
	1690: KeyCollision,    // a row is stored whose key the collation takes for this one's
}

// mysqlDefaultPacket is max_allowed_packet where it is not known: MariaDB's default, and a quarter of MySQL's.
const mysqlDefaultPacket = 16 << 20

// maxBytes is how many bytes the rows of one statement may take; the rest is for what stands around them.
func (m MySQL) maxBytes() int {
	packet := m.MaxPacket
	if packet <= 0 {
		packet = mysqlDefaultPacket
	}
	return max(packet-64<<10, packet/2)
}

// mysqlMaxIdentifier is MySQL's bound of a name, in characters.
const mysqlMaxIdentifier = 64

// ShortName returns name if it is within MySQL's 64 characters, else as much of it as fits before "_" and 8 digits of
// a hash of all of it.
func (MySQL) ShortName(name string) string {
	short := []rune(name)
	if len(short) <= mysqlMaxIdentifier {
		return name
	}
	return string(short[:mysqlMaxIdentifier-9]) + hashSuffix(name)
}

// Quote returns ident as a quoted identifier. An identifier cannot contain NUL; MySQL has no name with one.
func (MySQL) Quote(ident string) string {
	return "`" + strings.ReplaceAll(ident, "`", "``") + "`"
}

// tableName returns the quoted name of a table; without a schema it is in the connection's database.
func (m MySQL) tableName(n schema.Name) string {
	if n.Schema == "" {
		return m.Quote(n.Table)
	}
	return m.Quote(n.Schema) + "." + m.Quote(n.Table)
}

func (m MySQL) list(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = m.Quote(n)
	}
	return strings.Join(quoted, ", ")
}

// Canonical implements Canonicalizer: equality ignores the sign of a floating zero, and how a document is written. Text is compared by its bytes,
// whatever the column's collation.
func (MySQL) Canonical(c schema.Column) func(dst, value []byte) []byte {
	switch c.Type.Kind {
	case schema.Float32, schema.Float64:
		return canonicalMySQLFloat
	case schema.JSON: // MariaDB's is text
		return canonicalJSON
	}
	return nil
}

func canonicalMySQLFloat(dst, value []byte) []byte {
	if string(value) == "-0e+00" {
		value = value[1:]
	}
	return append(dst, value...)
}
