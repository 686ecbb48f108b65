package sqlgen

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
	"replicator/txnsink/mysql/mysqlserver"
)

// mysqlSample is a column, a value as an event sends it, and what the server must make of it.
type mysqlSample struct {
	column string
	f      debezium.Field
	v      debezium.Value
	want   string
	only   mysqlserver.Kind // empty: every server
}

var bytesField = field(debezium.Bytes, "")

func mysqlSamples() []mysqlSample {
	point := object("wkb", textValue("AQEAAAAAAAAAAADwPwAAAAAAAABA"), "srid", intValue(4326))
	bigEndian := object("wkb", textValue(base64.StdEncoding.EncodeToString([]byte("\x00\x00\x00\x00\x02\x00\x00\x00\x02?\xf0\x00\x00\x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))), "srid", nullValue)
	geometryField := field(debezium.Struct, debeziumData+"geometry.Geometry")
	float, double := field(debezium.Float32, ""), field(debezium.Float64, "")
	return []mysqlSample{
		{"tinyint", field(debezium.Int16, ""), intValue(-128), "-128", ""},
		{"tinyint(1)", field(debezium.Boolean, ""), debezium.Value{Kind: debezium.BoolValue, Num: 1}, "1", ""},
		{"tinyint unsigned", field(debezium.Int16, ""), intValue(255), "255", ""},
		{"smallint unsigned", field(debezium.Int32, ""), intValue(65535), "65535", ""},
		{"mediumint", field(debezium.Int32, ""), intValue(-8388608), "-8388608", ""},
		{"int unsigned", longField, intValue(4294967295), "4294967295", ""},
		{"bigint", longField, intValue(math.MinInt64), "-9223372036854775808", ""},
		{"bigint unsigned", unsigned, intValue(-1), "18446744073709551615", ""},
		{"bigint unsigned", decimal0, textValue("AP//////////"), "18446744073709551615", ""},
		{"decimal(10,2)", decimal2, textValue("/w=="), "-0.01", ""},
		{"decimal(65,30)", field(debezium.String, ""), textValue(strings.Repeat("9", 35) + "." + strings.Repeat("9", 30)), strings.Repeat("9", 35) + "." + strings.Repeat("9", 30), ""},
		{"float", float, digits("1.17549435E-38"), "1.17549e-38", ""},
		{"double", double, digits("0.1"), "0.1", ""},
		{"double", double, digits("1.7976931348623157e308"), "1.7976931348623157e+308", ""},
		{"bit(1)", field(debezium.Boolean, ""), debezium.Value{Kind: debezium.BoolValue, Num: 1}, "\x01", ""},
		{"bit(64)", bitsField("64"), textValue("AQAAAAAAAIA="), "\x80\x00\x00\x00\x00\x00\x00\x01", ""},
		{"year", field(debezium.Int32, debeziumTime+"Year"), intValue(0), "0", ""},
		{"year", field(debezium.Int32, debeziumTime+"Year"), intValue(2155), "2155", ""},
		{"date", dateField, intValue(-719162), "0001-01-01", ""},
		{"date", dateField, intValue(2932896), "9999-12-31", ""},
		{"time(6)", microTime, intValue(-3020399000000), "-838:59:59.000000", ""},
		{"time(6)", microTime, intValue(-1), "-00:00:00.000001", ""},
		{"time", microTime, intValue(3020399000000), "838:59:59", ""},
		{"datetime(3)", msField, intValue(-1), "1969-12-31 23:59:59.999", ""},
		{"datetime(6)", usField, intValue(253402300799999999), "9999-12-31 23:59:59.999999", ""},
		{"datetime(6)", zoned, textValue("2124-02-29T23:59:59.5+01:00"), "2124-02-29 22:59:59.500000", ""},
		{"timestamp(6)", zoned, textValue("2024-02-29T23:59:59.5+01:00"), "2024-02-29 22:59:59.500000", ""},
		{"char(4)", textField, textValue("ab  "), "ab", ""},
		{"varchar(20)", textField, textValue("it's \\ \"ä😀\"\n\x00 "), "it's \\ \"ä😀\"\n\x00 ", ""},
		{"varchar(20)", textField, textValue("''"), "''", ""},
		{"text", textField, textValue(""), "", ""},
		{"varchar(40)", field(debezium.String, debeziumTime+"Interval"), textValue("P1Y2M-3DT4H"), "P1Y2M-3DT4H", ""},
		{"binary(4)", bytesField, textValue("AQI="), "\x01\x02\x00\x00", ""},
		{"varbinary(4)", bytesField, textValue("AP8nXA=="), "\x00\xff'\\", ""},
		{"blob", bytesField, textValue(""), "", ""},
		{"enum('a','it''s','c,d')", field(debezium.String, debeziumData+"Enum", "allowed", `a,it's,c\,d`), textValue(`c\,d`), "c,d", ""},
		{"set('x','y','z')", field(debezium.String, debeziumData+"EnumSet"), textValue("x,z"), "x,z", ""},
		{"json", field(debezium.String, debeziumData+"Json"), textValue(`{"b": 1.50, "a": "\u00e4\\"}`), `{"a": "ä\\", "b": 1.5}`, mysqlserver.MySQL9},
		{"json", field(debezium.String, debeziumData+"Json"), textValue(`{"b": 1.50, "a": "\u00e4\\"}`), `{"b": 1.50, "a": "\u00e4\\"}`, mysqlserver.MariaDB},
		{"json", field(debezium.Array, ""), list(intValue(1), nullValue, textValue("it's")), `[1, null, "it's"]`, mysqlserver.MySQL8},
		{"json", arrayOf(decimal2), list(textValue("AJY="), nullValue), `["1.50", null]`, mysqlserver.MySQL8},
		{"json", arrayOf(dateField), list(intValue(0), intValue(-735160)), `["1970-01-01","0044-03-15 BC"]`, mysqlserver.MariaDB},
		{"json", field(debezium.String, debeziumData+"Json"), textValue(`{"\"1234567890123456789.5": [0.30000000000000004, 18446744073709551615, 1e300]}`), `{"\"1234567890123456789.5": [0.30000000000000004, 18446744073709551615, 1e300]}`, mysqlserver.MySQL9},
		{"point", geometryField, point, "\xe6\x10\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00@", ""},
		{"geometry", geometryField, bigEndian, "\x00\x00\x00\x00\x01\x02\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00@" + strings.Repeat("\x00", 16), ""},
		{"vector(3)", field(debezium.Array, debeziumData+"FloatVector"), list(digits("1.0"), digits("2.5"), intValue(-3)), "\x00\x00\x80?\x00\x00 @\x00\x00@\xc0", mysqlserver.MySQL9},
		{"uuid", field(debezium.String, debeziumData+"Uuid"), textValue("00112233-4455-6677-8899-AABBCCDDEEFF"), "00112233-4455-6677-8899-aabbccddeeff", mysqlserver.MariaDB},
		{"inet6", textField, textValue("::1"), "::1", mysqlserver.MariaDB},
	}
}

// TestMySQLStoresValuesOfEveryType writes each sample and a NULL, finds them again by their values alone, and, where the
// type can be one of a key, by their key.
func TestMySQLStoresValuesOfEveryType(t *testing.T) {
	t.Parallel()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			db := newMySQL(t, kind)
			for i, c := range mysqlSamples() {
				if c.only == "" || c.only == kind {
					checkSample(t, db, c, i)
				}
			}
		})
	}
}

func checkSample(t *testing.T, db mysqlDatabase, c mysqlSample, i int) {
	t.Helper()
	name := "c" + strconv.Itoa(i)
	c.f.Name = "v"
	db.exec(t, "CREATE TABLE "+name+" (v "+c.column+" NULL)")
	shape := &debezium.Shape{Fields: []debezium.Field{c.f}}
	row := debezium.Row{Shape: shape, Values: []debezium.Value{c.v}}
	null := debezium.Row{Shape: shape, Values: []debezium.Value{nullValue}}
	target := db.target(t, mysqlTable(name, nil, "v", c.column), TargetConfig{})
	if err := db.apply(t, addAll(t, target, debezium.Event{Op: debezium.Create, After: row}, debezium.Event{Op: debezium.Create, After: null})); err != nil {
		t.Errorf("%s: %v", c.column, err)
		return
	}
	if got, want := fmt.Sprintf("%q", db.rows(t, "SELECT v FROM "+name+" ORDER BY v IS NULL")), fmt.Sprintf("%q", []string{c.want, "NULL"}); got != want {
		t.Errorf("%s:\n got %s\nwant %s", c.column, got, want)
	}
	err := db.apply(t, addAll(t, target, debezium.Event{Op: debezium.Delete, Before: row}, debezium.Event{Op: debezium.Delete, Before: null}))
	if err != nil {
		t.Errorf("%s is not found by its value: %v", c.column, err)
	}
	switch target.Columns[0].Type.Kind {
	case schema.JSON, schema.Geometry, schema.Vector, schema.Text:
		return
	case schema.Bytes:
		if target.Columns[0].Type.Length == 0 {
			return
		}
	}
	checkKeySample(t, db, c, name, row)
}

// checkKeySample writes the value as a key, changes the row by a join with it, and deletes it by it.
func checkKeySample(t *testing.T, db mysqlDatabase, c mysqlSample, name string, row debezium.Row) {
	t.Helper()
	db.exec(t, "CREATE TABLE k"+name+" (v "+c.column+" PRIMARY KEY, w text, x int)")
	target := db.target(t, mysqlTable("k"+name, []string{"v"}, "v", c.column, "w", "text", "x", "int"), TargetConfig{})
	shape := &debezium.Shape{Fields: []debezium.Field{row.Shape.Fields[0], {Name: "w", Type: debezium.String}, {Name: "x", Type: debezium.Int32}}}
	image := func(w debezium.Value, x int64) debezium.Row {
		return debezium.Row{Shape: shape, Values: []debezium.Value{row.Values[0], w, intValue(x)}}
	}
	for _, e := range []debezium.Event{
		{Op: debezium.Create, After: image(textValue("first"), 1)},
		{Op: debezium.Update, After: image(textValue("é"), 2)},
		{Op: debezium.Update, After: image(unavailableValue, 3)},
	} {
		if err := db.apply(t, addAll(t, target, e)); err != nil {
			t.Errorf("%s as a key: %v", c.column, err)
			return
		}
	}
	if got := db.rows(t, "SELECT w, x FROM k"+name); fmt.Sprint(got) != "[é|3]" {
		t.Errorf("%s as a key: got %v, want é|3", c.column, got)
	}
	if err := db.apply(t, addAll(t, target, debezium.Event{Op: debezium.Delete, Key: row})); err != nil {
		t.Errorf("%s as a key: %v", c.column, err)
	}
	if got := db.rows(t, "SELECT w, x FROM k"+name); got != nil {
		t.Errorf("%s as a key is not found: %v", c.column, got)
	}
}

// TestMySQLMovesValuesOfEveryType swaps two keys, by events of which one does not send the value.
func TestMySQLMovesValuesOfEveryType(t *testing.T) {
	t.Parallel()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			db := newMySQL(t, kind)
			for _, c := range mysqlSamples() {
				if c.only == "" || c.only == kind {
					checkMoved(t, db, c)
				}
			}
		})
	}
}

