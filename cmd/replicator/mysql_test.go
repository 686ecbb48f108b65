package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"replicator/txnsink/mysql"
	"replicator/txnsink/mysql/mysqlserver"
)

// onMySQL starts a server of each kind for a test.
func onMySQL(t *testing.T, test func(t *testing.T, server *mysqlserver.Server)) {
	t.Helper()
	t.Parallel()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: kind, Durable: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Stop(); err != nil {
					t.Error(err)
				}
			})
			test(t, server)
		})
	}
}

// newMySQLRun makes a database and runs the case's set-up in it.
func newMySQLRun(t *testing.T, server *mysqlserver.Server, number, name string) *caseRun {
	t.Helper()
	c := loadCase(t, number)
	c.kind = "mysql"
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	r := &caseRun{caseFile: c, url: server.URL(name), target: server.URL(name), config: map[string]string{}}
	r.resetGlobals(t, c.setup(t, name))
	for _, sql := range strings.SplitAfter(c.setup(t, name), ";\n") {
		if strings.TrimSpace(sql) != "" {
			r.execMySQL(t, sql)
		}
	}
	return r
}

var setsGlobal = regexp.MustCompile(`SET GLOBAL (\w+)`)

// resetGlobals gives the server's variables that setup sets their values back at the end of the test.
func (r *caseRun) resetGlobals(t *testing.T, setup string) {
	t.Helper()
	for _, set := range setsGlobal.FindAllStringSubmatch(setup, -1) {
		was := r.execMySQL(t, "SELECT @@GLOBAL."+set[1])[0][0]
		t.Cleanup(func() { r.execMySQL(t, "SET GLOBAL "+set[1]+" = '"+*was+"'") })
	}
}

// execMySQL runs statements in one session, which ends after them, and returns the rows of the last.
func (r *caseRun) execMySQL(t *testing.T, statements ...string) [][]*string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	db, err := mysql.OpenDB(r.url, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	text := statements[len(statements)-1]
	for _, before := range statements[:len(statements)-1] {
		if _, err := db.ExecContext(ctx, before); err != nil {
			t.Fatalf("%s: %v", before, err)
		}
	}
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out [][]*string
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		to, texts := make([]any, len(columns)), make([]*string, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		for i := range values {
			if values[i].Valid {
				texts[i] = &values[i].String
			}
		}
		out = append(out, texts)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMySQLCases runs the cases that need nothing but their events on MySQL and MariaDB, once with all events in one checkpoint
// and once with a checkpoint after every event.
func TestMySQLCases(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for _, number := range []string{
			"01", "02", "03", "04", "07", "09", "10", "21", "22", "25", "26", "27", "28", "30", "31", "33", "35", "40", "41", "44", "45", "46", "49", "61",
		} {
			for _, rows := range []string{"100000", "1"} {
				t.Run(number+"/rows="+rows, func(t *testing.T) {
					r := newMySQLRun(t, server, number, "case_"+number+"_"+rows)
					r.config["checkpoint.rows"] = rows
					r.produce(t, r.records(t)...)
					want := r.result(t, "")
					code, stderr := r.run(t)
					if want.Error != nil {
						r.stopped(t, code, stderr, want.Error.Class)
					} else if code != 0 {
						t.Fatalf("exit code %d:\n%s", code, stderr)
					}
					if got, wanted := rowsText(r.execMySQL(t, want.Query)), rowsText(want.Rows); got != wanted {
						t.Errorf("%s\ngot\n%s\nwant\n%s\n%s", want.Query, got, wanted, stderr)
					}
				})
			}
		}
	})
}

// TestMySQLDeliveries runs case 31 in the deliveries that prepare nothing, a run for each event, with the checkpoints in the target
// and in a database of their own.
func TestMySQLDeliveries(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		if err := server.CreateDatabase(t.Context(), "checkpoints"); err != nil {
			t.Fatal(err)
		}
		for i, delivery := range []string{"one-phase", "write-ahead", "at-least-once", "at-most-once"} {
			r := newMySQLRun(t, server, "31", fmt.Sprintf("delivery_%d", i))
			r.config["delivery"] = delivery
			r.config["checkpoint.store"] = []string{"target", server.URL("checkpoints")}[i%2]
			for _, record := range r.records(t) {
				r.produce(t, record)
				if code, stderr := r.run(t); code != 0 {
					t.Fatalf("%s: exit code %d:\n%s", delivery, code, stderr)
				}
			}
			want := r.result(t, "")
			if got, wanted := rowsText(r.execMySQL(t, want.Query)), rowsText(want.Rows); got != wanted {
				t.Errorf("%s: %s\ngot\n%s\nwant\n%s", delivery, want.Query, got, wanted)
			}
		}
	})
}

// TestMySQLStatementSize runs case 48 on MySQL and MariaDB: more values than a statement can have parameters.
func TestMySQLStatementSize(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		r := newMySQLRun(t, server, "48", "wide")
		r.produce(t, r.wideRecords(t)...)
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		want := r.result(t, "")
		if got, wanted := rowsText(r.execMySQL(t, want.Query)), rowsText(want.Rows); got != wanted {
			t.Errorf("%s\ngot\n%s\nwant\n%s", want.Query, got, wanted)
		}
	})
}

