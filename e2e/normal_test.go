package e2e

import (
	"testing"
)

// The texts on both sides are what MySQL 9's client and PostgreSQL 15 print.
func TestBothDatabasesTextsOfOneValueComeToTheSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dataType, fullType, mysql, postgres, want string }{
		{"tinyint", "tinyint(1)", "1", "1", "1"},
		{"tinyint", "tinyint(1)", "0", "false", "0"},
		{"bigint", "bigint unsigned", "18446744073709551615", "18446744073709551615", "18446744073709551615"},
		{"decimal", "decimal(5,2)", "0.10", "0.10", "0.10"},
		{"decimal", "decimal(65,30)", "-99999999999999999999999999999999999.999999999999999999999999999999", "-99999999999999999999999999999999999.999999999999999999999999999999", "-99999999999999999999999999999999999.999999999999999999999999999999"},
		{"float", "float", "0.10000000149011612", "0.1", "0.1"},
		{"float", "float", "-3.3999999521443642e38", "-3.4e+38", "-3.4e+38"},
		{"double", "double", "-1.7976931348623157e308", "-1.7976931348623157e+308", "-1.7976931348623157e+308"},
		{"double", "double", "1e-300", "1e-300", "1e-300"},
		{"bit", "bit(1)", "0x01", "true", "1"},
		{"bit", "bit(1)", "0x00", "0", "0"},
		{"bit", "bit(9)", "0x0100", "100000000", "100000000"},
		{"bit", "bit(9)", "0x0000", "000000000", "000000000"},
		{"year", "year", "0000", "2000", "2000"},
		{"year", "year", "2155", "2155", "2155"},
		{"date", "date", "1000-01-01", "1000-01-01", "1000-01-01"},
		{"datetime", "datetime(3)", "9999-12-31 23:59:59.900", "9999-12-31 23:59:59.9", "9999-12-31 23:59:59.9"},
		{"datetime", "datetime(6)", "2024-02-29 12:34:56.000000", "2024-02-29 12:34:56", "2024-02-29 12:34:56"},
		{"timestamp", "timestamp(6)", "1970-01-01 00:00:01.000001", "1970-01-01 00:00:01.000001+00", "1970-01-01 00:00:01.000001+00"},
		{"time", "time", "-838:59:59", "-838:59:59", "-3020399000000"},
		{"time", "time(3)", "-00:00:00.001", "-00:00:00.001", "-1000"},
		{"time", "time(6)", "100:00:00.000000", "4 days 04:00:00", "360000000000"},
		{"time", "time(3)", "24:00:00.500", "24:00:00.5", "86400500000"},
		{"varchar", "varchar(20)", "430961007A", "C\taz", "C\taz"},
		{"varchar", "varchar(20)", "", "", ""},
		{"enum", "enum('a','b')", "61", "a", "a"},
		{"set", "set('x','y')", "782C79", "x,y", "x,y"},
		{"binary", "binary(2)", "0x01FF", `\x01ff`, "01ff"},
		{"blob", "blob", "0x", `\x`, ""},
		{"json", "json", hexOf(`{"b": 1.0, "a": [18446744073709551615, null]}`), `{"a": [18446744073709551615, null], "b": 1.00}`, `{"a":["number 18446744073709551615",null],"b":"number 1"}`},
		{"json", "json", hexOf("null"), "null", "null"},
		{"point", "point", "0x000000000101000000000000000000F83F00000000000000C0", `\x0101000000000000000000f83f00000000000000c0`, "srid 0 wkb 0101000000000000000000f83f00000000000000c0"},
		{"geometry", "geometry", "0xE61000000101000000000000000000F03F000000000000F03F", `\x0101000020e6100000000000000000f03f000000000000f03f`, "srid 4326 wkb 0101000000000000000000f03f000000000000f03f"},
		{"vector", "vector(3)", "0x0000803F00002040000040C0", "{1,2.5,-3}", "1 2.5 -3"},
	} {
		col := Column{Name: "c", Type: c.dataType, FullType: c.fullType}
		want := Value{Text: c.want}
		if got, err := col.FromMySQL(c.mysql); err != nil || got != want {
			t.Errorf("%s %s from MySQL: got %v, %v, want %v", c.fullType, c.mysql, got, err, want)
		}
		if got, err := col.FromPostgres(c.postgres); err != nil || got != want {
			t.Errorf("%s %s from PostgreSQL: got %v, %v, want %v", c.fullType, c.postgres, got, err, want)
		}
	}
}

func TestZeroDatesAreNull(t *testing.T) {
	t.Parallel()
	for dataType, s := range map[string]string{"date": "0000-00-00", "datetime": "0000-00-00 00:00:00.000", "timestamp": "0000-00-00 00:00:00"} {
		if got, err := (Column{Type: dataType}).FromMySQL(s); err != nil || got != null {
			t.Errorf("%s %s: got %v, %v, want NULL", dataType, s, got, err)
		}
	}
}

func TestNearlyEqualValuesDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dataType, fullType, mysql, postgres string }{
		{"json", "json", hexOf("18446744073709551615"), "18446744073709551616"},
		{"json", "json", hexOf(`"1"`), "1"},
		{"json", "json", hexOf(`"number 1"`), "1"},
		{"decimal", "decimal(5,2)", "0.10", "0.1"},
		{"double", "double", "0.1", "0.10000000000000002"},
		{"float", "float", "0.10000000149011612", "0.10000001"},
		{"timestamp", "timestamp", "2024-02-29 12:34:56", "2024-02-29 12:34:56"}, // the target lost the zone
		{"datetime", "datetime(6)", "2024-02-29 12:34:56.000001", "2024-02-29 12:34:56"},
		{"time", "time", "-01:02:03", "01:02:03"},
		{"bit", "bit(9)", "0x0100", "000000001"},
		{"varchar", "varchar(9)", hexOf("b "), "b"},
		{"geometry", "geometry", "0xE61000000101000000000000000000F03F000000000000F03F", `\x0101000000000000000000f03f000000000000f03f`},
	} {
		col := Column{Name: "c", Type: c.dataType, FullType: c.fullType}
		a, err := col.FromMySQL(c.mysql)
		if err != nil {
			t.Error(err)
		}
		b, err := col.FromPostgres(c.postgres)
		if err != nil {
			t.Error(err)
		}
		if a == b {
			t.Errorf("%s: %s and %s both came to %v", c.fullType, c.mysql, c.postgres, a)
		}
	}
}

func TestUnreadableTextIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dataType, fullType, s string }{
		{"varchar", "varchar(9)", "xyz"},
		{"json", "json", hexOf(`{"a":1} 2`)},
		{"blob", "blob", "00FF"},
		{"bit", "bit(99)", "0x01"},
		{"point", "point", "0x00"},
		{"vector", "vector(1)", "0x00"},
		{"time", "time", ""},
		{"time", "time", "noon"},
		{"double", "double", "x"},
		{"hstore", "hstore", "x"},
	} {
		if got, err := (Column{Type: c.dataType, FullType: c.fullType}).FromMySQL(c.s); err == nil {
			t.Errorf("%s %q: got %v, want an error", c.fullType, c.s, got)
		}
	}
}
