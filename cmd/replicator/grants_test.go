package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/txnsink/mysql/mysqlserver"
)

// grants returns the statements of docs/grants.md under a name, for another database and role.
func grants(t *testing.T, name, database, role string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "grants.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```sql "+name+"\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("docs/grants.md has no statements for %s", name)
	}
	block = strings.NewReplacer("shop", database, "applier", role).Replace(block)
	return strings.Split(strings.TrimRight(strings.TrimSpace(block), ";"), ";\n")
}

// as is a URL for another role.
func as(t *testing.T, text, role string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "sesame")
	return u.String()
}

// TestTheWrittenGrantsOfPostgreSQLAreEnough for a recorded stream with all its schema changes: the own tables and the target's are
// made, altered and written.
func TestTheWrittenGrantsOfPostgreSQLAreEnough(t *testing.T) {
	t.Parallel()
	c := captureWithDDL(t, "plain", "grants")
	role := "least_" + databaseOf(t, c.url)
	for _, sql := range grants(t, "postgres", databaseOf(t, c.url), role) {
		c.exec(t, sql)
	}
	config := strings.ReplaceAll(c.config, c.url, as(t, c.url, role))
	if code, stderr := c.runConfig(t.Context(), t, config); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	c.equal(t)
	for _, command := range []string{"migrate status", "migrate up", "check", "checkpoints list", "transactions list", "dead-letters list"} {
		args := append(strings.Fields(command), "--config", writeConfig(t, config))
		if code, stdout, stderr := call(t, args...); code != exitDone {
			t.Errorf("%s: exit code %d:\n%s%s", command, code, stdout, stderr)
		}
	}
}

// TestTablesAreNotMadeAmongOurOwn by a role that is called as the own tables' schema is: PostgreSQL's default search_path begins with it.
func TestTablesAreNotMadeAmongOurOwn(t *testing.T) {
	t.Parallel()
	c := captureWithDDL(t, "bare", "own")
	for _, sql := range grants(t, "postgres", databaseOf(t, c.url), "replicator") {
		c.exec(t, sql)
	}
	config := strings.ReplaceAll(c.config, c.url, as(t, c.url, "replicator"))
	if code, stderr := c.runConfig(t.Context(), t, config); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	c.equal(t)
	if code, stdout, stderr := call(t, "check", "--config", writeConfig(t, config)); code != exitDone || !strings.Contains(stdout, "tables go to schema public\n") {
		t.Errorf("check: exit code %d:\n%s%s", code, stdout, stderr)
	}
}

// TestTheWrittenGrantsOfPostgreSQLRecover a run that died between the phases, on a table that somebody else owns.
func TestTheWrittenGrantsOfPostgreSQLRecover(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, loadCase(t, "58"))
	database := databaseOf(t, r.url)
	role := "least_" + database
	for _, name := range []string{"postgres", "postgres-tables"} {
		for _, sql := range grants(t, name, database, role) {
			r.exec(t, sql)
		}
	}
	r.target = as(t, r.url, role)
	r.config["schema.evolve"] = "stop"
	r.produce(t, r.records(t)...)
	r.dieAt(t, "COMMIT PREPARED", true)
	if code, stderr := r.run(t); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}})
}

// TestTheWrittenGrantsOfMySQLAreEnough for a table that is made, one that is truncated, and a run that died between the phases.
func TestTheWrittenGrantsOfMySQLAreEnough(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		kind := "mysql"
		if server.Kind() == mysqlserver.MariaDB {
			kind = "mariadb"
		}
		for _, number := range []string{"02", "28", "58"} {
			r := newMySQLRun(t, server, number, "least_"+number)
			role := "applier_" + number
			for _, sql := range grants(t, kind, "least_"+number, role) {
				r.execMySQL(t, sql)
			}
			r.target = as(t, r.url, role)
			r.produce(t, r.records(t)...)
			var want caseResult
			switch number {
			case "02":
				want = r.result(t, "")
				r.execMySQL(t, "DROP TABLE counter")
			case "28":
				want = r.result(t, "")
			case "58":
				want = caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}}
				r.dieAt(t, "XA COMMIT", true)
			}
			if code, stderr := r.run(t); code != exitDone {
				t.Fatalf("%s: exit code %d:\n%s", number, code, stderr)
			}
			if got, wanted := rowsText(r.execMySQL(t, want.Query)), rowsText(want.Rows); got != wanted {
				t.Errorf("%s: %s\ngot\n%s\nwant\n%s", number, want.Query, got, wanted)
			}
		}
	})
}
