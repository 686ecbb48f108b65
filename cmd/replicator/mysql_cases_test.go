package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"replicator/txnsink/mysql/mysqlserver"
)

// TestMySQLCasesWithFaults runs the cases on MySQL and MariaDB in which something is broken on the way.
func TestMySQLCasesWithFaults(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		t.Run("50", func(t *testing.T) { newMySQLRun(t, server, "50", "case_50").abortTransactions(t) })
		t.Run("52", func(t *testing.T) { newMySQLRun(t, server, "52", "case_52").expireOffset(t) })
		t.Run("54", func(t *testing.T) {
			newMySQLRun(t, server, "54", "case_54").refusesAtTheSame(t, "SELECT count(*) FROM pay WHERE id > 1", "bad_record", "src1.public.pay[0] offset 1")
		})
		t.Run("57", func(t *testing.T) { // the earlier row is in the transaction, which the server would prepare
			newMySQLRun(t, server, "57", "case_57").refusesAtTheSame(t, "SELECT count(*) FROM pay", "check_violation", "src1.public.pay[0] offset 1", "id=2")
		})
		t.Run("60", func(t *testing.T) { newMySQLRun(t, server, "60", "case_60").lackPrivilege(t, server) })
		t.Run("65", func(t *testing.T) { newMySQLRun(t, server, "58", "case_65").leaveOthers(t) })
		t.Run("replay", func(t *testing.T) { newMySQLRun(t, server, "58", "replayed").replayElsewhere(t, server) })
	})
}

// TestMySQLSchemaCases runs the cases with a schema change on MySQL and MariaDB.
func TestMySQLSchemaCases(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		t.Run("36", func(t *testing.T) {
			r := newMySQLRun(t, server, "36", "case_36")
			for _, record := range r.records(t) { // which must come in their order: a run for each
				r.produce(t, record)
				if code, stderr := r.run(t); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
			}
			r.expect(t, r.result(t, ""))
		})
		for number, part := range map[string]string{"38": "widening_enabled", "62": ""} {
			for _, rows := range []string{"100000", "1"} {
				t.Run(number+"/rows="+rows, func(t *testing.T) {
					r := newMySQLRun(t, server, number, "evolve_"+number+"_"+rows)
					r.config["checkpoint.rows"] = rows
					r.produce(t, r.records(t)...)
					if code, stderr := r.run(t); code != 0 {
						t.Fatalf("exit code %d:\n%s", code, stderr)
					}
					r.expect(t, r.result(t, part))
				})
			}
		}
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("62 killed, before=%v", before), func(t *testing.T) {
				r := newMySQLRun(t, server, "62", fmt.Sprintf("altered_%v", before))
				r.produce(t, r.records(t)...)
				r.dieAt(t, "ALTER TABLE", before)
				if code, stderr := r.run(t); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				r.expect(t, r.result(t, ""))
			})
		}
		t.Run("38 stop", func(t *testing.T) {
			r := newMySQLRun(t, server, "38", "case_38")
			r.config["schema.evolve"] = "stop"
			r.produce(t, r.records(t)...)
			code, stderr := r.run(t)
			r.stopped(t, code, stderr, "value_out_of_range", "meter", "column id", "src1.shop.meter[0] offset 1")
			r.expect(t, r.result(t, "widening_disabled"))
		})
	})
}

// dieAt runs the program until its connections break at a message to the target that holds trigger, before it gets there or before its
// answer comes back, and then no further.
func (r *caseRun) dieAt(t *testing.T, trigger string, before bool) {
	t.Helper()
	whole := r.target
	b, through := newBreaker(t, whole, trigger, before)
	r.target = through
	defer func() { r.target = whole }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-b.fired:
		case <-ctx.Done():
		}
	}()
	if code, stderr := r.runContext(ctx, t); ctx.Err() == nil {
		t.Fatalf("the connection was not cut; exit code %d:\n%s", code, stderr)
	}
}

// TestCaseRebalance runs case 56: what a former run left prepared is decided by the next one before it writes, however often it is
// started. The table has no key: a row that is there twice shows.
func TestCaseRebalance(t *testing.T) {
	t.Parallel()
	for _, trigger := range []string{preparePostgres, "COMMIT PREPARED"} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/before=%v", trigger, before), func(t *testing.T) {
				t.Parallel()
				newCaseRun(t, loadCase(t, "56")).dieAndStartTwice(t, trigger, before)
			})
		}
	}
}

