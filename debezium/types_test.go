package debezium_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// TestTablesFromEvents compares what the first row event of each topic says of its table with
// testdata/tables/<connector>.txt.
func TestTablesFromEvents(t *testing.T) {
	t.Parallel()
	for _, connector := range []string{"plain", "bare", "loose", "flat", "pg"} {
		topics := load(t, connector)
		var b strings.Builder
		for _, topic := range slices.Sorted(maps.Keys(topics)) {
			records := topics[topic]
			events, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(&debezium.Batch{Partition: records[0].Partition, Records: records[:1]})
			if err != nil {
				t.Fatal(err)
			}
			if !events[0].Op.Row() {
				continue
			}
			table := debezium.TableFromEvent(&events[0])
			fmt.Fprintf(&b, "%v key %q\n", table.Name, table.PrimaryKey)
			for _, c := range table.Columns {
				fmt.Fprintf(&b, "  %q %s notnull=%v\n", c.Name, printType(c.Type), c.NotNull)
			}
		}
		compareGolden(t, filepath.Join("testdata", "tables", connector+".txt"), b.String())
	}
}

func TestMySQLTypes(t *testing.T) {
	t.Parallel()
	n := func(v int) *int { return &v }
	tests := []struct {
		name          string
		length, scale *int
		labels        []string
		want          schema.Type
	}{
		{"TINYINT", nil, nil, nil, schema.Type{Kind: schema.Int8}},
		{"TINYINT", n(1), nil, nil, schema.Type{Kind: schema.Int8, Length: 1}},
		{"TINYINT", n(4), nil, nil, schema.Type{Kind: schema.Int8}},
		{"TINYINT UNSIGNED", n(1), nil, nil, schema.Type{Kind: schema.Uint8, Length: 1}},
		{"TINYINT UNSIGNED ZEROFILL", n(3), nil, nil, schema.Type{Kind: schema.Uint8}},
		{"tinyint(1) unsigned", nil, nil, nil, schema.Type{Kind: schema.Uint8, Length: 1}},
		{"BOOL", nil, nil, nil, schema.Type{Kind: schema.Int8, Length: 1}},
		{"BOOLEAN", nil, nil, nil, schema.Type{Kind: schema.Int8, Length: 1}},
		{"SMALLINT", nil, nil, nil, schema.Type{Kind: schema.Int16}},
		{"SMALLINT UNSIGNED", nil, nil, nil, schema.Type{Kind: schema.Uint16}},
		{"MEDIUMINT", nil, nil, nil, schema.Type{Kind: schema.Int24}},
		{"MEDIUMINT UNSIGNED", nil, nil, nil, schema.Type{Kind: schema.Uint24}},
		{"INT", n(11), nil, nil, schema.Type{Kind: schema.Int32}},
		{"INTEGER", nil, nil, nil, schema.Type{Kind: schema.Int32}},
		{"INT SIGNED", nil, nil, nil, schema.Type{Kind: schema.Int32}},
		{"INT ZEROFILL", nil, nil, nil, schema.Type{Kind: schema.Uint32}},
		{"int(10) unsigned zerofill", nil, nil, nil, schema.Type{Kind: schema.Uint32}},
		{"BIGINT", nil, nil, nil, schema.Type{Kind: schema.Int64}},
		{"BIGINT UNSIGNED", n(20), nil, nil, schema.Type{Kind: schema.Uint64}},
		{"SERIAL", nil, nil, nil, schema.Type{Kind: schema.Uint64}},
		{"FLOAT", nil, nil, nil, schema.Type{Kind: schema.Float32}},
		{"FLOAT UNSIGNED", n(24), nil, nil, schema.Type{Kind: schema.Float32}},
		{"FLOAT", n(25), nil, nil, schema.Type{Kind: schema.Float64}},
		{"FLOAT", n(30), n(2), nil, schema.Type{Kind: schema.Float32}},
		{"REAL", nil, nil, nil, schema.Type{Kind: schema.Float64}},
		{"DOUBLE", n(10), n(2), nil, schema.Type{Kind: schema.Float64}},
		{"DOUBLE PRECISION", nil, nil, nil, schema.Type{Kind: schema.Float64}},
		{"DOUBLE PRECISION UNSIGNED", nil, nil, nil, schema.Type{Kind: schema.Float64}},
		{"DECIMAL", n(65), n(30), nil, schema.Type{Kind: schema.Decimal, Length: 65, Scale: 30}},
		{"DECIMAL UNSIGNED", n(20), n(0), nil, schema.Type{Kind: schema.Decimal, Length: 20}},
		{"DECIMAL", nil, nil, nil, schema.Type{Kind: schema.Decimal, Length: 10}},
		{"DEC", n(5), nil, nil, schema.Type{Kind: schema.Decimal, Length: 5}},
		{"decimal(12,2)", nil, nil, nil, schema.Type{Kind: schema.Decimal, Length: 12, Scale: 2}},
		{"NUMERIC", n(5), n(2), nil, schema.Type{Kind: schema.Decimal, Length: 5, Scale: 2}},
		{"FIXED", n(5), n(2), nil, schema.Type{Kind: schema.Decimal, Length: 5, Scale: 2}},
		{"BIT", nil, nil, nil, schema.Type{Kind: schema.Bit, Length: 1}},
		{"BIT", n(64), nil, nil, schema.Type{Kind: schema.Bit, Length: 64}},
		{"YEAR", n(4), nil, nil, schema.Type{Kind: schema.Year}},
		{"DATE", nil, nil, nil, schema.Type{Kind: schema.Date}},
		{"TIME", nil, nil, nil, schema.Type{Kind: schema.Time}},
		{"TIME", n(6), nil, nil, schema.Type{Kind: schema.Time, Scale: 6}},
		{"DATETIME", n(3), nil, nil, schema.Type{Kind: schema.Timestamp, Scale: 3}},
		{"TIMESTAMP", nil, nil, nil, schema.Type{Kind: schema.TimestampTZ}},
		{"TIMESTAMP", n(6), nil, nil, schema.Type{Kind: schema.TimestampTZ, Scale: 6}},
		{"CHAR", nil, nil, nil, schema.Type{Kind: schema.Char, Length: 1}},
		{"NCHAR", n(8), nil, nil, schema.Type{Kind: schema.Char, Length: 8}},
		{"VARCHAR", n(255), nil, nil, schema.Type{Kind: schema.Varchar, Length: 255}},
		{"NVARCHAR", n(10), nil, nil, schema.Type{Kind: schema.Varchar, Length: 10}},
		{"NATIONAL  CHARACTER VARYING", n(10), nil, nil, schema.Type{Kind: schema.Varchar, Length: 10}},
		{"TINYTEXT", nil, nil, nil, schema.Type{Kind: schema.Text}},
		{"LONGTEXT", nil, nil, nil, schema.Type{Kind: schema.Text}},
		{"BINARY", n(16), nil, nil, schema.Type{Kind: schema.Bytes, Length: 16}},
		{"BINARY", nil, nil, nil, schema.Type{Kind: schema.Bytes, Length: 1}},
		{"VARBINARY", n(64), nil, nil, schema.Type{Kind: schema.Bytes, Length: 64}},
		{"MEDIUMBLOB", nil, nil, nil, schema.Type{Kind: schema.Bytes}},
		{"BLOB", n(100), nil, nil, schema.Type{Kind: schema.Bytes}},
		{"JSON", nil, nil, nil, schema.Type{Kind: schema.JSON}},
		{"ENUM", n(1), nil, []string{`'a'`, `'it''s'`, `'c,d'`, `'b\\s\'\n'`, `"x""y"`, `bare`, `'`}, schema.Type{Kind: schema.Enum, Values: []string{"a", "it's", "c,d", "b\\s'\n", `x"y`, "bare", "'"}}},
		{"SET", n(5), nil, []string{`'x'`, `'y'`}, schema.Type{Kind: schema.Set, Values: []string{"x", "y"}}},
		{"POINT", nil, nil, nil, schema.Type{Kind: schema.Geometry}},
		{"GEOMCOLLECTION", nil, nil, nil, schema.Type{Kind: schema.Geometry}},
		{"MULTIPOLYGON", nil, nil, nil, schema.Type{Kind: schema.Geometry}},
		{"VECTOR", n(3), nil, nil, schema.Type{Kind: schema.Vector, Length: 3}},
		{"VECTOR", nil, nil, nil, schema.Type{Kind: schema.Vector, Length: 2048}},
		{"UUID", nil, nil, nil, schema.Type{Kind: schema.UUID}},
		{"INET4", nil, nil, nil, schema.Type{Kind: schema.Text}},
		{"INET6", nil, nil, nil, schema.Type{Kind: schema.Text}},
		{"HYPERCUBE", n(4), nil, nil, schema.Type{Kind: schema.Other}},
		{"", nil, nil, nil, schema.Type{}},
	}
	for _, test := range tests {
		test.want.Native = test.name
		if got := debezium.MySQLType(test.name, test.name, test.length, test.scale, test.labels); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
	if got := debezium.MySQLType("BIGINT", "BIGINT UNSIGNED", nil, nil, nil); got.Kind != schema.Uint64 {
		t.Errorf("unsigned in the expression only: got %+v, want Uint64", got)
	}
}

func TestFieldsHaveTheTypeThatTheirSchemaSays(t *testing.T) {
	t.Parallel()
	params := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	column := func(typ, length, scale string) map[string]string {
		return params("__debezium.source.column.type", typ, "__debezium.source.column.length", length, "__debezium.source.column.scale", scale)
	}
	tests := []struct {
		field debezium.Field
		want  schema.Type
	}{
		{debezium.Field{}, schema.Type{}},
		{debezium.Field{Type: debezium.Boolean}, schema.Type{Kind: schema.Bool}},
		{debezium.Field{Type: debezium.Int64}, schema.Type{Kind: schema.Int64}},
		{debezium.Field{Type: debezium.Float32}, schema.Type{Kind: schema.Float32}},
		{debezium.Field{Type: debezium.String, Semantic: "com.example.Unheard"}, schema.Type{Kind: schema.Text}},
		{debezium.Field{Type: debezium.Bytes}, schema.Type{Kind: schema.Bytes}},
		{debezium.Field{Type: debezium.Array}, schema.Type{Kind: schema.Array, Elem: &schema.Type{}}},
		{debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.String, Semantic: "io.debezium.data.Uuid"}}, schema.Type{Kind: schema.Array, Elem: &schema.Type{Kind: schema.UUID}}},
		{debezium.Field{Type: debezium.Map}, schema.Type{Kind: schema.JSON, Native: "map"}},
		{debezium.Field{Type: debezium.String, Params: column("INET", "2147483647", "0")}, schema.Type{Kind: schema.Text, Native: "inet"}},
		{debezium.Field{Type: 200}, schema.Type{}},
		{debezium.Field{Type: debezium.Bytes, Semantic: "org.apache.kafka.connect.data.Decimal", Params: params("scale", "2", "connect.decimal.precision", "12")}, schema.Type{Kind: schema.Decimal, Length: 12, Scale: 2}},
		{debezium.Field{Type: debezium.Bytes, Semantic: "org.apache.kafka.connect.data.Decimal", Params: params("scale", "2")}, schema.Type{Kind: schema.Decimal, Scale: 2}},
		{debezium.Field{Type: debezium.Struct, Semantic: "io.debezium.data.VariableScaleDecimal"}, schema.Type{Kind: schema.Decimal}},
		{debezium.Field{Type: debezium.Bytes, Semantic: "io.debezium.data.Bits", Params: params("length", "9")}, schema.Type{Kind: schema.Bit, Length: 9}},
		{debezium.Field{Type: debezium.Bytes, Semantic: "io.debezium.data.Bits", Params: params("length", "2147483647")}, schema.Type{Kind: schema.VarBit}},
		{debezium.Field{Type: debezium.String, Semantic: "io.debezium.data.Enum", Params: params("allowed", `a,b,c\,d`)}, schema.Type{Kind: schema.Enum, Values: []string{"a", "b", "c,d"}}},
		{debezium.Field{Type: debezium.Int64, Semantic: "io.debezium.time.NanoTimestamp"}, schema.Type{Kind: schema.Timestamp, Scale: 9}},
		{debezium.Field{Type: debezium.Int16, Params: column("TINYINT UNSIGNED", "", "")}, schema.Type{Kind: schema.Uint8, Native: "TINYINT UNSIGNED"}},
		{debezium.Field{Type: debezium.Int16, Params: column("TINYINT", "1", "")}, schema.Type{Kind: schema.Int8, Length: 1, Native: "TINYINT"}},
		{debezium.Field{Type: debezium.Boolean, Params: column("TINYINT", "1", "")}, schema.Type{Kind: schema.Bool}},
		{debezium.Field{Type: debezium.Int16, Params: column("tinyint", "3", "0")}, schema.Type{Kind: schema.Int16}}, // SQL Server's has no sign
		{debezium.Field{Type: debezium.Int64, Params: column("BIGINT UNSIGNED", "", "")}, schema.Type{Kind: schema.Uint64, Native: "BIGINT UNSIGNED"}},
		{debezium.Field{Type: debezium.Int32, Params: column("serial", "10", "0")}, schema.Type{Kind: schema.Int32}}, // PostgreSQL's is an integer
		{debezium.Field{Type: debezium.Float64, Params: column("DECIMAL", "12", "2")}, schema.Type{Kind: schema.Decimal, Length: 12, Scale: 2, Native: "DECIMAL"}},
		{debezium.Field{Type: debezium.String, Params: column("NUMERIC", "131089", "0")}, schema.Type{Kind: schema.Decimal, Native: "NUMERIC"}},
		{debezium.Field{Type: debezium.String, Params: column("VARCHAR", "120", "")}, schema.Type{Kind: schema.Varchar, Length: 120, Native: "VARCHAR"}},
		{debezium.Field{Type: debezium.Bytes, Params: column("BINARY", "16", "")}, schema.Type{Kind: schema.Bytes, Length: 16, Native: "BINARY"}},
		{debezium.Field{Type: debezium.Int64, Semantic: "io.debezium.time.MicroTimestamp", Params: column("DATETIME", "4", "")}, schema.Type{Kind: schema.Timestamp, Scale: 4, Native: "DATETIME"}},
		{debezium.Field{Type: debezium.Int64, Semantic: "io.debezium.time.MicroTimestamp", Params: column("TIMESTAMP", "29", "6")}, schema.Type{Kind: schema.Timestamp, Scale: 6, Native: "TIMESTAMP"}},
		{debezium.Field{Type: debezium.String, Semantic: "io.debezium.time.ZonedTimestamp", Params: column("TIMESTAMP", "3", "")}, schema.Type{Kind: schema.TimestampTZ, Scale: 3, Native: "TIMESTAMP"}},
		{debezium.Field{Type: debezium.Int32, Semantic: "io.debezium.time.Year", Params: column("YEAR", "", "")}, schema.Type{Kind: schema.Year, Native: "YEAR"}},
		{debezium.Field{Type: debezium.String, Params: column("circle", "", "")}, schema.Type{Kind: schema.Text}},
	}
	for _, test := range tests {
		if got := test.field.SourceType(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%+v: got %+v, want %+v", test.field, got, test.want)
		}
	}
}

