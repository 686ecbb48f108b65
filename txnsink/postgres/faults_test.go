package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/postgres/pgserver"
	"replicator/txnsink/sinktest"
)

// dyingConn passes everything on until a message with the marker was sent. The server's answer to that one is read, so
// that the server has done it, and dropped with the connection.
type dyingConn struct {
	net.Conn
	marker  []byte
	armed   *atomic.Bool
	tripped bool
}

func (c *dyingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, c.marker) && c.armed.CompareAndSwap(true, false) {
		c.tripped = true
	}
	return c.Conn.Write(b)
}

func (c *dyingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.tripped {
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Conn.Close())
	}
	return n, err
}

// dying makes s lose the connection once, when it has sent marker. s must be new.
func dying(t *testing.T, s *Sink, marker string) *atomic.Bool {
	t.Helper()
	armed := &atomic.Bool{}
	s.mu.Lock()
	for _, c := range s.controls {
		closeConn(c)
	}
	s.controls = nil
	s.mu.Unlock()
	s.pg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &dyingConn{Conn: c, marker: []byte(marker), armed: armed}, err
	}
	return armed
}

// payments returns statements that set the rows id: amt.
func payments(t *testing.T, s *Sink, rows ...[2]int64) []sqlgen.Statement {
	t.Helper()
	return sinktest.Payments(t, s, rows...)
}

