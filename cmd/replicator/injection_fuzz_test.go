package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"replicator/txnsink/mysql"
	"replicator/txnsink/mysql/mysqlserver"
)

// endless bounds a run of one record. A run that is stopped by it has tried again and again what cannot be done.
const endless = time.Minute

// injection is a database in which the stream chooses names and values, one at a time.
type injection struct {
	*caseRun
	quote func(string) string
	left  string // a query for the tables that there are
	runs  atomic.Int64
}

// seedHostile gives f names and values that mean something to some database.
func seedHostile(f *testing.F) {
	for i := 0; i < len(hostile); i += 3 {
		f.Add(hostile[i], hostile[(i+1)%len(hostile)], hostileValue(i))
	}
	for _, name := range []string{"a\x00b", "a ", " ", "\x1b[2J", "replicator_witness", "\U0001f600", strings.Repeat("\u0928", 21), strings.Repeat("-", 63)} {
		f.Add(name, "c", "v")
		f.Add("t", name, "v")
	}
	f.Add("t", "c", "v\x00")
	f.Add("t", "c", "\U0001f600\ufeff\u202e")
}

// try runs a pipeline of its own for one record. Its row is there as it was sent, or the run says why not; nothing else has changed.
func (i *injection) try(t *testing.T, name, column, value string) {
	if name == "" || column == "" || strings.EqualFold(column, "id") || strings.EqualFold(name, "canary") || max(len(name), len(column)) > 63 || len(value) > 1000 ||
		!utf8.ValidString(name) || !utf8.ValidString(column) || !utf8.ValidString(value) {
		return // a longer name is cut to one with a hash
	}
	defer i.clear(t)
	r := *i.caseRun
	number := i.runs.Add(1)
	r.config = map[string]string{"pipeline": fmt.Sprintf("injection-%d", number)}
	record := hostileRecord(t, name, column, value)
	record.topic += fmt.Sprint(number)
	r.produce(t, record)
	r.config["source.topics"] = fmt.Sprintf("['%s']", strings.ReplaceAll(r.topic(record.topic), ".", `\.`))
	ctx, cancel := context.WithTimeout(t.Context(), endless)
	defer cancel()
	code, stderr := r.runContext(ctx, t)
	if err := caseBroker(t).DeleteTopic(r.topic(record.topic)); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil || strings.Contains(lastLine(stderr), "\x1b") {
		t.Fatalf("%q, %q, %q: exit code %d, and the run was stopped after %v, or its error acts on a terminal:\n%s", name, column, value, code, endless, stderr)
	}
	sent := name + column + value
	tables := rowsText(r.exec(t, i.left))
	if code != exitDone {
		if nul := strings.Contains(sent, "\x00"); !nul && !isMySQL(r.url) {
			t.Fatalf("%q, %q, %q: exit code %d:\n%s", name, column, value, code, stderr)
		}
		if tables != "\"canary\"\n" {
			r.exec(t, "DROP TABLE "+i.quote(name))
		}
	} else {
		if want := fmt.Sprintf("%q\n\"canary\"\n", name); tables != want {
			t.Fatalf("%q: tables %s, want %s", name, tables, want)
		}
		got := r.exec(t, "SELECT id, "+i.quote(column)+" FROM "+i.quote(name))
		if len(got) != 1 || *got[0][0] != "1" || got[0][1] == nil || *got[0][1] != value {
			t.Fatalf("%q, %q: row %s, want %q", name, column, rowsText(got), value)
		}
		r.exec(t, "DROP TABLE "+i.quote(name))
	}
	if got := rowsText(r.exec(t, i.left)) + rowsText(r.exec(t, "SELECT v FROM canary")); got != "\"canary\"\n\"1\"\n" {
		t.Fatalf("%q, %q, %q: what was there before is now %s", name, column, value, got)
	}
}

// clear takes away what an input has left that failed: the next ones, by which it is made smaller, would fail too.
func (i *injection) clear(t *testing.T) {
	t.Helper()
	for _, row := range i.exec(t, i.left) {
		if *row[0] != "canary" {
			i.exec(t, "DROP TABLE "+i.quote(*row[0]))
		}
	}
}

// FuzzStreamCannotBecomeSQL lets the stream choose the name of a table, of a column, and a value, on PostgreSQL.
func FuzzStreamCannotBecomeSQL(f *testing.F) {
	const database = "injection"
	if err := world.server.CreateDatabase(f.Context(), database); err != nil {
		f.Fatal(err)
	}
	url := world.server.URL(database)
	i := &injection{
		caseRun: &caseRun{caseFile: &caseFile{}, url: url, target: url},
		quote:   func(name string) string { return pgx.Identifier{name}.Sanitize() },
		left:    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname = 'canary', 1",
	}
	conn, err := pgx.Connect(f.Context(), url)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := conn.Exec(f.Context(), "CREATE TABLE canary AS SELECT 1 AS v"); err != nil {
		f.Fatal(err)
	}
	if err := conn.Close(f.Context()); err != nil {
		f.Fatal(err)
	}
	seedHostile(f)
	f.Fuzz(i.try)
}

// FuzzMySQLStreamCannotBecomeSQL is the same on MySQL, which has names that it refuses: a run may stop there.
func FuzzMySQLStreamCannotBecomeSQL(f *testing.F) { fuzzOn(f, mysqlserver.MySQL9) }

// FuzzMariaDBStreamCannotBecomeSQL is the same on MariaDB.
func FuzzMariaDBStreamCannotBecomeSQL(f *testing.F) { fuzzOn(f, mysqlserver.MariaDB) }

func fuzzOn(f *testing.F, kind mysqlserver.Kind) {
	server, err := mysqlserver.Start(f.Context(), mysqlserver.Config{Kind: kind})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := server.Stop(); err != nil {
			f.Error(err)
		}
	})
	const database = "injection"
	if err := server.CreateDatabase(f.Context(), database); err != nil {
		f.Fatal(err)
	}
	url := server.URL(database)
	db, err := mysql.OpenDB(url, nil, 0)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := db.ExecContext(f.Context(), "CREATE TABLE canary AS SELECT 1 AS v"); err != nil {
		f.Fatal(err)
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	i := &injection{
		caseRun: &caseRun{caseFile: &caseFile{}, url: url, target: url},
		quote:   func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" },
		left: "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name NOT LIKE 'replicator\\_%' " +
			"ORDER BY table_name = 'canary', 1",
	}
	seedHostile(f)
	f.Fuzz(i.try)
}
