// Package mysqlserver runs private MySQL and MariaDB servers for tests.
//
// The server's programs must be on this machine: see [Kind] for where they are looked for. A server listens on a free port
// of 127.0.0.1 alone, lets everyone in who reaches it as root without a password, and keeps its files in a directory of
// its own that [Server.Stop] removes. A server whose starter is gone without that ends, and its files go.
package mysqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/txnsink/tether"
)

// Kind is a server to test on. `e2e/lab/lab install-servers` installs all of them; the environment variables
// REPLICATOR_TEST_MYSQL9, REPLICATOR_TEST_MYSQL8 and REPLICATOR_TEST_MARIADB name other programs.
type Kind string

// The kinds.
const (
	MySQL9  Kind = "mysql9"
	MySQL8  Kind = "mysql8" // 8.0
	MariaDB Kind = "mariadb"
)

// Kinds returns every kind.
func Kinds() []Kind { return []Kind{MySQL9, MySQL8, MariaDB} }

const (
	startTimeout = 60 * time.Second // from the start of the server's process to its first answer
	stopTimeout  = 30 * time.Second // from a signal to the end of its process
	pollInterval = 20 * time.Millisecond
	logTail      = 2000 // bytes of the server's log that an error shows
	portTries    = 5
)

// Config is how a server is started.
type Config struct {
	Kind     Kind
	Dir      string            // where the server's directory is made; empty: the system's temporary directory
	Durable  bool              // sync the logs at each commit, which preflight asks for; without, a killed server still keeps what it acknowledged
	Settings map[string]string // more of the server's options, without the leading --
}

// Server is a running (or killed) server. Its methods are called by one goroutine, except URL and CreateDatabase.
type Server struct {
	kind    Kind
	program string
	dir     string
	tether  *tether.Tether // of dir, and of the process
	port    int
	args    []string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended and was waited for
	err     error         // of waiting, once done is closed
}

// Start starts a server with no databases of a user. ctx bounds the start alone.
func Start(ctx context.Context, c Config) (*Server, error) {
	program, err := find(c.Kind)
	if err != nil {
		return nil, err
	}
	clean, err := template(ctx, c.Kind, program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "replicator-mysql-")
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	s := &Server{kind: c.Kind, program: program, dir: dir, args: c.options()}
	if s.tether, err = tether.Hold(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := os.CopyFS(s.data(), os.DirFS(clean)); err != nil {
		return nil, errors.Join(fmt.Errorf("copy the data directory: %w", err), s.remove())
	}
	for range portTries {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.run(ctx); err == nil {
			return s, nil
		}
		if !strings.Contains(err.Error(), "ddress already in use") {
			break
		}
	}
	return nil, errors.Join(err, s.remove())
}

// remove removes the files of a server that does not run.
func (s *Server) remove() error { return errors.Join(os.RemoveAll(s.dir), s.tether.Release()) }

// options returns c as arguments of the server.
func (c Config) options() []string {
	set := map[string]string{
		"bind-address":                   "127.0.0.1",
		"skip-name-resolve":              "ON",
		"max-connections":                "300",
		"innodb-buffer-pool-size":        "64M",
		"innodb-flush-log-at-trx-commit": "2",
		"sync-binlog":                    "0",
		"performance-schema":             "OFF",
	}
	if c.Kind == MariaDB {
		set["innodb-log-file-size"] = "16M"
	} else {
		set["mysqlx"] = "OFF"
		set["server-id"] = "1" // the binary log is on, as these servers have it by default
	}
	if c.Durable {
		set["innodb-flush-log-at-trx-commit"], set["sync-binlog"] = "1", "1"
	}
	for k, v := range c.Settings {
		set[k] = v
	}
	var args []string
	for k, v := range set {
		args = append(args, "--"+k+"="+v)
	}
	slices.Sort(args)
	return append(args, userArgs()...)
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }
func (s *Server) socket() string  { return filepath.Join(s.dir, "sock") }

// run starts the server's process and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	// What a killed server leaves behind would be taken for a running one, should its process id be in use again.
	for _, left := range []string{s.socket(), s.socket() + ".lock"} {
		if err := os.Remove(left); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// A tmpdir of its own: a server of MariaDB that starts deletes the temporary tables that it finds there.
	args := []string{"--datadir=" + s.data(), "--tmpdir=" + s.dir, "--socket=" + s.socket(), "--pid-file=" + filepath.Join(s.dir, "pid"), "--port=" + strconv.Itoa(s.port)}
	if s.kind == MariaDB {
		args = append([]string{"--no-defaults"}, args...)
	}
	cmd := exec.Command(s.program, append(args, s.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	ownGroup(cmd)
	s.tether.Tie(cmd)
	err = cmd.Start()
	if closeErr := log.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", s.program, err)
	}
	s.watch(cmd)
	if err := s.ready(ctx); err != nil {
		return errors.Join(fmt.Errorf("%s in %s did not start: %w; its log ends with: %s", s.kind, s.dir, err, s.tail()), s.Kill())
	}
	return nil
}

// watch waits for cmd in the background.
func (s *Server) watch(cmd *exec.Cmd) {
	s.cmd, s.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		err := cmd.Wait()
		// How it ended is of no interest: by a signal, mostly, and its log says the rest.
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = nil
		}
		s.err = errors.Join(err, s.tether.Untie())
	}(s.done)
}

// ready waits until the server answers.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db, err := s.open("")
	if err != nil {
		return err
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return db.Close()
		}
		select {
		case <-s.done:
			return errors.Join(errors.New("its process has ended"), db.Close())
		case <-ctx.Done():
			return errors.Join(err, db.Close())
		case <-tick.C:
		}
	}
}

// open returns a pool that has not connected yet.
func (s *Server) open(database string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), database
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// tail returns the end of the server's log.
func (s *Server) tail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-logTail):]))
}

// Kind returns what was started.
func (s *Server) Kind() Kind { return s.kind }

// URL returns a database's URL for root, as target.url takes it: mysql:// or mariadb://.
func (s *Server) URL(database string) string {
	scheme := "mysql"
	if s.kind == MariaDB {
		scheme = "mariadb"
	}
	u := url.URL{Scheme: scheme, User: url.User("root"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + database}
	return u.String()
}

// CreateDatabase creates an empty database. It may be called by several goroutines.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE DATABASE `"+strings.ReplaceAll(name, "`", "``")+"` CHARACTER SET utf8mb4")
	if err != nil {
		err = fmt.Errorf("create database %s: %w", name, err)
	}
	return errors.Join(err, db.Close())
}

// Kill ends the server's process at once, as a crash does, and returns when it is gone.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Signal sends the server's process a signal: SIGSTOP, with which it holds still and keeps its connections, and SIGCONT.
func (s *Server) Signal(signal os.Signal) error {
	if err := s.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("signal the server's process: %w", err)
	}
	return nil
}

// Restart starts the server after Kill, or stops it first. Its port stays.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.end(syscall.SIGTERM); err != nil {
		return err
	}
	return s.run(ctx)
}

// Stop ends the server and removes its files.
func (s *Server) Stop() error {
	return errors.Join(s.Kill(), s.remove()) // nothing is kept that a slow shutdown would save
}

// end sends a signal and waits until the process is gone.
func (s *Server) end(signal syscall.Signal) error {
	select {
	case <-s.done:
		return s.err
	default:
	}
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal the server's process: %w", err)
	}
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-s.done:
		return s.err
	case <-limit.C:
		return fmt.Errorf("process %d of %s does not end", s.cmd.Process.Pid, s.kind)
	}
}

// freePort returns a port of 127.0.0.1 that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
