package sqlgen

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode/utf8"

	"replicator/schema"
)

// pgWire is how the values of a column travel: as a binary array of elem, or, where the type is none of the built-in
// ones that this package encodes, as text that PostgreSQL is asked to cast.
type pgWire struct {
	oid, elem uint32 // of the array type and of its elements; see PostgreSQL's pg_type.dat
	array     string // the array type's name, for SQL
	cast      string // the type to cast an element to, as SQL; empty: none
	noEqual   bool   // the type has no equality, or none that is known: compare as text
}

var pgText = pgWire{oid: 1009, elem: 25, array: "text[]"}

// pgWires are the types that are sent in binary form.
var pgWires = map[schema.Kind]pgWire{
	schema.Bool:        {oid: 1000, elem: 16, array: "bool[]"},
	schema.Bytes:       {oid: 1001, elem: 17, array: "bytea[]"},
	schema.Int64:       {oid: 1016, elem: 20, array: "int8[]"},
	schema.Int16:       {oid: 1005, elem: 21, array: "int2[]"},
	schema.Int32:       {oid: 1007, elem: 23, array: "int4[]"},
	schema.Text:        pgText,
	schema.Varchar:     pgText,
	schema.Char:        {oid: 1014, elem: 1042, array: "bpchar[]"},
	schema.JSON:        {oid: 199, elem: 114, array: "json[]", noEqual: true},
	schema.JSONB:       {oid: 3807, elem: 3802, array: "jsonb[]"},
	schema.Float32:     {oid: 1021, elem: 700, array: "float4[]"},
	schema.Float64:     {oid: 1022, elem: 701, array: "float8[]"},
	schema.Date:        {oid: 1182, elem: 1082, array: "date[]"},
	schema.TimeOfDay:   {oid: 1183, elem: 1083, array: "time[]"},
	schema.Timestamp:   {oid: 1115, elem: 1114, array: "timestamp[]"},
	schema.TimestampTZ: {oid: 1185, elem: 1184, array: "timestamptz[]"},
	schema.Interval:    {oid: 1187, elem: 1186, array: "interval[]"},
	schema.Decimal:     {oid: 1231, elem: 1700, array: "numeric[]"},
	schema.Bit:         {oid: 1561, elem: 1560, array: `"bit"[]`}, // unquoted, bit is bit(1)
	schema.VarBit:      {oid: 1563, elem: 1562, array: "varbit[]"},
	schema.UUID:        {oid: 2951, elem: 2950, array: "uuid[]"},
}

func wireOf(t schema.Type) pgWire {
	if w, ok := pgWires[t.Kind]; ok {
		return w
	}
	w := pgText
	w.cast, w.noEqual = t.Native, t.Kind != schema.Enum
	if t.Native == "money" {
		w.cast = "numeric::money" // what money makes of a text depends on lc_monetary
	}
	return w
}

// pgNames are the built-in types by format_type's name without modifiers.
var pgNames = map[string]schema.Kind{
	"boolean": schema.Bool, "smallint": schema.Int16, "integer": schema.Int32, "bigint": schema.Int64,
	"real": schema.Float32, "double precision": schema.Float64, "numeric": schema.Decimal,
	"text": schema.Text, "character varying": schema.Varchar, "character": schema.Char, "bpchar": schema.Char,
	"bytea": schema.Bytes, "date": schema.Date, "time without time zone": schema.TimeOfDay,
	"time with time zone": schema.TimeTZ, "timestamp without time zone": schema.Timestamp,
	"timestamp with time zone": schema.TimestampTZ, "interval": schema.Interval, "uuid": schema.UUID,
	"json": schema.JSON, "jsonb": schema.JSONB, "bit": schema.Bit, "bit varying": schema.VarBit,
}

