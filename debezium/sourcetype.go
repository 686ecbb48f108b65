package debezium

import (
	"slices"
	"strconv"
	"strings"

	"replicator/schema"
)

// The schema parameters that Debezium adds for the options column.propagate.source.type and
// datatype.propagate.source.type.
const (
	columnTypeParam   = "__debezium.source.column.type"
	columnLengthParam = "__debezium.source.column.length"
	columnScaleParam  = "__debezium.source.column.scale"
)

// semanticTypes are the types of Kafka Connect's schema names that need no parameter: Debezium's documentation,
// "Data type mappings", and Kafka Connect's logical types.
var semanticTypes = map[string]schema.Type{
	"io.debezium.time.Date":                   {Kind: schema.Date},
	"io.debezium.time.IsoDate":                {Kind: schema.Date},
	"org.apache.kafka.connect.data.Date":      {Kind: schema.Date},
	"io.debezium.time.Time":                   {Kind: schema.Time, Scale: 3},
	"io.debezium.time.MicroTime":              {Kind: schema.Time, Scale: 6},
	"io.debezium.time.NanoTime":               {Kind: schema.Time, Scale: 9},
	"io.debezium.time.IsoTime":                {Kind: schema.Time, Scale: 6},
	"org.apache.kafka.connect.data.Time":      {Kind: schema.Time, Scale: 3},
	"io.debezium.time.ZonedTime":              {Kind: schema.TimeTZ, Scale: 6},
	"io.debezium.time.Timestamp":              {Kind: schema.Timestamp, Scale: 3},
	"io.debezium.time.MicroTimestamp":         {Kind: schema.Timestamp, Scale: 6},
	"io.debezium.time.NanoTimestamp":          {Kind: schema.Timestamp, Scale: 9},
	"io.debezium.time.IsoTimestamp":           {Kind: schema.Timestamp, Scale: 6},
	"org.apache.kafka.connect.data.Timestamp": {Kind: schema.Timestamp, Scale: 3},
	"io.debezium.time.ZonedTimestamp":         {Kind: schema.TimestampTZ, Scale: 6},
	"io.debezium.time.Year":                   {Kind: schema.Year},
	"io.debezium.time.Interval":               {Kind: schema.Interval, Scale: 6},
	"io.debezium.time.MicroDuration":          {Kind: schema.Interval, Scale: 6},
	"io.debezium.time.NanoDuration":           {Kind: schema.Interval, Scale: 9},
	"io.debezium.data.VariableScaleDecimal":   {Kind: schema.Decimal},
	"io.debezium.data.Json":                   {Kind: schema.JSON},
	"io.debezium.data.Uuid":                   {Kind: schema.UUID},
	"io.debezium.data.Xml":                    {Kind: schema.Text, Native: "xml"},
	"io.debezium.data.Ltree":                  {Kind: schema.Text, Native: "ltree"},
	"io.debezium.data.Tsvector":               {Kind: schema.Text, Native: "tsvector"},
	"io.debezium.data.FloatVector":            {Kind: schema.Vector},
	"io.debezium.data.DoubleVector":           {Kind: schema.Array, Elem: &schema.Type{Kind: schema.Float64}, Native: "vector"}, // of pgvector
	"io.debezium.data.geometry.Geometry":      {Kind: schema.Geometry},
	"io.debezium.data.geometry.Geography":     {Kind: schema.Geometry, Native: "geography"},
	"io.debezium.data.geometry.Point":         {Kind: schema.Geometry},
}

var primitiveTypes = [...]schema.Type{
	Any:     {},
	Boolean: {Kind: schema.Bool},
	Int8:    {Kind: schema.Int8},
	Int16:   {Kind: schema.Int16},
	Int32:   {Kind: schema.Int32},
	Int64:   {Kind: schema.Int64},
	Float32: {Kind: schema.Float32},
	Float64: {Kind: schema.Float64},
	String:  {Kind: schema.Text},
	Bytes:   {Kind: schema.Bytes},
	Map:     {Kind: schema.JSON, Native: "map"},
	Struct:  {Kind: schema.JSON, Native: "struct"},
}

