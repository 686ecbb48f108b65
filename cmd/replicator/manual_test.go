package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/txnsink/mysql/mysqlserver"
)

// manually runs a case with migrate: manual. owner is the target's URL for who makes the own tables.
type manually struct {
	*caseRun
	owner string
}

// waits says that a run ends with exit code 3 and these words, with nothing made.
func (m *manually) waits(t *testing.T, words string) {
	t.Helper()
	code, stderr := m.run(t)
	if code != exitPreflight || !strings.Contains(stderr, words) || !strings.Contains(stderr, "replicator migrate up --config FILE") {
		t.Errorf("exit code %d, want %d and %q:\n%s", code, exitPreflight, words, stderr)
	}
}

// migrates runs a command of migrate as the owner.
func (m *manually) migrates(t *testing.T, command ...string) {
	t.Helper()
	args := append(append([]string{"migrate"}, command...), "--config", m.file(t), "--set", "migrate=manual", "--set", "target.url="+m.owner)
	if code, stdout, stderr := call(t, args...); code != exitDone {
		t.Fatalf("%v: exit code %d:\n%s%s", command, code, stdout, stderr)
	}
}

// found says what migrate status and check say, as the pipeline's role.
func (m *manually) found(t *testing.T, v tablesVersion, finding string) {
	t.Helper()
	if got, want := facts[migrationFacts](t, exitDone, "migrate", "status", "--config", m.file(t), "--set", "migrate=manual"), (migrationFacts{tablesVersion: v}); got != want {
		t.Errorf("status: got %+v, want %+v", got, want)
	}
	args := []string{"check", "--json", "--config", m.file(t)}
	for key, value := range m.config {
		args = append(args, "--set", key+"="+value)
	}
	var own []string
	for _, f := range checkFinds(t, args...) {
		if strings.HasPrefix(f, "own tables/") || strings.HasPrefix(f, "grants/missing") {
			own = append(own, f)
		}
	}
	if got := strings.Join(own, " "); got != finding {
		t.Errorf("check finds %q, want %q", got, finding)
	}
}

// TestManualNeedsNoRightToCreate on PostgreSQL, with exactly what docs/grants.md says of it: nothing is made until migrate up has run, and a
// later program's need is told.
func TestManualNeedsNoRightToCreate(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, loadCase(t, "58"))
	m := &manually{r, r.url}
	database := databaseOf(t, r.url)
	role := "least_" + database
	r.config["migrate"], r.config["schema.evolve"] = "manual", "stop"
	records := r.records(t)
	r.produce(t, records...)
	m.waits(t, "the replicator's own tables are missing (this program needs version 4), and migrate is manual: ")
	m.found(t, tablesVersion{0, 4}, "own tables/version")
	if got := rowsText(r.exec(t, "SELECT count(*) FROM pg_namespace WHERE nspname = 'replicator'")); got != "\"0\"\n" {
		t.Errorf("%s schemas were made, want none", got)
	}

	m.migrates(t, "up")
	for _, name := range []string{"postgres-manual", "postgres-tables"} {
		for _, sql := range grants(t, name, database, role) {
			r.exec(t, sql)
		}
	}
	r.exec(t, "GRANT USAGE ON SCHEMA public TO "+role+"; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	r.target = as(t, r.url, role)
	m.found(t, tablesVersion{4, 4}, "")
	r.dieAt(t, "COMMIT PREPARED", true)
	if code, stderr := r.run(t); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}})

	m.migrates(t, "down", "--to", "3")
	m.waits(t, "the replicator's own tables have version 3, this program needs version 4, and migrate is manual: ")
	m.found(t, tablesVersion{3, 4}, "own tables/version")
	m.migrates(t, "up")
	if code, stderr := r.run(t); code != exitDone {
		t.Fatalf("with the tables of the later version: exit code %d:\n%s", code, stderr)
	}
	m.found(t, tablesVersion{4, 4}, "")

	r.exec(t, "UPDATE replicator.schema_migrations SET version = 99")
	if code, stderr := r.run(t); code != exitFailed || !strings.Contains(stderr, "have version 99") {
		t.Errorf("tables of a later program: exit code %d:\n%s", code, stderr)
	}
	m.found(t, tablesVersion{99, 4}, "own tables/newer")
}

