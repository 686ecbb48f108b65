package main

import (
	"fmt"
	"testing"

	"replicator/txnsink/mysql/mysqlserver"
)

// TestMySQLServerIsKilled kills the target's server with SIGKILL at each step of a checkpoint, before the step gets there and when it has
// taken effect, and starts it again. The pipeline goes on by itself: nothing is lost, repeated, or left in doubt.
func TestMySQLServerIsKilled(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for i, c := range []struct {
			delivery, trigger string
			before            bool
		}{
			{"two-phase", "XA PREPARE", false},
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

func (r *caseRun) killServer(t *testing.T, server *mysqlserver.Server, trigger string, before bool) {
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
