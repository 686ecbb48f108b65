package debezium

// FieldType is Kafka Connect's primitive type of a field.
type FieldType uint8

// Kafka Connect's schema types. Any is the type of every field of a message without a schema.
const (
	Any FieldType = iota
	Boolean
	Int8
	Int16
	Int32
	Int64
	Float32
	Float64
	String
	Bytes
	Array
	Map
	Struct
)

// Field is one field of a message's schema. A field of a schemaless message has a Name only.
type Field struct {
	Name     string
	Type     FieldType
	Optional bool
	Semantic string            // Kafka Connect's schema name, such as io.debezium.time.MicroTimestamp
	Params   map[string]string // schema parameters: scale, length, allowed, __debezium.source.column.type, ...
	Default  *string           // the default's JSON text
	Fields   []Field           // of a Struct
	Items    *Field            // of an Array or Map
	// NoPresence is set in Protobuf where null and the type's zero are sent alike, as nothing: such a value is Unset.
	NoPresence bool
	Meta       bool // added by ExtractNewRecordState: a column only where the target has one of this name
}

// Shape is the ordered fields of a row. Shapes are shared and immutable: the decoder returns the same pointer for the
// same schema, so a pointer is a cache key.
type Shape struct {
	Name       string // the schema's name; empty when schemaless
	Schemaless bool
	Fields     []Field
}

// Index returns the position of the field called name, or -1.
func (s *Shape) Index(name string) int {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// ValueKind says what a Value holds.
type ValueKind uint8

// The kinds of values.
const (
	Absent      ValueKind = iota // the field was not in the message
	Null                         //
	Unavailable                  // Debezium's placeholder: the source did not send the unchanged value
	BoolValue                    // Num is 0 or 1
	IntValue                     // Num
	NumberValue                  // Text: a JSON number that is no int64 (fraction, exponent, larger), or NaN, Infinity, -Infinity
	StringValue                  // Text, valid UTF-8
	BytesValue                   // Text: raw bytes. JSON carries bytes as base64 in a StringValue; only Avro and Protobuf make these
	ListValue                    // List: an array's elements, a struct's or a map's members
	Unset                        // of a field with NoPresence: null, or else the one value in List
)

// Value is one value as it was sent: a primitive of Kafka Connect. Its meaning is given by its Field.
type Value struct {
	Kind ValueKind
	Num  int64
	Text string // may share memory with the Record
	List *List
}

// List is a nested value. Names is nil for an array and has as many elements as Values for a struct or a map.
type List struct {
	Names  []string
	Values []Value
}
