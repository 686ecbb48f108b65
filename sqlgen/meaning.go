package sqlgen

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"replicator/debezium"
	"replicator/schema"
)

// sense is what a field's values are, whichever way the connector's options have them sent: the fine print of a
// Field, a witness and a target column in one word.
type sense uint8

const (
	senseAny      sense = iota // nothing tells; the values speak for themselves
	senseBool                  //
	senseInt                   //
	senseUint64                // may come as an int64 that wraps
	senseFloat                 //
	senseDecimal               // base64 of a two's complement with meaning.scale, digits, or {scale, value}
	senseBits                  // base64 of little-endian bytes, meaning.bits of them
	senseBytes                 // base64
	senseText                  //
	senseEnum                  // a label of meaning.labels
	senseJSON                  //
	senseUUID                  //
	senseDate                  // days since 1970-01-01, or ISO text
	senseTime                  // a duration or a time of day in meaning.unit, or ISO text
	senseDatetime              // a wall clock since 1970-01-01 in meaning.unit, or ISO text
	senseInstant               // ISO text with an offset
	senseInterval              // an interval in meaning.unit, or ISO 8601 text
	senseGeometry              // {wkb, srid}
	senseArray                 //
	senseMap                   //
	senseStruct                //
)

// meaning is a sense with its parameters.
type meaning struct {
	sense  sense
	scale  int            // of Decimal; unknownScale: the values must say it themselves
	bits   int            // of Bits; 0: not known
	unit   unit           // of Time, Datetime and Interval
	digits int            // fractional digits of a Time or Datetime in unitUnknown
	labels []string       // of Enum, unescaped
	set    bool           // the text is members of a SET, parted by commas
	double bool           // of Float: sent as a double
	items  *meaning       // of Array
	item   debezium.Field // of Array: the field that items is the meaning of
	native string         // the semantic name, for errors
	source schema.Kind    // the witness
	form   *DecimalForm   // of Decimal without a schema; may be nil
}

const unknownScale = -1 << 31

// unit is the unit of a number that means a time, in nanoseconds; unitUnknown: see TimeUnits.
type unit int64

const (
	unitUnknown unit = 0
	nanos       unit = 1
	micros      unit = 1_000
	millis      unit = 1_000_000
)

// semantics are the schema names of Kafka Connect (org.apache.kafka.connect.data) and Debezium (io.debezium.time and
// io.debezium.data; see "Data type mappings" of each connector's documentation).
var semantics = map[string]meaning{
	"org.apache.kafka.connect.data.Decimal":   {sense: senseDecimal},
	"org.apache.kafka.connect.data.Date":      {sense: senseDate},
	"org.apache.kafka.connect.data.Time":      {sense: senseTime, unit: millis},
	"org.apache.kafka.connect.data.Timestamp": {sense: senseDatetime, unit: millis},
	"io.debezium.data.VariableScaleDecimal":   {sense: senseDecimal, scale: unknownScale},
	"io.debezium.time.Date":                   {sense: senseDate},
	"io.debezium.time.IsoDate":                {sense: senseDate},
	"io.debezium.time.Time":                   {sense: senseTime, unit: millis},
	"io.debezium.time.MicroTime":              {sense: senseTime, unit: micros},
	"io.debezium.time.NanoTime":               {sense: senseTime, unit: nanos},
	"io.debezium.time.IsoTime":                {sense: senseTime, unit: micros},
	"io.debezium.time.Timestamp":              {sense: senseDatetime, unit: millis},
	"io.debezium.time.MicroTimestamp":         {sense: senseDatetime, unit: micros},
	"io.debezium.time.NanoTimestamp":          {sense: senseDatetime, unit: nanos},
	"io.debezium.time.IsoTimestamp":           {sense: senseDatetime, unit: micros},
	"io.debezium.time.ZonedTimestamp":         {sense: senseInstant},
	"io.debezium.time.ZonedTime":              {sense: senseText},
	"io.debezium.time.Year":                   {sense: senseInt},
	"io.debezium.time.MicroDuration":          {sense: senseInterval, unit: micros},
	"io.debezium.time.NanoDuration":           {sense: senseInterval, unit: nanos},
	"io.debezium.time.Interval":               {sense: senseInterval, unit: micros},
	"io.debezium.data.Bits":                   {sense: senseBits},
	"io.debezium.data.Enum":                   {sense: senseEnum},
	"io.debezium.data.EnumSet":                {sense: senseText, set: true},
	"io.debezium.data.Json":                   {sense: senseJSON},
	"io.debezium.data.Uuid":                   {sense: senseUUID},
	"io.debezium.data.Xml":                    {sense: senseText},
	"io.debezium.data.Ltree":                  {sense: senseText},
	"io.debezium.data.Tsvector":               {sense: senseText},
	"io.debezium.data.geometry.Geometry":      {sense: senseGeometry},
	"io.debezium.data.geometry.Geography":     {sense: senseGeometry},
	"io.debezium.data.geometry.Point":         {sense: senseGeometry},
	"io.debezium.data.FloatVector":            {sense: senseArray, items: &meaning{sense: senseFloat}},
	"io.debezium.data.DoubleVector":           {sense: senseArray, items: &meaning{sense: senseFloat, double: true}},
}

