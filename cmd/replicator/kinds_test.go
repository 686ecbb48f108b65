package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"replicator/debezium"
)

// kindEvent is one event of table t: its op, key, images and headers in JSON. A key is absent if it is empty.
type kindEvent struct{ op, key, before, after, header string }

func (e kindEvent) record(t *testing.T) caseRecord {
	t.Helper()
	null := func(s string) string {
		if s == "" {
			return "null"
		}
		return s
	}
	op, snapshot := e.op, "false"
	if op == "incremental" {
		op, snapshot = "r", "incremental"
	}
	c := caseRecord{topic: "src1.shop.t"}
	c.value = fmt.Appendf(nil, `{"before":%s,"after":%s,"source":{"db":"shop","table":"t","snapshot":%q},"op":%q}`, null(e.before), null(e.after), snapshot, op)
	c.value = bytes.ReplaceAll(c.value, []byte(`"?"`), jsonString(debezium.DefaultUnavailable))
	if e.key != "" {
		c.key = []byte(e.key)
	}
	if name, key, ok := strings.Cut(e.header, "="); ok {
		c.headers = map[string][]byte{name: []byte(key)}
	}
	return c
}

const (
	keyedTable = "CREATE TABLE t (id int PRIMARY KEY, v text, w text DEFAULT 'd')"
	everyType  = `CREATE TABLE t (id int PRIMARY KEY, a text, b bytea, c int[], d jsonb, e numeric(9,2), f timestamp, g timestamptz, h uuid, i interval, j bit(3), k boolean, l bigint, m real, n date, o hstore, p inet, q time)`
	everyValue = `1|x|\x01|{1,2}|{"a": 1}|1.50|2024-02-29 12:34:56|2024-02-29 12:34:56+00|00112233-4455-6677-8899-aabbccddeeff|01:00:00|101|t|9|0.5|2024-02-29|"k"=>"v"|::1|12:34:56`
)