// TestMySQLSurvivesLostAnswers runs case 58 with the connection cut at each step of the two phases, and the checkpoints in the
// target, in a directory, and in a database of their own.
func TestMySQLSurvivesLostAnswers(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		if err := server.CreateDatabase(t.Context(), "checkpoints"); err != nil {
			t.Fatal(err)
		}
		stores := []string{"target", "file:" + t.TempDir(), server.URL("checkpoints"), caseDatabase(t, "checkpoints_"+string(server.Kind()))}
		for i, trigger := range []string{strings.Replace(prepareMySQL, "PREPARE", "START", 1), prepareMySQL, "XA COMMIT", "UPDATE replicator_witness"} {
			for _, before := range []bool{true, false} {
				name := fmt.Sprintf("cut_%d_%v", i, before)
				r := newMySQLRun(t, server, "58", name)
				r.config["checkpoint.store"] = stores[i]
				r.config["checkpoint.rows"] = "1"
				r.produce(t, r.records(t)...)
				r.dieAt(t, trigger, before)
				if code, stderr := r.run(t); code != 0 {
					t.Fatalf("%s: exit code %d:\n%s", name, code, stderr)
				}
				if got, want := rowsText(r.execMySQL(t, "SELECT count(*), sum(amt) FROM pay")), "\"3\" | \"60\"\n"; got != want {
					t.Errorf("%s: got %s, want %s", name, got, want)
				}
				if rows := r.execMySQL(t, "XA RECOVER"); len(rows) != 0 {
					t.Errorf("%s: in doubt: %s", name, rowsText(rows))
				}
			}
		}
	})
}

// TestMySQLTargetIsChecked asks the preflight about MySQL and MariaDB, and the own tables.
func TestMySQLTargetIsChecked(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		r := newMySQLRun(t, server, "58", "checked")
		r.produce(t, r.records(t)...)
		u, err := url.Parse(r.url)
		if err != nil {
			t.Fatal(err)
		}
		r.execMySQL(t, "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
		r.execMySQL(t, "GRANT ALL ON checked.* TO app@'127.0.0.1'")
		u.User = url.UserPassword("app", "secret")
		r.target = u.String()
		file := r.file(t)
		find := func(sql, want string) {
			t.Helper()
			if sql != "" {
				r.execMySQL(t, strings.Split(sql, "; ")...)
			}
			got := slices.DeleteFunc(checkFinds(t, "check", "--json", "--config", file, "--set", "workers=4"), func(n string) bool {
				return n == "schema_changes/unset" || n == "connector/schemaless"
			})
			if strings.Join(got, " ") != want {
				t.Errorf("%s: found %q, want %q", sql, got, want)
			}
		}
		if server.Kind() != mysqlserver.MariaDB {
			find("", "two-phase/unusable")
			r.execMySQL(t, "GRANT XA_RECOVER_ADMIN ON *.* TO app@'127.0.0.1'")
		}
		find("", "")
		find("SET GLOBAL innodb_flush_log_at_trx_commit = 2", "two-phase/settings")
		find("SET GLOBAL innodb_flush_log_at_trx_commit = 1; SET GLOBAL max_allowed_packet = 524288", "messages/packet")
		find("SET GLOBAL max_allowed_packet = 67108864; SET GLOBAL max_connections = 10", "connections/few")
		find("SET GLOBAL max_connections = 100; ALTER DATABASE checked CHARACTER SET latin1", "settings/encoding")
		find("ALTER DATABASE checked CHARACTER SET utf8mb4; CREATE TRIGGER checked.note AFTER INSERT ON checked.pay FOR EACH ROW SET @x = 1", "triggers/fire")
		find("DROP TRIGGER checked.note; ALTER TABLE checked.pay ENGINE = MyISAM", "tables/unusable")
		find("ALTER TABLE checked.pay ENGINE = InnoDB; REVOKE DELETE ON checked.* FROM app@'127.0.0.1'", "grants/missing")
		find("CREATE ROLE deleter; GRANT deleter TO app@'127.0.0.1'", "grants/unsure own tables/grants")
		for _, table := range []string{"pipelines", "checkpoints", "witness", "log", "schema_version", "dead_letters"} {
			r.execMySQL(t, "CREATE TABLE checked.replicator_"+table+" (pipeline int)")
			r.execMySQL(t, "GRANT DELETE ON checked.replicator_"+table+" TO app@'127.0.0.1'")
		}
		find("", "grants/unsure")
		find("REVOKE DELETE ON checked.replicator_log FROM app@'127.0.0.1'", "grants/unsure own tables/grants")
		find("REVOKE DELETE ON checked.replicator_witness FROM app@'127.0.0.1'; GRANT ALL ON checked.* TO app@'127.0.0.1'; REVOKE deleter FROM app@'127.0.0.1'", "")
		r.execMySQL(t, "DROP TABLE checked.replicator_pipelines, checked.replicator_checkpoints, checked.replicator_witness, checked.replicator_log, "+
			"checked.replicator_schema_version, checked.replicator_dead_letters")
		if got, want := facts[migrationFacts](t, 0, "migrate", "status", "--config", file), (migrationFacts{tablesVersion: tablesVersion{0, 2}}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if code, _, stderr := call(t, "migrate", "up", "--config", file); code != 0 {
			t.Error(stderr)
		}
		if got, want := facts[migrationFacts](t, 0, "migrate", "status", "--config", file), (migrationFacts{tablesVersion: tablesVersion{2, 2}}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
