package mysql

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
	"replicator/txnsink/sinktest"
)

// fault is what happens once to a connection that sends marker, when it is armed.
type fault struct {
	marker []byte
	armed  atomic.Bool
	// sent is called when the server has the message, and may not have done it; nil: the server's answer is awaited.
	sent func()
}

// dyingConn passes everything on until the marker is sent, and breaks before the answer to that message is seen.
type dyingConn struct {
	net.Conn
	fault   *fault
	tripped bool
}

// SyscallConn lets the driver see that the server has closed an idle connection, as it does on a plain one.
func (c *dyingConn) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(*net.TCPConn).SyscallConn()
}

func (c *dyingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, c.fault.marker) && c.fault.armed.CompareAndSwap(true, false) {
		c.tripped = true
	}
	return c.Conn.Write(b)
}

func (c *dyingConn) Read(b []byte) (int, error) {
	if c.tripped && c.fault.sent != nil {
		c.fault.sent()
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Conn.Close())
	}
	n, err := c.Conn.Read(b)
	if c.tripped {
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Conn.Close())
	}
	return n, err
}

// faulty opens a sink whose connections suffer the fault.
func faulty(t *testing.T, c Config, f *fault) *Sink {
	t.Helper()
	driver, err := parseURL(c.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	driver.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &dyingConn{Conn: conn, fault: f}, err
	}
	plainSink := open(t, c)
	s, err := connect(t.Context(), plainSink.config, driver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const createPay = "CREATE TABLE IF NOT EXISTS pay (id int PRIMARY KEY, amt int CHECK (amt < 100)) ENGINE=InnoDB"

// payments returns statements that set the rows id: amt.
func payments(t *testing.T, s *Sink, rows ...[2]int64) []sqlgen.Statement {
	t.Helper()
	return sinktest.Payments(t, s, rows...)
}

// fence makes the table pay and fences an epoch.
func fence(t *testing.T, s *Sink, epoch int64) *Sink {
	t.Helper()
	if err := s.Define(t.Context(), txnsink.Definition{DDL: []string{createPay}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fence(t.Context(), s.config.Pipeline, epoch, 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// fenced opens a sink on url with the table pay, and fences epoch 1.
func fenced(t *testing.T, url string) *Sink {
	t.Helper()
	return fence(t, open(t, Config{URL: url, Pipeline: pipelineOf(url)}), 1)
}

// begun returns a transaction with rows applied.
func begun(t *testing.T, s *Sink, checkpoint int64, rows ...[2]int64) *txn {
	t.Helper()
	return sinktest.Begin(t, s, s.config.Pipeline, checkpoint, rows...).(*txn)
}

func prepared(t *testing.T, s *Sink, checkpoint int64, rows ...[2]int64) txnsink.ID {
	t.Helper()
	tx := begun(t, s, checkpoint, rows...)
	if err := tx.PreCommit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tx.ID()
}

func pendingIDs(t *testing.T, s *Sink) []txnsink.ID {
	t.Helper()
	return sinktest.Pending(t, s, s.config.Pipeline)
}

func wantRows(t *testing.T, url string, want ...string) {
	t.Helper()
	if got := query(t, url, "SELECT * FROM pay"); !slices.Equal(got, want) {
		t.Errorf("got rows %q, want %q", got, want)
	}
}

// suffering returns what the suite's tests of faults need.
func suffering(t *testing.T, c Config, f *fault) sinktest.Faulty {
	t.Helper()
	s := fence(t, faulty(t, c, f), 2)
	return sinktest.Faulty{
		Sink: s, Pipeline: c.Pipeline, Lose: func() { f.armed.Store(true) },
		Rows:    func(t *testing.T) []string { return query(t, c.URL, "SELECT * FROM pay") },
		Decides: !s.facts.detaches, // a session that holds what it prepared is given up for another one
	}
}

func TestLostAnswerToPrepareLeavesItToRecovery(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		suffering(t, Config{URL: url, Pipeline: pipelineOf(url)}, &fault{marker: []byte("XA PREPARE")}).LostAnswerToPrepare(t)
	})
}

func TestLostAnswerToCommitIsFoundCommitted(t *testing.T) {
	for name, c := range map[string]struct {
		marker            string
		inOneStep, noneXA bool
	}{
		"prepared": {marker: "XA COMMIT"}, "one step": {marker: "ONE PHASE", inOneStep: true}, "without XA": {marker: "COMMIT", inOneStep: true, noneXA: true},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, server *mysqlserver.Server) {
				url := newDatabase(t, server)
				config := Config{URL: url, Pipeline: pipelineOf(url), OnePhase: c.noneXA}
				suffering(t, config, &fault{marker: []byte(c.marker)}).LostAnswerToCommit(t, c.inOneStep)
			})
		})
	}
}

