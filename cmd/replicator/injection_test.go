package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/txnsink/mysql/mysqlserver"
)

// hostile are names and values that end a literal or an identifier, a statement or a comment, where they are not quoted.
var hostile = []string{
	`x"; DROP TABLE canary; --`, `x'; DROP TABLE canary; --`, "x`; DROP TABLE canary; #", `x\'; DROP TABLE canary; --`, `\`, `"`, `'`, "`", `""`, `''`,
	`/*`, `*/ DROP TABLE canary`, `--`, `$$`, `$1`, `?`, `%s`, `${HOME}`, "a\nb", "a\r\tb", "\x1a", `a.b`, `"public"."canary"`, `été`, "\u0928\u093e\u092e", "\u202e",
	`E'\x27'`, `'||(SELECT 1)||'`, `0x27`, `:x`, `@v`, `{table}`,
}

// hostileValue is what the row of the table hostile[i] holds.
func hostileValue(i int) string { return hostile[(i+7)%len(hostile)] }

// hostileRecord is a row of a table, with a column id and another.
func hostileRecord(t *testing.T, table, column, value string) caseRecord {
	t.Helper()
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const id = `{"type":"int32","optional":false,"field":"id"}`
	row := `"type":"struct","optional":true,"fields":[` + id + `,{"type":"string","optional":true,"field":` + text(column) + `}]`
	source := ""
	for _, field := range []string{"connector", "name", "db", "table", "snapshot"} {
		source += `,{"type":"string","optional":false,"field":"` + field + `"}`
	}
	source = source[1:]
	return caseRecord{
		topic: "inject",
		key:   []byte(`{"schema":{"type":"struct","optional":false,"fields":[` + id + `]},"payload":{"id":1}}`),
		value: fmt.Appendf(nil, `{"schema":{"type":"struct","optional":false,"fields":[{%[1]s,"field":"before"},{%[1]s,"field":"after"},{"type":"struct","optional":false,"fields":[%[4]s],"field":"source"},{"type":"string","optional":false,"field":"op"}]},`+
			`"payload":{"before":null,"after":{"id":1,%[5]s:%[3]s},"source":{"connector":"mysql","name":"p","db":"shop","table":%[2]s,"snapshot":"false"},"op":"c"}}`,
			row, text(table), text(value), source, text(column)),
	}
}

// TestStreamCannotBecomeSQL lets the stream choose the names of tables and columns, and values. Each row is there as it was sent, and
// nothing else has changed.
func TestStreamCannotBecomeSQL(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	quoted := func(name string) string { return pgx.Identifier{name}.Sanitize() }
	r.exec(t, "CREATE TABLE canary AS SELECT 1 AS v")
	for i, name := range hostile {
		r.exec(t, "CREATE TABLE "+quoted(name)+" (id int PRIMARY KEY, "+quoted(name)+" text)")
		r.produce(t, hostileRecord(t, name, name, hostileValue(i)))
	}
	if code, stderr := r.run(t); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	if got := rowsText(r.exec(t, "SELECT v FROM canary")); got != "\"1\"\n" {
		t.Errorf("canary: %s", got)
	}
	for i, name := range hostile {
		got, want := rowsText(r.exec(t, "SELECT id, "+quoted(name)+" FROM "+quoted(name))), fmt.Sprintf("\"1\" | %q\n", hostileValue(i))
		if got != want {
			t.Errorf("row: %s, want %s", got, want)
		}
	}
}

// TestMySQLStreamCannotBecomeSQL is the same on MySQL and MariaDB.
func TestMySQLStreamCannotBecomeSQL(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		r := newMySQLRun(t, server, "28", "inject")
		quoted := func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
		r.execMySQL(t, "CREATE TABLE canary AS SELECT 1 AS v")
		for i, name := range hostile {
			r.execMySQL(t, "CREATE TABLE "+quoted(name)+" (id int PRIMARY KEY, "+quoted(name)+" text) CHARACTER SET utf8mb4")
			r.produce(t, hostileRecord(t, name, name, hostileValue(i)))
		}
		if code, stderr := r.run(t); code != exitDone {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		if got := rowsText(r.execMySQL(t, "SELECT v FROM canary")); got != "\"1\"\n" {
			t.Errorf("canary: %s", got)
		}
		for i, name := range hostile {
			got, want := rowsText(r.execMySQL(t, "SELECT id, "+quoted(name)+" FROM "+quoted(name))), fmt.Sprintf("\"1\" | %q\n", hostileValue(i))
			if got != want {
				t.Errorf("row: %s, want %s", got, want)
			}
		}
	})
}