// TestMySQLCaseRebalance is TestCaseRebalance on MySQL and MariaDB.
func TestMySQLCaseRebalance(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for i, trigger := range []string{prepareMySQL, "XA COMMIT"} {
			for _, before := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/before=%v", trigger, before), func(t *testing.T) {
					newMySQLRun(t, server, "56", fmt.Sprintf("case_56_%d_%v", i, before)).dieAndStartTwice(t, trigger, before)
				})
			}
		}
	})
}

func (r *caseRun) dieAndStartTwice(t *testing.T, trigger string, before bool) {
	t.Helper()
	r.config["workers"] = "2"
	r.produce(t, r.records(t)...)
	r.dieAt(t, trigger, before)
	for range 2 {
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		r.expect(t, r.result(t, ""))
	}
}

// TestCaseOthersPrepared runs case 65 on PostgreSQL.
func TestCaseOthersPrepared(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "65")
	table, transaction, _ := strings.Cut(c.setup(t, ""), "\n") // sent as one text, the table would be the transaction's too
	c.Setup = yaml.Node{}
	r := newCaseRun(t, c)
	r.exec(t, table)
	r.exec(t, transaction)
	r.produce(t, r.records(t)...)
	for range 3 {
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		r.expect(t, r.result(t, ""))
	}
	r.exec(t, "ROLLBACK PREPARED 'billing-app:42'")
}

// refusesAtTheSame wants the program to stop at a record, however often it is started, and to commit nothing that the query counts.
func (r *caseRun) refusesAtTheSame(t *testing.T, query string, words ...string) {
	t.Helper()
	r.produce(t, r.records(t)...)
	for range 2 {
		code, stderr := r.run(t)
		r.stopped(t, code, stderr, words...)
		r.expect(t, caseResult{Query: query, Rows: [][]*string{row("0")}})
		if rows := rowsText(r.exec(t, "XA RECOVER")); rows != "" {
			t.Errorf("in doubt: %s", rows)
		}
	}
}

// lackPrivilege runs case 60 as a user who may not list prepared transactions. MariaDB lets everybody.
func (r *caseRun) lackPrivilege(t *testing.T, server *mysqlserver.Server) {
	t.Helper()
	u, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	r.exec(t, "CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'secret'")
	r.exec(t, "GRANT ALL ON case_60.* TO plain@'127.0.0.1'")
	u.User = url.UserPassword("plain", "secret")
	r.target = u.String()
	r.produce(t, r.records(t)...)
	if server.Kind() != mysqlserver.MariaDB {
		for range 2 {
			code, stderr := r.run(t)
			r.stopped(t, code, stderr, r.result(t, "").Error.Class, "XA_RECOVER_ADMIN", "one-phase")
			r.expect(t, r.result(t, ""))
		}
		r.config["delivery"] = "one-phase" // what the error advises
	}
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.expect(t, caseResult{Query: "SELECT id, amt FROM pay", Rows: [][]*string{row("1", "10")}})
}

// leaveOthers runs case 65 as its notes have it for MySQL: prepared transactions of another application, and of a pipeline whose
// name begins like this one's, outlive every restart.
func (r *caseRun) leaveOthers(t *testing.T) {
	t.Helper()
	const foreign = "billing-app:42"
	other := "replicator:" + r.pipeline() + "b:1:1:0"
	for i, id := range []string{foreign, other} {
		r.execMySQL(t, fmt.Sprintf("XA START '%s'", id),
			fmt.Sprintf("INSERT INTO pay VALUES (%d, 5)", 500+i), fmt.Sprintf("XA END '%s'", id), fmt.Sprintf("XA PREPARE '%s'", id))
	}
	for i, record := range append(r.records(t), caseRecord{}) {
		if i < 3 {
			r.produce(t, record)
		}
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		if got := rowsText(r.exec(t, "XA RECOVER")); !strings.Contains(got, foreign) || !strings.Contains(got, other) || strings.Count(got, "\n") != 2 {
			t.Errorf("prepared: %s", got)
		}
	}
	r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{row("3", "60")}})
	for _, id := range []string{foreign, other} {
		r.exec(t, fmt.Sprintf("XA ROLLBACK '%s'", id))
	}
}