// PostgresType returns the type that PostgreSQL's catalog calls formatType, the output of format_type: as in
// "numeric(10,2)", "timestamp(3) without time zone" or "mood". Native is always formatType; a type that is not built in, and
// every array, is Other but for PostGIS's geometry and pgvector's vector.
func PostgresType(formatType string) schema.Type {
	t := schema.Type{Kind: schema.Other, Native: formatType}
	name, mods := formatType, []int(nil)
	if open := strings.IndexByte(name, '('); open >= 0 {
		if end := strings.IndexByte(name[open:], ')'); end > 0 {
			mods = modifiers(name[open+1 : open+end])
			name = name[:open] + name[open+end+1:]
		}
	}
	// A modifier stands before "without time zone", and after "interval day to second".
	if strings.HasPrefix(name, "interval ") && !strings.HasSuffix(name, "]") {
		name = "interval"
	}
	kind, ok := pgNames[name]
	if !ok {
		switch bare := name[strings.LastIndexByte(name, '.')+1:]; bare {
		case "geometry", "geography":
			t.Kind = schema.Geometry
		case "vector":
			t.Kind = schema.Vector
			t.Length = mod(mods, 0, 0)
		}
		return t
	}
	t.Kind = kind
	switch kind {
	case schema.Decimal:
		t.Length, t.Scale = mod(mods, 0, 0), mod(mods, 1, 0)
	case schema.Varchar, schema.Bit, schema.VarBit:
		t.Length = mod(mods, 0, 0)
	case schema.Char:
		// "character" alone is character(1), but format_type always writes that out; "bpchar" is without a bound.
		t.Length = mod(mods, 0, 0)
	case schema.TimeOfDay, schema.TimeTZ, schema.Timestamp, schema.TimestampTZ, schema.Interval:
		t.Scale = mod(mods, 0, 6)
	}
	return t
}

func modifiers(s string) []int {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

func mod(mods []int, i, otherwise int) int {
	if i < len(mods) {
		return mods[i]
	}
	return otherwise
}

// pgMaxIdentifier is NAMEDATALEN - 1: PostgreSQL cuts longer names off, and two of them can become one.
const pgMaxIdentifier = 63

// ShortName returns name if it is within PostgreSQL's 63 bytes, else as much of it as fits before "_" and 8 digits of
// a hash of all of it.
func (Postgres) ShortName(name string) string {
	if len(name) <= pgMaxIdentifier {
		return name
	}
	n := pgMaxIdentifier - 9
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n] + hashSuffix(name)
}

// hashSuffix is "_" and 8 digits that tell name from other long ones.
func hashSuffix(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name)) // never fails: hash.Hash
	return fmt.Sprintf("_%08x", h.Sum32())
}

// Quote returns ident as a quoted identifier. An identifier cannot contain NUL; PostgreSQL has no name with one.
func (Postgres) Quote(ident string) string {
	return `"` + strings.ReplaceAll(ident, `"`, `""`) + `"`
}

// native returns the name of the type, as format_type writes it, that holds every value of t.
func (p Postgres) native(t schema.Type, o Options) (string, error) {
	if name := p.extension(t); name != "" {
		return name, nil
	}
	switch t.Kind {
	case schema.Int8, schema.Uint8:
		if t.Length == 1 && o.Boolean == "boolean" {
			return "boolean", nil
		}
		return "smallint", nil
	case schema.Decimal:
		// Oracle's and PostgreSQL's numeric without a precision, and MySQL's always with one of at most 65.
		if t.Length <= 0 || t.Length > 1000 || t.Scale < 0 || t.Scale > 1000 {
			return "numeric", nil
		}
		return fmt.Sprintf("numeric(%d,%d)", t.Length, t.Scale), nil
	case schema.Bit:
		if t.Length <= 1 {
			return "boolean", nil
		}
		return fmt.Sprintf("bit(%d)", t.Length), nil
	case schema.Time:
		if o.Time == "time" {
			return withScale("time", t.Scale, " without time zone"), nil
		}
		return withScale("interval", t.Scale, ""), nil
	case schema.TimeOfDay:
		return withScale("time", t.Scale, " without time zone"), nil
	case schema.TimeTZ:
		return withScale("time", t.Scale, " with time zone"), nil
	case schema.Timestamp:
		return withScale("timestamp", t.Scale, " without time zone"), nil
	case schema.TimestampTZ:
		return withScale("timestamp", t.Scale, " with time zone"), nil
	case schema.Interval:
		return withScale("interval", t.Scale, ""), nil
	case schema.VarBit, schema.Char, schema.Varchar:
		return pgSized(t), nil
	case schema.JSON, schema.JSONB:
		if o.JSON == "json" {
			return "json", nil
		}
		return "jsonb", nil
	case schema.Array:
		if t.Elem != nil {
			elem, err := p.native(*t.Elem, o)
			return elem + "[]", err
		}
	case schema.Text:
		if pgTextTypes[t.Native] {
			return t.Native, nil
		}
	}
	if native, ok := pgPlain[t.Kind]; ok {
		return native, nil
	}
	if t.Kind == schema.Unknown {
		return "", errUnknownType
	}
	return "", fmt.Errorf("no PostgreSQL type is known that holds %s without loss; create the table yourself", t.Native)
}