// TestManualNeedsNoRightToCreateOnMySQL and MariaDB, with exactly what docs/grants.md says of it.
func TestManualNeedsNoRightToCreateOnMySQL(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		kind := "mysql"
		if server.Kind() == mysqlserver.MariaDB {
			kind = "mariadb"
		}
		r := newMySQLRun(t, server, "58", "manual")
		m := &manually{r, r.url}
		r.config["migrate"], r.config["schema.create"], r.config["schema.evolve"] = "manual", "false", "stop"
		for _, sql := range grants(t, kind+"-manual", "manual", "applier") {
			r.execMySQL(t, sql)
		}
		r.target = as(t, r.url, "applier")
		r.produce(t, r.records(t)...)
		m.waits(t, "the replicator's own tables are missing (this program needs version 2), and migrate is manual: ")
		m.found(t, tablesVersion{0, 2}, "own tables/version")
		if got := rowsText(r.execMySQL(t, "SELECT count(*) FROM information_schema.TABLES WHERE TABLE_NAME LIKE 'replicator%'")); got != "\"0\"\n" {
			t.Errorf("%s tables were made, want none", got)
		}
		m.migrates(t, "up")
		m.found(t, tablesVersion{2, 2}, "")
		r.dieAt(t, "XA COMMIT", true)
		if code, stderr := r.run(t); code != exitDone {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}})
		m.migrates(t, "down", "--to", "1")
		m.waits(t, "the replicator's own tables have version 1, this program needs version 2, and migrate is manual: ")
		m.found(t, tablesVersion{1, 2}, "own tables/version")
	})
}

// TestManualIsOfEveryCommandAndOfTheStore: whatever would make own tables, in the target or in a checkpoint store of its own, leaves it.
func TestManualIsOfEveryCommandAndOfTheStore(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, loadCase(t, "58"))
	r.produce(t, r.records(t)...)
	file := filepath.Join(t.TempDir(), "checkpoint.json")
	const exported = `{"version":1,"pipeline":"p","id":1,"epoch":1,"created":"2026-01-01T00:00:00Z","positions":[]}`
	if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	store := caseDatabase(t, databaseOf(t, r.url)+"_store")
	config := writeConfig(t, r.configText(t)+fmt.Sprintf("migrate: manual\ncheckpoint: {store: '%s'}\n", store))
	refused := func(command, words string) {
		t.Helper()
		code, _, stderr := call(t, append(strings.Fields(command), "--config", config)...)
		if code != exitPreflight || !strings.Contains(stderr, words) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", command, code, exitPreflight, words, stderr)
		}
	}
	status := func(target, store int) {
		t.Helper()
		got := facts[migrationFacts](t, exitDone, "migrate", "status", "--config", config)
		if got.tablesVersion != (tablesVersion{target, 4}) || got.Store == nil || *got.Store != (tablesVersion{store, 4}) {
			t.Errorf("status: got %+v, %+v, want %d, %d", got, got.Store, target, store)
		}
	}
	const missing = "the replicator's own tables are missing"
	refused("run --until-caught-up", missing)
	refused("schema plan", missing)
	refused("checkpoints import "+file, "checkpoint.store: "+missing)
	status(0, 0)

	if code, _, stderr := call(t, "migrate", "up", "--config", config, "--set", "checkpoint.store=target"); code != exitDone {
		t.Fatal(stderr)
	}
	refused("run --until-caught-up", "checkpoint.store "+redact(store)+": "+missing)
	status(4, 0)
	if got := checkFinds(t, "check", "--json", "--config", config); !strings.Contains(strings.Join(got, " ")+" ", "own tables/version ") {
		t.Errorf("check finds %v", got)
	}
	if code, _, stderr := call(t, "migrate", "up", "--config", config); code != exitDone {
		t.Fatal(stderr)
	}
	status(4, 4)
	if code, _, stderr := call(t, "run", "--until-caught-up", "--config", config); code != exitDone {
		t.Fatal(stderr)
	}
	r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}})

	role := "reader_" + databaseOf(t, r.url)
	r.exec(t, "CREATE ROLE "+role+" LOGIN")
	if got := checkFinds(t, "check", "--json", "--config", config, "--set", "checkpoint.store="+as(t, store, role)); !strings.Contains(strings.Join(got, " ")+" ", "own tables/unread ") {
		t.Errorf("check of a store whose version cannot be read finds %v", got)
	}
}

// TestManualIsOfKafkaTargetsToo: their topics are the own tables.
func TestManualIsOfKafkaTargetsToo(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	k := newKafkaTarget(t, b, "manual", "migrate: manual\n")
	k.produce(t, 0, 3)
	run := []string{"run", "--config", k.file, "--until-caught-up"}
	if code, _, stderr := call(t, run...); code != exitPreflight || !strings.Contains(stderr, "the target's topics are missing") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, stdout, _ := call(t, "check", "--config", k.file); code != exitPreflight || !strings.Contains(stdout, "there is no control topic "+k.topic+".replicator, and migrate is manual: run `replicator migrate up") {
		t.Errorf("check: exit code %d: %s", code, stdout)
	}
	status := func(version int) {
		t.Helper()
		if got, want := facts[migrationFacts](t, exitDone, "migrate", "status", "--config", k.file), (migrationFacts{tablesVersion: tablesVersion{version, 1}}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	status(0)
	if code, _, stderr := call(t, "migrate", "up", "--config", k.file); code != exitDone {
		t.Fatal(stderr)
	}
	status(1)
	if code, _, stderr := call(t, run...); code != exitDone {
		t.Fatal(stderr)
	}
	k.expect(t, upserts(0, 3))
}
