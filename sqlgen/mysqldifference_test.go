package sqlgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// mysqlItems is the table of the histories, with a column that no event has.
func mysqlItems(key ...string) schema.Table {
	return mysqlTable("item", key, "id", "int", "a", "int", "b", "varchar(20)", "local", "int")
}

// sourceRows are the rows of a history as MySQL writes them.
func sourceRows(rows []debezium.Row) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		parts := make([]string, len(r.Values))
		for j, v := range r.Values {
			parts[j] = "NULL"
			if v.Kind != debezium.Null {
				parts[j] = valueText(v)
			}
		}
		out[i] = strings.Join(parts, "|")
	}
	slices.Sort(out)
	return out
}

func (h *history) sourceRows() []string {
	var rows []debezium.Row
	for id, r := range h.rows {
		rows = append(rows, itemRow(id, r[0], r[1]))
	}
	return sourceRows(rows)
}

// TestMySQLStoresWhatOneByOneWouldLeave applies random histories to a real table in batches, and looks whether it holds
// the source's rows. The table has an index on its key, another unique one besides, or none.
func TestMySQLStoresWhatOneByOneWouldLeave(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		plain, without := mysqlItems("id"), mysqlItems()
		unique := mysqlTable("item", []string{"id"}, "id", "int", "a", "int", "b", "varchar(20)")
		unique.Unique = [][]string{{"a", "id"}}
		for name, c := range map[string]struct {
			ddl    string
			table  schema.Table
			config TargetConfig
		}{
			"key":        {"CREATE TABLE item (id int PRIMARY KEY, a int, b varchar(20), local int)", plain, TargetConfig{}},
			"unique":     {"CREATE TABLE item (id int PRIMARY KEY, a int, b varchar(20), UNIQUE (a, id))", unique, TargetConfig{}},
			"configured": {"CREATE TABLE item (id int, a int, b varchar(20), local int)", without, TargetConfig{Rules: Rules{Key: []string{"id"}}}},
		} {
			for seed := range uint64(4) {
				for _, sc := range scenarios(seed) {
					db.exec(t, "DROP TABLE IF EXISTS item", c.ddl)
					target := db.target(t, c.table, c.config)
					h := sc.play(t, 4+int(seed%5), target, func(_ Changes, list []Statement) error { return db.apply(t, list) })
					got := db.rows(t, "SELECT id, a, b FROM item")
					if slices.Sort(got); !slices.Equal(got, h.sourceRows()) {
						t.Fatalf("%s, %+v:\n got %v\nwant %v", name, sc, got, h.sourceRows())
					}
				}
			}
		}
	})
}

func TestMySQLChangesOneRowOfABagForEachEvent(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		for seed := range uint64(10) {
			db.exec(t, "DROP TABLE IF EXISTS item", "CREATE TABLE item (id int, a int, b varchar(20), local int)")
			target := db.target(t, mysqlItems(), TargetConfig{})
			events, rows := bagHistory(seed, 60)
			for part := range slices.Chunk(events, 17) {
				if err := db.apply(t, addAll(t, target, part...)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			got := db.rows(t, "SELECT id, a, b FROM item")
			if slices.Sort(got); !slices.Equal(got, sourceRows(rows)) {
				t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, sourceRows(rows))
			}
			missing := debezium.Event{Op: debezium.Delete, Before: itemRow(99, nullValue, nullValue)}
			var row *RowError
			if err := db.apply(t, addAll(t, target, missing)); !errors.As(err, &row) || row.Class != MissingRow {
				t.Fatalf("a row that is not there: got %v, want a %s", err, MissingRow)
			}
		}
	})
}

// conflict is events for a table that has rows, and what becomes of it.
type conflict struct {
	name   string
	ddl    string
	rows   string // that are there
	table  schema.Table
	events []debezium.Event
	class  Class // of the error; empty: none
	want   []string
}

