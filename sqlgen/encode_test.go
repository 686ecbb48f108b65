package sqlgen

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// field is a field with a schema.
func field(t debezium.FieldType, semantic string, params ...string) debezium.Field {
	f := debezium.Field{Name: "f", Type: t, Semantic: semantic, Params: map[string]string{}}
	for i := 0; i < len(params); i += 2 {
		f.Params[params[i]] = params[i+1]
	}
	return f
}

func intValue(n int64) debezium.Value { return debezium.Value{Kind: debezium.IntValue, Num: n} }

func digits(s string) debezium.Value { return debezium.Value{Kind: debezium.NumberValue, Text: s} }

func list(values ...debezium.Value) debezium.Value {
	return debezium.Value{Kind: debezium.ListValue, List: &debezium.List{Values: values}}
}

func object(pairs ...any) debezium.Value {
	l := &debezium.List{Names: []string{}}
	for i := 0; i < len(pairs); i += 2 {
		l.Names = append(l.Names, pairs[i].(string))
		l.Values = append(l.Values, pairs[i+1].(debezium.Value))
	}
	return debezium.Value{Kind: debezium.ListValue, List: l}
}

const (
	connectData  = "org.apache.kafka.connect.data."
	debeziumTime = "io.debezium.time."
	debeziumData = "io.debezium.data."
)

var (
	decimal2  = field(debezium.Bytes, connectData+"Decimal", "scale", "2")
	decimal0  = field(debezium.Bytes, connectData+"Decimal", "scale", "0")
	variable  = field(debezium.Struct, debeziumData+"VariableScaleDecimal")
	anyField  = debezium.Field{Name: "f"}
	textField = field(debezium.String, "")
	longField = field(debezium.Int64, "")
	dateField = field(debezium.Int32, debeziumTime+"Date")
	msField   = field(debezium.Int64, debeziumTime+"Timestamp")
	usField   = field(debezium.Int64, debeziumTime+"MicroTimestamp")
	nsField   = field(debezium.Int64, debeziumTime+"NanoTimestamp")
	zoned     = field(debezium.String, debeziumTime+"ZonedTimestamp")
	microTime = field(debezium.Int64, debeziumTime+"MicroTime")
	bitsField = func(n string) debezium.Field { return field(debezium.Bytes, debeziumData+"Bits", "length", n) }
	unsigned  = field(debezium.Int64, "", "__debezium.source.column.type", "BIGINT UNSIGNED")
)

// encodeCase is one value, and the literal that is the same value to PostgreSQL; want is what the type's send function
// made of that (but for numeric's infinities, whose scale means nothing, and a jsonb that is written in other blanks).
type encodeCase struct {
	f       debezium.Field
	witness schema.Type
	column  string
	v       debezium.Value
	literal string
	want    string // in hexadecimal
}

