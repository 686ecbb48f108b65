package e2e

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Definition is a column as a database's catalog has it, nil or empty for what it has not.
type Definition struct {
	Name    string
	Type    string // MySQL's COLUMN_TYPE, or PostgreSQL's format_type
	NotNull bool
	Default *string
	Auto    bool // AUTO_INCREMENT, or an identity
	Unsaid  bool // its default says nothing to the other database: it is computed
}

// Key is an index: the primary key's, a unique one, or another.
type Key struct {
	Kind    string // PRIMARY KEY, UNIQUE or INDEX
	Columns []string
}

// MySQLShape is what the target must come to be for a table of MySQL's: a line for each column and each key, sorted.
func MySQLShape(columns []Definition, keys []Key) ([]string, error) {
	var out []string
	for _, c := range columns {
		native, err := postgresType(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		c.Type = native
		c.Auto = c.Auto && !strings.HasPrefix(native, "numeric") // PostgreSQL has no identity of that type
		if c.Unsaid {
			c.Default = nil
		}
		if c.Default != nil {
			d := literal(*c.Default)
			c.Default = &d
		}
		out = append(out, c.line())
	}
	return sortedLines(out, keys), nil
}

// PostgresShape is the same of PostgreSQL's catalog.
func PostgresShape(columns []Definition, keys []Key) []string {
	var out []string
	for _, c := range columns {
		if c.Default != nil {
			d := literal(*c.Default)
			c.Default = &d
		}
		out = append(out, c.line())
	}
	return sortedLines(out, keys)
}

func sortedLines(out []string, keys []Key) []string {
	for _, k := range keys {
		names := make([]string, len(k.Columns))
		for i, c := range k.Columns {
			names[i] = sharedName(c)
		}
		out = append(out, k.Kind+" ("+strings.Join(names, ", ")+")")
	}
	slices.Sort(out)
	return slices.Compact(out) // MySQL may have one index twice
}

func (c Definition) line() string {
	s := "column " + sharedName(c.Name) + " " + c.Type
	if c.NotNull {
		s += " NOT NULL"
	}
	if c.Default != nil {
		s += " DEFAULT " + *c.Default
	}
	if c.Auto {
		s += " IDENTITY"
	}
	return s
}

// sharedName is the part of a name that both databases can have: PostgreSQL's names are at most 63 bytes.
func sharedName(name string) string {
	const most, shared = 60, 50
	if len(name) < most {
		return name
	}
	return name[:shared]
}

var (
	cast = regexp.MustCompile(`::[a-z ]+(\([0-9,]+\))?( [a-z ]+)?$`)
	// MySQL fills a default's fraction up with zeros.
	noFraction = regexp.MustCompile(`(:[0-9]{2})\.0+$`)
	moment     = regexp.MustCompile(`(?i)^(current_timestamp|now)(\([0-9]*\))?$`)
)

// literal is a default in a text that both databases come to.
func literal(s string) string {
	s = cast.ReplaceAllString(s, "")
	if len(s) > 1 && s[0] == '\'' && s[len(s)-1] == '\'' {
		s = strings.ReplaceAll(s[1:len(s)-1], "''", "'")
	}
	if moment.MatchString(s) {
		return "CURRENT_TIMESTAMP"
	}
	if n, ok := new(big.Rat).SetString(strings.Trim(s, "()")); ok {
		return n.RatString()
	}
	return strconv.Quote(noFraction.ReplaceAllString(s, "$1"))
}

var mysqlType = regexp.MustCompile(`^([a-z]+)(?:\(([0-9]+)(?:,([0-9]+))?\))?( unsigned)?`)

// sameTypes are types without an argument that matters.
var sameTypes = map[string]string{
	"tinyint": "smallint", "smallint": "smallint", "mediumint": "integer", "int": "integer", "bigint": "bigint",
	"tinyint unsigned": "smallint", "smallint unsigned": "integer", "mediumint unsigned": "integer", "int unsigned": "bigint", "bigint unsigned": "numeric(20,0)",
	"float": "real", "double": "double precision", "year": "smallint", "date": "date", "json": "jsonb", "enum": "text", "set": "text", "vector": "real[]",
	"tinytext": "text", "text": "text", "mediumtext": "text", "longtext": "text",
	"binary": "bytea", "varbinary": "bytea", "tinyblob": "bytea", "blob": "bytea", "mediumblob": "bytea", "longblob": "bytea", "point": "bytea", "geometry": "bytea",
}

// postgresType is the type that docs/types.md promises for a COLUMN_TYPE.
func postgresType(columnType string) (string, error) {
	m := mysqlType.FindStringSubmatch(columnType)
	if m == nil {
		return "", fmt.Errorf("type %q is none that is known here", columnType)
	}
	name, length, scale := m[1], m[2], m[3]
	fraction := ""
	switch length {
	case "":
		fraction = "(0)"
	case "6":
	default:
		fraction = "(" + length + ")"
	}
	switch name {
	case "decimal":
		return "numeric(" + length + "," + scale + ")", nil
	case "bit":
		if length == "1" {
			return "boolean", nil
		}
		return "bit(" + length + ")", nil
	case "char", "varchar":
		return "character varying(" + length + ")", nil
	case "time":
		return "interval" + fraction, nil
	case "datetime":
		return "timestamp" + fraction + " without time zone", nil
	case "timestamp":
		return "timestamp" + fraction + " with time zone", nil
	}
	native, ok := sameTypes[name+m[4]]
	if !ok {
		return "", fmt.Errorf("type %q is none that is known here", columnType)
	}
	return native, nil
}