// TestKindsOfEvents sends what connectors send of a change, and as much of its images as their options and databases let
// them, in one checkpoint and in one for each event.
func TestKindsOfEvents(t *testing.T) {
	t.Parallel()
	one, two := `{"id":1}`, `{"id":2}`
	row := func(id int, v, w string) string { return fmt.Sprintf(`{"id":%d,"v":%q,"w":%q}`, id, v, w) }
	oneRow := kindEvent{"c", one, "", row(1, "a", "b"), ""}
	allUnsent := `{"id":1`
	for c := 'a'; c <= 'q'; c++ {
		allUnsent += fmt.Sprintf(`,"%c":"?"`, c)
	}
	allUnsent += "}"
	for name, c := range map[string]struct {
		setup  string
		events []kindEvent
		want   string // rows, or words of the error after "error:"
	}{
		"before is absent": {keyedTable, []kindEvent{oneRow, {"c", two, "", row(2, "a", "b"), ""}, {"u", one, "", row(1, "x", "y"), ""}, {"d", two, "", "", ""}}, "1|x|y"},
		"before is the key": {keyedTable, []kindEvent{
			oneRow, {"c", two, "", row(2, "a", "b"), ""}, {"u", one, one, row(1, "x", "y"), ""}, {"d", two, `{"id":2,"v":null,"w":null}`, "", ""},
		}, "1|x|y"},
		"before is full": {keyedTable, []kindEvent{
			oneRow, {"c", two, "", row(2, "a", "b"), ""}, {"u", one, row(1, "a", "b"), row(1, "x", "y"), ""}, {"d", two, row(2, "a", "b"), "", ""},
		}, "1|x|y"},
		"the message key is null": {keyedTable, []kindEvent{
			{"c", "", "", row(1, "a", "b"), ""}, {"c", "", "", row(2, "a", "b"), ""}, {"u", "", "", row(1, "x", "y"), ""}, {"d", "", two, "", ""},
		}, "1|x|y"},
		"no key at all":                  {keyedTable, []kindEvent{oneRow, {"d", "", "", "", ""}}, "error:key_mismatch"},
		"a delete that lacks the key":    {keyedTable, []kindEvent{oneRow, {"d", "", `{"v":"a"}`, "", ""}}, "error:key_mismatch"},
		"a partial update":               {keyedTable, []kindEvent{oneRow, {"u", one, "", `{"id":1,"v":"x"}`, ""}}, "1|x|b"},
		"a partial create":               {keyedTable, []kindEvent{{"c", one, "", `{"id":1,"v":"x"}`, ""}}, "1|x|d"},
		"a partial update, then another": {keyedTable, []kindEvent{oneRow, {"u", one, "", `{"id":1,"v":"x"}`, ""}, {"u", one, "", `{"id":1,"w":"y"}`, ""}}, "1|x|y"},
		"an unsent value": {keyedTable, []kindEvent{
			oneRow, {"u", one, "", row(1, "?", "x"), ""}, {"u", one, "", row(1, "y", "?"), ""}, {"c", two, "", row(2, "p", "q"), ""}, {"u", two, "", row(2, "?", "?"), ""},
		}, "1|y|x;2|p|q"},
		"an unsent value of each type": {
			"CREATE EXTENSION hstore; " + everyType + "; INSERT INTO t VALUES ('" + strings.ReplaceAll(everyValue, "|", "','") + "')",
			[]kindEvent{{"u", one, "", allUnsent, ""}},
			everyValue,
		},
		"an unsent value and a new key": {keyedTable, []kindEvent{
			oneRow, {"d", one, one, "", "__debezium.newkey=" + two}, {"c", two, "", row(2, "?", "x"), "__debezium.oldkey=" + one},
		}, "2|a|x"},
		"an unsent value and a new key in one event":  {keyedTable, []kindEvent{oneRow, {"u", two, one, row(2, "?", "x"), ""}}, "2|a|x"},
		"an unsent value of a row that is not stored": {keyedTable, []kindEvent{{"u", one, "", row(1, "?", "x"), ""}}, "error:unavailable_value"},
		"an incremental snapshot among changes": {keyedTable, []kindEvent{
			oneRow,
			{"incremental", one, "", row(1, "a", "b"), ""},
			{"u", one, "", row(1, "x", "b"), ""},
			{"incremental", two, "", row(2, "p", "q"), ""},
			{"incremental", one, "", row(1, "x", "b"), ""},
			{"u", one, "", row(1, "?", "y"), ""},
			{"d", two, "", "", ""},
			{"incremental", `{"id":3}`, "", row(3, "s", "t"), ""},
		}, "1|x|y;3|s|t"},
		"a truncate among changes": {keyedTable, []kindEvent{oneRow, {"t", "", "", "", ""}, {"c", two, "", row(2, "a", "b"), ""}}, "2|a|b"},
		"a message among changes":  {keyedTable, []kindEvent{oneRow, {"m", "", "", "", ""}, {"u", one, "", row(1, "x", "b"), ""}}, "1|x|b"},
		"a table without a key, before is full": {"CREATE TABLE t (id int, v text, w text)", []kindEvent{
			oneRow, oneRow, {"u", "", row(1, "a", "b"), row(1, "x", "y"), ""}, oneRow, {"d", "", row(1, "a", "b"), "", ""},
		}, "1|a|b;1|x|y"},
		"a table without a key, before is absent": {"CREATE TABLE t (id int, v text, w text)", []kindEvent{oneRow, {"u", "", "", row(1, "x", "y"), ""}}, "error:key_mismatch"},
		"a table without a key, before is an index": {"CREATE TABLE t (id int, v text, w text)", []kindEvent{
			oneRow, {"d", "", `{"id":1,"v":null,"w":null}`, "", ""},
		}, "error:missing_row"},
	} {
		for _, rows := range []string{"100000", "1"} {
			t.Run(name+"/rows="+rows, func(t *testing.T) {
				t.Parallel()
				r := newCaseRun(t, &caseFile{})
				r.exec(t, c.setup)
				r.config["checkpoint.rows"] = rows
				if err := caseBroker(t).CreateTopic(r.topic("src1.shop.t"), 1, nil); err != nil {
					t.Fatal(err)
				}
				for _, e := range c.events {
					if err := caseBroker(t).Produce(t.Context(), r.brokerRecords([]caseRecord{e.record(t)})...); err != nil {
						t.Fatal(err)
					}
				}
				code, stderr := r.run(t)
				if class, failed := strings.CutPrefix(c.want, "error:"); failed {
					r.stopped(t, code, stderr, class, "t", fmt.Sprintf("src1.shop.t[0] offset %d", len(c.events)-1))
					return
				}
				if code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				var got []string
				for _, cells := range r.exec(t, "SET timezone = 'UTC'; SELECT * FROM t ORDER BY 1, 2, 3") {
					texts := make([]string, len(cells))
					for i, cell := range cells {
						texts[i] = "NULL"
						if cell != nil {
							texts[i] = *cell
						}
					}
					got = append(got, strings.Join(texts, "|"))
				}
				if got := strings.Join(got, ";"); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		}
	}
}
