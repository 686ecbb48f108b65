package verify_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink/mysql/mysqlserver"
	"replicator/verify"
)

// sameValues are values as MySQL takes them, and as the pipeline stores them in PostgreSQL.
var sameValues = []struct {
	source string
	values [][2]string // a literal of MySQL, a literal of PostgreSQL
}{
	{"tinyint", [][2]string{{"-128", "-128"}, {"127", "127"}}},
	{"int unsigned", [][2]string{{"0", "0"}, {"4294967295", "4294967295"}}},
	{"int(5) zerofill", [][2]string{{"7", "7"}, {"123456", "123456"}}},
	{"bigint", [][2]string{{"-9223372036854775808", "-9223372036854775808"}}},
	{"bigint unsigned", [][2]string{{"18446744073709551615", "18446744073709551615"}}},
	{"decimal(20,6)", [][2]string{{"1.5", "1.5"}, {"-12345678901234.123456", "-12345678901234.123456"}, {"0", "0"}}},
	{"decimal(65,30)", [][2]string{{"0.000000000000000000000000000001", "0.000000000000000000000000000001"}}},
	{"float", [][2]string{{"1.1", "1.1"}, {"16777217", "16777217"}, {"1e-40", "1e-40"}, {"-0.0", "0"}, {"3.4e38", "3.4e38"}}},
	{"double", [][2]string{
		{"0.1", "0.1"},
		{"1e15", "1e15"},
		{"123456789012345678e0", "123456789012345678"},
		{"1e-5", "1e-5"},
		{"1.7976931348623157e308", "1.7976931348623157e308"},
		{"1e-16", "1e-16"},
		{"2.5e-15", "2.5e-15"},
		{"-99999999999999.5", "-99999999999999.5"},
		{"-0e0", "0"},
		{"2.2250738585072014e-308", "2.2250738585072014e-308"},
	}},
	{"bit(1)", [][2]string{{"b'0'", "false"}, {"b'1'", "true"}}},
	{"bit(9)", [][2]string{{"b'101'", "B'000000101'"}, {"b'111111111'", "B'111111111'"}}},
	{"bit(64)", [][2]string{{"0xFFFFFFFFFFFFFFFF", "B'" + strings.Repeat("1", 64) + "'"}, {"b'1'", "B'" + strings.Repeat("0", 63) + "1'"}}},
	{"year", [][2]string{{"1901", "1901"}, {"2155", "2155"}, {"0000", "2000"}}},
	{"date", [][2]string{{"'1000-01-01'", "'1000-01-01'"}, {"'9999-12-31'", "'9999-12-31'"}, {"'0000-00-00'", "NULL"}, {"'2020-00-00'", "NULL"}}},
	{"date NOT NULL", [][2]string{{"'0000-00-00'", "'1970-01-01'"}}},
	{"datetime NOT NULL", [][2]string{{"'0000-00-00'", "'1970-01-01 00:00:00'"}}},
	{"datetime", [][2]string{{"'2020-02-29 23:59:59'", "'2020-02-29 23:59:59'"}, {"'0000-00-00'", "NULL"}}},
	{"datetime(3)", [][2]string{{"'2020-02-29 23:59:59.120'", "'2020-02-29 23:59:59.12'"}}},
	{"datetime(6)", [][2]string{{"'1000-01-01 00:00:00.000001'", "'1000-01-01 00:00:00.000001'"}, {"'9999-12-31 23:59:59.999999'", "'9999-12-31 23:59:59.999999'"}}},
	{"timestamp(6) NULL", [][2]string{{"'2020-02-29 23:59:59.5'", "'2020-03-01 01:29:59.5+01:30'"}, {"'0000-00-00'", "NULL"}}},
	{"time", [][2]string{{"'-838:59:59'", "'-838:59:59'"}, {"'838:59:59'", "'34 days 22:59:59'"}, {"'00:00:00'", "'0'"}}},
	{"time(6)", [][2]string{{"'-00:00:00.5'", "'-00:00:00.5'"}, {"'100:00:00.000001'", "'100:00:00.000001'"}}},
	{"char(10)", [][2]string{{"'ab  '", "'ab'"}, {"''", "''"}}},
	{"varchar(100)", [][2]string{{"'ab  '", "'ab  '"}, {"'N'", "'N'"}, {"'ä|€😀'", "'ä|€😀'"}, {"'a\\0b'", "'ab'"}, {`'\\'`, `'\'`}}},
	{"varchar(100) CHARACTER SET latin1", [][2]string{{"'äöü'", "'äöü'"}}},
	{"longtext", [][2]string{{"REPEAT('x', 100000)", "repeat('x', 100000)"}, {"'1'", "'1'"}}},
	{"enum('a','b','c d')", [][2]string{{"'c d'", "'c d'"}}},
	{"set('a','b','c')", [][2]string{{"'a,c'", "'a,c'"}, {"''", "''"}}},
	{"enum('a','it''s')", [][2]string{{"'it''s'", "'it''s'"}}}, // as in enumTypes
	{"set('a','b c','null')", [][2]string{{"'a,b c,null'", `'{a,"b c","null"}'`}, {"''", "'{}'"}}},
	{"binary(3)", [][2]string{{"'ab'", `'\x616200'`}}},
	{"varbinary(10)", [][2]string{{"0x00FF", `'\x00ff'`}, {"''", `'\x'`}}},
	{"blob", [][2]string{{"REPEAT(0x00, 70000)", `decode(repeat('00', 65535), 'hex')`}}},
	{"point", [][2]string{{"ST_GeomFromText('POINT(1 2)')", `'\x0101000000000000000000f03f0000000000000040'`}}},
	{"geometry", [][2]string{{"ST_GeomFromText('POINT(1 2)', 4326)", `'\x0101000020e6100000000000000000f03f0000000000000040'`}}},
}