func checkMoved(t *testing.T, db mysqlDatabase, c mysqlSample) {
	t.Helper()
	c.f.Name = "v"
	db.exec(t, "DROP TABLE IF EXISTS moved", "CREATE TABLE moved (id int PRIMARY KEY, v "+c.column+" NULL)")
	target := db.target(t, mysqlTable("moved", []string{"id"}, "id", "int", "v", c.column), TargetConfig{})
	shape := &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int32}, c.f}}
	row := func(id int, v debezium.Value) debezium.Row {
		return debezium.Row{Shape: shape, Values: []debezium.Value{number32(id), v}}
	}
	for _, events := range [][]debezium.Event{
		{{Op: debezium.Create, After: row(1, c.v)}, {Op: debezium.Create, After: row(2, nullValue)}, {Op: debezium.Create, After: row(3, nullValue)}},
		{
			{Op: debezium.Update, Before: row(3, nullValue), After: row(4, c.v)},
			{Op: debezium.Update, Before: row(1, c.v), After: row(3, unavailableValue)},
			{Op: debezium.Update, Before: row(2, nullValue), After: row(1, c.v)},
			{Op: debezium.Update, Before: row(4, c.v), After: row(2, unavailableValue)},
		},
	} {
		if err := db.apply(t, addAll(t, target, events...)); err != nil {
			t.Errorf("%s: %v", c.column, err)
			return
		}
	}
	want := fmt.Sprintf("%q", []string{"1|" + c.want, "2|" + c.want, "3|" + c.want})
	if got := fmt.Sprintf("%q", db.rows(t, "SELECT id, v FROM moved ORDER BY id")); got != want {
		t.Errorf("%s moved:\n got %s\nwant %s", c.column, got, want)
	}
}

