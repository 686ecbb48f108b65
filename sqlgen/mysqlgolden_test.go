package sqlgen

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

func TestStatementsOfMySQL(t *testing.T) {
	t.Parallel()
	keyed, bag := mysqlItems("id"), mysqlItems()
	keyed.Name.Schema = "sh`op"
	whole := mysqlTable("item", []string{"id"}, "id", "int", "a", "int", "b", "varchar(20)")
	unique := whole
	unique.Unique = [][]string{{"b"}}
	named := mysqlTable("new", []string{"b", "id"}, "id", "int", "a", "int", "b", "varchar(20)")
	byConfiguration := TargetConfig{Rules: Rules{Key: []string{"id"}}}
	one, x := number32(1), textValue("it's")
	create := func(id int) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: itemRow(id, one, x), Offset: int64(id)}
	}
	left := func(from, to int) debezium.Event {
		return debezium.Event{Op: debezium.Delete, Key: idRow(from), NewKey: idRow(to)}
	}
	came := func(from, to int, b debezium.Value) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: itemRow(to, one, b), OldKey: idRow(from)}
	}
	gone := func(rows ...debezium.Row) []debezium.Event {
		out := make([]debezium.Event, len(rows))
		for i, r := range rows {
			out[i] = debezium.Event{Op: debezium.Delete, Before: r, Offset: int64(i)}
		}
		return out
	}
	for _, c := range []struct {
		name   string
		table  schema.Table
		config TargetConfig
		events []debezium.Event
	}{
		{"upserts", keyed, TargetConfig{}, []debezium.Event{create(1), create(2), {Op: debezium.Create, After: itemRow(3, nullValue, textValue(`\`))}}},
		{"upserts-text-key", named, TargetConfig{}, []debezium.Event{create(1)}},
		{"upserts-unique", unique, TargetConfig{}, []debezium.Event{create(1), create(2)}},
		{"upserts-without-index", bag, byConfiguration, []debezium.Event{create(1)}},
		{"upserts-key-only", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Create, After: idRow(1)}}},
		{"deletes", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Delete, Key: idRow(5), Offset: 8}, {Op: debezium.Delete, Key: idRow(6)}}},
		{"deletes-text-key", named, TargetConfig{}, gone(itemRow(1, one, x))},
		{"updates", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Update, After: itemRow(1, one, unavailableValue)}}},
		{"truncate", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Truncate}, create(1)}},
		{"move", whole, TargetConfig{}, []debezium.Event{left(1, 9), came(1, 9, x)}},
		{"move-partial", keyed, TargetConfig{}, []debezium.Event{left(1, 9), came(1, 9, unavailableValue)}},
		{"move-swap", keyed, TargetConfig{}, []debezium.Event{
			left(1, 99), came(1, 99, x), left(2, 1), came(2, 1, unavailableValue), left(99, 2), came(99, 2, x),
		}},
		{"bag-inserts", bag, TargetConfig{}, []debezium.Event{create(1), create(1)}},
		{"bag-deletes", bag, TargetConfig{}, gone(itemRow(1, one, x), itemRow(1, one, x), itemRow(1, one, nullValue))},
		{"bag-replacements", bag, TargetConfig{}, []debezium.Event{
			{Op: debezium.Update, Before: itemRow(1, one, x), After: itemRow(1, nullValue, x), Offset: 1},
			{Op: debezium.Update, Before: itemRow(1, one, x), After: itemRow(2, nullValue, x), Offset: 2},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, d := range []MySQL{{}, {MariaDB: true}} {
				target, err := NewTarget(d, c.table, c.config)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "MariaDB: %t\n", d.MariaDB)
				got.WriteString(describe(addAll(t, target, c.events...)))
			}
			golden(t, "mysql-"+c.name+".golden", got.String())
		})
	}
}

// mysqlTypes are types as the catalog writes them, which come back as they are.
var mysqlTypes = []string{
	"bigint unsigned", "tinyint", "tinyint(1)", "tinyint unsigned", "smallint", "smallint unsigned", "mediumint", "mediumint unsigned", "int", "int unsigned",
	"bigint", "decimal(12,2)", "float", "double", "bit(1)", "bit(9)", "year", "date", "time", "time(6)", "datetime(3)", "timestamp", "timestamp(6)",
	"char(3)", "varchar(20)", "tinytext", "text", "mediumtext", "longtext", "binary(16)", "varbinary(20)", "tinyblob", "blob", "mediumblob", "longblob",
	"enum('a','it''s','c,d')", "set('x','y')", "json", "geometry", "point", "multipolygon",
}

func mysqlSource() schema.Table {
	source := schema.Table{PrimaryKey: []string{"bigint unsigned"}}
	for _, native := range mysqlTypes {
		source.Columns = append(source.Columns, schema.Column{Name: native, Type: MySQLType(native)})
	}
	return source
}

func TestMySQLGetsItsOwnTypesBack(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		table, err := db.TargetTable(mysqlSource(), schema.Name{Table: "all"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range table.Columns {
			got = append(got, c.Type.Native)
		}
		if !slices.Equal(got, mysqlTypes) {
			t.Errorf("\n got %q\nwant %q", got, mysqlTypes)
		}
		db.exec(t, db.CreateTable(table)...)
		for i, native := range db.rows(t, "SELECT column_type FROM information_schema.columns WHERE table_schema = database() ORDER BY ordinal_position") {
			got, want := MySQLType(native), table.Columns[i].Type
			if want.Kind == schema.JSON && db.MariaDB {
				continue // which is longtext there
			}
			if got.Kind != want.Kind || got.Length != want.Length || got.Scale != want.Scale || !slices.Equal(got.Values, want.Values) {
				t.Errorf("%s in the catalog: got %+v, want %+v", native, got, want)
			}
		}
	})
}

func TestMySQLHoldsTypesOfOtherSources(t *testing.T) {
	t.Parallel()
	source := schema.Table{PrimaryKey: []string{"text key", "bytes key"}}
	want := map[bool][]string{}
	for _, c := range []struct {
		name    string
		t       schema.Type
		mysql   string
		mariaDB string // empty: the same
	}{
		{"text key", schema.Type{Kind: schema.Text}, "varchar(384)", ""},
		{"bytes key", schema.Type{Kind: schema.Bytes}, "varbinary(1536)", ""},
		{"bool", schema.Type{Kind: schema.Bool}, "tinyint(1)", ""},
		{"numeric", schema.Type{Kind: schema.Decimal}, "decimal(65,30)", ""},
		{"numeric(38,10)", schema.Type{Kind: schema.Decimal, Length: 38, Scale: 10}, "decimal(38,10)", ""},
		{"text", schema.Type{Kind: schema.Text}, "longtext", ""},
		{"varchar", schema.Type{Kind: schema.Varchar}, "longtext", ""},
		{"varchar(10000)", schema.Type{Kind: schema.Varchar, Length: 10_000}, "varchar(10000)", ""},
		{"another", schema.Type{Kind: schema.Varchar, Length: 10_000}, "mediumtext", ""},
		{"char(300)", schema.Type{Kind: schema.Char, Length: 300}, "varchar(300)", ""},
		{"bytea", schema.Type{Kind: schema.Bytes}, "longblob", ""},
		{"bit(100)", schema.Type{Kind: schema.Bit, Length: 100}, "varchar(100)", ""},
		{"bit varying", schema.Type{Kind: schema.VarBit}, "longtext", ""},
		{"time", schema.Type{Kind: schema.TimeOfDay, Scale: 6}, "time(6)", ""},
		{"timetz", schema.Type{Kind: schema.TimeTZ, Scale: 6}, "varchar(40)", ""},
		{"timestamp", schema.Type{Kind: schema.Timestamp, Scale: 9}, "datetime(6)", ""},
		{"timestamptz", schema.Type{Kind: schema.TimestampTZ, Scale: 6}, "datetime(6)", ""},
		{"interval", schema.Type{Kind: schema.Interval}, "varchar(100)", ""},
		{"jsonb", schema.Type{Kind: schema.JSONB}, "json", ""},
		{"array", schema.Type{Kind: schema.Array, Elem: &schema.Type{Kind: schema.Int32}}, "json", ""},
		{"uuid", schema.Type{Kind: schema.UUID}, "char(36)", "uuid"},
		{"inet", schema.Type{Kind: schema.Text, Native: "inet"}, "longtext", ""},
		{"vector", schema.Type{Kind: schema.Vector}, "json", ""},
		{"label", schema.Type{Kind: schema.Enum, Values: []string{`a\b`}}, "longtext", ""},
		{"geometry", schema.Type{Kind: schema.Geometry}, "geometry", ""},
	} {
		source.Columns = append(source.Columns, schema.Column{Name: c.name, Type: c.t})
		if c.mariaDB == "" {
			c.mariaDB = c.mysql
		}
		want[false], want[true] = append(want[false], c.mysql), append(want[true], c.mariaDB)
	}
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		table, err := db.TargetTable(source, schema.Name{Table: strings.Repeat("ä", 70)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range table.Columns {
			got = append(got, c.Type.Native)
		}
		if !slices.Equal(got, want[db.MariaDB]) {
			t.Errorf("\n got %q\nwant %q", got, want[db.MariaDB])
		}
		db.exec(t, db.CreateTable(table)...)
		if got := db.rows(t, "SHOW TABLES"); !slices.Equal(got, []string{table.Name.Table}) || len([]rune(table.Name.Table)) != 64 {
			t.Errorf("the tables are %q, want %q of 64 characters", got, table.Name.Table)
		}
	})
	golden(t, "mysql-create-table.golden", createBoth(t))
}

func createBoth(t *testing.T) string {
	t.Helper()
	var out []string
	for _, d := range []MySQL{{}, {MariaDB: true}} {
		table, err := d.TargetTable(mysqlSource(), schema.Name{Schema: "shop", Table: "all"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d.CreateTable(table)...)
	}
	return strings.Join(out, ";\n") + "\n"
}
