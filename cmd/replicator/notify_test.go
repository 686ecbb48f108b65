package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"replicator/checkpoint"
)

// serviceManager listens as systemd does, and returns the environment of a service.
func serviceManager(t *testing.T) (*net.UnixConn, func(string) (string, bool)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // the name of a socket may have 107 bytes, and a test's directory more
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return conn, env("NOTIFY_SOCKET", name)
}

func heard(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestServiceIsUpWhenRecoveryIsDoneAndTellsThatItStops(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	define(t, s, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	s.produce(t, "t", "1")
	conn, getenv := serviceManager(t)
	var log bytes.Buffer
	a := &app{stdout: &log, stderr: &log, getenv: getenv}
	c, err := loadConfig(s.file, nil, getenv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx, &c, &runFlags{}) }()
	got := heard(t, conn)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for rows := int64(0); rows == 0; {
		select {
		case err := <-ended:
			t.Fatalf("%v\n%s", err, log.String())
		case <-tick.C:
		}
		for _, c := range facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", s.file) {
			rows += c.Rows
		}
	}
	cancel()
	if want := "READY=1\nSTATUS=running from checkpoint 1 on, in epoch 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := heard(t, conn), "STOPPING=1\nSTATUS=cutting a last checkpoint"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
}

// TestFailuresAreToldInOneLineWithoutSecrets: a line more would be a message of its own.
func TestFailuresAreToldInOneLineWithoutSecrets(t *testing.T) {
	t.Parallel()
	conn, getenv := serviceManager(t)
	a := &app{getenv: getenv}
	p := checkpoint.Config{Failed: func(error) {}, Observe: func(checkpoint.Observation) {}}
	detach := a.manager(slog.New(slog.DiscardHandler)).attach(t.Context(), &p)
	defer detach()
	p.Failed(errors.New("postgres://u:geheim@h/d: away\nREADY=1" + strings.Repeat("x", 1000)))
	got := heard(t, conn)
	if strings.Contains(got, "\n") || strings.Contains(got, "geheim") || len(got) != notifyLine {
		t.Errorf("got %q", got)
	}
}

// TestServiceRunsOnWithoutAManagerThatHears: its socket is gone.
func TestServiceRunsOnWithoutAManagerThatHears(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := &app{getenv: env("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))}
	p := checkpoint.Config{}
	detach := a.manager(slog.New(slog.NewTextHandler(&log, nil))).attach(t.Context(), &p)
	detach()
	if !strings.Contains(log.String(), "the service manager cannot be told that the pipeline runs") {
		t.Errorf("got %q", log.String())
	}
}