func TestMySQLRefusesWhatItsTypesDoNotHold(t *testing.T) {
	t.Parallel()
	jsonField := field(debezium.String, debeziumData+"Json")
	for _, c := range []struct {
		column string
		f      debezium.Field
		v      debezium.Value
		want   Class
	}{
		{"tinyint", longField, intValue(128), OutOfRange},
		{"mediumint unsigned", longField, intValue(1 << 24), OutOfRange},
		{"bigint unsigned", longField, intValue(-1), OutOfRange},
		{"year", longField, intValue(-1), OutOfRange},
		{"year", longField, intValue(5), OutOfRange}, // and not 2005
		{"year", longField, intValue(1900), OutOfRange},
		{"json", jsonField, textValue(`{"a": [1, 12345678901234567890.123]}`), OutOfRange},
		{"json", jsonField, textValue(`0.1000000000000000055511151231257827`), OutOfRange},
		{"json", arrayOf(longField), list(digits("123456789012345678901234567890")), OutOfRange},
		{"decimal(4,2)", decimal2, textValue("JxA="), OutOfRange},
		{"decimal(65,30)", field(debezium.String, ""), textValue("NaN"), Unstorable},
		{"double", field(debezium.Float64, ""), digits("Infinity"), Unstorable},
		{"date", dateField, intValue(sentDateInfinity), Unstorable},
		{"date", dateField, intValue(-735160), OutOfRange},
		{"datetime(6)", usField, intValue(sentMinusInfinity), Unstorable},
		{"datetime(6)", usField, intValue(253402300800000000), OutOfRange},
		{"datetime", usField, intValue(1), OutOfRange},
		{"time(6)", microTime, intValue(3020399000001), OutOfRange},
		{"bit(3)", bitsField("9"), textValue("AQE="), OutOfRange},
		{"varchar(2)", textField, textValue("äöü"), TooLarge},
		{"binary(2)", bytesField, textValue("AQID"), TooLarge},
		{"varchar(9)", bytesField, textValue("AQID"), UnsupportedType},
		{"timestamp", usField, intValue(0), UnsupportedType},
		{"geometry", field(debezium.Struct, debeziumData+"geometry.Geometry"), object("wkb", textValue("AQEAAAAAAAAAAADwPwAAAAAAAAA=")), InvalidValue},
		{"geometry", field(debezium.Struct, debeziumData+"geometry.Geometry"), object("wkb", textValue("AQEAAIAAAAAAAADwPwAAAAAAAABAAAAAAAAAAEA=")), InvalidValue},
	} {
		_, err := encodeMySQL(c.f, c.column, c.v, Options{})
		var refused *ValueError
		if !errors.As(err, &refused) || refused.Class != c.want {
			t.Errorf("%v into %s: got %v, want a %s", c.v, c.column, err, c.want)
		}
	}
}

