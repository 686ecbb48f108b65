package mysqlddl

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"replicator/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

// describe writes changes for people, one a line.
func describe(changes []schema.Change, err error) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "  %v %v", c.Kind, c.Table)
		v := reflect.ValueOf(c)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if f := v.Field(i); name != "Kind" && name != "Table" && !f.IsZero() {
				fmt.Fprintf(&b, " %s=%+v", name, f)
			}
		}
		b.WriteByte('\n')
	}
	if err != nil {
		fmt.Fprintf(&b, "  error: %v\n", err)
	}
	return b.String()
}

// TestStatementsAreReadAsWritten is the list of what is read and what is not: the parser's limits are in its golden file.
func TestStatementsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "statements.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		b.WriteString(line + "\n" + describe(Parse(line, "shop")))
	}
	path := filepath.Join("testdata", "statements.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (make it with -update)", err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs (see the difference with -update):\n%s", path, b.String())
	}
}

// TestEveryCapturedStatementIsRead reads what real connectors sent, and the lab's own statements as they were written.
func TestEveryCapturedStatementIsRead(t *testing.T) {
	t.Parallel()
	read := 0
	for _, stream := range []string{"plain", "bare"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "debezium", stream, stream+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var record struct{ Value string }
			var message struct {
				DDL     string
				Payload struct{ DDL string }
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(record.Value), &message); err != nil {
				t.Fatal(err)
			}
			ddl := message.DDL + message.Payload.DDL
			if changes, err := Parse(ddl, "shop"); err != nil || len(changes) == 0 {
				t.Errorf("%v, %d changes: %s", err, len(changes), ddl)
			}
			read++
		}
	}
	if read < 80 {
		t.Errorf("read %d statements", read)
	}
	scripts, err := filepath.Glob(filepath.Join("..", "..", "e2e", "lab", "source", "0*.sql"))
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(string(text), "shop"); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestErrorNamesStatementAndPosition(t *testing.T) {
	t.Parallel()
	changes, err := Parse("/* x */ TRUNCATE a; ALTER TABLE b ADD UUID UUID, ADD c INT", "shop")
	want := []schema.Change{{Kind: schema.TruncateTable, Table: schema.Name{Schema: "shop", Table: "a"}}}
	if !reflect.DeepEqual(changes, want) {
		t.Errorf("got %+v, want %+v", changes, want)
	}
	var parse *ParseError
	if !errors.As(err, &parse) {
		t.Fatalf("got %v", err)
	}
	got := fmt.Sprint(parse.Position, parse.SQL)
	if want := "43ALTER TABLE b ADD UUID UUID, ADD c INT"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "statements.sql"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		if len(blankComments(sql)) != len(sql) {
			t.Error("positions move")
		}
		changes, err := Parse(sql, "d")
		var parse *ParseError
		if err != nil && (!errors.As(err, &parse) || parse.Position < 0 || parse.Position > len(sql)) {
			t.Errorf("got %#v", err)
		}
		for _, c := range changes {
			if c.Kind.String() == "" || c.Kind != schema.Ignored && c.Table.Table == "" {
				t.Errorf("a change of nothing: %+v", c)
			}
		}
		// A comment before it changes nothing of what is read.
		if again, err2 := Parse("/**/"+sql, "d"); !reflect.DeepEqual(again, changes) || (err2 == nil) != (err == nil) {
			t.Errorf("got %v, and after a comment %v", describe(changes, err), describe(again, err2))
		}
	})
}