func TestAllowedLabelsAreUnescaped(t *testing.T) {
	t.Parallel()
	for param, want := range map[string][]string{
		"": nil, "a": {"a"}, "a,b": {"a", "b"}, `c\,d,e`: {"c,d", "e"}, ",": {"", ""}, `x\y,\`: {`x\y`, `\`},
	} {
		if got := debezium.AllowedLabels(param); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, want %q", param, got, want)
		}
	}
}

func TestSchemaChangesOfOtherConnectorsKeepTheTypesName(t *testing.T) {
	t.Parallel()
	e := mustDecode(t, `{"databaseName":"d"}`, `{"source":{"connector":"sqlserver","db":"d"},"ddl":null,"tableChanges":[`+
		`{"type":"CREATE","id":"\"d\".\"dbo\".\"we\"\"ird\"","table":{"primaryKeyColumnNames":["id"],"columns":[`+
		`{"name":"id","typeName":"int identity","typeExpression":"int identity","optional":false,"autoIncremented":true,"generated":true,"comment":"c"},`+
		`{"name":"v","typeName":"int","typeExpression":null,"optional":true,"autoIncremented":false,"generated":true}]}}]}`)
	want := &debezium.Change{Tables: []debezium.TableChange{{
		Type: "CREATE", Database: "d", Schema: "dbo", Table: `we"ird`,
		Shape: &schema.Table{
			Name:       schema.Name{Schema: "dbo", Table: `we"ird`},
			PrimaryKey: []string{"id"},
			Columns: []schema.Column{
				{Name: "id", Type: schema.Type{Native: "int identity"}, NotNull: true, AutoIncrement: true, Comment: "c"},
				{Name: "v", Type: schema.Type{Native: "int"}, Generated: true},
			},
		},
	}}}
	if !reflect.DeepEqual(e.Change, want) {
		t.Errorf("got %+v, want %+v", e.Change.Tables[0].Shape, want.Tables[0].Shape)
	}
}

func TestOddTableIDsAreErrors(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a", `\"a`, `\"a\"b`, `\"a\".`, `\"a\".\"b\".\"c\".\"d\"`} {
		_, err := decode("-", `{"source":{"connector":"mysql"},"ddl":"x","tableChanges":[{"type":"DROP","id":"`+id+`","table":null}]}`)
		if err == nil || !strings.Contains(err.Error(), "table id") {
			t.Errorf("%q: got error %v, want one about the table id", id, err)
		}
	}
}
