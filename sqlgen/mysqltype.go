package sqlgen

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"replicator/debezium"
	"replicator/schema"
)

// MySQLType returns the type that the catalog calls columnType (information_schema.columns.column_type): as in
// "bigint(20) unsigned", "datetime(6)" or "enum('a','b')". Native is always columnType.
func MySQLType(columnType string) schema.Type {
	var labels []string
	if lower := strings.ToLower(columnType); strings.HasPrefix(lower, "enum(") || strings.HasPrefix(lower, "set(") {
		labels = mysqlLabels(columnType[strings.IndexByte(columnType, '(')+1:])
	}
	return debezium.MySQLType("", columnType, nil, nil, labels)
}

// mysqlLabels splits the labels of an ENUM or SET, each still between its quotes.
func mysqlLabels(s string) []string {
	var labels []string
	for strings.HasPrefix(s, "'") {
		n := 1
		for n < len(s) && (s[n] != '\'' || n+1 < len(s) && s[n+1] == '\'') {
			if s[n] == '\'' {
				n++
			}
			n++
		}
		n = min(n+1, len(s))
		// The catalog doubles quotes and escapes nothing; MySQLType reads a literal, where a backslash escapes.
		labels = append(labels, strings.ReplaceAll(s[:n], `\`, `\\`))
		s = strings.TrimPrefix(s[n:], ",")
	}
	return labels
}

// TargetTable returns the table that holds the rows of source: one of MySQL or MariaDB gets its own types back.
// Generated columns become plain ones, since their values are sent, and AUTO_INCREMENT is left out for the same reason. Defaults
// are as SQL; those that mean nothing here are left out.
func (m MySQL) TargetTable(source schema.Table, as schema.Name, o Options) (schema.Table, error) {
	out := schema.Table{Name: schema.Name{Schema: m.ShortName(as.Schema), Table: m.ShortName(as.Table)}, Comment: source.Comment}
	keyBytes := mysqlMaxKey / max(len(source.PrimaryKey), 1)
	room := mysqlMaxRow
	for _, c := range source.Columns {
		key := slices.Contains(source.PrimaryKey, c.Name)
		native, err := m.native(c.Type, o)
		if err != nil {
			return out, &RowError{Class: UnsupportedType, Table: as, Column: c.Name, Err: err}
		}
		if key {
			native = mysqlKeyType(MySQLType(native), keyBytes)
		}
		t := MySQLType(native)
		if n := mysqlVarBytes(t); n > 0 && !key && n > room {
			native = mysqlLongType(t)
			t = MySQLType(native)
		} else {
			room -= n
		}
		made := schema.Column{Name: m.ShortName(c.Name), Type: t, NotNull: c.NotNull || key, Comment: c.Comment, Invisible: c.Invisible && !key}
		made.OnUpdate = c.OnUpdate && mysqlClock(t)
		if c.Default != nil && !c.Generated {
			if text, ok := mysqlDefault(c.Type, t, *c.Default); ok {
				made.Default = &text
			}
		}
		out.Columns = append(out.Columns, made)
	}
	for _, k := range source.PrimaryKey {
		out.PrimaryKey = append(out.PrimaryKey, m.ShortName(k))
	}
	out.Indexes = m.mysqlIndexes(source, out)
	return out, nil
}

// The bounds of InnoDB's index and of a row's columns other than TEXT and BLOB, in bytes; the second with some room for
// columns of other types.
const (
	mysqlMaxKey = 3072
	mysqlMaxRow = 48_000
)

// mysqlKeyType is the type of a key column: an index takes no TEXT or BLOB, but for a prefix of it, which does not tell
// two keys apart. A key that is longer than the column is refused by the server.
func mysqlKeyType(t schema.Type, most int) string {
	switch t.Kind {
	case schema.Text, schema.Varchar, schema.Char:
		if n := most / utf8.UTFMax; !mysqlInet(t) && (t.Length == 0 || t.Length > n) {
			return fmt.Sprintf("varchar(%d)", n)
		}
	case schema.Bytes:
		if t.Length == 0 || t.Length > most {
			return fmt.Sprintf("varbinary(%d)", most)
		}
	}
	return t.Native
}

// mysqlVarBytes is what a column takes of a row's bound, where that is much.
func mysqlVarBytes(t schema.Type) int {
	switch t.Kind {
	case schema.Varchar, schema.Char:
		return t.Length * utf8.UTFMax
	case schema.Bytes:
		return t.Length
	}
	return 0
}

// mysqlLongType is the type that is stored outside of the row.
func mysqlLongType(t schema.Type) string {
	if t.Kind == schema.Bytes {
		return "mediumblob"
	}
	return "mediumtext"
}

// native returns the name of the type, as the catalog writes it, that holds every value of t.
func (m MySQL) native(t schema.Type, o Options) (string, error) {
	base := mysqlBase(t)
	switch t.Kind {
	case schema.Int8, schema.Uint8:
		if t.Length == 1 {
			return "tinyint(1)" + mysqlPlain[t.Kind][len("tinyint"):], nil
		}
	case schema.Decimal:
		// Oracle's and PostgreSQL's numeric has no bounds. What this one does not hold is refused, never rounded.
		if t.Length <= 0 || t.Length > 65 || t.Scale < 0 || t.Scale > 30 || t.Scale > t.Length {
			return "decimal(65,30)", nil
		}
		return fmt.Sprintf("decimal(%d,%d)", t.Length, t.Scale), nil
	case schema.Bit:
		if t.Length <= 64 {
			return fmt.Sprintf("bit(%d)", max(t.Length, 1)), nil
		}
		return mysqlVarchar(t.Length), nil
	case schema.VarBit, schema.Varchar:
		return mysqlVarchar(t.Length), nil
	case schema.Char:
		if t.Length > 0 && t.Length <= 255 {
			return fmt.Sprintf("char(%d)", t.Length), nil
		}
		return mysqlVarchar(t.Length), nil
	case schema.Time, schema.TimeOfDay:
		return mysqlScale("time", t.Scale), nil
	case schema.Timestamp:
		return mysqlScale("datetime", t.Scale), nil
	case schema.TimestampTZ:
		// MySQL's own TIMESTAMP ends in 2038; another source's instants do not, and are kept in UTC.
		if base == "timestamp" {
			return mysqlScale("timestamp", t.Scale), nil
		}
		return mysqlScale("datetime", t.Scale), nil
	case schema.Text:
		return m.text(base), nil
	case schema.Bytes:
		return mysqlBytes(base, t.Length), nil
	case schema.Enum, schema.Set:
		return mysqlLabelled(t), nil
	case schema.Geometry:
		if mysqlGeometries[base] {
			return base, nil
		}
		return "geometry", nil
	case schema.Vector:
		if m.Vector && t.Length > 0 {
			return fmt.Sprintf("vector(%d)", t.Length), nil
		}
		return "json", nil
	case schema.UUID:
		if m.MariaDB {
			return "uuid", nil
		}
		return "char(36)", nil
	}
	if native, ok := mysqlPlain[t.Kind]; ok {
		return native, nil
	}
	if t.Kind == schema.Unknown {
		return "", errUnknownType
	}
	return "", fmt.Errorf("no type of MySQL is known that holds %s without loss; create the table yourself", t.Native)
}

// mysqlPlain are the types without modifiers.
var mysqlPlain = map[schema.Kind]string{
	schema.Bool: "tinyint(1)", schema.Int8: "tinyint", schema.Uint8: "tinyint unsigned", schema.Int16: "smallint", schema.Uint16: "smallint unsigned",
	schema.Int24: "mediumint", schema.Uint24: "mediumint unsigned", schema.Int32: "int", schema.Uint32: "int unsigned",
	schema.Int64: "bigint", schema.Uint64: "bigint unsigned", schema.Float32: "float", schema.Float64: "double", schema.Year: "year",
	schema.Date: "date", schema.JSON: "json", schema.JSONB: "json", schema.Array: "json",
	schema.TimeTZ:   "varchar(40)",  // as text
	schema.Interval: "varchar(100)", // as ISO 8601 text: TIME has no months
}

// mysqlClock says whether a column of the type can take the time of an update.
func mysqlClock(t schema.Type) bool { return mysqlBase(t) == "datetime" || mysqlBase(t) == "timestamp" }

// mysqlBase is the type's own name in MySQL, without what follows it.
func mysqlBase(t schema.Type) string {
	base, _, _ := strings.Cut(strings.ToLower(t.Native), "(")
	return strings.TrimSpace(base)
}

var mysqlGeometries = map[string]bool{
	"point": true, "linestring": true, "polygon": true, "multipoint": true, "multilinestring": true, "multipolygon": true,
	"geometrycollection": true,
}

// text names the type of text without a length. The source's own may be too short here where its character set takes
// fewer bytes than utf8mb4: the server refuses a value then.
func (m MySQL) text(base string) string {
	switch base {
	case "tinytext", "text", "mediumtext", "longtext":
		return base
	case "inet4", "inet6":
		if m.MariaDB {
			return base
		}
		return "varchar(45)"
	}
	return "longtext"
}

// mysqlInet says whether the type is one of MariaDB's addresses, which are text to everybody else.
func mysqlInet(t schema.Type) bool {
	base := mysqlBase(t)
	return base == "inet4" || base == "inet6"
}

func mysqlBytes(base string, length int) string {
	switch {
	case base == "tinyblob" || base == "blob" || base == "mediumblob" || base == "longblob":
		return base
	case base == "binary" && length > 0 && length <= 255:
		return fmt.Sprintf("binary(%d)", length)
	case length > 0 && length <= mysqlMaxRow:
		return fmt.Sprintf("varbinary(%d)", length)
	}
	return "longblob"
}

func mysqlVarchar(length int) string {
	if length > 0 && length <= mysqlMaxRow/utf8.UTFMax {
		return fmt.Sprintf("varchar(%d)", length)
	}
	return "longtext"
}

func mysqlScale(name string, scale int) string {
	if n := clampScale(scale); n > 0 {
		return fmt.Sprintf("%s(%d)", name, n)
	}
	return name
}

// mysqlLabelled names an ENUM or SET. A label with a backslash has no spelling that every sql_mode reads alike.
func mysqlLabelled(t schema.Type) string {
	quoted := make([]string, len(t.Values))
	for i, v := range t.Values {
		if strings.ContainsAny(v, "\\\x00") {
			return "longtext"
		}
		quoted[i] = string(appendMySQLText(nil, []byte(v)))
	}
	labels := "(" + strings.Join(quoted, ",") + ")"
	switch {
	case len(quoted) == 0 || len(labels) > 60_000:
		return "longtext"
	case t.Kind == schema.Enum:
		return "enum" + labels
	case len(quoted) > 64:
		return "longtext"
	}
	return "set" + labels
}

// CreateTable returns the statements that create t. Its collation is the binary one that heeds blanks at the end: any
// other takes some of the source's keys for the same.
func (m MySQL) CreateTable(t schema.Table) []string {
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + m.tableName(t.Name) + " (")
	for i, c := range t.Columns {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n\t" + m.definition(&c))
	}
	if len(t.PrimaryKey) > 0 {
		b.WriteString(",\n\tPRIMARY KEY (" + m.list(t.PrimaryKey) + ")")
	}
	for _, x := range t.Indexes {
		if sql, ok := m.index(x); ok {
			b.WriteString(",\n\t" + sql)
		}
	}
	collation := "utf8mb4_0900_bin"
	if m.MariaDB {
		collation = "utf8mb4_nopad_bin"
	}
	b.WriteString("\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=" + collation)
	if t.Comment != "" {
		b.WriteString(" COMMENT=" + mysqlComment(t.Comment, mysqlTableComment))
	}
	return []string{b.String()}
}
