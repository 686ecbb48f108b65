package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/cmd/replicator/demo"
)

// asCommand makes the test's own binary the program.
const asCommand = "REPLICATOR_TEST_AS_COMMAND"

func init() {
	if os.Getenv(asCommand) != "" {
		main()
	}
}

// process is the program in a process of its own.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // read it when the process has ended
	done   chan struct{}
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asCommand+"=1")
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := p.cmd.Wait(); err != nil {
			p.stderr.WriteString(err.Error())
		}
		close(p.done)
	}()
	t.Cleanup(func() {
		if err := p.cmd.Process.Kill(); err == nil {
			<-p.done
		}
	})
	return p
}

// exitCode waits for the end and signals the process on every tick of signals until then.
func (p *process) exitCode(t *testing.T, signals <-chan time.Time) int {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		select {
		case <-p.done:
			return p.cmd.ProcessState.ExitCode()
		case <-signals:
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		case <-limit:
			t.Fatal("the process does not end")
		}
	}
}

func TestFirstSignalCutsALastCheckpoint(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	define(t, s, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	s.produce(t, "t", "1", "2")
	// No checkpoint is due for an hour: the signal alone cuts the one that holds the rows.
	p := start(t, "run", "--config", s.file, "--set", "checkpoint.interval=1h", "--set", "checkpoint.min_interval=1h")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 600 {
		code, stdout, _ := call(t, "checkpoints", "list", "--config", s.file)
		if code == exitDone && strings.Count(stdout, "\n") > 1 {
			break // it is running: the first start saved where it begins
		}
		<-tick.C
	}
	once := make(chan time.Time, 1)
	once <- time.Time{}
	if code := p.exitCode(t, once); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, p.stderr.String())
	}
	list := facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", s.file)
	if len(list) == 0 {
		t.Fatal("no checkpoint")
	}
	// Whatever was read by then is in the last checkpoint; a second run brings the rest, and no row twice.
	if code, _, stderr := call(t, "run", "--config", s.file, "--until-caught-up"); code != exitDone {
		t.Fatalf("second run: exit code %d\n%s", code, stderr)
	}
	rows := int64(0)
	for _, c := range facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", s.file) {
		rows += c.Rows
	}
	if rows != 2 {
		t.Errorf("%d rows in all checkpoints, want 2", rows)
	}
}

// TestSecondSignalEndsAtOnce: the last checkpoint waits for a lock that somebody holds; a second signal does not.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	define(t, s, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	s.produce(t, "t", "1")
	holder, err := pgx.Connect(t.Context(), s.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := holder.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	p := start(t, "run", "--config", s.file)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waiting := false; !waiting; <-tick.C {
		if err := holder.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if code := p.exitCode(t, tick.C); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d, want 143\n%s", code, p.stderr.String())
	}
}

// TestDemoLosesAndRepeatsNothing runs the whole demo.
func TestDemoLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := demo.Run(t.Context(), demo.Config{Command: []string{os.Args[0]}, Env: []string{asCommand + "=1"}, Out: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	verdict := regexp.MustCompile(`(?m)^(\d+) rows expected, (\d+) rows found, lost 0, repeated 0, in doubt 0; (\d+) kills with SIGKILL, (\d+) of them between prepare and commit$`)
	m := verdict.FindStringSubmatch(out.String())
	if m == nil || m[1] != m[2] || atoi(t, m[3]) < 5 || atoi(t, m[4]) < 2 {
		t.Errorf("verdict %q of\n%s", m, out.String())
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