// enumTypes are the sources of sameValues whose targets are made with schema.types.enum: enum.
var enumTypes = []string{"enum('a','it''s')", "set('a','b c','null')"}

// TestEqualValuesHaveEqualSums writes each value in both databases: no range may have to be divided.
func TestEqualValuesHaveEqualSums(t *testing.T) {
	t.Parallel()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			source, target := newMySQL(t, kind), newPostgres(t)
			pairs, divided := writeSameValues(t, source, target, kind), &atomic.Int64{}
			reports := compare(t, verify.Config{Source: counted{source, divided}, Target: counted{target, divided}, Pairs: pairs})
			for i, r := range reports {
				if !r.Equal() {
					t.Errorf("%s: %+v", sameValues[i].source, r)
				}
			}
			if n := divided.Load(); n > 0 {
				t.Errorf("%d ranges were divided", n)
			}
		})
	}
}

func writeSameValues(t *testing.T, source, target database, kind mysqlserver.Kind) []verify.Pair {
	t.Helper()
	var pairs []verify.Pair
	for i, c := range sameValues {
		name := fmt.Sprintf("t%02d", i)
		source.run(t, fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, v %s)", name, c.source))
		table, err := verify.Find(t.Context(), source, schema.Name{Schema: source.name, Table: name})
		if err != nil {
			t.Fatal(err)
		}
		var o sqlgen.Options
		if slices.Contains(enumTypes, c.source) {
			o.Enum = "enum"
		}
		made, err := sqlgen.Postgres{}.TargetTable(table, schema.Name{Table: name}, o)
		if err != nil {
			t.Fatal(err)
		}
		target.run(t, sqlgen.Postgres{}.CreateTable(made)...)
		values := c.values
		if !strings.HasSuffix(c.source, "NOT NULL") {
			values = append(values, [2]string{"NULL", "NULL"})
		}
		for id, v := range values {
			mine := v[0]
			if kind == mysqlserver.MySQL8 || kind == mysqlserver.MySQL9 {
				mine = strings.ReplaceAll(mine, "'POINT(1 2)', 4326)", "'POINT(1 2)', 4326, 'axis-order=long-lat')")
			}
			source.run(t, fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", name, id, mine))
			target.run(t, fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", name, id, v[1]))
		}
		pairs = append(pairs, pair(t, source, target, name, sqlgen.Rules{}))
	}
	return pairs
}

// TestDocumentsAreComparedByMeaning has documents that the two databases write differently.
func TestDocumentsAreComparedByMeaning(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL9), newPostgres(t)
	source.run(t, "CREATE TABLE d (id int PRIMARY KEY, v json)", `INSERT INTO d VALUES (1, '{"b": 1, "aa": [1, 2.50, "1"]}'), (2, '{"x": 1e20}'), (3, 'null'), (4, NULL), (5, '"1"')`)
	target.run(t, "CREATE TABLE d (id int PRIMARY KEY, v jsonb)", `INSERT INTO d VALUES (1, '{"aa": [1, 2.5, "1"], "b": 1.0}'), (2, '{"x": 100000000000000000000}'), (3, 'null'), (4, 'null'), (5, '1')`)
	got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "d", sqlgen.Rules{})}})
	want := []verify.Difference{
		{Kind: verify.Changed, Key: []string{"4"}, Columns: []string{"v"}, Count: 1},
		{Kind: verify.Changed, Key: []string{"5"}, Columns: []string{"v"}, Count: 1},
	}
	if !reflect.DeepEqual(got[0].Differences, want) {
		t.Errorf("got %+v\nwant %+v", got[0].Differences, want)
	}
}

// TestMariaDBsDocumentsAreText in its catalog, and may be documents in the target.
func TestMariaDBsDocumentsAreText(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MariaDB), newPostgres(t)
	source.run(t, "CREATE TABLE d (id int PRIMARY KEY, v json)", `INSERT INTO d VALUES (1, '{"b":1,  "aa":2}'), (2, '[1]')`)
	target.run(t, "CREATE TABLE d (id int PRIMARY KEY, v jsonb)", `INSERT INTO d VALUES (1, '{"aa": 2, "b": 1}'), (2, '[2]')`)
	got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "d", sqlgen.Rules{})}})
	want := []verify.Difference{{Kind: verify.Changed, Key: []string{"2"}, Columns: []string{"v"}, Count: 1}}
	if !reflect.DeepEqual(got[0].Differences, want) {
		t.Errorf("got %+v\nwant %+v", got[0].Differences, want)
	}
}

// TestVectorsAreComparedByTheirBits: both databases have 32-bit floating point numbers.
func TestVectorsAreComparedByTheirBits(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL9), newPostgres(t)
	source.run(t, "CREATE TABLE v (id int PRIMARY KEY, v vector(3))", "INSERT INTO v VALUES (1, STRING_TO_VECTOR('[1,2.5,-0.1]')), (2, NULL), (3, STRING_TO_VECTOR('[1,2,3]'))")
	target.run(t, "CREATE TABLE v (id int PRIMARY KEY, v real[])", "INSERT INTO v VALUES (1, '{1,2.5,-0.1}'), (2, NULL), (3, '{1,3,2}')")
	got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "v", sqlgen.Rules{})}})
	want := []verify.Difference{{Kind: verify.Changed, Key: []string{"3"}, Columns: []string{"v"}, Count: 1}}
	if !reflect.DeepEqual(got[0].Differences, want) {
		t.Errorf("got %+v\nwant %+v", got[0].Differences, want)
	}
}
