//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"replicator/txnsink/mysql/mysqlserver"
)

// TestCasePausedProcess runs case 56's first fault: a process is stopped with a transaction prepared, before its checkpoint is saved or when
// it is, another one takes over and completes checkpoints, and the first one wakes. It can neither save nor commit, and ends.
func TestCasePausedProcess(t *testing.T) {
	t.Parallel()
	for i, trigger := range []string{preparePostgres, "COMMIT PREPARED"} {
		t.Run(strings.Fields(trigger)[0], func(t *testing.T) {
			t.Parallel()
			newCaseRun(t, loadCase(t, "56")).pausedAt(t, trigger, i == 1)
		})
	}
}

// TestMySQLCasePausedProcess is TestCasePausedProcess on MySQL and MariaDB.
func TestMySQLCasePausedProcess(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for i, trigger := range []string{prepareMySQL, "XA COMMIT"} {
			newMySQLRun(t, server, "56", fmt.Sprintf("paused_%d", i)).pausedAt(t, trigger, i == 1)
		}
	})
}

// pausedAt stops a process when it has sent trigger and not got the answer, or is about to send it.
func (r *caseRun) pausedAt(t *testing.T, trigger string, before bool) {
	t.Helper()
	r.config["workers"] = "2"
	records := r.records(t)
	r.produce(t, records[:2]...)
	b, through := newBreaker(t, r.url, trigger, before)
	wake := b.stall()
	defer wake()
	r.target = through
	paused := start(t, "run", "--config", r.file(t), "--set", "workers=2")
	select {
	case <-b.fired:
	case <-paused.done:
		t.Fatalf("the process has ended:\n%s", paused.stderr.String())
	}
	if err := paused.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	r.target = r.url
	r.produce(t, records[2:]...)
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("the second process: exit code %d:\n%s", code, stderr)
	}
	r.expect(t, r.result(t, ""))

	wake()
	if err := paused.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := paused.exitCode(t, nil); code != exitFailed || !strings.Contains(paused.stderr.String(), "fenced by a later run") {
		t.Errorf("the process that was paused: exit code %d:\n%s", code, paused.stderr.String())
	}
	r.expect(t, r.result(t, ""))
	query := "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
	if isMySQL(r.url) {
		query = "XA RECOVER"
	}
	if rows := rowsText(r.exec(t, query)); rows != "" {
		t.Errorf("in doubt: %s", rows)
	}
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("a third process: exit code %d:\n%s", code, stderr)
	}
	r.expect(t, r.result(t, ""))
}
