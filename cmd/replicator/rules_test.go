package main

import (
	"fmt"
	"strings"
	"testing"

	"replicator/debezium"
)

// ruleRun is a source table t of database shop, its events, and a target of its own.
type ruleRun struct {
	*caseRun
	prefix string // of the topics
	pos    int
	rules  string
}

func newRuleRun(t *testing.T, rules, setup string) *ruleRun {
	t.Helper()
	r := &ruleRun{caseRun: newCaseRun(t, &caseFile{}), rules: rules}
	r.prefix = fmt.Sprintf("rule-%08x", hash(r.url))
	r.exec(t, setup)
	if err := caseBroker(t).CreateTopic(r.prefix+".shop.t", 1, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// event is one change of t; its source position is after the one before, and its time 2024-01-01 00:00:00.5.
func (r *ruleRun) event(op, before, after string) string {
	r.pos += 100
	return fmt.Sprintf(`{"before":%s,"after":%s,"source":{"connector":"mysql","name":%q,"ts_ms":1704067200500,"snapshot":"false","db":"shop","table":"t","server_id":1,"file":"binlog.000001","pos":%d,"row":0},"op":%q,"ts_ms":1}`,
		before, after, r.prefix, r.pos, op)
}

// send writes each event, by itself.
func (r *ruleRun) send(t *testing.T, events ...string) {
	t.Helper()
	for _, e := range events {
		p := debezium.Partition{Topic: r.prefix + ".shop.t"}
		if err := caseBroker(t).Produce(t.Context(), debezium.Record{Partition: p, Value: []byte(e)}); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *ruleRun) replicate(t *testing.T, more string) (int, string) {
	t.Helper()
	return r.runConfig(t.Context(), t, fmt.Sprintf("pipeline: %[1]s\nsource:\n  brokers: [%[2]s]\n  topics: ['%[1]s\\.shop\\..*']\n%[5]starget: {url: '%[3]s'}\nhttp: {listen: ''}\ntables: %[4]s\n",
		r.prefix, strings.Join(caseBroker(t).Addrs(), ", "), r.url, r.rules, more))
}

func (r *ruleRun) holds(t *testing.T, query, want string) {
	t.Helper()
	var lines []string
	for _, row := range r.exec(t, query) {
		var cells []string
		for _, v := range row {
			if v == nil {
				cells = append(cells, "NULL")
			} else {
				cells = append(cells, *v)
			}
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	if got := strings.Join(lines, " "); got != want {
		t.Errorf("%s\n got %s\nwant %s", query, got, want)
	}
}

const ruleTable = "CREATE TABLE t (id int PRIMARY KEY, name text, note text)"

// TestTableRules runs each rule once with all events in one checkpoint and once with a checkpoint for each.
func TestTableRules(t *testing.T) {
	t.Parallel()
	const one, two, changed = `{"id":1,"name":"a","note":"x"}`, `{"id":2,"name":"b","note":"y"}`, `{"id":2,"name":"B","note":"y"}`
	type event struct{ op, before, after string }
	changes := []event{{"c", "null", one}, {"c", "null", two}, {"u", two, changed}, {"d", one, "null"}}
	again := append(changes[:len(changes):len(changes)], event{"c", "null", one})
	truncated := append(changes[:len(changes):len(changes)], event{"t", "null", "null"}, event{"c", "null", one})
	for name, c := range map[string]struct {
		rule, setup, query string
		events             []event
		want               string // rows
		stop               string // or a word of the error
	}{
		"skip":    {rule: "skip: true", setup: ruleTable, query: "SELECT id FROM t", events: changes},
		"target":  {rule: "target: 'crm.{database}_{table}'", setup: "CREATE SCHEMA crm; CREATE TABLE crm.shop_t (id int PRIMARY KEY, name text, note text)", query: "SELECT id, name FROM crm.shop_t", events: changes, want: "2|B"},
		"key":     {rule: "key: [id]", setup: "CREATE TABLE t (id int, name text, note text)", query: "SELECT * FROM t", events: changes, want: "2|B|y"},
		"columns": {rule: "columns: {exclude: [note], rename: {name: full_name, id: no}}", setup: "CREATE TABLE t (no int PRIMARY KEY, full_name text, note text DEFAULT 'own')", query: "SELECT * FROM t", events: changes, want: "2|B|own"},
		"columns without a key": {
			rule: "columns: {exclude: [note], rename: {name: full_name}}", setup: "CREATE TABLE t (id int, full_name text, note text DEFAULT 'own')",
			query: "SELECT * FROM t", events: changes, want: "2|B|own",
		},
		"key column excluded":  {rule: "columns: {exclude: [id]}", setup: ruleTable, events: changes, stop: "key_mismatch"},
		"delete ignore":        {rule: "delete: ignore", setup: ruleTable, query: "SELECT id, name FROM t ORDER BY id", events: changes, want: "1|a 2|B"},
		"delete soft":          {rule: "delete: soft, soft_delete_column: gone", setup: ruleTable + "; ALTER TABLE t ADD gone boolean NOT NULL", query: "SELECT id, name, gone FROM t ORDER BY id", events: changes, want: "1|a|t 2|B|f"},
		"delete soft, by time": {rule: "delete: soft, soft_delete_column: gone", setup: ruleTable + "; ALTER TABLE t ADD gone timestamp(3)", query: "SELECT id, gone FROM t ORDER BY id", events: changes, want: "1|2024-01-01 00:00:00.5 2|NULL"},
		"delete soft, at an instant": {
			rule: "delete: soft, soft_delete_column: gone", setup: ruleTable + "; ALTER TABLE t ADD gone timestamptz", query: "SELECT id, gone AT TIME ZONE 'UTC' FROM t ORDER BY id",
			events: changes, want: "1|2024-01-01 00:00:00.5 2|NULL",
		},
		"delete soft, back again":    {rule: "delete: soft, soft_delete_column: gone", setup: ruleTable + "; ALTER TABLE t ADD gone boolean", query: "SELECT id, gone FROM t ORDER BY id", events: again, want: "1|f 2|f"},
		"delete soft, no such row":   {rule: "delete: soft, soft_delete_column: gone", setup: ruleTable + "; ALTER TABLE t ADD gone boolean", query: "SELECT id FROM t", events: changes[3:]},
		"delete soft, without a key": {rule: "delete: soft, soft_delete_column: gone", setup: "CREATE TABLE t (id int, name text, note text, gone boolean)", query: "SELECT id, gone FROM t ORDER BY id, gone", events: again, want: "1|f 1|t 2|f"},
		"delete soft, no column":     {rule: "delete: soft, soft_delete_column: gone", setup: ruleTable, events: changes, stop: "missing_column"},
		"truncate apply":             {rule: "truncate: apply", setup: ruleTable, query: "SELECT id FROM t ORDER BY id", events: truncated, want: "1"},
		"truncate ignore":            {rule: "truncate: ignore", setup: ruleTable, query: "SELECT id FROM t ORDER BY id", events: truncated, want: "1 2"},
		"truncate stop":              {rule: "truncate: stop", setup: ruleTable, events: truncated, stop: "truncate_refused"},
	} {
		for _, rows := range []string{"100000", "1"} {
			t.Run(name+"/rows="+rows, func(t *testing.T) {
				t.Parallel()
				r := newRuleRun(t, "[{match: 'shop\\.t', "+c.rule+"}]", c.setup)
				r.config["checkpoint.rows"] = rows
				for _, e := range c.events {
					r.send(t, r.event(e.op, e.before, e.after))
				}
				code, stderr := r.replicate(t, "")
				if c.stop != "" {
					r.stopped(t, code, stderr, c.stop)
					return
				}
				if code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				r.holds(t, c.query, c.want)
			})
		}
	}
}

// TestTableRulesOfCreatedTables lets the command make the tables.
func TestTableRulesOfCreatedTables(t *testing.T) {
	t.Parallel()
	r := &caseRun{url: caseDatabase(t, "rules_created"), config: map[string]string{"schema.types.nul": "strip"}}
	r.exec(t, "CREATE SCHEMA crm")
	produceCapture(t, "plain", "created", nil, nil)
	config := fmt.Sprintf(`pipeline: rules-created
source:
  brokers: [%s]
  topics: ['created-plain\.shop\.(customers|orders|order_items|audit_log)']
  schema_changes: created-plain
target: {url: '%s', table: '{database}_{table}'}
http: {listen: ''}
tables:
  - {match: 'shop\.customers', target: crm.customer, columns: {exclude: [created_at], rename: {name: full_name, id: no}}}
  - {match: 'shop\.orders', delete: soft, soft_delete_column: gone}
  - {match: 'shop\.audit_log', skip: true}
`, strings.Join(caseBroker(t).Addrs(), ", "), r.url)
	if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	got := rowsText(r.exec(t, `SELECT table_schema || '.' || table_name, string_agg(column_name, ' ' ORDER BY ordinal_position) FROM information_schema.columns
WHERE table_schema IN ('crm', 'public') GROUP BY table_schema, table_name ORDER BY 1`))
	want := `"crm.customer" | "no email full_name balance profile note updated_at telephone score"
"public.shop_order_items" | "order_id line_no sku quantity"
"public.shop_orders" | "id customer_id state placed_on total gone"
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := rowsText(r.exec(t, "SELECT count(*), count(*) FILTER (WHERE gone) FROM shop_orders")), "\"3\" | \"1\"\n"; got != want {
		t.Errorf("orders, deleted orders: got %swant %s", got, want)
	}
}

// TestRepeatedEventsAreDroppedOrNot runs the same stream with and without deduplication: the connector sends all of it a
// second time, in one run and after a restart.
func TestRepeatedEventsAreDroppedOrNot(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{"": "a a b", "  deduplicate: false\n": "a a a a b b"} {
		t.Run(strings.TrimSpace("deduplicate"+setting), func(t *testing.T) {
			t.Parallel()
			r := newRuleRun(t, "[]", "CREATE TABLE t (name text)")
			stream := []string{r.event("c", "null", `{"name":"a"}`), r.event("c", "null", `{"name":"b"}`), r.event("c", "null", `{"name":"a"}`)}
			r.send(t, stream[:2]...)
			if code, stderr := r.replicate(t, setting); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.send(t, stream...)
			r.send(t, stream[2])
			code, stderr := r.replicate(t, setting)
			if code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			if counted := strings.Contains(stderr, "dropped events that were sent again") && strings.Contains(stderr, " repeated=3 "); setting == "" && !counted {
				t.Errorf("the log does not count what was dropped:\n%s", stderr)
			}
			r.holds(t, "SELECT name FROM t ORDER BY 1", want)
		})
	}
}

// TestRepeatedFlattenedRowsAreDropped sends the rows of a table without a key again, as after a restart, with the position that
// add.fields puts beside their columns.
func TestRepeatedFlattenedRowsAreDropped(t *testing.T) {
	t.Parallel()
	for connector, position := range map[string]string{
		"postgresql": `"__sequence":"[\"100\",\"%d\"]","__source_txId":%[1]d`,
		"sqlserver":  `"__commit_lsn":"00000027:00000ac0:%04d","__change_lsn":"00000027:00000ac0:0001","__event_serial_no":1`,
		"oracle":     `"__commit_scn":"%d","__scn":"5","__txId":"a"`,
		"mysql":      `"__source_file":"binlog.000001","__source_pos":%d,"__row":0`,
	} {
		t.Run(connector, func(t *testing.T) {
			t.Parallel()
			r := newRuleRun(t, "[{match: '.*', target: t}]", "CREATE TABLE t (name text)")
			row := func(name string, at int) string {
				return fmt.Sprintf(`{"name":%q,"__op":"c","__connector":%q,"__name":%q,"__db":"shop","__table":"t","__source_ts_ms":1704067200500,`, name, connector, r.prefix) + fmt.Sprintf(position, at) + "}"
			}
			for range 2 {
				r.send(t, row("a", 200), row("b", 300), row("a", 400))
				if code, stderr := r.replicate(t, ""); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
			}
			r.holds(t, "SELECT name FROM t ORDER BY 1", "a a b")
		})
	}
}

// TestDocumentsOfOneBatchAreEqualHoweverTheyAreWritten: MySQL's connector writes a JSON document with blanks when it reads it in a snapshot,
// and without when a later change tells of it. In a table without a key that decides whether the row is found.
func TestDocumentsOfOneBatchAreEqualHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{"100000", "1"} {
		t.Run("rows="+rows, func(t *testing.T) {
			t.Parallel()
			r := newRuleRun(t, "[]", "CREATE TABLE t (id int, doc jsonb)")
			r.config["checkpoint.rows"] = rows
			r.send(t,
				r.event("r", "null", `{"id":1,"doc":"{\"n\": 1.5, \"m\": [1, 2]}"}`), r.event("r", "null", `{"id":2,"doc":"{\"n\": 1.5}"}`),
				r.event("d", `{"id":1,"doc":"{\"n\":1.5,\"m\":[1,2]}"}`, "null"), r.event("u", `{"id":2,"doc":"{\"n\":1.5}"}`, `{"id":2,"doc":"{\"n\":2}"}`))
			if code, stderr := r.replicate(t, ""); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.holds(t, "SELECT id, doc FROM t", `2|{"n": 2}`)
		})
	}
}
