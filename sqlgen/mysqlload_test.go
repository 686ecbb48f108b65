package sqlgen

import (
	"database/sql"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"replicator/debezium"
	"replicator/schema"
)

// loaded has the server load the rows of the one statement that list must be, within a transaction, and returns its warnings.
func (db mysqlDatabase) loaded(t *testing.T, list []Statement) []string {
	t.Helper()
	if len(list) != 1 || list[0].Data == nil {
		t.Fatalf("got %d statements, want one that reads data: %.200s", len(list), describe(list))
	}
	s := list[0]
	name := t.Name()
	mysql.RegisterReaderHandler(name, s.Data)
	defer mysql.DeregisterReaderHandler(name)
	db.exec(t, "START TRANSACTION")
	result, err := db.conn.ExecContext(t.Context(), strings.Replace(s.SQL, "?", "'Reader::"+name+"'", 1))
	if err != nil {
		t.Fatalf("%s: %v", s.SQL, err)
	}
	if n, err := result.RowsAffected(); err != nil || n != s.Want || n != int64(s.Rows) {
		t.Errorf("%d of %d rows, %v", n, s.Want, err)
	}
	warnings := db.rows(t, "SHOW WARNINGS")
	db.exec(t, "COMMIT")
	return warnings
}

// TestMySQLLoadsWhatItInserts of every type, and NULL.
func TestMySQLLoadsWhatItInserts(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		db.Load = true
		columns := []string{"id", "int"}
		ddl := "(id int PRIMARY KEY"
		shape := &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int32}}}
		var full []debezium.Value
		want := []string{}
		for i, c := range mysqlSamples() {
			if c.only != "" && string(c.only) != t.Name()[strings.LastIndexByte(t.Name(), '/')+1:] {
				continue
			}
			c.f.Name = "v" + strconv.Itoa(i)
			ddl += ", " + c.f.Name + " " + c.column + " NULL"
			columns = append(columns, c.f.Name, c.column)
			shape.Fields = append(shape.Fields, c.f)
			full, want = append(full, c.v), append(want, c.want)
		}
		db.exec(t, "CREATE TABLE loaded "+ddl+")", "CREATE TABLE inserted "+ddl+")")
		var events []debezium.Event
		for i := range mysqlLoadRows {
			values := append([]debezium.Value{intValue(int64(i))}, full...)
			if i%2 == 1 {
				for c := range full {
					values[c+1] = nullValue
				}
			}
			events = append(events, debezium.Event{Op: debezium.Create, After: debezium.Row{Shape: shape, Values: values}})
		}
		target := func(name string) *Target {
			return db.target(t, mysqlTable(name, []string{"id"}, columns...), TargetConfig{})
		}
		if warnings := db.loaded(t, addAll(t, target("loaded"), events...)); warnings != nil {
			t.Errorf("warnings: %q", warnings)
		}
		if err := db.apply(t, addAll(t, target("inserted"), events...)[0].Instead()); err != nil {
			t.Fatal(err)
		}
		got, inserted := db.rows(t, "SELECT * FROM loaded ORDER BY id"), db.rows(t, "SELECT * FROM inserted ORDER BY id")
		if !slices.Equal(got, inserted) {
			t.Errorf("loaded   %q\ninserted %q", got[:2], inserted[:2])
		}
		if row := "0|" + strings.Join(want, "|"); got[0] != row {
			t.Errorf("got  %q\nwant %q", got[0], row)
		}
		if row := "1" + strings.Repeat("|NULL", len(full)); got[1] != row {
			t.Errorf("got  %q\nwant %q", got[1], row)
		}
	})
}

