package main

import (
	"fmt"
	"testing"
)

// sale is a change of a row of the table pay, whose key is an ENUM of labels and a number.
func sale(op, labels string, id int, state, tags string) caseRecord {
	const source = `{"type":"struct","fields":[{"type":"string","field":"connector"},{"type":"string","field":"name"},{"type":"string","field":"db"},` +
		`{"type":"string","field":"schema"},{"type":"string","field":"table"}],"field":"source"}`
	key := fmt.Sprintf(`{"type":"string","name":"io.debezium.data.Enum","parameters":{"allowed":%q},"field":"state"},{"type":"int32","field":"id"}`, labels)
	row := `{"type":"struct","fields":[` + key + `,{"type":"string","optional":true,"name":"io.debezium.data.EnumSet","parameters":{"allowed":"x,y"},"field":"tags"}],"optional":true,"field":`
	after := fmt.Sprintf(`{"state":%q,"id":%d,"tags":%s}`, state, id, tags)
	before := "null"
	if op == "d" {
		before, after = after, before
	}
	return caseRecord{
		topic: payTopic,
		key:   fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[%s]},"payload":{"state":%q,"id":%d}}`, key, state, id),
		value: fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[%[1]s"before"},%[1]s"after"},%[2]s,{"type":"string","field":"op"}]},"payload":`+
			`{"before":%[3]s,"after":%[4]s,"op":%[5]q,"source":{"connector":"postgresql","name":"src1","db":"d","schema":"public","table":"pay"}}}`,
			row, source, before, after, op),
	}
}

const enumRules = `tables: [{match: '.*\.pay', target: shop.Sale, columns: {rename: {state: Phase}}}]` + "\n"

func newEnumRun(t *testing.T, events ...caseRecord) (r *caseRun, config string) {
	t.Helper()
	r = newCaseRun(t, &caseFile{})
	r.exec(t, "CREATE SCHEMA shop")
	r.createTopic(t)
	r.send(t, events...)
	r.config["schema.types.enum"] = "enum"
	return r, r.configText(t) + enumRules
}

func (r *caseRun) holdsSales(t *testing.T, labels string, rows ...string) {
	t.Helper()
	r.expect(t, caseResult{Query: `SELECT '<' || "Phase"::text || '>', id, tags FROM shop."Sale" ORDER BY id`, Rows: textRows(rows...)})
	r.holdsLabels(t, labels)
}

func (r *caseRun) holdsLabels(t *testing.T, labels string) {
	t.Helper()
	const query = `SELECT format_type(enumtypid, NULL), string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum GROUP BY enumtypid`
	r.expect(t, caseResult{Query: query, Rows: textRows(`shop."Sale_Phase_enum"|` + labels)})
}

// TestLabelsOfEventsAreAdded where no schema-change topic tells of them, in a table with another name and an ENUM in its key.
func TestLabelsOfEventsAreAdded(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{"1", "100000"} {
		t.Run("rows="+rows, func(t *testing.T) {
			t.Parallel()
			r, config := newEnumRun(t,
				sale("c", "b,a", 1, "b", `"x,y"`), sale("c", "b,a", 2, "a", `""`), sale("c", "b,a", 3, "a", "null"),
				sale("c", "b,new,a", 4, "new", `"y"`), sale("u", "b,new,a", 2, "a", `"__debezium_unavailable_value"`), sale("d", "b,new,a", 3, "a", "null"))
			r.config["checkpoint.rows"] = rows
			if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.holdsSales(t, "b,new,a", "<b>|1|{x,y}", "<a>|2|{}", "<new>|4|{y}")
		})
	}
}

// TestValuesThatAreNoLabels: MySQL's own becomes one, and another stops the pipeline until the type has it.
func TestValuesThatAreNoLabels(t *testing.T) {
	t.Parallel()
	r, config := newEnumRun(t, sale("c", "b,a", 1, "b", "null"), sale("c", "b,a", 2, "", "null"))
	if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.holdsSales(t, ",b,a", "<b>|1|", "<>|2|")
	r.send(t, sale("c", "b,a", 3, "sesame", "null"))
	code, stderr := r.runConfig(t.Context(), t, config)
	r.stopped(t, code, stderr, "invalid_value", "table shop.Sale", "column Phase", "offset 2", `ALTER TYPE shop."Sale_Phase_enum" ADD VALUE`)
	r.exec(t, `ALTER TYPE shop."Sale_Phase_enum" ADD VALUE 'sesame'`)
	if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.holdsSales(t, ",b,a,sesame", "<b>|1|", "<>|2|", "<sesame>|3|")
}

// TestNoLabelIsAddedUnderStop: neither one of the source's nor MySQL's own.
func TestNoLabelIsAddedUnderStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ labels, state, class string }{
		"the source's": {"b,a,new", "new", "invalid_value"},
		"MySQL's own":  {"b,a", "", "value_out_of_range"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, config := newEnumRun(t, sale("c", "b,a", 1, "b", "null"), sale("c", c.labels, 2, c.state, "null"))
			r.config["schema.evolve"], r.config["checkpoint.rows"] = "stop", "1"
			code, stderr := r.runConfig(t.Context(), t, config)
			r.stopped(t, code, stderr, c.class, "column Phase", "offset 1")
			r.holdsLabels(t, "b,a")
		})
	}
}

// TestPrintedSQLMakesEnumTypes, and run by hand leaves what the pipeline would.
func TestPrintedSQLMakesEnumTypes(t *testing.T) {
	t.Parallel()
	r, config := newEnumRun(t, sale("c", "b,a", 1, "b", `"x"`), sale("c", "b,new,a", 2, "a", `"y,x"`), sale("u", "b,new,a", 1, "b", `""`))
	code, sql, stderr := call(t, "sql", "--config", writeConfig(t, config), "--until-caught-up", "--set", "schema.types.enum=enum")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.exec(t, sql)
	r.holdsSales(t, "b,new,a", "<b>|1|{}", "<a>|2|{y,x}")
}