// SourceType is the best type of the source's column that the event's own schema gives: by Debezium's
// __debezium.source.column parameters where they say more, the semantic name, and last the primitive type. A name that
// is not known counts for nothing. It is schema.Unknown for a field without a schema.
func (f *Field) SourceType() schema.Type {
	t := f.semanticType()
	name := f.Params[columnTypeParam]
	if name == "" {
		return t
	}
	return refine(t, MySQLType(name, "", number(f.Params, columnLengthParam), number(f.Params, columnScaleParam), nil))
}

func (f *Field) semanticType() schema.Type {
	if t, ok := semanticTypes[f.Semantic]; ok {
		return t
	}
	switch f.Semantic {
	case "org.apache.kafka.connect.data.Decimal":
		return schema.Type{
			Kind:   schema.Decimal,
			Length: given(number(f.Params, "connect.decimal.precision"), 0),
			Scale:  given(number(f.Params, "scale"), 0),
		}
	case "io.debezium.data.Bits":
		// PostgreSQL's bit varying without a length has the largest integer.
		if n := given(number(f.Params, "length"), 0); n > 0 && n < 1<<31-1 {
			return schema.Type{Kind: schema.Bit, Length: n}
		}
		return schema.Type{Kind: schema.VarBit}
	case "io.debezium.data.Enum":
		return schema.Type{Kind: schema.Enum, Values: AllowedLabels(f.Params["allowed"])}
	case "io.debezium.data.EnumSet":
		return schema.Type{Kind: schema.Set, Values: AllowedLabels(f.Params["allowed"])}
	}
	if f.Type == Array {
		t := schema.Type{Kind: schema.Array, Elem: &schema.Type{}}
		if f.Items != nil {
			*t.Elem = f.Items.SourceType()
		}
		return t
	}
	if int(f.Type) < len(primitiveTypes) {
		return primitiveTypes[f.Type]
	}
	return schema.Type{}
}

// number is an integer parameter; nil if there is none.
func number(params map[string]string, name string) *int {
	n, err := strconv.Atoi(params[name])
	if err != nil {
		return nil
	}
	return &n
}

// textTypes are the types that PostgreSQL's connector sends as plain text, by the names that it gives them. No other
// database has types of these names.
var textTypes = map[string]string{
	"INET": "inet", "CIDR": "cidr", "MACADDR": "macaddr", "MACADDR8": "macaddr8",
	"INT4RANGE": "int4range", "INT8RANGE": "int8range", "NUMRANGE": "numrange",
	"TSRANGE": "tsrange", "TSTZRANGE": "tstzrange", "DATERANGE": "daterange",
	"TSVECTOR": "tsvector", "XML": "xml",
}

// ownTypes are types that a connector sends as text or as a double, by names that mean the same in every database which has
// them.
var ownTypes = map[string]schema.Type{
	"NUMBER":           {Kind: schema.Decimal, Native: "NUMBER"}, // Oracle
	"MONEY":            {Kind: schema.Decimal, Native: "MONEY"},  // SQL Server, PostgreSQL
	"SMALLMONEY":       {Kind: schema.Decimal, Native: "SMALLMONEY"},
	"UNIQUEIDENTIFIER": {Kind: schema.UUID, Native: "UNIQUEIDENTIFIER"},
}

// unboundedNumeric is more digits than any database's bounded decimal has. PostgreSQL's numeric without a precision is
// said to have 131089.
const unboundedNumeric = 1000