// TestMySQLLoadsTextAndBytesAsTheyAre, whatever looks like the end of a field, of a row, or like NULL.
func TestMySQLLoadsTextAndBytesAsTheyAre(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		db.Load = true
		db.exec(t, "CREATE TABLE x (id int PRIMARY KEY, s text, b blob) CHARACTER SET utf8mb4")
		texts := []string{"", "NULL", "N", `\N`, `\`, `\\`, "\\\t", "\t", "\n", "\r\n", `\n\t\0\Z`, "'", `"`, " x ", "é\t😀\\", "\x1a", "a,b;c", strings.Repeat(`\`, 70_000) + "\n"}
		for i := range 128 {
			texts = append(texts, string(rune(i)), "a"+string(rune(i))+"N")
		}
		shape := &debezium.Shape{Fields: []debezium.Field{
			{Name: "id", Type: debezium.Int32}, {Name: "s", Type: debezium.String, Optional: true}, {Name: "b", Type: debezium.Bytes, Optional: true},
		}}
		var events []debezium.Event
		var want [][2]string
		for i, s := range texts {
			if len(s) > 60_000 {
				s = s[10_001:] // TEXT ends at 65,535 bytes
			}
			b := "\xff" + s + string([]byte{byte(i), byte(i + 128)})
			events = append(events, debezium.Event{Op: debezium.Create, After: debezium.Row{Shape: shape, Values: []debezium.Value{
				intValue(int64(i)), textValue(s), textValue(base64.StdEncoding.EncodeToString([]byte(b))),
			}}})
			want = append(want, [2]string{s, b})
		}
		target := db.target(t, mysqlTable("x", []string{"id"}, "id", "int", "s", "text", "b", "blob"), TargetConfig{})
		if warnings := db.loaded(t, addAll(t, target, events...)); warnings != nil {
			t.Errorf("warnings: %q", warnings)
		}
		for i, w := range want {
			var s, b sql.NullString
			if err := db.conn.QueryRowContext(t.Context(), "SELECT s, b FROM x WHERE id = "+strconv.Itoa(i)).Scan(&s, &b); err != nil {
				t.Fatal(err)
			}
			if got := [2]string{s.String, b.String}; !s.Valid || !b.Valid || got != w {
				t.Errorf("row %d: got %.100q, want %.100q", i, got, w)
			}
		}
	})
}

// TestMySQLInsertsWhatItCannotLoad: where LOAD DATA would choose a value of its own without a word.
func TestMySQLInsertsWhatItCannotLoad(t *testing.T) {
	t.Parallel()
	shape := &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int32}, {Name: "at", Type: debezium.String, Optional: true}}}
	events := func(n int, at debezium.Value) (out []debezium.Event) {
		for i := range n {
			out = append(out, debezium.Event{Op: debezium.Create, After: debezium.Row{Shape: shape, Values: []debezium.Value{intValue(int64(i)), textValue("x")}}})
		}
		out[n-1].After.Values[1] = at
		return out
	}
	table := mysqlTable("x", []string{"id"}, "id", "int", "at", "varchar(40)")
	table.Columns[1].NotNull = true
	wider := mysqlTable("x", []string{"id"}, "id", "int", "at", "varchar(40)", "own", "int")
	byConfiguration := mysqlTable("x", nil, "id", "int", "at", "varchar(40)")
	for name, c := range map[string]struct {
		table  schema.Table
		config TargetConfig
		load   bool
		events []debezium.Event
		want   bool
	}{
		"whole rows":                      {table, TargetConfig{}, true, events(mysqlLoadRows, textValue("x")), true},
		"few rows":                        {table, TargetConfig{}, true, events(mysqlLoadRows-1, textValue("x")), false},
		"a server that takes no files":    {table, TargetConfig{}, false, events(mysqlLoadRows, textValue("x")), false},
		"NULL where there must be none":   {table, TargetConfig{}, true, events(mysqlLoadRows, nullValue), false},
		"a column that events lack":       {wider, TargetConfig{}, true, events(mysqlLoadRows, textValue("x")), false},
		"a key that has no index":         {byConfiguration, TargetConfig{Rules: Rules{Key: []string{"id"}}}, true, events(mysqlLoadRows, textValue("x")), false},
		"a table without a key":           {byConfiguration, TargetConfig{}, true, events(mysqlLoadRows, textValue("x")), true},
		"changes of rows that were there": {table, TargetConfig{}, true, changed(events(mysqlLoadRows, textValue("x"))), false},
	} {
		d := MySQL{Load: c.load}
		target, err := NewTarget(d, c.table, c.config)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := addAll(t, target, c.events...)[0].Data != nil; got != c.want {
			t.Errorf("%s: loaded: %t, want %t", name, got, c.want)
		}
	}
}

func changed(events []debezium.Event) []debezium.Event {
	for i := range events {
		events[i].Op = debezium.Update
	}
	return events
}