// meaningOf reads a field: its schema where it has one, else the source's type, else the target column's.
func meaningOf(f debezium.Field, witness schema.Type, c schema.Column) (meaning, error) {
	m, known := semantics[f.Semantic]
	switch {
	case known:
		m.native = f.Semantic
	case f.Type == debezium.Any && witness.Kind != schema.Unknown:
		m = meaningOfType(witness)
	case f.Type == debezium.Any:
		m = meaningOfTarget(c.Type)
	default:
		m = meaningOfPrimitive(f, c)
	}
	m.source = witness.Kind
	var err error
	switch m.sense {
	case senseDecimal:
		if f.Semantic == "org.apache.kafka.connect.data.Decimal" {
			m.scale, err = number(f.Params, "scale", 0)
		}
	case senseBits:
		if f.Type != debezium.Any {
			m.bits, err = number(f.Params, "length", 0)
		}
	case senseEnum:
		if a, ok := f.Params["allowed"]; ok {
			m.labels = debezium.AllowedLabels(a)
		}
	case senseInt:
		if witness.Kind == schema.Uint64 || strings.HasPrefix(strings.ToUpper(f.Params["__debezium.source.column.type"]), "BIGINT UNSIGNED") {
			m.sense = senseUint64
		}
	}
	if err != nil {
		return m, &ValueError{Class: BadRecord, Err: err}
	}
	return m, nil
}

// number reads a numeric schema parameter; an absent one is otherwise.
func number(params map[string]string, name string, otherwise int) (int, error) {
	s, ok := params[name]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("the schema's parameter %s=%q is no number", name, clip(s))
	}
	return int(n), nil
}

func meaningOfPrimitive(f debezium.Field, c schema.Column) meaning {
	switch f.Type {
	case debezium.Boolean:
		return meaning{sense: senseBool}
	case debezium.Int8, debezium.Int16, debezium.Int32, debezium.Int64:
		return meaning{sense: senseInt}
	case debezium.Float32:
		return meaning{sense: senseFloat}
	case debezium.Float64:
		return meaning{sense: senseFloat, double: true}
	case debezium.Bytes:
		return meaning{sense: senseBytes}
	case debezium.Array:
		m := meaning{sense: senseArray, items: &meaning{}}
		if f.Items != nil {
			elem := elementOf(c)
			if f.Items.Type == debezium.Array {
				elem = c // the type of an array does not say how deep it is
			}
			if items, err := meaningOf(*f.Items, schema.Type{}, elem); err == nil {
				m.items, m.item = &items, *f.Items
			}
		}
		return m
	case debezium.Map:
		return meaning{sense: senseMap}
	case debezium.Struct:
		return meaning{sense: senseStruct}
	}
	// A string is what the target's column makes of it where the connector turned the value into one: decimals
	// (decimal.handling.mode=string), and bytes (binary.handling.mode).
	switch c.Type.Kind {
	case schema.Decimal:
		return meaning{sense: senseDecimal, scale: unknownScale}
	case schema.Bytes:
		return meaning{sense: senseBytes}
	}
	return meaning{sense: senseText}
}