// replayElsewhere plays again into another database what came after a checkpoint; into the same tables is refused.
func (r *caseRun) replayElsewhere(t *testing.T, server *mysqlserver.Server) {
	t.Helper()
	records := r.records(t)
	r.produce(t, records[:2]...)
	for i := range 2 {
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		if i == 0 {
			r.produce(t, records[2:]...)
		}
	}
	if err := server.CreateDatabase(t.Context(), "replay"); err != nil {
		t.Fatal(err)
	}
	r.exec(t, "CREATE TABLE replay.pay LIKE pay")
	file := r.file(t)
	at := int64(0) // the checkpoint of the first run's rows
	for _, c := range facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", file) {
		if c.Rows == 2 {
			at = c.ID
		}
	}
	code, exported, stderr := call(t, "checkpoints", "export", fmt.Sprint(at), "--config", file)
	if code != exitDone {
		t.Fatalf("export of checkpoint %d: exit code %d: %s", at, code, stderr)
	}
	out := filepath.Join(t.TempDir(), "checkpoint.json")
	if err := os.WriteFile(out, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	again := []string{"--config", file, "--set", "pipeline=again"}
	if code, _, stderr := call(t, append([]string{"checkpoints", "import", out}, again...)...); code != exitFailed || !strings.Contains(stderr, "to table replayed.pay") {
		t.Errorf("import into tables that are ahead: exit code %d: %s", code, stderr)
	}
	again = append(again, "--set", "target.table=replay.{table}")
	for _, args := range [][]string{{"checkpoints", "import", out}, {"run", "--until-caught-up"}} {
		if code, _, stderr := call(t, append(args, again...)...); code != exitDone {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	r.expect(t, caseResult{Query: "SELECT id, amt FROM replay.pay", Rows: [][]*string{row("3", "30")}})
	r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{row("3", "60")}})
}

// pipeline is what configText calls the pipeline.
func (r *caseRun) pipeline() string { return fmt.Sprintf("case-%08x", hash(r.url)) }

// killedRows are the rows of the tests that kill the program. Each is a checkpoint of its own.
const killedRows = 60

// TestMySQLDeliveriesSurviveKills kills the program with SIGKILL as rows become visible, which is in the midst of a checkpoint, in
// every delivery. The table has no key: a row that is applied twice shows.
func TestMySQLDeliveriesSurviveKills(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for _, delivery := range []string{"two-phase", "one-phase", "write-ahead", "at-least-once", "at-most-once"} {
			t.Run(delivery, func(t *testing.T) {
				t.Parallel()
				r := newMySQLRun(t, server, "58", "killed_"+strings.ReplaceAll(delivery, "-", "_"))
				r.exec(t, "ALTER TABLE pay DROP PRIMARY KEY")
				r.config["delivery"], r.config["checkpoint.rows"] = delivery, "1"
				template := string(r.records(t)[0].value)
				for id := range killedRows {
					record := r.records(t)[0]
					record.key = fmt.Appendf(nil, `{"id":%d}`, id)
					record.value = []byte(strings.NewReplacer(`"id":1,`, fmt.Sprintf(`"id":%d,`, id), "24004210", fmt.Sprint(24004210+id)).Replace(template))
					r.produce(t, record)
				}
				for kill := range 3 {
					r.killAt(t, 1+kill*killedRows/4)
				}
				if code, stderr := r.run(t); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				got := rowsText(r.exec(t, "SELECT count(DISTINCT id), count(*) - count(DISTINCT id) FROM pay"))
				all := fmt.Sprintf("%q | ", fmt.Sprint(killedRows))
				switch {
				case delivery == "at-least-once" && strings.HasPrefix(got, all), delivery == "at-most-once" && strings.HasSuffix(got, "| \"0\"\n"):
				case got != all+"\"0\"\n":
					t.Errorf("rows and repetitions: %s", got)
				}
				if rows := rowsText(r.exec(t, "XA RECOVER")); strings.Contains(rows, r.pipeline()) {
					t.Errorf("in doubt: %s", rows)
				}
			})
		}
	})
}

// killAt runs the program until the target has this many rows or more, and kills it.
func (r *caseRun) killAt(t *testing.T, rows int) {
	t.Helper()
	args := []string{"run", "--config", r.file(t)}
	for k, v := range r.config {
		args = append(args, "--set", k+"="+v)
	}
	p := start(t, args...)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for {
		select {
		case <-p.done:
			t.Fatalf("the program has ended:\n%s", p.stderr.String())
		case <-limit:
			t.Fatalf("no %d rows after 30 seconds", rows)
		case <-tick.C:
		}
		if len(r.exec(t, fmt.Sprintf("SELECT 1 FROM pay LIMIT %d", rows))) < rows {
			continue
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.done
		return
	}
}