func encodeCases() []encodeCase {
	none := schema.Type{}
	return []encodeCase{
		{decimal2, none, "numeric(10,2)", textValue("/w=="), "-0.01", "0001ffff400000020064"},
		{decimal2, none, "numeric(10,2)", textValue("gA=="), "-1.28", "000200004000000200010af0"},
		{decimal2, none, "numeric(10,2)", textValue("/wD/"), "-652.81", "0002000040000002028c1fa4"},
		{decimal2, none, "numeric(10,2)", textValue("AA=="), "0", "0000000000000002"},
		{decimal2, none, "numeric(10,2)", textValue("/av0HAE="), "-99999999.99", "0003000140000002270f270f26ac"},
		{decimal2, none, "numeric(10,4)", textValue("AIAA"), "327.68", "000200000000000401471a90"},
		{decimal0, none, "numeric(20,0)", textValue("AP//////////"), "18446744073709551615", "000500040000000007341a5802e103bb064f"},
		{decimal2, none, "numeric", textValue("AJY="), "1.50", "000200000000000200011388"},
		{variable, none, "numeric", object("scale", intValue(18), "value", textValue("/w==")), "-0.000000000000000001", "0001fffb400000120064"},
		{variable, none, "numeric", object("scale", intValue(-3), "value", textValue("Bw==")), "7000", "00010000000000001b58"},
		{variable, none, "numeric", object("scale", intValue(0), "value", textValue("Ap1Ctk52cUJEyw==")), "12345678901234567890123", "0006000500000000007b11d722c509291a85007b"},
		{textField, none, "numeric", textValue("1E-7"), "0.0000001", "0001fffe00000007000a"},
		{textField, none, "numeric", textValue("NAN"), "NaN", "00000000c0000000"},
		{textField, none, "numeric", textValue("POSITIVE_INFINITIY"), "Infinity", "00000000d0000000"}, //nolint:misspell // as some versions of Debezium write it
		{textField, none, "numeric", textValue("negative_infinity"), "-Infinity", "00000000f0000000"},
		{textField, none, "numeric(12,4)", textValue("12.340000"), "12.34", "0002000000000004000c0d48"},
		{anyField, schema.Type{Kind: schema.Decimal, Length: 10, Scale: 2}, "numeric(10,2)", textValue("AIAA"), "327.68", "000200000000000201471a90"},
		{anyField, schema.Type{Kind: schema.Decimal, Length: 10, Scale: 2}, "numeric(10,2)", textValue("1234"), "-26588.24", "0003000140000002000219bc0960"},
		{anyField, schema.Type{Kind: schema.Decimal, Length: 10, Scale: 2}, "numeric(10,2)", textValue("12.34"), "12.34", "0002000000000002000c0d48"},
		{anyField, schema.Type{Kind: schema.Uint64}, "numeric(20,0)", textValue("AP//////////"), "18446744073709551615", "000500040000000007341a5802e103bb064f"},
		{anyField, none, "numeric", digits("10000000000000000000000.10"), "10000000000000000000000.10", "000700050000000200640000000000000000000003e8"},
		{unsigned, none, "numeric(20,0)", intValue(-1), "18446744073709551615", "000500040000000007341a5802e103bb064f"},
		{longField, schema.Type{Kind: schema.Uint64}, "numeric(20,0)", intValue(-9223372036854775808), "9223372036854775808", "0005000400000000039a0d2c0170156516b0"},
		{longField, none, "numeric(20,0)", intValue(-1), "-1", "00010000400000000001"},
		{longField, none, "bigint", intValue(-9223372036854775808), "-9223372036854775808", "8000000000000000"},
		{longField, none, "smallint", intValue(-2), "-2", "fffe"},
		{decimal0, none, "integer", textValue("Bw=="), "7", "00000007"},
		{field(debezium.Int16, ""), none, "boolean", intValue(1), "true", "01"},
		{field(debezium.Int16, ""), none, "boolean", intValue(-1), "true", "01"},
		{field(debezium.Int16, ""), none, "boolean", intValue(0), "false", "00"},
		{field(debezium.Boolean, ""), none, "bit(1)", debezium.Value{Kind: debezium.BoolValue, Num: 1}, "1", "0000000180"},
		{field(debezium.Boolean, ""), none, "smallint", debezium.Value{Kind: debezium.BoolValue, Num: 1}, "1", "0001"},
		{field(debezium.Float32, ""), none, "real", digits("0.1"), "0.1", "3dcccccd"},
		{field(debezium.Float64, ""), none, "real", digits("0.10000000149011612"), "0.1", "3dcccccd"},
		{field(debezium.Float64, ""), none, "double precision", textValue("NaN"), "NaN", "7ff8000000000000"},
		{field(debezium.Float64, ""), none, "double precision", digits("-Infinity"), "-Infinity", "fff0000000000000"},
		{field(debezium.Float64, ""), none, "double precision", intValue(9007199254740993), "9007199254740992", "4340000000000000"},
		{bitsField("9"), none, "bit(9)", textValue("VQE="), "101010101", "00000009aa80"},
		{bitsField("16"), none, "bit varying(16)", textValue("AgE="), "0000000100000010", "000000100102"},
		{bitsField("64"), none, "bit(64)", textValue("AAAAAAAAAIA="), "1" + strings.Repeat("0", 63), "000000408000000000000000"},
		{bitsField("2147483647"), none, "bit varying", textValue("BQ=="), "101", "00000003a0"},
		{field(debezium.Bytes, ""), none, "bytea", textValue("gAA="), `\x8000`, "8000"},
		{anyField, none, "bytea", textValue(""), `\x`, ""},
		{field(debezium.Bytes, ""), none, "bytea", debezium.Value{Kind: debezium.BytesValue, Text: "\x00\x01"}, `\x0001`, "0001"},
		{dateField, none, "date", intValue(-354285), "1000-01-01", "fffa6d46"},
		{dateField, none, "date", intValue(2932896), "9999-12-31", "002c95d3"},
		{field(debezium.String, debeziumTime+"IsoDate"), none, "date", textValue("0044-03-15Z BC"), "0044-03-15 BC", "fff49d7b"},
		{dateField, none, "date", intValue(sentDateInfinity), "infinity", "7fffffff"},
		{msField, none, "timestamp(3) without time zone", intValue(1711852200000), "2024-03-31 02:30:00", "0002b7ea6b121a00"},
		{usField, none, "timestamp without time zone", intValue(-30610223999999999), "1000-01-01 00:00:00.000001", "ff8fe3289cc44001"},
		{usField, none, "timestamp without time zone", intValue(sentInfinity), "infinity", "7fffffffffffffff"},
		{nsField, none, "timestamp without time zone", intValue(1709210096789012000), "2024-02-29 12:34:56.789012", "0002b58341728614"},
		{nsField, none, "timestamp without time zone", intValue(1709210096789012999), "2024-02-29 12:34:56.789012", "0002b58341728614"},
		{nsField, none, "timestamp without time zone", intValue(-1), "1969-12-31 23:59:59.999999", "fffca2fec4c81fff"},
		{field(debezium.String, debeziumTime+"IsoTimestamp"), none, "timestamp without time zone", textValue("2024-02-29T12:34:56.5Z"), "2024-02-29 12:34:56.5", "0002b583416e1d20"},
		{zoned, none, "timestamp with time zone", textValue("2024-02-29T12:34:56.789012Z"), "2024-02-29 12:34:56.789012+00", "0002b58341728614"},
		{zoned, none, "timestamp with time zone", textValue("2024-02-29T12:34:56.7890129Z"), "2024-02-29 12:34:56.789012+00", "0002b58341728614"},
		{zoned, none, "timestamp with time zone", textValue("2024-02-29T12:34+05:30"), "2024-02-29 07:04:00+00", "0002b57ea1e3f800"},
		{zoned, none, "timestamp with time zone", textValue("+294276-12-31T23:59:59.999999Z"), "294276-12-31 23:59:59.999999+00", "7fffff5bb3b29fff"},
		{zoned, none, "timestamp with time zone", textValue("-0043-03-15T00:00:00Z"), "0044-03-15 00:00:00+00 BC", "ff1af9deec5b2000"},
		{zoned, none, "timestamp with time zone", textValue("-infinity"), "-infinity", "8000000000000000"},
		{microTime, none, "interval", intValue(3020399000000), "838:59:59", "000002bf3dcf39c00000000000000000"},
		{microTime, none, "interval", intValue(-1815500000), "-00:30:15.5", "ffffffff93c9ab200000000000000000"},
		{microTime, none, "time without time zone", intValue(86400000000), "24:00:00", "000000141dd76000"},
		{field(debezium.String, debeziumTime+"IsoTime"), none, "interval(3)", textValue("12:34:56.789Z"), "12:34:56.789", "0000000a8be626080000000000000000"},
		{field(debezium.Int64, debeziumTime+"NanoTime"), none, "time without time zone", intValue(40302929775100), "11:11:42.929775", "00000009623de76f"},
		{field(debezium.Int64, debeziumTime+"NanoDuration"), none, "interval", intValue(-1), "-00:00:00.000001", "ffffffffffffffff0000000000000000"},
		{field(debezium.String, debeziumTime+"Interval"), none, "interval", textValue("PT-0.0000001S"), "-00:00:00.000001", "ffffffffffffffff0000000000000000"},
		{field(debezium.String, debeziumTime+"Interval"), none, "interval", textValue("P1Y2M3DT4H5M-6.789S"), "1 year 2 mons 3 days 04:04:53.211", "000000036bc89b78000000030000000e"},
		{field(debezium.String, debeziumData+"Uuid"), none, "uuid", textValue("00112233-4455-6677-8899-AABBCCDDEEFF"), "00112233-4455-6677-8899-aabbccddeeff", "00112233445566778899aabbccddeeff"},
		{textField, none, "character(5)", textValue("ab  "), "ab", "6162"},
		{textField, none, "character varying(2)", textValue("éü"), "éü", "c3a9c3bc"},
		{longField, none, "text", intValue(-5), "-5", "2d35"},
		{field(debezium.String, debeziumData+"Json"), none, "jsonb", textValue(`{"t": "a\\u0000"}`), `{"t": "a\\u0000"}`, "017b2274223a2022615c5c7530303030227d"},
		{field(debezium.String, debeziumData+"Json"), none, "json", textValue(`{"t":"a\u0000b"}`), `{"t":"a\u0000b"}`, "7b2274223a22615c753030303062227d"},
		{field(debezium.Array, ""), none, "jsonb", list(intValue(1), nullValue, textValue("é\n")), `[1, null, "é\n"]`, "015b312c6e756c6c2c22c3a95c7530303061225d"},
	}
}