func conflicts() []conflict {
	slot := mysqlTable("slot", []string{"id"}, "id", "int", "code", "varchar(5)")
	slot.Unique = [][]string{{"code"}}
	slotDDL := "CREATE TABLE slot (id int PRIMARY KEY, code varchar(5) NOT NULL, UNIQUE (code))"
	hidden := mysqlTable("slot", []string{"id"}, "id", "int", "code", "varchar(5)") // an index that somebody makes when the catalog was read
	hiddenDDL := "CREATE TABLE slot (id int PRIMARY KEY, code varchar(5) NOT NULL, UNIQUE (code(3)))"
	prefix := hidden
	prefix.Indexes = []schema.Index{{Name: "code", Columns: []string{"code"}, Unique: true, Special: "prefix", Parts: []schema.IndexPart{{Column: "code", Length: 3}}}}
	// The column body has values that the source does not send.
	longDDL := "CREATE TABLE slot (id int PRIMARY KEY, code varchar(5), body text, UNIQUE (code))"
	long := mysqlTable("slot", []string{"id"}, "id", "int", "code", "varchar(5)", "body", "text")
	long.Unique = [][]string{{"code"}}
	longRows := "INSERT INTO slot VALUES (1, 'A', 'x'), (2, 'B', 'y'), (3, 'C', 'z')"
	partly := func(id, code string) debezium.Event {
		e := debezium.Event{Op: debezium.Update, After: textRow("id", id, "code", code, "body", "")}
		e.After.Values[2] = unavailableValue
		return e
	}
	wholly := func(id, code, body string) debezium.Event {
		return debezium.Event{Op: debezium.Update, After: textRow("id", id, "code", code, "body", body)}
	}
	needed := long
	needed.Columns = slices.Clone(long.Columns)
	needed.Columns[1].NotNull = true
	neededDDL := strings.Replace(longDDL, "code varchar(5)", "code varchar(5) NOT NULL", 1)
	timed := long
	timed.Columns = append(slices.Clone(long.Columns), schema.Column{Name: "at", Type: MySQLType("datetime"), OnUpdate: true})
	timedDDL := strings.Replace(longDDL, "body text", "body text, at datetime NOT NULL DEFAULT '2001-02-03' ON UPDATE CURRENT_TIMESTAMP", 1)
	timedRows := strings.Replace(longRows, "slot", "slot (id, code, body)", 1)
	moved := debezium.Event{Op: debezium.Create, OldKey: textRow("id", "3"), After: textRow("id", "4", "code", "C", "body", "")}
	moved.After.Values[2] = unavailableValue
	leaves := debezium.Event{Op: debezium.Delete, Key: textRow("id", "3"), NewKey: textRow("id", "4")}
	abc := "INSERT INTO slot VALUES (1, 'A'), (2, 'B'), (3, 'C')"
	nick := mysqlTable("new", []string{"name", "n"}, "name", "varchar(40)", "n", "int", "new", "varchar(40)")
	nickDDL := "CREATE TABLE new (name varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, n int, new varchar(40), PRIMARY KEY (name, n))"
	update := func(id, code string) debezium.Event {
		return debezium.Event{Op: debezium.Update, After: textRow("id", id, "code", code)}
	}
	named := func(name, city string) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: textRow("name", name, "n", "1", "new", city)}
	}
	gone := func(pairs ...string) debezium.Event {
		return debezium.Event{Op: debezium.Delete, Key: textRow(pairs...)}
	}
	return []conflict{
		{"rotated", slotDDL, abc, slot, []debezium.Event{update("1", "B"), update("2", "C"), update("3", "A")}, "", []string{"1|B", "2|C", "3|A"}},
		{"freed", slotDDL, abc, slot, []debezium.Event{update("1", "Z"), update("4", "A"), gone("id", "2"), update("5", "B")}, "", []string{"1|Z", "3|C", "4|A", "5|B"}},
		{"rotated in part", longDDL, longRows, long, []debezium.Event{partly("1", "B"), partly("2", "C"), partly("3", "A")}, "", []string{"1|B|x", "2|C|y", "3|A|z"}},
		{"exchanged with a whole row", longDDL, longRows, long, []debezium.Event{partly("1", "B"), wholly("2", "A", "w")}, "", []string{"1|B|x", "2|A|w", "3|C|z"}},
		{"taken from a whole row", neededDDL, longRows, needed, []debezium.Event{partly("1", "B"), wholly("2", "Y", "w")}, "", []string{"1|B|x", "2|Y|w", "3|C|z"}},
		{"rotated in part where NULL is none", neededDDL, longRows, needed, []debezium.Event{partly("1", "B"), partly("2", "A")}, UniqueViolation, []string{"1|A|x", "2|B|y", "3|C|z"}},
		{"taken", slotDDL, abc, slot, []debezium.Event{update("44", "B")}, UniqueViolation, []string{"1|A", "2|B", "3|C"}},
		{"taken behind a prefix", hiddenDDL, abc, hidden, []debezium.Event{update("44", "B")}, UniqueViolation, []string{"1|A", "2|B", "3|C"}},
		{"rotated behind a prefix", hiddenDDL, abc, prefix, []debezium.Event{update("1", "B"), update("2", "C"), update("3", "A")}, "", []string{"1|B", "2|C", "3|A"}},
		{"times that were not sent", timedDDL, timedRows, timed, []debezium.Event{partly("1", "X"), wholly("2", "Y", "w"), leaves, moved}, "", []string{
			"1|X|x|2001-02-03 00:00:00", "2|Y|w|2001-02-03 00:00:00", "4|C|z|2001-02-03 00:00:00",
		}},
		{"replaced", hiddenDDL, abc, hidden, []debezium.Event{update("2", "Y")}, "", []string{"1|A", "2|Y", "3|C"}},
		{"names of SQL", nickDDL, "INSERT INTO new VALUES ('Ada', 1, 'x')", nick, []debezium.Event{named("Ada", "y"), named("Bob", "z")}, "", []string{"Ada|1|y", "Bob|1|z"}},
		{"folded", nickDDL, "INSERT INTO new VALUES ('Ada', 1, 'x')", nick, []debezium.Event{named("ADA", "y")}, KeyCollision, []string{"Ada|1|x"}},
		{"folded together", nickDDL, "DELETE FROM new", nick, []debezium.Event{named("Ada", "x"), named("ADA", "y")}, KeyCollision, nil},
		{"blank at the end", nickDDL, "INSERT INTO new VALUES ('Ada', 1, 'x')", nick, []debezium.Event{named("Ada ", "y")}, KeyCollision, []string{"Ada|1|x"}},
		{"another's delete", nickDDL, "INSERT INTO new VALUES ('Ada', 1, 'x')", nick, []debezium.Event{gone("name", "ADA", "n", "1")}, "", []string{"Ada|1|x"}},
		{"its own delete", nickDDL, "INSERT INTO new VALUES ('Ada', 1, 'x')", nick, []debezium.Event{gone("name", "Ada", "n", "1")}, "", nil},
	}
}

