package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"replicator/debezium"
)

// changingRun is a source's database shop whose tables change, told by a schema-change topic, and a target of its own.
type changingRun struct {
	*caseRun
	prefix string // of the topics, and the schema-change topic's name
	pos    int
}

func newChangingRun(t *testing.T, tables ...string) *changingRun {
	t.Helper()
	r := &changingRun{caseRun: newCaseRun(t, &caseFile{})}
	r.prefix = fmt.Sprintf("changing-%08x", hash(r.url))
	for _, topic := range append(tables, "") {
		if err := caseBroker(t).CreateTopic(strings.TrimSuffix(r.prefix+".shop."+topic, ".shop."), 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *changingRun) source(table string) string {
	r.pos += 100
	return fmt.Sprintf(`"source":{"connector":"mysql","name":%q,"ts_ms":1704067200500,"snapshot":"false","db":"shop","table":%q,"server_id":1,"file":"binlog.000001","pos":%d,"row":0}`, r.prefix, table, r.pos)
}

// ddl writes a statement after which table is as columns say: names with a type, as MySQL has it. The first is the key. None: it is dropped.
func (r *changingRun) ddl(t *testing.T, text, table string, columns ...string) {
	t.Helper()
	changes := []any{}
	if len(columns) > 0 {
		var list []any
		for i := 0; i < len(columns); i += 2 {
			typ, required := strings.CutSuffix(columns[i+1], " NOT NULL")
			typ, long := strings.CutSuffix(typ, "(80)")
			length := 40
			switch {
			case long:
				length = 80
			case strings.Contains(typ, "TIME"):
				length = 6
			}
			list = append(list, map[string]any{"name": columns[i], "typeName": typ, "typeExpression": typ, "position": i/2 + 1, "optional": i > 0 && !required, "charsetName": "utf8mb4", "length": length, "enumValues": []string{"'x'", "'y'"}})
		}
		changes = append(changes, map[string]any{"type": "ALTER", "id": fmt.Sprintf(`"shop"."%s"`, table), "table": map[string]any{"primaryKeyColumnNames": columns[:1], "columns": list}})
	}
	value, err := json.Marshal(map[string]any{"databaseName": "shop", "ddl": text, "tableChanges": changes})
	if err != nil {
		t.Fatal(err)
	}
	r.write(t, r.prefix, "{"+r.source(table)+","+string(value[1:]))
}

// row writes a change of a row.
func (r *changingRun) row(t *testing.T, topic, table, op, before, after string) {
	t.Helper()
	r.write(t, r.prefix+".shop."+topic, fmt.Sprintf(`{"before":%s,"after":%s,%s,"op":%q,"ts_ms":1}`, before, after, r.source(table), op))
}

func (r *changingRun) write(t *testing.T, topic, value string) {
	t.Helper()
	if err := caseBroker(t).Produce(t.Context(), debezium.Record{Partition: debezium.Partition{Topic: topic}, Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

func (r *changingRun) replicate(t *testing.T) {
	t.Helper()
	code, stderr := r.runConfig(t.Context(), t, fmt.Sprintf("pipeline: %[1]s\nsource:\n  brokers: [%[2]s]\n  topics: ['%[1]s\\.shop\\..*']\n  schema_changes: %[1]s\ntarget: {url: '%[3]s'}\nhttp: {listen: ''}\n",
		r.prefix, strings.Join(caseBroker(t).Addrs(), ", "), r.url))
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
}

// holds compares a query's rows in the target.
func (r *changingRun) holds(t *testing.T, query, want string) {
	t.Helper()
	if got := rowsText(r.exec(t, query)); got != want {
		t.Errorf("%s\n got %s\nwant %s", query, got, want)
	}
}

// TestTruncatesAmongSchemaChanges is case 28 with its tables changed before, between and after the truncates. A TRUNCATE is told
// twice, by the statement and by an event, and empties once: not what came between them in another topic.
func TestTruncatesAmongSchemaChanges(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{"1", "100000"} {
		t.Run("rows="+rows, func(t *testing.T) {
			t.Parallel()
			r := newChangingRun(t, "basket_head", "basket_line", "basket_row")
			r.config["checkpoint.rows"] = rows
			r.ddl(t, "CREATE TABLE basket_head (id INT PRIMARY KEY)", "basket_head", "id", "INT")
			r.ddl(t, "CREATE TABLE basket_line (id INT PRIMARY KEY, head INT)", "basket_line", "id", "INT", "head", "INT")
			r.row(t, "basket_head", "basket_head", "c", "null", `{"id":1}`)
			r.row(t, "basket_line", "basket_line", "c", "null", `{"id":100,"head":1}`)
			r.ddl(t, "ALTER TABLE basket_line ADD COLUMN n INT", "basket_line", "id", "INT", "head", "INT", "n", "INT")
			r.row(t, "basket_line", "basket_line", "c", "null", `{"id":101,"head":1,"n":5}`)
			r.ddl(t, "TRUNCATE TABLE basket_line", "basket_line")
			r.pos -= 100 // the event has the statement's position
			r.row(t, "basket_line", "basket_line", "t", "null", "null")
			r.row(t, "basket_head", "basket_head", "t", "null", "null")
			r.row(t, "basket_head", "basket_head", "c", "null", `{"id":3}`)
			r.row(t, "basket_line", "basket_line", "c", "null", `{"id":102,"head":3,"n":6}`)
			r.ddl(t, "ALTER TABLE basket_line RENAME COLUMN n TO quantity", "basket_line", "id", "INT", "head", "INT", "quantity", "INT")
			r.row(t, "basket_line", "basket_line", "u", `{"id":102,"head":3,"quantity":6}`, `{"id":102,"head":3,"quantity":7}`)
			r.ddl(t, "RENAME TABLE basket_line TO basket_row", "basket_row", "id", "INT", "head", "INT", "quantity", "INT")
			r.row(t, "basket_row", "basket_row", "c", "null", `{"id":103,"head":3,"quantity":8}`)
			r.replicate(t)
			r.holds(t, "SELECT h.id, l.id, l.quantity FROM basket_head h LEFT JOIN basket_row l ON l.head = h.id ORDER BY 2", "\"3\" | \"102\" | \"7\"\n\"3\" | \"103\" | \"8\"\n")
			r.holds(t, "SELECT to_regclass('basket_line')::text", "NULL\n")
		})
	}
}

// TestOddNamesAmongSchemaChanges is case 40 with its table and columns renamed, added and dropped: reserved words, quotes, dots, a
// percent sign and a question mark, and names that differ in case.
func TestOddNamesAmongSchemaChanges(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{"1", "100000"} {
		t.Run("rows="+rows, func(t *testing.T) {
			t.Parallel()
			r := newChangingRun(t, "Order", "select_from")
			r.config["checkpoint.rows"] = rows
			text := "VARCHAR"
			r.ddl(t, "CREATE TABLE `Order` (`id` INT PRIMARY KEY, `user` VARCHAR(40), `Group` VARCHAR(40), `we\"ird` VARCHAR(40), `a b` VARCHAR(40), `back``tick` VARCHAR(40), KEY `by`` \"user` (`user`))",
				"Order", "id", "INT", "user", text, "Group", text, `we"ird`, text, "a b", text, "back`tick", text)
			r.row(t, "Order", "Order", "c", "null", `{"id":1,"user":"u","Group":"G","we\"ird":"q","a b":"sp","back`+"`"+`tick":"bt"}`)
			r.ddl(t, "ALTER TABLE `Order` ADD COLUMN `per%cent` VARCHAR(40), ADD `q?` VARCHAR(40), ADD `a.dot` VARCHAR(40), RENAME COLUMN `Group` TO `GROUP BY`, RENAME COLUMN `we\"ird` TO `it's`",
				"Order", "id", "INT", "user", text, "GROUP BY", text, "it's", text, "a b", text, "back`tick", text, "per%cent", text, "q?", text, "a.dot", text)
			r.row(t, "Order", "Order", "u", `{"id":1}`, `{"id":1,"user":"u","GROUP BY":"G","it's":"q","a b":"sp2","back`+"`"+`tick":"bt","per%cent":"p","q?":"qm","a.dot":"d"}`)
			r.ddl(t, "ALTER TABLE `Order` DROP COLUMN `a b`, CHANGE `back``tick` `1st` VARCHAR(40), CHANGE `user` `USER` VARCHAR(40)",
				"Order", "id", "INT", "USER", text, "GROUP BY", text, "it's", text, "1st", text, "per%cent", text, "q?", text, "a.dot", text)
			r.row(t, "Order", "Order", "u", `{"id":1}`, `{"id":1,"USER":"U","GROUP BY":"G","it's":"q","1st":"one","per%cent":"p","q?":null,"a.dot":"d"}`)
			r.ddl(t, "RENAME TABLE `Order` TO `select from`", "select from", "id", "INT", "USER", text, "GROUP BY", text, "it's", text, "1st", text, "per%cent", text, "q?", text, "a.dot", text)
			r.row(t, "select_from", "select from", "c", "null", `{"id":2,"USER":"v","GROUP BY":"H","it's":"r","1st":"two","per%cent":"%s","q?":"?","a.dot":"."}`)
			r.replicate(t)
			r.holds(t, `SELECT id, "USER", "GROUP BY", "it's", "1st", "per%cent", "q?", "a.dot" FROM "select from" ORDER BY id`,
				"\"1\" | \"U\" | \"G\" | \"q\" | \"one\" | \"p\" | NULL | \"d\"\n\"2\" | \"v\" | \"H\" | \"r\" | \"two\" | \"%s\" | \"?\" | \".\"\n")
			r.holds(t, `SELECT indexname::text FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE '%pkey'`, "\"select from_by` \\\"user\"\n")
			r.holds(t, `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`, "\"1\"\n")
		})
	}
}

// TestTablesWithoutRowsTradeNames renames tables that the target has never been given, as Debezium tells it: a record for each
// name, all with one position, of which the one through a third name says no shape.
func TestTablesWithoutRowsTradeNames(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{"1", "100000"} {
		t.Run("rows="+rows, func(t *testing.T) {
			t.Parallel()
			r := newChangingRun(t, "a", "b")
			r.config["checkpoint.rows"] = rows
			r.ddl(t, "CREATE TABLE a (id INT PRIMARY KEY, x INT)", "a", "id", "INT", "x", "INT")
			r.ddl(t, "CREATE TABLE b (id INT PRIMARY KEY, y INT)", "b", "id", "INT", "y", "INT")
			r.ddl(t, "RENAME TABLE a TO via", "via")
			r.pos -= 100
			r.ddl(t, "RENAME TABLE b TO a", "a", "id", "INT", "y", "INT")
			r.pos -= 100
			r.ddl(t, "RENAME TABLE via TO b", "b", "id", "INT", "x", "INT")
			r.row(t, "a", "a", "c", "null", `{"id":1,"y":2}`)
			r.ddl(t, "ALTER TABLE b ADD COLUMN z INT", "b", "id", "INT", "x", "INT", "z", "INT")
			r.row(t, "b", "b", "c", "null", `{"id":3,"x":4,"z":5}`)
			r.replicate(t)
			r.holds(t, "SELECT id, y FROM a", "\"1\" | \"2\"\n")
			r.holds(t, "SELECT id, x, z FROM b", "\"3\" | \"4\" | \"5\"\n")
			r.holds(t, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'", "\"2\"\n")
		})
	}
}

// TestNamesPassFromTableToTable has a table go by several names of which no row tells, one of them between two other tables that
// have it.
func TestNamesPassFromTableToTable(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{"1", "100000"} {
		t.Run("rows="+rows, func(t *testing.T) {
			t.Parallel()
			r := newChangingRun(t, "x", "y", "z", "last")
			r.config["checkpoint.rows"] = rows
			r.ddl(t, "CREATE TABLE x (id INT PRIMARY KEY, x INT)", "x", "id", "INT", "x", "INT")
			r.ddl(t, "CREATE TABLE y (id INT PRIMARY KEY, y INT)", "y", "id", "INT", "y", "INT")
			r.ddl(t, "CREATE TABLE z (id INT PRIMARY KEY, z INT)", "z", "id", "INT", "z", "INT")
			r.row(t, "x", "x", "c", "null", `{"id":1,"x":1}`)
			r.row(t, "z", "z", "c", "null", `{"id":1,"z":1}`)
			r.ddl(t, "RENAME TABLE x TO first", "first", "id", "INT", "x", "INT")
			r.ddl(t, "RENAME TABLE y TO gone", "gone", "id", "INT", "y", "INT")
			r.ddl(t, "RENAME TABLE first TO y", "y", "id", "INT", "x", "INT")
			r.ddl(t, "RENAME TABLE y TO via", "via", "id", "INT", "x", "INT")
			r.ddl(t, "RENAME TABLE z TO y", "y", "id", "INT", "z", "INT")
			r.row(t, "y", "y", "c", "null", `{"id":2,"z":2}`)
			r.ddl(t, "RENAME TABLE via TO z", "z", "id", "INT", "x", "INT")
			r.row(t, "z", "z", "c", "null", `{"id":2,"x":2}`)
			r.ddl(t, "RENAME TABLE z TO other", "other", "id", "INT", "x", "INT")
			r.ddl(t, "RENAME TABLE other TO last", "last", "id", "INT", "x", "INT")
			r.replicate(t)
			r.holds(t, "SELECT id, x FROM last ORDER BY id", "\"1\" | \"1\"\n\"2\" | \"2\"\n")
			r.holds(t, "SELECT id, z FROM y ORDER BY id", "\"1\" | \"1\"\n\"2\" | \"2\"\n")
			r.holds(t, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'", "\"2\"\n")
		})
	}
}

// TestRowsFromBeforeAColumnWasAdded have in it what those have that were there when it was added NOT NULL: one that comes late is as
// one that came in time, and as one that a replay writes again.
func TestRowsFromBeforeAColumnWasAdded(t *testing.T) {
	t.Parallel()
	r := newChangingRun(t, "t")
	r.config["source.deduplicate"], r.config["source.time_precision"], r.config["checkpoint.rows"] = "false", "adaptive", "1"
	r.ddl(t, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "t", "id", "INT", "v", "INT")
	r.row(t, "t", "t", "c", "null", `{"id":1,"v":1}`)
	late := r.pos
	columns := []string{"id", "INT", "v", "INT"}
	var values []string
	for name, c := range map[string][2]string{
		"i2": {"SMALLINT", "7"}, "i4": {"INT", "7"}, "i8": {"BIGINT", "7"}, "n": {"DECIMAL", `"7"`}, "f": {"FLOAT", "7"}, "d": {"DOUBLE", "7"}, "s": {"VARCHAR", `"7"`}, "t": {"TEXT", `"7"`},
		"b": {"BLOB", `"Nw=="`}, "day": {"DATE", "7"}, "at": {"DATETIME", "7"}, "seen": {"TIMESTAMP", `"1970-01-01T00:00:07Z"`}, "o": {"TIME", "7"}, "y": {"YEAR", "2007"}, "e": {"ENUM", `"y"`},
		"j": {"JSON", `"7"`}, "bits": {"BIT", `"BwAAAAA="`},
	} {
		columns = append(columns, name, c[0]+" NOT NULL")
		values = append(values, fmt.Sprintf("%q:%s", name, c[1]))
	}
	r.ddl(t, "ALTER TABLE t ADD COLUMN many INT", "t", columns...)
	r.row(t, "t", "t", "c", "null", `{"id":2,"v":2,`+strings.Join(values, ",")+"}")
	r.pos = late - 50
	r.row(t, "t", "t", "c", "null", `{"id":3,"v":1}`)
	r.replicate(t)
	r.holds(t, "SELECT count(*) FROM t early JOIN t late ON to_jsonb(early) - 'id' = to_jsonb(late) - 'id' WHERE early.id = 1 AND late.id = 3", "\"1\"\n")
	r.holds(t, "SELECT count(*) FROM t WHERE i4 = 7", "\"1\"\n")
}

// TestIndexesOfAColumnThatIsReplaced: MySQL 9 keeps a column that one statement drops and adds anew in its indexes, for as many characters as
// it had.
func TestIndexesOfAColumnThatIsReplaced(t *testing.T) {
	t.Parallel()
	r := newChangingRun(t, "t")
	r.ddl(t, "CREATE TABLE t (id INT PRIMARY KEY, same VARCHAR(40), longer VARCHAR(40), gone VARCHAR(40), KEY a (same, id), KEY b (longer, id), KEY c (gone, id))",
		"t", "id", "INT", "same", "VARCHAR", "longer", "VARCHAR", "gone", "VARCHAR")
	r.row(t, "t", "t", "c", "null", `{"id":1,"same":"s","longer":"l","gone":"g"}`)
	r.ddl(t, "ALTER TABLE t DROP same, ADD same VARCHAR(40), DROP longer, ADD longer VARCHAR(80), DROP gone", "t", "id", "INT", "same", "VARCHAR", "longer", "VARCHAR(80)")
	r.row(t, "t", "t", "c", "null", `{"id":2,"same":"s","longer":"l"}`)
	r.replicate(t)
	r.holds(t, "SELECT indexdef::text FROM pg_indexes WHERE tablename = 't' AND indexname <> 't_pkey' ORDER BY 1",
		"\"CREATE INDEX t_a ON public.t USING btree (same, id)\"\n\"CREATE INDEX t_c ON public.t USING btree (id)\"\n")
}