func encodeOne(f debezium.Field, witness schema.Type, column string, v debezium.Value, o Options) ([]byte, error) {
	enc, err := Postgres{}.Encoder(f, witness, schema.Name{Table: "t"}, schema.Column{Name: "c", Type: PostgresType(column)}, o)
	if err != nil {
		return nil, err
	}
	return enc(nil, &v)
}

func TestValuesAreEncodedAsPostgresDoes(t *testing.T) {
	t.Parallel()
	for _, c := range encodeCases() {
		got, err := encodeOne(c.f, c.witness, c.column, c.v, Options{})
		if err != nil {
			t.Errorf("%s into %s: %v", c.literal, c.column, err)
			continue
		}
		if h := hex.EncodeToString(got); h != c.want {
			t.Errorf("%s into %s:\n got %s\nwant %s", c.literal, c.column, h, c.want)
		}
	}
}

func arrayOf(items debezium.Field) debezium.Field {
	f := field(debezium.Array, "")
	f.Items = &items
	return f
}

func TestOtherTypesAreWrittenAsText(t *testing.T) {
	t.Parallel()
	array := field(debezium.Array, "")
	ints, texts := array, array
	ints.Items, texts.Items = &debezium.Field{Type: debezium.Int32}, &debezium.Field{Type: debezium.String}
	dates := array
	dates.Items = &dateField
	geometry := field(debezium.Struct, debeziumData+"geometry.Geometry")
	point := field(debezium.Struct, debeziumData+"geometry.Point")
	vector := field(debezium.Array, debeziumData+"FloatVector")
	label := field(debezium.String, debeziumData+"Enum", "allowed", `a,b,c\,d`)
	wkb := textValue("AQEAAAAAAAAAAADwPwAAAAAAAABA")
	for _, c := range []struct {
		f      debezium.Field
		column string
		v      debezium.Value
		want   string
	}{
		{label, "mood", textValue("a"), "a"},
		{label, "text", textValue(`c\,d`), "c,d"},
		{label, "text", textValue(`x\,y`), `x\,y`},
		{ints, "integer[]", list(intValue(1), nullValue, intValue(3)), "{1,NULL,3}"},
		{texts, "text[]", list(textValue("a,b"), nullValue, textValue(`c"\`), textValue("NULL")), `{"a,b",NULL,"c\"\\","NULL"}`},
		{dates, "date[]", list(intValue(0)), `{"1970-01-01"}`},
		{arrayOf(decimal2), "numeric(5,2)[]", list(textValue("AJY="), nullValue), `{1.50,NULL}`},
		{arrayOf(variable), "numeric[]", list(object("scale", intValue(1), "value", textValue("/w=="))), `{-0.1}`},
		{arrayOf(field(debezium.Bytes, "")), "bytea[]", list(textValue("3q0=")), `{"\\xdead"}`},
		{arrayOf(bitsField("5")), "bit(5)[]", list(textValue("BQ==")), `{00101}`},
		{arrayOf(field(debezium.String, debeziumData+"Json")), "jsonb[]", list(textValue(`{"k":1}`)), `{"{\"k\":1}"}`},
		{arrayOf(field(debezium.Int64, debeziumTime+"MicroTime")), "time without time zone[]", list(intValue(1500000)), `{"00:00:01.5"}`},
		{arrayOf(usField), "timestamp without time zone[]", list(intValue(0), intValue(sentInfinity)), `{"1970-01-01 00:00:00",infinity}`},
		{arrayOf(arrayOf(field(debezium.Int32, ""))), "integer[]", list(list(intValue(1), intValue(2)), list(nullValue, intValue(4))), "{{1,2},{NULL,4}}"},
		{arrayOf(field(debezium.Map, "")), "hstore[]", list(object("a", textValue("1"))), `{"\"a\"=>\"1\""}`},
		{arrayOf(label), "mood[]", list(textValue("a")), `{"a"}`},
		{anyField, "bytea[]", list(textValue("3q0=")), `{"\\xdead"}`},
		{anyField, "real[]", list(digits("2.5"), intValue(-3)), "{2.5,-3}"},
		{vector, "real[]", list(digits("1.0"), digits("2.5"), digits("-3.0")), "{1,2.5,-3}"},
		{arrayOf(textField), "character varying(3)[]", list(textValue("abc"), textValue("")), `{"abc",""}`},
		{arrayOf(bitsField("5")), "bit(7)[]", list(textValue("BQ==")), `{0000101}`},
		{arrayOf(field(debezium.Float64, "")), "real[]", list(digits("0.1"), textValue("NaN"), textValue("-Infinity")), `{0.1,NaN,-Inf}`},
		{arrayOf(zoned), "timestamp with time zone[]", list(textValue("-0043-03-15T01:00:00+02:00"), textValue("+10000-02-28T00:00:00.1234569Z"), textValue("infinity")), `{"0044-03-14 23:00:00+00 BC","10000-02-28 00:00:00.123456+00",infinity}`},
		{arrayOf(field(debezium.String, debeziumTime+"IsoDate")), "date[]", list(textValue("-0043-03-15Z"), textValue("2024-02-29")), `{"0044-03-15 BC","2024-02-29"}`},
		{arrayOf(field(debezium.String, debeziumTime+"IsoTime")), "time without time zone[]", list(textValue("10:00:00.1Z")), `{"10:00:00.1"}`},
		{arrayOf(field(debezium.String, debeziumTime+"Interval")), "interval[]", list(textValue("P1Y2M-3DT4H5M-6.789S"), textValue("P0Y0M0DT0H0M-0.5S")), `{"P14M-3DT14693.211S","P0M0DT-0.5S"}`},
		{arrayOf(arrayOf(field(debezium.String, ""))), "numeric(5,2)[]", list(list(textValue("1.5"))), `{{1.50}}`},
		{field(debezium.String, debeziumTime+"ZonedTime"), "time(3) with time zone", textValue("24:00:00.000-05:30"), "24:00:00-05:30"},
		{field(debezium.String, debeziumTime+"ZonedTime"), "time with time zone", textValue("10:00:00.1234569Z"), "10:00:00.123456Z"},
		{vector, "vector(3)", list(digits("1.0"), digits("2.5"), digits("-3.0")), "[1.0,2.5,-3.0]"},
		{point, "point", object("x", digits("1.5"), "y", intValue(-2), "wkb", wkb, "srid", nullValue), "(1.5,-2)"},
		{anyField, "point", object("x", digits("1.5"), "y", intValue(-2), "wkb", wkb, "srid", nullValue), "(1.5,-2)"},
		{geometry, "public.geometry(Point,4326)", object("wkb", wkb, "srid", intValue(4326)), "0101000020e6100000000000000000f03f0000000000000040"},
		{geometry, "geometry", object("wkb", wkb, "srid", nullValue), "0101000000000000000000f03f0000000000000040"},
		{field(debezium.Map, ""), "hstore", object("a", textValue(`q"`), "b", nullValue), `"a"=>"q\"","b"=>NULL`},
		{field(debezium.String, debeziumData+"Json"), "public.hstore", textValue(`{"b":null,"a":"1"}`), `"a"=>"1","b"=>NULL`},
		{field(debezium.String, debeziumTime+"ZonedTime"), "time with time zone", textValue("10:00:00Z"), "10:00:00Z"},
		{decimal2, "money", textValue("/2o="), "-1.50"},
		{usField, "text", intValue(-62167219200000001), "0002-12-31 23:59:59.999999 BC"},
		{microTime, "text", intValue(-1500000), "-00:00:01.5"},
		{bitsField("5"), "text", textValue("FQ=="), "10101"},
		{field(debezium.Bytes, ""), "bytea_domain", textValue("3q0="), `\xdead`},
		{field(debezium.Struct, ""), "text", object("a", intValue(1), "b", textValue("\x01\"")), `{"a":1,"b":"\u0001\""}`},
	} {
		got, err := encodeOne(c.f, schema.Type{}, c.column, c.v, Options{})
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.column, got, err, c.want)
		}
	}
}

func TestWhatAColumnCannotHoldIsRefused(t *testing.T) {
	t.Parallel()
	none := schema.Type{}
	jsonField := field(debezium.String, debeziumData+"Json")
	for _, c := range []struct {
		f       debezium.Field
		witness schema.Type
		column  string
		v       debezium.Value
		want    Class
	}{
		{longField, none, "smallint", intValue(32768), OutOfRange},
		{unsigned, none, "bigint", intValue(-1), OutOfRange},
		{longField, none, "bigint", digits("9223372036854775808"), OutOfRange},
		{longField, none, "bigint", digits("1.5"), OutOfRange},
		{longField, none, "double precision", intValue(9007199254740993), OutOfRange},
		{decimal2, none, "numeric(10,1)", textValue("AJY="), ""},
		{decimal2, none, "numeric(10,1)", textValue("/w=="), OutOfRange},
		{decimal2, none, "numeric(3,2)", textValue("A+g="), OutOfRange},
		{textField, none, "numeric(3,2)", textValue("Infinity"), Unstorable},
		{textField, none, "numeric", textValue("1E+999999999"), OutOfRange},
		{textField, none, "numeric", textValue("AIAA"), InvalidValue},
		{anyField, none, "numeric(10,2)", textValue("AIAA"), InvalidValue},
		{anyField, none, "integer", textValue("7"), InvalidValue},
		{field(debezium.Float64, ""), none, "real", digits("0.1234567890123"), OutOfRange},
		{field(debezium.Float64, ""), none, "double precision", digits("1e999"), OutOfRange},
		{field(debezium.Float64, ""), none, "bigint", digits("1.0"), UnsupportedType},
		{decimal2, none, "double precision", textValue("AJY="), UnsupportedType},
		{bitsField("9"), none, "bit(4)", textValue("VQE="), OutOfRange},
		{anyField, none, "bytea", textValue("not base64"), InvalidValue},
		{anyField, none, "bytea", textValue("gAB="), InvalidValue}, // bits beyond the last byte
		{anyField, none, "bytea", textValue("gA\nA="), InvalidValue},
		{field(debezium.Bytes, ""), none, "text", textValue("gAA="), UnsupportedType},
		{dateField, none, "date", intValue(1 << 31), OutOfRange},
		{msField, none, "timestamp(0) without time zone", intValue(1), OutOfRange},
		{nsField, none, "timestamp(3) without time zone", intValue(1001), OutOfRange},
		{msField, none, "timestamp without time zone", intValue(1 << 62), OutOfRange},
		{usField, none, "timestamp without time zone", intValue(-1 << 62), OutOfRange},
		{usField, none, "timestamp with time zone", intValue(0), UnsupportedType},
		{zoned, none, "timestamp with time zone", textValue("2024-02-30T00:00:00Z"), InvalidValue},
		{zoned, none, "timestamp with time zone", textValue("2024-02-29T00:00:00"), InvalidValue},
		{zoned, none, "timestamp with time zone", textValue("+999999999-01-01T00:00:00Z"), OutOfRange},
		{textField, none, "money", textValue("$1.50"), InvalidValue},
		{microTime, none, "time without time zone", intValue(-1), OutOfRange},
		{microTime, none, "time without time zone", intValue(86400000001), OutOfRange},
		{field(debezium.String, debeziumData+"Uuid"), none, "uuid", textValue("0011"), InvalidValue},
		{textField, none, "character varying(2)", textValue("ab "), TooLarge},
		{textField, none, "character(2)", textValue("abc"), TooLarge},
		{textField, none, "text", textValue("left\x00right"), Unstorable},
		{arrayOf(textField), none, "character varying(3)[]", list(textValue("abcd")), TooLarge},
		{arrayOf(textField), none, "character(3)[]", list(textValue("abcd")), TooLarge},
		{arrayOf(textField), none, "numeric(5,2)[]", list(textValue("1.239")), OutOfRange},
		{arrayOf(decimal2), none, "numeric(5,1)[]", list(textValue("/w==")), OutOfRange},
		{arrayOf(arrayOf(textField)), none, "numeric(5,2)[]", list(list(textValue("1.239"))), OutOfRange},
		{arrayOf(field(debezium.Float64, "")), none, "real[]", list(digits("0.1234567890123")), OutOfRange},
		{arrayOf(bitsField("5")), none, "bit(3)[]", list(textValue("FQ==")), OutOfRange},
		{arrayOf(usField), none, "timestamp(0) without time zone[]", list(intValue(600000)), OutOfRange},
		{arrayOf(zoned), none, "timestamp(3) with time zone[]", list(textValue("2024-02-29T00:00:00.0001Z")), OutOfRange},
		{arrayOf(microTime), none, "time(0) without time zone[]", list(intValue(600000)), OutOfRange},
		{arrayOf(microTime), none, "time without time zone[]", list(intValue(-1)), OutOfRange},
		{arrayOf(field(debezium.Int64, debeziumTime+"MicroDuration")), none, "interval(0)[]", list(intValue(600000)), OutOfRange},
		{field(debezium.String, debeziumTime+"ZonedTime"), none, "time(0) with time zone", textValue("10:00:00.6Z"), OutOfRange},
		{field(debezium.String, debeziumTime+"ZonedTime"), none, "time with time zone", textValue("10:00:00"), InvalidValue},
		{jsonField, none, "jsonb", textValue(`{"t":"a\u0000b"}`), Unstorable},
		{jsonField, none, "jsonb", textValue(`"\ud800"`), Unstorable},
		{jsonField, none, "jsonb", textValue(`"\ud83d\ude42 \\ud800"`), ""},
	} {
		_, err := encodeOne(c.f, c.witness, c.column, c.v, Options{})
		var v *ValueError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &v) || v.Class != c.want) {
			t.Errorf("%v %q into %s: got %v, want %q", c.v.Num, c.v.Text, c.column, err, c.want)
		}
	}
}

func TestBytesInTextAreReadAsTheOptionSays(t *testing.T) {
	t.Parallel()
	bytesField := field(debezium.Bytes, "")
	for _, c := range []struct {
		f            debezium.Field
		mode, column string
		text         string
		want         string // "" is an error
	}{
		{textField, "hex", "bytea", "fb00ff", "\xfb\x00\xff"},
		{textField, "hex", "bytea", "FB00FF", "\xfb\x00\xff"},
		{textField, "hex", "bytea", "+wD/", ""},
		{textField, "hex", "bytea", "fb0", ""},
		{textField, "hex", "uuid", "00112233445566778899aabbccddeeff", "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"},
		{textField, "hex", "text", "fb00ff", "fb00ff"},
		{anyField, "hex", "bytea", "fb00ff", "\xfb\x00\xff"},
		{bytesField, "hex", "bytea", "+wD/", "\xfb\x00\xff"},
		{textField, "base64-url-safe", "bytea", "-wD_", "\xfb\x00\xff"},
		{textField, "base64-url-safe", "bytea", "+wD/", ""},
		{textField, "base64-url-safe", "bytea", "-wD_\n", ""},
		{textField, "base64", "bytea", "+wD/", "\xfb\x00\xff"},
		{textField, "", "bytea", "-wD_", ""},
		{arrayOf(textField), "hex", "bytea[]", "fb", `{"\\xfb"}`},
	} {
		v := textValue(c.text)
		if c.f.Type == debezium.Array {
			v = list(v)
		}
		got, err := encodeOne(c.f, schema.Type{}, c.column, v, Options{Binary: c.mode})
		if (err == nil) != (c.want != "") || err == nil && string(got) != c.want {
			t.Errorf("%s %q into %s: got %q, %v, want %q", c.mode, c.text, c.column, got, err, c.want)
		}
	}
}

func TestNulIsChangedOnlyWhenAskedAndCounted(t *testing.T) {
	t.Parallel()
	for nul, want := range map[string][2]string{
		"strip":   {"leftright", "\x01" + `{"t":"ab"}`},
		"replace": {"left\uFFFDright", "\x01" + `{"t":"a` + "\uFFFD" + `b"}`},
	} {
		changed := 0
		o := Options{Nul: nul, Changed: func(schema.Name, string) { changed++ }}
		text, err := encodeOne(textField, schema.Type{}, "text", textValue("left\x00right"), o)
		if err != nil || string(text) != want[0] {
			t.Errorf("%s: got %q, %v, want %q", nul, text, err, want[0])
		}
		doc, err := encodeOne(textField, schema.Type{}, "jsonb", textValue(`{"t":"a\u0000b"}`), o)
		if err != nil || string(doc) != want[1] {
			t.Errorf("%s: got %q, %v, want %q", nul, doc, err, want[1])
		}
		if changed != 2 {
			t.Errorf("%s: %d values were counted, want 2", nul, changed)
		}
	}
}
