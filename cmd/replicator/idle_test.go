package main

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/txnsink/mysql/mysqlserver"
	"replicator/txnsink/postgres/pgserver"
)

// daemon is a run in this process that goes on until it is stopped.
type daemon struct {
	cancel context.CancelFunc
	code   chan int
	errs   lockedText
}

// lockedText is what a run has written, for a test that reads it meanwhile.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// background starts a run that cuts a checkpoint when four events are there, and not before.
func (r *caseRun) background(t *testing.T) *daemon {
	t.Helper()
	args := []string{"run", "--config", r.file(t), "--set", "checkpoint.rows=4", "--set", "checkpoint.interval=1m", "--set", "checkpoint.min_interval=1m"}
	for _, k := range slices.Sorted(maps.Keys(r.config)) {
		args = append(args, "--set", k+"="+r.config[k])
	}
	return startDaemon(t, args...)
}

func startDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := &daemon{cancel: cancel, code: make(chan int, 1)}
	go func() { d.code <- Main(ctx, args, strings.NewReader(""), new(bytes.Buffer), &d.errs) }()
	return d
}

// stop ends the run as a signal does.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	d.cancel()
	if code := <-d.code; code != exitDone {
		t.Errorf("exit code %d:\n%s", code, d.errs.String())
	}
}

// eventually waits until ask says yes.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 2400 {
		if ask() {
			return
		}
		<-tick.C
	}
	t.Fatalf("%s: not within 2 minutes", what)
}

// TestCaseIdleConnections runs case 67: the server has ended every session, the store's too, while the events of a checkpoint came one by
// one. The checkpoint is whole all the same.
func TestCaseIdleConnections(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, loadCase(t, "67"))
	r.exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = 1000', current_database()); END $$")
	r.produce(t, r.records(t)[:3]...)
	d := r.background(t)
	const sessions = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'replicator%'`
	eventually(t, "a session", func() bool { return len(r.exec(t, sessions)) > 0 })
	eventually(t, "no session", func() bool { return len(r.exec(t, sessions)) == 0 })
	r.produce(t, r.records(t)[3])
	want := r.result(t, "")
	eventually(t, "four rows", func() bool { return rowsText(r.exec(t, want.Query)) == rowsText(want.Rows) })
	d.stop(t)
	if log := d.errs.String(); !strings.Contains(log, "idle-session timeout") && !strings.Contains(log, "level=WARN") {
		t.Errorf("the log does not say that a session was lost:\n%s", log)
	}
}

// TestCaseRestartBetweenPhases is case 67's last fault: the server dies with a transaction prepared, and comes back.
func TestCaseRestartBetweenPhases(t *testing.T) {
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
	r := newCaseRunOn(t, server, loadCase(t, "67"))
	r.produce(t, r.records(t)...)
	r.killServer(t, server, "COMMIT PREPARED", true)
	r.expect(t, r.result(t, ""))
	r.expect(t, caseResult{Query: "SELECT count(*) FROM pg_prepared_xacts", Rows: r.exec(t, "SELECT '0'")})
}

// TestMySQLIdleConnections is the same on MySQL and MariaDB: the server's short wait_timeout does not reach the sessions, and they
// are ended by hand.
func TestMySQLIdleConnections(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		r := newMySQLRun(t, server, "67", "idle")
		r.execMySQL(t, "SET GLOBAL wait_timeout = 1")
		r.produce(t, r.records(t)[:3]...)
		d := r.background(t)
		const idle = "SELECT id FROM information_schema.processlist WHERE db = 'idle' AND command = 'Sleep' AND time >= 3"
		eventually(t, "sessions that are idle for long", func() bool { return len(r.execMySQL(t, idle)) > 0 })
		for _, row := range r.execMySQL(t, idle) {
			r.execMySQL(t, "KILL "+*row[0])
		}
		r.produce(t, r.records(t)[3])
		want := r.result(t, "")
		eventually(t, "four rows", func() bool { return rowsText(r.execMySQL(t, want.Query)) == rowsText(want.Rows) })
		d.stop(t)
	})
}
