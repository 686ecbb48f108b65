package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"replicator/txnsink/mysql/mysqlserver"
	"replicator/txnsink/postgres/pgserver"
)

// How the statement begins that prepares a checkpoint's transaction. That of the check before the run has another name.
var (
	preparePostgres = "PREPARE TRANSACTION 'replicator:case-"
	prepareMySQL    = fmt.Sprintf("XA PREPARE X'%x", "replicator:case-")
)

// TestServerIsKilled kills the target's server with SIGKILL at each step of a checkpoint, before the step gets there and when it has
// taken effect, and starts it again. The pipeline goes on by itself: nothing is lost, repeated, or left in doubt.
func TestServerIsKilled(t *testing.T) {
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
	for _, c := range []struct {
		delivery, trigger string
		before            bool
	}{
		{"two-phase", "PREPARE TRANSACTION 'replicator:probe:", false}, // of the check before the run
		{"two-phase", preparePostgres, false},
		{"two-phase", "COMMIT PREPARED", true},
		{"two-phase", "COMMIT PREPARED", false},
		{"one-phase", "COMMIT\x00", false},
		{"write-ahead", "COMMIT\x00", true},
		{"write-ahead", "COMMIT\x00", false},
	} {
		t.Run(fmt.Sprintf("%s/%s/before=%v", c.delivery, strings.Trim(c.trigger, "\x00"), c.before), func(t *testing.T) {
			r := newCaseRunOn(t, server, loadCase(t, "58"))
			r.exec(t, "ALTER TABLE pay DROP CONSTRAINT pay_pkey")
			r.config["delivery"] = c.delivery
			r.createTopics(t, r.records(t))
			if code, stderr := r.run(t); code != 0 { // makes the own tables
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.produce(t, r.records(t)...)
			r.killServer(t, server, c.trigger, c.before)
			r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{row("3", "60")}})
			if rows := rowsText(r.exec(t, "SELECT gid FROM pg_prepared_xacts")); rows != "" {
				t.Errorf("in doubt: %s", rows)
			}
		})
	}
}

// TestMySQLServerIsKilled is TestServerIsKilled on MySQL and MariaDB.
func TestMySQLServerIsKilled(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for i, c := range []struct {
			delivery, trigger string
			before            bool
		}{
			{"two-phase", fmt.Sprintf("XA PREPARE X'%x", "replicator-probe"), false}, // of the check before the run
			{"two-phase", prepareMySQL, false},
			{"two-phase", "XA COMMIT", true},
			{"two-phase", "XA COMMIT", false},
			{"one-phase", "UPDATE replicator_witness SET checkpoint", false},
			{"write-ahead", "`pay`", true}, // the statement, which is in the log
			{"write-ahead", "UPDATE replicator_witness SET checkpoint", false},
		} {
			r := newMySQLRun(t, server, "58", fmt.Sprintf("crash_%d", i))
			r.exec(t, "ALTER TABLE pay DROP PRIMARY KEY")
			r.config["delivery"] = c.delivery
			r.produce(t, r.records(t)...)
			r.killServer(t, server, c.trigger, c.before)
			r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{row("3", "60")}})
			if rows := rowsText(r.exec(t, "XA RECOVER")); rows != "" {
				t.Errorf("%s, %s: in doubt: %s", c.delivery, c.trigger, rows)
			}
		}
	})
}

// killable is a server that can be killed and started again.
type killable interface {
	Kill() error
	Restart(ctx context.Context) error
}

// killServer runs the program, and kills the server and starts it again when the program sends a message that holds trigger.
func (r *caseRun) killServer(t *testing.T, server killable, trigger string, before bool) {
	t.Helper()
	b, through := newBreaker(t, r.url, trigger, before)
	r.target = through
	restarted := make(chan error, 1)
	go func() {
		<-b.fired
		err := server.Kill()
		if err == nil {
			err = server.Restart(t.Context())
		}
		b.mend()
		restarted <- err
	}()
	code, stderr := r.run(t)
	if code != 0 {
		t.Fatalf("%s at %s: exit code %d:\n%s", r.config["delivery"], trigger, code, stderr)
	}
	select {
	case err := <-restarted:
		if err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("%s: no message held %s", r.config["delivery"], trigger)
	}
}