var errUnknownType = errors.New("the type is not known: messages without a schema do not tell it, so have the schema-change topic read (source.schema_changes), or create the table yourself")

// extension returns the type of an extension of the target that holds every value of t; empty: there is none.
func (p Postgres) extension(t schema.Type) string {
	switch {
	case t.Kind == schema.Geometry && t.Native == "geography":
		return p.Geography
	case t.Kind == schema.Geometry:
		return p.Geometry
	case t.Kind == schema.Vector && t.Length > 0 && t.Length <= pgMaxVector && p.Vector != "":
		return fmt.Sprintf("%s(%d)", p.Vector, t.Length)
	case t.Kind == schema.Vector && t.Length <= pgMaxVector, t.Kind == schema.Array && t.Native == "vector":
		return p.Vector
	}
	return ""
}

// pgMaxVector is the most numbers that pgvector's vector holds.
const pgMaxVector = 16_000

// pgPlain are the types without modifiers.
var pgPlain = map[schema.Kind]string{
	schema.Bool: "boolean", schema.Int16: "smallint", schema.Int24: "integer", schema.Int32: "integer", schema.Int64: "bigint",
	schema.Uint16: "integer", schema.Uint24: "integer", schema.Uint32: "bigint", schema.Uint64: "numeric(20,0)",
	schema.Float32: "real", schema.Float64: "double precision", schema.Year: "smallint", schema.Date: "date",
	schema.Text: "text", schema.Bytes: "bytea", schema.Enum: "text", schema.Set: "text",
	schema.Geometry: "bytea", schema.Vector: "real[]", schema.UUID: "uuid",
}

// pgTextTypes are PostgreSQL's own types whose values a source sends as text. An extension's type is not among them,
// for the target may lack the extension.
var pgTextTypes = map[string]bool{
	"inet": true, "cidr": true, "macaddr": true, "macaddr8": true, "int4range": true, "int8range": true, "numrange": true,
	"tsrange": true, "tstzrange": true, "daterange": true, "tsvector": true,
}

// pgMaxVarchar is PostgreSQL's bound of character varying(n).
const pgMaxVarchar = 10_485_760

// pgSized names the types of text and bits with a length. MySQL's CHAR is varchar: unlike PostgreSQL's blank-padded
// char, it compares and returns its values without the blanks.
func pgSized(t schema.Type) string {
	switch {
	case t.Kind == schema.VarBit && t.Length > 0:
		return fmt.Sprintf("bit varying(%d)", t.Length)
	case t.Kind == schema.VarBit:
		return "bit varying"
	case t.Length > 0 && t.Length <= pgMaxVarchar:
		return fmt.Sprintf("character varying(%d)", t.Length)
	}
	return "text"
}

// withScale writes a type with its number of fractional digits; one that is not known, or that PostgreSQL cannot
// have, is left to its default of 6.
func withScale(name string, scale int, rest string) string {
	if scale < 0 || scale >= 6 {
		return name + rest
	}
	return fmt.Sprintf("%s(%d)%s", name, scale, rest)
}

// table returns the quoted name of a table; without a schema the connection's search_path finds it.
func (p Postgres) table(n schema.Name) string {
	if n.Schema == "" {
		return p.Quote(n.Table)
	}
	return p.Quote(n.Schema) + "." + p.Quote(n.Table)
}

func (p Postgres) list(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = p.Quote(n)
	}
	return strings.Join(quoted, ", ")
}