// elementOf is the column that an array's elements would have.
func elementOf(c schema.Column) schema.Column {
	elem, ok := strings.CutSuffix(c.Type.Native, "[]")
	if !ok {
		return schema.Column{Name: c.Name, Type: schema.Type{Kind: schema.Other}}
	}
	return schema.Column{Name: c.Name, Type: PostgresType(elem)}
}

// meaningOfType is what a schemaless value of a source's column is.
func meaningOfType(t schema.Type) meaning {
	switch t.Kind {
	case schema.Bool:
		return meaning{sense: senseBool}
	case schema.Uint64:
		return meaning{sense: senseUint64}
	case schema.Int8, schema.Int16, schema.Int24, schema.Int32, schema.Int64,
		schema.Uint8, schema.Uint16, schema.Uint24, schema.Uint32, schema.Year:
		return meaning{sense: senseInt}
	case schema.Float32:
		return meaning{sense: senseFloat}
	case schema.Float64:
		return meaning{sense: senseFloat, double: true}
	case schema.Decimal:
		return meaning{sense: senseDecimal, scale: t.Scale}
	case schema.Bit:
		if t.Length <= 1 {
			return meaning{sense: senseBool}
		}
		return meaning{sense: senseBits, bits: t.Length}
	case schema.VarBit:
		return meaning{sense: senseBits}
	case schema.Date:
		return meaning{sense: senseDate}
	case schema.Time, schema.TimeOfDay:
		return meaning{sense: senseTime, digits: clampScale(t.Scale)}
	case schema.Timestamp:
		m := meaning{sense: senseDatetime, digits: clampScale(t.Scale)}
		if m.digits <= 3 {
			m.unit = millis // in every mode
		}
		return m
	case schema.TimestampTZ:
		return meaning{sense: senseInstant}
	case schema.Interval:
		return meaning{sense: senseInterval, unit: micros}
	case schema.Bytes:
		return meaning{sense: senseBytes}
	case schema.Enum:
		return meaning{sense: senseEnum, labels: t.Values}
	case schema.Set:
		return meaning{set: true}
	case schema.JSON, schema.JSONB:
		return meaning{sense: senseJSON}
	case schema.Geometry:
		return meaning{sense: senseGeometry}
	case schema.Vector:
		return meaning{sense: senseArray, items: &meaning{}}
	case schema.UUID:
		return meaning{sense: senseUUID}
	}
	return meaning{}
}

// meaningOfTarget is what a schemaless value is when only the target's column tells.
func meaningOfTarget(t schema.Type) meaning {
	switch t.Kind {
	case schema.Decimal:
		return meaning{sense: senseDecimal, scale: unknownScale}
	case schema.Float32, schema.Float64:
		return meaning{sense: senseFloat}
	case schema.Bit, schema.VarBit:
		return meaning{sense: senseBits}
	case schema.Interval:
		return meaning{sense: senseTime, digits: clampScale(t.Scale)}
	case schema.Bool, schema.Int16, schema.Int32, schema.Int64:
		return meaning{sense: senseInt}
	}
	return meaningOfType(t)
}

func clampScale(n int) int {
	if n < 0 || n > 6 {
		return 6
	}
	return n
}

func invalid(format string, args ...any) error {
	return &ValueError{Class: InvalidValue, Err: fmt.Errorf(format, args...)}
}

func outOfRange(format string, args ...any) error {
	return &ValueError{Class: OutOfRange, Err: fmt.Errorf(format, args...)}
}

func unsupported(m meaning, c schema.Column) error {
	return &ValueError{Class: UnsupportedType, Err: fmt.Errorf("no lossless way is known from %s to a column of type %s", m, c.Type.Native)}
}

var errKind = errors.New("the value is not of the kind that its schema, or the source's column, says")

func wrongKind() error { return &ValueError{Class: InvalidValue, Err: errKind} }

var senseNames = [...]string{
	"a value of unknown type", "a boolean", "an integer", "an unsigned 64-bit integer", "a floating-point number", "a decimal",
	"a bit string", "bytes", "text", "an enum label", "JSON", "a UUID", "a date", "a time", "a date and time", "an instant",
	"an interval", "a geometry", "an array", "a map", "a struct",
}

func (m meaning) String() string {
	if m.native != "" {
		return senseNames[m.sense] + " (" + m.native + ")"
	}
	return senseNames[m.sense]
}