// onOwn runs a test on servers that it may kill; on MariaDB with and without a binary log, which the others have anyway.
func onOwn(t *testing.T, test func(t *testing.T, server *mysqlserver.Server)) {
	t.Helper()
	t.Parallel()
	for name, c := range map[string]mysqlserver.Config{
		"mysql9": {Kind: mysqlserver.MySQL9}, "mysql8": {Kind: mysqlserver.MySQL8}, "mariadb": {Kind: mysqlserver.MariaDB},
		"mariadb-binlog": {Kind: mysqlserver.MariaDB, Settings: map[string]string{"log-bin": "binlog", "server-id": "1", "binlog-format": "ROW"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, ownServer(t, c.Kind, c.Settings))
		})
	}
}

// TestServerMayDieAnywhere kills a server between the prepare and the commit, and between the commit and its answer.
func TestServerMayDieAnywhere(t *testing.T) {
	onOwn(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		f := &fault{marker: []byte("XA COMMIT")}
		s := fence(t, faulty(t, Config{URL: url, Pipeline: pipelineOf(url)}, f), 1)
		if err := begun(t, s, 1, [2]int64{1, 10}).Commit(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		id := prepared(t, s, 2, [2]int64{2, 20})
		unprepared := begun(t, s, 3, [2]int64{3, 30})
		restart := func() {
			t.Helper()
			if err := errors.Join(server.Kill(), server.Restart(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		restart()
		if err := unprepared.PreCommit(t.Context()); err == nil || txnsink.Permanent(err) {
			t.Errorf("prepare on a session that the crash ended: %v", err)
		}
		if err := unprepared.Abort(t.Context()); err != nil {
			t.Error(err)
		}
		if got := pendingIDs(t, s); !slices.Equal(got, []txnsink.ID{id}) {
			t.Fatalf("in doubt: %v", got)
		}
		if err := s.Fence(t.Context(), s.config.Pipeline, 2, 1); !errors.Is(err, txnsink.ErrBusy) {
			t.Errorf("fence while in doubt: %v", err)
		}
		for range 2 {
			if err := s.Commit(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		wantRows(t, url, "1|10", "2|20")

		// Its answer is lost, and the server with it.
		fence(t, s, 2)
		id = prepared(t, s, 3, [2]int64{3, 30})
		f.armed.Store(true)
		if err := s.Commit(t.Context(), id); err == nil && s.facts.detaches || txnsink.Permanent(err) {
			t.Errorf("commit without an answer: %v", err)
		}
		restart()
		if err := s.Commit(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		wantRows(t, url, "1|10", "2|20", "3|30")

		// The server dies in the midst of it: it may or may not have been done.
		fence(t, s, 3)
		id = prepared(t, s, 4, [2]int64{4, 40})
		f.sent = func() {
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
		}
		f.armed.Store(true)
		if err := s.Commit(t.Context(), id); err == nil || txnsink.Permanent(err) {
			t.Errorf("commit on a dying server: %v", err)
		}
		restart()
		if err := s.Commit(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		fence(t, s, 4)
		if err := begun(t, s, 5, [2]int64{5, 50}).Commit(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		wantRows(t, url, "1|10", "2|20", "3|30", "4|40", "5|50")
		if got := pendingIDs(t, s); got != nil {
			t.Errorf("in doubt: %v", got)
		}
	})
}
