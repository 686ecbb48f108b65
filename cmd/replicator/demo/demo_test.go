package demo

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	recorded "replicator/testdata/debezium"
)

func row(values ...string) []*string {
	out := make([]*string, len(values))
	for i := range values {
		if values[i] != "NULL" {
			out[i] = &values[i]
		}
	}
	return out
}

func TestComparisonCountsLostAndRepeatedRows(t *testing.T) {
	t.Parallel()
	types := []uint32{pgtype.Int4OID, pgtype.TextOID}
	source := sourceTable{name: "t", geometry: []bool{false, false}, rows: [][]*string{row("1", "a"), row("1", "a"), row("2", "b"), row("3", "NULL")}}
	for name, c := range map[string]struct {
		rows           [][]*string
		lost, repeated int
	}{
		"equal":        {[][]*string{row("3", "NULL"), row("1", "a"), row("2", "b"), row("1", "a")}, 0, 0},
		"lost":         {[][]*string{row("1", "a"), row("2", "b"), row("3", "NULL")}, 1, 0},
		"repeated":     {[][]*string{row("1", "a"), row("1", "a"), row("1", "a"), row("2", "b"), row("3", "NULL")}, 0, 1},
		"changed":      {[][]*string{row("1", "a"), row("1", "a"), row("2", "B"), row("3", "NULL")}, 1, 1},
		"null is not ": {[][]*string{row("1", "a"), row("1", "a"), row("2", "b"), row("3", "")}, 1, 1},
		"nothing":      {nil, 4, 0},
	} {
		var got tally
		got.compare(source, c.rows, types)
		got.examples = nil
		want := tally{expected: 4, found: len(c.rows), lost: c.lost, repeated: c.repeated}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if got.right() != (c.lost+c.repeated == 0) {
			t.Errorf("%s: right() is %v", name, got.right())
		}
	}
}

func TestValuesOfBothDatabasesCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind            uint32
		mysql, postgres string
		geometry, equal bool
	}{
		{pgtype.BoolOID, "0x01", "t", false, true},
		{pgtype.BoolOID, "0x00", "t", false, false},
		{pgtype.BitOID, "0x01FF", "111111111", false, true},
		{pgtype.BitOID, "0x01FF", "111111110", false, false},
		{pgtype.ByteaOID, "0xFF00", `\xff00`, false, true},
		{pgtype.ByteaOID, "0x", `\x`, false, true},
		{pgtype.ByteaOID, "0xFF00", `\xff`, false, false},
		{pgtype.ByteaOID, "0x000000000101000000AA", `\x0101000000aa`, true, true},
		{pgtype.ByteaOID, "0xE61000000101000000AA", `\x0101000020e6100000aa`, true, true},
		{pgtype.ByteaOID, "0xE61000000101000000AA", `\x0101000000aa`, true, false},
		{pgtype.Int2OID, "007", "7", false, true},
		{pgtype.NumericOID, "0.10", "0.10", false, true},
		{pgtype.NumericOID, "0.10", "0.1", false, false},
		{pgtype.Float4OID, "3.4e38", "3.4e+38", false, true},
		{pgtype.Float8OID, "1e-300", "1e-300", false, true},
		{pgtype.Float8OID, "0.1", "0.10000000000000002", false, false},
		{pgtype.TimestampOID, "2024-01-01 00:00:00.500", "2024-01-01 00:00:00.5", false, true},
		{pgtype.TimestamptzOID, "2024-01-01 00:00:00.000", "2024-01-01 00:00:00+00", false, true},
		{pgtype.TimestamptzOID, "2024-01-01 00:00:00", "2024-01-01 00:00:00+01", false, false},
		{pgtype.IntervalOID, "-838:59:59.000000", "-838:59:59", false, true},
		{pgtype.JSONBOID, `{"a": 1.50, "b": [null]}`, `{"b":[null],"a":1.5}`, false, true},
		{pgtype.JSONBOID, `9007199254740993`, `9007199254740992`, false, false},
		{pgtype.Float4ArrayOID, "0x0000803F00002040000040C0", "{1,2.5,-3}", false, true},
		{pgtype.TextOID, "0x01", "0x01", false, true},
		{pgtype.TextOID, "a ", "a", false, false},
	} {
		m, _ := fromMySQL(c.mysql, c.kind, c.geometry)
		p, _ := fromPostgres(c.postgres, c.kind, c.geometry)
		if (m == p) != c.equal {
			t.Errorf("type %d: MySQL's %s becomes %s, PostgreSQL's %s becomes %s; want equal: %v", c.kind, c.mysql, m, c.postgres, p, c.equal)
		}
	}
	if _, ok := fromMySQL("0000-00-00 00:00:00", pgtype.TimestampOID, false); ok {
		t.Error("a zero date has no counterpart")
	}
}

func TestStreamEndsBeforeTheFirstAlter(t *testing.T) {
	t.Parallel()
	s, err := loadStream(recorded.Files)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := loadSource(recorded.Files)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, table := range tables {
		want[topic(copyName(3), table.name)] = true
	}
	schemas, rows := s.nth(3)
	got := map[string]bool{}
	for _, name := range topics(rows) {
		got[name] = true
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("topics: got %v, want %v", got, want)
	}
	for _, r := range append(schemas, rows...) {
		if bytes.Contains(r.Value, []byte("ALTER TABLE")) || bytes.Contains(r.Value, []byte(`"db":"shop"`)) || bytes.Contains(r.Value, []byte(`"databaseName":"shop"`)) {
			t.Errorf("%v offset %d: %.200s", r.Partition, r.Offset, r.Value)
		}
		if strings.Contains(r.Partition.Topic, signals) {
			t.Errorf("topic %s", r.Partition.Topic)
		}
	}
}