func TestMySQLMatchesRowsByTheirKeyAlone(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		for _, c := range conflicts() {
			db.exec(t, "DROP TABLE IF EXISTS "+db.Quote(c.table.Name.Table), c.ddl, c.rows)
			target := db.target(t, c.table, TargetConfig{})
			for i := range c.events {
				for _, r := range []*debezium.Row{&c.events[i].After, &c.events[i].Key, &c.events[i].OldKey, &c.events[i].NewKey} {
					asText(r)
				}
			}
			err := db.apply(t, addAll(t, target, c.events...))
			var row *RowError
			if errors.As(err, &row) != (c.class != "") || row != nil && row.Class != c.class {
				t.Errorf("%s: got %v, want class %q", c.name, err, c.class)
			}
			got := db.rows(t, "SELECT * FROM "+db.Quote(c.table.Name.Table)+" ORDER BY 1")
			if !slices.Equal(got, c.want) {
				t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
			}
		}
	})
}

// asText makes the columns id and n of a row of text integers.
func asText(r *debezium.Row) {
	if !r.Sent() {
		return
	}
	for i, f := range r.Shape.Fields {
		if f.Name == "id" || f.Name == "n" {
			r.Shape.Fields[i].Type = debezium.Any
			r.Values[i] = digits(r.Values[i].Text)
		}
	}
}

func TestMySQLStatementsAreBounded(t *testing.T) {
	t.Parallel()
	for _, dialect := range []MySQL{{MaxPacket: 1 << 20}, {MaxPacket: 1 << 20, MariaDB: true}} {
		target, err := NewTarget(dialect, mysqlTable("item", []string{"id"}, "id", "int", "a", "int", "b", "text"), TargetConfig{})
		if err != nil {
			t.Fatal(err)
		}
		var events []debezium.Event
		for i := range 3000 {
			text := textValue(strings.Repeat(`'\`[i%2:i%2+1], 1000))
			events = append(events, debezium.Event{Op: debezium.Create, After: itemRow(i, nullValue, text)},
				debezium.Event{Op: debezium.Delete, Key: idRow(10_000 + i)},
				debezium.Event{Op: debezium.Update, After: itemRow(20_000+i, unavailableValue, text)})
		}
		rows := map[StatementKind]int{}
		for _, s := range addAll(t, target, events...) {
			if len(s.SQL) > dialect.MaxPacket {
				t.Errorf("%+v: a statement of %d rows has %d bytes", dialect, s.Rows, len(s.SQL))
			}
			rows[s.Kind] += s.Rows
		}
		if got, want := fmt.Sprint(rows), fmt.Sprint(map[StatementKind]int{DeleteRows: 3000, UpdateRows: 3000, UpsertRows: 3000}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
