package main

import (
	"fmt"
	"strings"
	"testing"
)

// newTables are records of a schema-change topic, prefix, that makes tables, and a row of each.
func newTables(t *testing.T, prefix string, tables int) []caseRecord {
	t.Helper()
	var out []caseRecord
	for i := range tables {
		name, pos := fmt.Sprintf("table_%d", i), 1000+20*i
		out = append(out, caseRecord{topic: prefix, value: fmt.Appendf(nil, `{"source":{"version":"3","connector":"mysql","name":"p","ts_ms":1,"snapshot":"false","db":"shop","table":%[2]q,`+
			`"server_id":1,"file":"b.1","pos":%[1]d,"row":0},"ts_ms":1,"databaseName":"shop","schemaName":null,"ddl":"CREATE TABLE %[2]s (id INT PRIMARY KEY, v VARCHAR(9), KEY (v))",`+
			`"tableChanges":[{"type":"CREATE","id":"\"shop\".\"%[2]s\"","table":{"primaryKeyColumnNames":["id"],"columns":[`+
			`{"name":"id","typeName":"INT","typeExpression":"INT","position":1,"optional":false},`+
			`{"name":"v","typeName":"VARCHAR","typeExpression":"VARCHAR","length":9,"position":2,"optional":true}]}}]}`, pos, name)})
		row := limitRecord(t, name, []string{"id", "v"}, []any{i, "a"})
		row.topic = prefix + ".shop." + name
		at := fmt.Sprintf(`"snapshot":"false","server_id":1,"file":"b.1","pos":%d,"row":0,"ts_ms":1`, pos+10)
		row.value = []byte(strings.Replace(string(row.value), `"snapshot":"false"`, at, 1))
		out = append(out, row)
	}
	return out
}

// TestNewTablesAreMadeTogether makes tables that the schema-change topic tells of, one of which the target cannot have at first.
func TestNewTablesAreMadeTogether(t *testing.T) {
	t.Parallel()
	const tables = 120
	for _, c := range []struct{ name, inTheWay, goes string }{
		{"all", "", ""},
		{"but one", "CREATE VIEW table_7 AS SELECT 1", "DROP VIEW table_7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, &caseFile{})
			r.produceAt(t, caseBroker(t), newTables(t, "new", tables)...)
			r.config["source.schema_changes"] = r.topic("new")
			if c.inTheWay != "" {
				r.exec(t, c.inTheWay)
				code, stderr := r.run(t)
				r.stopped(t, code, stderr, "table_7", "is not a table")
				r.exec(t, c.goes)
			}
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			var rows strings.Builder
			for i := range tables {
				fmt.Fprintf(&rows, "SELECT id FROM table_%d UNION ALL ", i)
			}
			got := rowsText(r.exec(t, "SELECT count(*), sum(id) FROM ("+strings.TrimSuffix(rows.String(), "UNION ALL ")+") x"))
			if want := fmt.Sprintf("\"%d\" | \"%d\"\n", tables, tables*(tables-1)/2); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := rowsText(r.exec(t, "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'table\\_%\\_v'")); got != fmt.Sprintf("\"%d\"\n", tables) {
				t.Errorf("%s indexes, want %d", got, tables)
			}
			if c.inTheWay != "" {
				return
			}
			if got := rowsText(r.exec(t, "SELECT count(DISTINCT xmin::text) FROM replicator.schema_version")); got != "\"2\"\n" {
				t.Errorf("the tables were made by %s definitions, want 2", got)
			}
		})
	}
}
