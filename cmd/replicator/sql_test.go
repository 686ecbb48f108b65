package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrintedSQLIsWhatRunWouldRun: run by hand on the same database, it leaves the same rows; and printing it leaves nothing behind.
func TestPrintedSQLIsWhatRunWouldRun(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"01", "10", "18", "22", "25", "31", "40"} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, number)
			r := newCaseRun(t, c)
			r.produce(t, c.records(t)...)
			before := rowsText(r.exec(t, everyTable))
			sql := r.command(t, "sql", "--until-caught-up")
			if after := rowsText(r.exec(t, everyTable)); after != before {
				t.Errorf("tables before\n%s\nafter\n%s", before, after)
			}
			r.exec(t, sql)
			r.expect(t, c.result(t, ""))
		})
	}
}

const everyTable = `SELECT relnamespace::regnamespace, relname FROM pg_class
WHERE relkind IN ('r', 'S') AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2`

// TestPrintedSQLMakesTables that the target lacks, and stops at the limit.
func TestPrintedSQLMakesTables(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	r.createTopic(t)
	r.send(t, typed(pay("c", 1, 10)), typed(pay("c", 2, 20)))
	sql := r.command(t, "sql", "--limit", "1")
	if !strings.Contains(sql, "CREATE TABLE") || strings.Count(sql, "COMMIT;") != 1 {
		t.Errorf("got\n%s", sql)
	}
	r.exec(t, sql)
	r.expect(t, caseResult{Query: "SELECT id, amt FROM pay ORDER BY id", Rows: textRows("1|10", "2|20")})

	// From the last checkpoint on.
	r.exec(t, "DROP TABLE pay")
	r.succeeds(t)
	if sql := r.command(t, "sql", "--until-caught-up"); sql != "" {
		t.Errorf("nothing is left to do, got\n%s", sql)
	}
	r.send(t, typed(pay("u", 1, 11)))
	if sql := r.command(t, "sql", "--until-caught-up"); !strings.Contains(sql, "{11}") || strings.Contains(sql, "CREATE") {
		t.Errorf("got\n%s", sql)
	}
	r.expect(t, caseResult{Query: "SELECT id, amt FROM pay ORDER BY id", Rows: textRows("1|10", "2|20")})
}

// TestSQLOfAFileOfEvents needs no broker, and its bad lines are named.
func TestSQLOfAFileOfEvents(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	one, two := typed(pay("c", 1, 10)), typed(pay("u", 1, 11))
	text, err := json.Marshal(string(two.value))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), payTopic+".jsonl")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("{\"key\":%s,\"value\":%s}\n\n{\"offset\":7,\"key\":%s,\"value\":%s}\n", one.key, one.value, two.key, text))
	sql := r.command(t, "sql", "--events", file, "--set", "source.brokers=['127.0.0.1:1']")
	r.exec(t, sql)
	r.expect(t, caseResult{Query: "SELECT id, amt FROM pay", Rows: textRows("1|11")})
	write(`{"offset":7,"value":{}}` + "\n" + `{"offset":7,"value":{}}`)
	code, _, stderr := call(t, "sql", "--config", r.file(t), "--events", file)
	if code != exitFailed || !strings.Contains(stderr, "line 2: offset 7 of src1.public.pay[0] cannot come here") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// typed is a change of a row of the table pay with its schema.
func typed(r caseRecord) caseRecord {
	const (
		id     = `{"type":"int32","optional":false,"field":"id"}`
		row    = `{"type":"struct","fields":[` + id + `,{"type":"int32","optional":true,"field":"amt"}],"optional":true,"field":`
		source = `{"type":"struct","fields":[{"type":"string","field":"connector"},{"type":"string","field":"name"},{"type":"string","field":"db"},{"type":"string","field":"schema"},{"type":"string","field":"table"}],"field":"source"}`
		value  = `{"schema":{"type":"struct","fields":[` + row + `"before"},` + row + `"after"},` + source + `,{"type":"string","field":"op"}]},"payload":`
		key    = `{"schema":{"type":"struct","fields":[` + id + `]},"payload":`
	)
	r.key = []byte(key + string(r.key) + "}")
	r.value = []byte(value + string(r.value) + "}")
	return r
}