// fenced opens a sink on url with the table pay as ddl makes it, and fences epoch 1.
func fenced(t *testing.T, url, ddl string) *Sink {
	t.Helper()
	s := open(t, Config{URL: url, Pipeline: pipelineOf(url)})
	if err := s.Define(t.Context(), txnsink.Definition{DDL: []string{ddl}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fence(t.Context(), pipelineOf(url), 1, 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// pipelineOf names a pipeline after the database.
func pipelineOf(url string) string {
	return "p-" + url[strings.LastIndexByte(url, '/')+1:strings.IndexByte(url, '?')]
}

const createPay = "CREATE TABLE IF NOT EXISTS pay (id int PRIMARY KEY, amt int CHECK (amt < 100))"

// begun returns a transaction with rows applied.
func begun(t *testing.T, s *Sink, checkpoint int64, rows ...[2]int64) txnsink.Txn {
	t.Helper()
	return sinktest.Begin(t, s, s.config.Pipeline, checkpoint, rows...)
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

// suffering returns what the suite's tests of faults need, of a connection that is lost when it has sent marker.
func suffering(t *testing.T, marker string) sinktest.Faulty {
	t.Helper()
	url := newDatabase(t)
	fenced(t, url, createPay)
	s := open(t, Config{URL: url, Pipeline: pipelineOf(url)})
	armed := dying(t, s, marker)
	if err := s.Fence(t.Context(), s.config.Pipeline, 2, 1); err != nil {
		t.Fatal(err)
	}
	return sinktest.Faulty{
		Sink: s, Pipeline: s.config.Pipeline, Lose: func() { armed.Store(true) },
		Rows: func(t *testing.T) []string { return query(t, url, "SELECT * FROM pay") },
	}
}

func TestLostAnswerToPrepareLeavesItToRecovery(t *testing.T) {
	t.Parallel()
	suffering(t, "PREPARE TRANSACTION").LostAnswerToPrepare(t)
}

// TestLostProbeIsTriedAgain: a connection that is lost in the two-phase probe passes, and what it left prepared goes.
func TestLostProbeIsTriedAgain(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := open(t, Config{URL: url, Pipeline: "p"})
	dying(t, s, "PREPARE TRANSACTION").Store(true)
	if _, err := s.CheckTwoPhase(t.Context()); err == nil || txnsink.Permanent(err) {
		t.Fatalf("CheckTwoPhase = %v, want an error that passes", err)
	}
	if _, err := s.CheckTwoPhase(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLostAnswerToCommitIsFoundCommitted(t *testing.T) {
	t.Parallel()
	for name, inOneStep := range map[string]bool{"COMMIT PREPARED": false, "COMMIT": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suffering(t, name).LostAnswerToCommit(t, inOneStep)
		})
	}
}

func TestPreparedSurvivesKillOfTheServer(t *testing.T) {
	t.Parallel()
	own, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	url := own.URL("postgres")
	if err := Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	s := fenced(t, url, createPay)
	if err := begun(t, s, 1, [2]int64{1, 10}).Commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	txn := begun(t, s, 2, [2]int64{2, 20})
	if err := txn.PreCommit(t.Context()); err != nil {
		t.Fatal(err)
	}
	unprepared := begun(t, s, 3, [2]int64{3, 30})
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unprepared.PreCommit(t.Context()); err == nil || txnsink.Permanent(err) {
		t.Errorf("prepare on a killed server: %v", err)
	}
	if err := unprepared.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Commit(t.Context(), txn.ID()); err == nil || txnsink.Permanent(err) {
		t.Errorf("commit on a killed server: %v", err)
	}
	if err := own.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := pendingIDs(t, s); !slices.Equal(got, []txnsink.ID{txn.ID()}) {
		t.Fatalf("in doubt: %v", got)
	}
	if err := s.Fence(t.Context(), s.config.Pipeline, 2, 1); !errors.Is(err, txnsink.ErrBusy) {
		t.Errorf("fence while in doubt: %v", err)
	}
	for range 2 {
		if err := s.Commit(t.Context(), txn.ID()); err != nil {
			t.Fatal(err)
		}
	}
	wantRows(t, url, "1|10", "2|20")
	if err := s.Fence(t.Context(), s.config.Pipeline, 2, 1); err != nil {
		t.Fatal(err)
	}
	if err := begun(t, s, 3, [2]int64{3, 30}).Commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantRows(t, url, "1|10", "2|20", "3|30")
}

// A worker's session that somebody ended, with no later epoch at work, is a failure that passes.
func TestEndedSessionIsNoFence(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, createPay)
	txn := begun(t, s, 1, [2]int64{1, 10})
	query(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "+literal(workerName(s.config.Pipeline, 1, 0)))
	if err := txn.PreCommit(t.Context()); err == nil || txnsink.Permanent(err) {
		t.Errorf("prepare on an ended session: %v", err)
	}
	if err := txn.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if err := begun(t, s, 1, [2]int64{1, 11}).Commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantRows(t, url, "1|11")
}

// PREPARE TRANSACTION and COMMIT answer ROLLBACK, without an error, in a transaction that failed and where there is none.
func TestTagOfAFailedTransactionIsAnError(t *testing.T) {
	t.Parallel()
	s := fenced(t, newDatabase(t), createPay)
	for _, sql := range []string{"PREPARE TRANSACTION 'x'", "COMMIT"} {
		tag := strings.TrimSuffix(sql, " 'x'")
		err := s.control(t.Context(), func(c *pgx.Conn) error {
			if err := c.PgConn().Exec(t.Context(), "BEGIN").Close(); err != nil {
				return err
			}
			if err := c.PgConn().Exec(t.Context(), "SELECT 1/0").Close(); err == nil {
				return errors.New("1/0 is a number")
			}
			return simple(t.Context(), c.PgConn(), sql, tag)
		})
		var want *tagError
		if !errors.As(err, &want) || want.got != "ROLLBACK" {
			t.Errorf("%s: got %v", sql, err)
		}
	}
}

func TestCheckViolationNamesTheRowAndHoldsNoValue(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, createPay)
	txn := begun(t, s, 1, [2]int64{1, 10})
	var rows [][2]int64
	for i := range int64(500) {
		rows = append(rows, [2]int64{i + 10, 1})
	}
	rows[321][1] = 987654
	err := txn.Apply(t.Context(), payments(t, s, rows...))
	var row *sqlgen.RowError
	if !errors.As(err, &row) || row.Class != sqlgen.CheckViolation || row.Origin.Offset != 321 || row.Origin.Key != "id=331" {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "987654") {
		t.Errorf("the value is in %v", err)
	}
	if err := txn.PreCommit(t.Context()); err == nil {
		t.Error("prepared after an error")
	}
	if err := txn.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	wantRows(t, url)
	if got := pendingIDs(t, s); got != nil {
		t.Errorf("in doubt: %v", got)
	}
}

// The round trip in which a row is refused is tried again without the ones before it.
func TestRowIsFoundInALaterRoundTrip(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, createPay)
	txn := begun(t, s, 1, [2]int64{1, 1})
	small := payments(t, s, [2]int64{2, 2})
	huge := payments(t, s, [2]int64{3, 3})[0]
	huge.Args = append([]any{sqlgen.Array{Data: make([]byte, maxSend+1)}}, huge.Args...)
	if n := sendable([]sqlgen.Statement{small[0], huge, huge, small[0]}); n != 1 {
		t.Errorf("%d statements in the first round trip, want 1", n)
	}
	if n := sendable([]sqlgen.Statement{huge, small[0]}); n != 1 {
		t.Errorf("%d statements in the round trip of a huge one, want 1", n)
	}
	batch := slices.Concat(small, payments(t, s, [2]int64{4, 4}, [2]int64{5, 5}), payments(t, s, [2]int64{6, 6}, [2]int64{7, 700}))
	err := txn.Apply(t.Context(), batch)
	var row *sqlgen.RowError
	if !errors.As(err, &row) || row.Origin.Key != "id=7" {
		t.Fatalf("got %v", err)
	}
	if err := txn.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPreparedStatementsAreBounded(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, createPay)
	tx := begun(t, s, 1, [2]int64{1, 1})
	var batch []sqlgen.Statement
	for i := range maxStatements + 10 {
		st := payments(t, s, [2]int64{1, int64(i % 10)})[0]
		st.SQL += strings.Repeat(" ", 1+i)
		batch = append(batch, st)
	}
	if err := tx.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := tx.Apply(t.Context(), payments(t, s, [2]int64{1, 9})); err != nil {
		t.Fatal(err)
	}
	session := tx.(*txn).session
	var n int64
	if err := session.conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n > maxStatements+1 || int(n) < len(session.statements) {
		t.Errorf("%d statements are prepared, and %d known", n, len(session.statements))
	}
	if err := tx.Commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}
