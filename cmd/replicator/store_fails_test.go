package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/txnsink/mysql/mysqlserver"
	"replicator/txnsink/postgres/pgserver"
)

// storeFails runs a pipeline whose checkpoint.store fails in its midst, and is there again later. ends says that the pipeline ends meanwhile;
// otherwise it tries again. It names the setting, and nothing is lost, repeated or left in doubt. The table has no key: a row that is
// applied twice shows.
func storeFails(t *testing.T, delivery, store string, ends bool, fail, mend func(t *testing.T)) {
	t.Helper()
	r := newCaseRun(t, loadCase(t, "58"))
	r.exec(t, "ALTER TABLE pay DROP CONSTRAINT pay_pkey")
	r.config["delivery"], r.config["checkpoint.store"] = delivery, store
	begin := func() *daemon {
		return startDaemon(t, "run", "--config", r.file(t), "--set", "delivery="+delivery, "--set", "checkpoint.store="+store,
			"--set", "checkpoint.rows=1", "--set", "checkpoint.interval=100ms")
	}
	records := r.records(t)
	r.produce(t, records[0])
	d := begin()
	eventually(t, "the first row", func() bool { return *r.exec(t, "SELECT count(*) FROM pay")[0][0] == "1" })
	eventually(t, "its checkpoint", func() bool {
		code, out, _ := call(t, "checkpoints", "list", "--config", r.file(t), "--set", "checkpoint.store="+store, "--json")
		return code == exitDone && strings.Contains(out, `"rows": 1`)
	})
	fail(t)
	r.produce(t, records[1:]...)
	if ends {
		if code := <-d.code; code != exitFailed || !strings.Contains(d.errs.String(), "checkpoint.store") {
			t.Errorf("exit code %d:\n%s", code, d.errs.String())
		}
	} else {
		eventually(t, "a new start", func() bool {
			_, after, again := strings.Cut(d.errs.String(), "starting again after a failure")
			return again && strings.Contains(after, "checkpoint.store")
		})
	}
	mend(t)
	if ends {
		d = begin()
	}
	all := caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{row("3", "60")}}
	eventually(t, "all rows", func() bool { return rowsText(r.exec(t, all.Query)) == rowsText(all.Rows) })
	d.stop(t)
	if code, stderr := r.run(t); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.expect(t, all)
	if rows := rowsText(r.exec(t, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")); rows != "" {
		t.Errorf("in doubt: %s", rows)
	}
}

// TestStoreFolderIsMovedMeanwhile: a folder that is gone may be a disk that is not mounted, and is not begun anew.
func TestStoreFolderIsMovedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"two-phase", "one-phase", "write-ahead"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			move := func(from, to string) func(*testing.T) {
				return func(t *testing.T) {
					t.Helper()
					if err := os.Rename(from, to); err != nil {
						t.Fatal(err)
					}
				}
			}
			storeFails(t, delivery, "file:"+dir, true, move(dir, dir+".away"), move(dir+".away", dir))
		})
	}
}

// TestStoreServerStopsMeanwhile stops the server that keeps the checkpoints, which is not the target's.
func TestStoreServerStopsMeanwhile(t *testing.T) {
	t.Parallel()
	stopping := func(server killable) (fail, mend func(*testing.T)) {
		return func(t *testing.T) {
				t.Helper()
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
			}, func(t *testing.T) {
				t.Helper()
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server, err := pgserver.Start(t.Context(), pgserver.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		})
		fail, mend := stopping(server)
		storeFails(t, "two-phase", server.URL("postgres"), false, fail, mend)
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		server, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: mysqlserver.MariaDB})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		})
		if err := server.CreateDatabase(t.Context(), "checkpoints"); err != nil {
			t.Fatal(err)
		}
		fail, mend := stopping(server)
		storeFails(t, "write-ahead", server.URL("checkpoints"), false, fail, mend)
	})
}