// refine adds to t what the column's own type says. Its name may be another database's, in which the same word means
// something else (PostgreSQL's TIMESTAMP has no zone, SQL Server's TINYINT no sign), so only what cannot be
// misunderstood counts.
func refine(t, column schema.Type) schema.Type {
	name := strings.ToUpper(column.Native)
	if native, ok := textTypes[name]; ok && t.Kind == schema.Text {
		t.Native = native
		return t
	}
	if own, ok := ownTypes[name]; ok && (t.Kind == schema.Text || t.Kind == schema.Float64 && own.Kind == schema.Decimal) {
		return own
	}
	switch column.Kind {
	case schema.Uint8, schema.Uint16, schema.Uint24, schema.Uint32, schema.Uint64:
		if strings.Contains(name, "UNSIGNED") && t.Kind != schema.Bool {
			return column
		}
	case schema.Int8:
		if column.Length == 1 && t.Kind == schema.Int16 {
			return column
		}
	case schema.Int24:
		if t.Kind == schema.Int32 {
			return column
		}
	case schema.Decimal:
		if column.Length > unboundedNumeric {
			return schema.Type{Kind: schema.Decimal, Native: column.Native}
		}
		return column
	case schema.Char, schema.Varchar:
		if t.Kind == schema.Text && column.Length < 1<<31-1 {
			return column
		}
	case schema.Bytes, schema.Bit, schema.Vector:
		if t.Kind == column.Kind || t.Kind == schema.Text && column.Kind == schema.Bytes {
			return column
		}
	case schema.Time, schema.Timestamp, schema.TimestampTZ:
		if t.Kind == schema.Time || t.Kind == schema.Timestamp || t.Kind == schema.TimestampTZ {
			t.Scale, t.Native = min(column.Scale, t.Scale), column.Native
		}
	case schema.Year, schema.JSON, schema.Geometry:
		return column
	}
	return t
}

// ofDay makes t what it is in every database but MySQL, whose TIME is a duration.
func ofDay(t schema.Type) schema.Type {
	switch {
	case t.Kind == schema.Time:
		t.Kind = schema.TimeOfDay
	case t.Kind == schema.Array && t.Elem != nil:
		elem := ofDay(*t.Elem)
		t.Elem = &elem
	}
	return t
}

// AllowedLabels splits the schema parameter "allowed" of Enum and EnumSet fields into the labels. A comma within a
// label has a backslash before it. (In the before image of a streamed event Debezium's MySQL connector sends such a
// label with its backslash, elsewhere without.)
func AllowedLabels(param string) []string {
	if param == "" {
		return nil
	}
	var labels []string
	var label strings.Builder
	for i := 0; i < len(param); i++ {
		switch {
		case param[i] == '\\' && i+1 < len(param) && param[i+1] == ',':
			label.WriteByte(',')
			i++
		case param[i] == ',':
			labels = append(labels, label.String())
			label.Reset()
		default:
			label.WriteByte(param[i])
		}
	}
	return append(labels, label.String())
}

// TableFromEvent is the source's table as far as a row event tells: the columns of its after image, or else of its
// before image, with the types that its schema gives and NOT NULL where the schema says so, and as primary key the
// fields of the message key. Of an event without a schema the types are schema.Unknown and every column may be null.
func TableFromEvent(e *Event) schema.Table {
	s := e.After.Shape
	if s == nil {
		s = e.Before.Shape
	}
	t := schema.Table{Name: schema.Name{Schema: e.Source.Schema, Table: e.Source.Table}}
	if t.Name.Schema == "" {
		t.Name.Schema = e.Source.Database
	}
	if e.Key.Sent() {
		for i := range e.Key.Shape.Fields {
			t.PrimaryKey = append(t.PrimaryKey, e.Key.Shape.Fields[i].Name)
		}
	}
	if s == nil {
		return t
	}
	t.Columns = make([]schema.Column, 0, len(s.Fields))
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Meta {
			continue
		}
		c := schema.Column{Name: f.Name, Type: f.SourceType(), NotNull: !s.Schemaless && !f.Optional, Default: f.defaultText()}
		if !fromMySQL(e.Source.Connector) {
			c.Type = ofDay(c.Type)
		}
		c.NotNull = c.NotNull || slices.Contains(t.PrimaryKey, f.Name)
		t.Columns = append(t.Columns, c)
	}
	return t
}