func encodeMySQL(f debezium.Field, column string, v debezium.Value, o Options) ([]byte, error) {
	enc, err := MySQL{}.Encoder(f, schema.Type{}, schema.Name{}, schema.Column{Name: "c", Type: MySQLType(column)}, o)
	if err != nil {
		return nil, err
	}
	return enc(nil, &v)
}

// TestMySQLReadsLiteralsAsTheyAreMeant writes random bytes and text as literals, and has every server read them in
// either of the modes that decide what a backslash means.
func TestMySQLReadsLiteralsAsTheyAreMeant(t *testing.T) {
	t.Parallel()
	pieces := []string{"'", "''", `\`, `\'`, `\\`, "\x00", "\x1a\r\n", `"`, "`", "%_", "-- ", "/*", "ä", "😀", "\xff", "\xe4", "a", "';"}
	rng := rand.New(rand.NewPCG(1, 1))
	var exprs, want []string
	for range 2_000 {
		s := ""
		for range rng.IntN(8) {
			s += pieces[rng.IntN(len(pieces))]
		}
		text := strings.ToValidUTF8(s, "?")
		exprs = append(exprs, fmt.Sprintf("SELECT HEX(%s), HEX(%s)", literalText.append(nil, []byte(text)), literalBytes.append(nil, []byte(s))))
		want = append(want, fmt.Sprintf("%X|%X", text, s))
	}
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		for _, mode := range []string{"", "NO_BACKSLASH_ESCAPES"} {
			db.exec(t, "SET sql_mode = '"+mode+"'")
			for i := 0; i < len(exprs); i += 100 {
				got := db.rows(t, strings.Join(exprs[i:i+100], " UNION ALL "))
				if !slices.Equal(got, want[i:i+100]) {
					t.Errorf("mode %q, literals %d and on:\n got %q\nwant %q", mode, i, got, want[i:i+100])
				}
			}
		}
	})
}
