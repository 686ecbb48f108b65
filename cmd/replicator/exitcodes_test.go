package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// background runs the daemon in this process until stop is called, which returns its exit code and what it wrote.
func background(t *testing.T, args ...string) (stop func() string, ended <-chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan string, 1)
	go func() {
		var errs strings.Builder
		code := Main(ctx, append([]string{"run"}, args...), strings.NewReader(""), io.Discard, &errs)
		end <- fmt.Sprintf("exit code %d\n%s", code, errs.String())
	}()
	t.Cleanup(cancel)
	return func() string { cancel(); return <-end }, end
}

// soon waits until ok, for a minute and a half.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 1800 {
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatal("not within 90 s: " + what)
}

// TestStopDuringRecoveryIsNoFailure: a session of somebody else holds the recovery up, and SIGTERM ends it. So does one before the next start.
func TestStopDuringRecoveryIsNoFailure(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	define(t, s, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	s.produce(t, "t", "1")
	if code, _, stderr := call(t, "run", "--config", s.file, "--until-caught-up"); code != exitDone {
		t.Fatal(stderr)
	}
	holder, err := pgx.Connect(t.Context(), s.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE replicator.pipelines IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	stop, _ := background(t, "--config", s.file)
	soon(t, "recovery waits for the lock", func() (waiting bool) {
		if err := holder.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'replicator.pipelines'::regclass)").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting
	})
	if end := stop(); !strings.HasPrefix(end, "exit code 0\n") {
		t.Error(end)
	}
	if err := holder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	address := freeAddress(t)
	stop, _ = background(t, "--config", s.file, "--set", "http.listen="+address)
	soon(t, "it runs", func() bool { return strings.Contains(scrape(t, address), "replicator_lag_events{") })
	if err := s.server.Kill(); err != nil {
		t.Fatal(err)
	}
	soon(t, "it waits to start again", func() bool {
		s.produceMore(t, "t", "2") // what it has to do with the target
		return strings.Contains(scrape(t, address), "replicator_restarts_total{")
	})
	if end := stop(); !strings.HasPrefix(end, "exit code 0\n") {
		t.Error(end)
	}
	if err := s.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "run", "--config", s.file, "--until-caught-up"); code != exitDone {
		t.Fatal(stderr)
	}
	var rows string
	holder, err = pgx.Connect(t.Context(), s.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.QueryRow(t.Context(), "SELECT string_agg(id::text, ' ' ORDER BY id) FROM t").Scan(&rows); err != nil || rows != "1 2" {
		t.Errorf("rows %q, %v", rows, err)
	}
	if err := holder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestFencedProcessFails: another process has taken the pipeline over, and this one says so and does not start again.
func TestFencedProcessFails(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	define(t, s, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	s.produce(t, "t", "1")
	address := freeAddress(t)
	_, ended := background(t, "--config", s.file, "--set", "http.listen="+address)
	soon(t, "it runs", func() bool {
		return strings.Contains(scrape(t, address), `replicator_checkpoints_total{result="complete"} 1`)
	})
	if code, _, stderr := call(t, "run", "--config", s.file, "--until-caught-up"); code != exitDone {
		t.Fatal(stderr)
	}
	s.produceMore(t, "t", "2")
	select {
	case end := <-ended:
		if !strings.HasPrefix(end, "exit code 1\n") || !strings.Contains(end, "fenced by a later run of this pipeline") {
			t.Error(end)
		}
	case <-time.After(90 * time.Second):
		t.Fatal("it goes on for 90 s")
	}
}
