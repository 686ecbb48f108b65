package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"replicator/migrations"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/postgres/pgserver"
)

// as returns the URL for another role, which it makes: one that may log in and use the public schema.
func as(t *testing.T, database, role string) string {
	t.Helper()
	query(t, database, "CREATE ROLE "+role+" LOGIN; GRANT ALL ON SCHEMA public TO "+role)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

const grantOwn = "GRANT USAGE ON SCHEMA replicator TO %[1]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA replicator TO %[1]s"

func TestOwnTablesMayBeMadeBySeveralProcessesAtOnce(t *testing.T) {
	t.Parallel()
	if err := server.CreateDatabase(t.Context(), "migrated"); err != nil {
		t.Fatal(err)
	}
	u := server.URL("migrated")
	before, err := Status(t.Context(), u)
	if want := (migrations.State{Current: 0, Latest: 4}); err != nil || before != want {
		t.Errorf("before: got %+v, %v, want %+v", before, err, want)
	}
	if got := query(t, u, "SELECT nspname FROM pg_namespace WHERE nspname = 'replicator'"); got != nil {
		t.Error("looking has made the schema")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := Up(t.Context(), u); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	after, err := Status(t.Context(), u)
	if want := (migrations.State{Current: 4, Latest: 4}); err != nil || after != want {
		t.Errorf("after: got %+v, %v, want %+v", after, err, want)
	}
	query(t, u, "UPDATE replicator.schema_migrations SET version = 99")
	if err := Up(t.Context(), u); err == nil || !txnsink.Permanent(err) {
		t.Errorf("tables of a later version: %v", err)
	}
}

func TestOwnTablesNeedNoRightsWhenTheyAreThere(t *testing.T) {
	t.Parallel()
	u := newDatabase(t)
	poor := as(t, u, "poor")
	query(t, u, fmt.Sprintf(grantOwn, "poor"))
	if err := Up(t.Context(), poor); err != nil {
		t.Error(err)
	}
	if err := server.CreateDatabase(t.Context(), "bare"); err != nil {
		t.Fatal(err)
	}
	bare := strings.Replace(poor, u[strings.LastIndexByte(u, '/'):], "/bare?", 1)
	if err := Up(t.Context(), bare); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "grant") {
		t.Errorf("without tables and rights: %v", err)
	}
	s := open(t, Config{URL: bare, Pipeline: "p"})
	if err := s.Fence(t.Context(), "p", 1, 1); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("fence without tables: %v", err)
	}
}

func TestDeferredConstraintFailsThePrepare(t *testing.T) {
	t.Parallel()
	u := newDatabase(t)
	query(t, u, `CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE pay (id int PRIMARY KEY, amt int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
	role := as(t, u, "deferred")
	query(t, u, fmt.Sprintf(grantOwn, "deferred")+"; GRANT ALL ON parent, pay TO deferred")
	for _, c := range []struct {
		url     string
		refused bool
	}{{role, true}, {u, false}} {
		s := fenced(t, c.url, "SELECT 1")
		if s.FiresTriggers() != c.refused {
			t.Errorf("fires triggers: %v", s.FiresTriggers())
		}
		txn := begun(t, s, 1, [2]int64{1, 10})
		err := txn.PreCommit(t.Context())
		var row *sqlgen.RowError
		if !c.refused {
			if err != nil {
				t.Error(err)
			}
			if err := s.Commit(t.Context(), txn.ID()); err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.As(err, &row) || row.Class != sqlgen.ForeignKey || row.Table != (schema.Name{Schema: "public", Table: "pay"}) {
			t.Errorf("got %v", err)
		}
		if got := pendingIDs(t, s); got != nil {
			t.Errorf("in doubt: %v", got)
		}
		if err := txn.Abort(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestOnlyTheOwnerDecides(t *testing.T) {
	t.Parallel()
	u := newDatabase(t)
	txn := begun(t, fenced(t, u, createPay), 1, [2]int64{1, 1})
	if err := txn.PreCommit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{URL: as(t, u, "stranger"), Pipeline: pipelineOf(u)})
	for name, decide := range map[string]func(context.Context, txnsink.ID) error{"commit": s.Commit, "abort": s.Abort} {
		if err := decide(t.Context(), txn.ID()); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "role") {
			t.Errorf("%s by a stranger: %v", name, err)
		}
	}
	elsewhere := open(t, Config{URL: newDatabase(t), Pipeline: pipelineOf(u)})
	if err := elsewhere.Commit(t.Context(), txn.ID()); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "database") {
		t.Errorf("commit in another database: %v", err)
	}
	if got := pendingIDs(t, elsewhere); got != nil {
		t.Errorf("another database lists %v", got)
	}
}

func TestPrepareOnAServerWithoutItSaysWhatToSet(t *testing.T) {
	t.Parallel()
	plainServer, err := pgserver.Start(t.Context(), pgserver.Config{MaxPreparedTransactions: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plainServer.Stop(); err != nil {
			t.Error(err)
		}
	})
	u := plainServer.URL("postgres")
	if err := Up(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	s := fenced(t, u, createPay)
	_, checkErr := s.CheckTwoPhase(t.Context())
	txn := begun(t, s, 1, [2]int64{1, 1})
	for name, err := range map[string]error{"check": checkErr, "prepare": txn.PreCommit(t.Context())} {
		if err == nil || !txnsink.Permanent(err) {
			t.Fatalf("%s: got %v", name, err)
		}
		for _, word := range []string{"max_prepared_transactions", "restart", "one-phase"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not in %v", name, word, err)
			}
		}
	}
	if err := txn.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if err := begun(t, s, 1, [2]int64{1, 1}).Commit(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestTwoPhaseIsProbed(t *testing.T) {
	t.Parallel()
	s := fenced(t, newDatabase(t), createPay)
	got, err := s.CheckTwoPhase(t.Context())
	if err != nil || got.Max != 100 || got.Free() < 1 || got.Free() > 100 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestTooFewPreparedTransactionsAreRefused before any work is done, although one could be prepared.
func TestTooFewPreparedTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	if err := (TwoPhase{Max: 1, Used: 1}).Enough(1); err != nil {
		t.Errorf("one worker, one slot: %v", err)
	}
	err := TwoPhase{Max: 1}.Enough(2)
	if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "(max_prepared_transactions), and 2 workers") {
		t.Errorf("two workers, one slot: %v", err)
	}
}

// What the role or the database have for defaults must not reach the data path.
func TestSessionsIgnoreDefaults(t *testing.T) {
	t.Parallel()
	u := newDatabase(t)
	name := u[strings.LastIndexByte(u, '/')+1 : strings.IndexByte(u, '?')]
	for setting, value := range map[string]string{
		"timezone": "'Asia/Tokyo'", "datestyle": "'SQL, DMY'", "intervalstyle": "'iso_8601'", "bytea_output": "'escape'",
		"standard_conforming_strings": "off", "statement_timeout": "'1h'", "idle_in_transaction_session_timeout": "'1h'",
		"default_transaction_isolation": "'serializable'", "default_transaction_read_only": "on", "synchronous_commit": "off",
		"lock_timeout": "'1h'",
	} {
		query(t, u, fmt.Sprintf("SET transaction_read_only = off; ALTER DATABASE %s SET %s = %s", name, setting, value))
	}
	s := open(t, Config{URL: u, Pipeline: "defaults"})
	got := make(map[string]string)
	want := map[string]string{
		"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "bytea_output": "hex",
		"standard_conforming_strings": "on", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0",
		"transaction_isolation": "read committed", "transaction_read_only": "off", "synchronous_commit": "on",
		"lock_timeout": "10s", "session_replication_role": "replica", "client_encoding": "UTF8", "extra_float_digits": "1",
		"application_name": "replicator:defaults",
	}
	err := s.control(t.Context(), func(c *pgx.Conn) error {
		for setting := range want {
			var value string
			if err := c.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&value); err != nil {
				return err
			}
			got[setting] = value
		}
		return nil
	})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
}

func TestErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"postgres://u:sesame@127.0.0.1:1/d?sslmode=disable", "postgres://u:sesame@127.0.0.1:x/d",
		strings.Replace(server.URL("there_is_none"), "postgres@", "postgres:sesame@", 1),
	} {
		if _, err := Open(t.Context(), Config{URL: u, Pipeline: "p"}); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("got %v", err)
		}
	}
}

func TestServerErrorsHoldNoValues(t *testing.T) {
	t.Parallel()
	for _, e := range []pgconn.PgError{
		{Code: "22P02", Message: `invalid input value for enum mood: "sesame"`},
		{Code: "22003", Message: `value "sesame" is out of range for type integer`},
		{Code: "22007", Message: `invalid input syntax for type date: "ses"ame"`},
		{Code: "22021", Message: `invalid byte sequence for encoding "UTF8": 0xsesame`},
		{Code: "23505", Message: `duplicate key value violates unique constraint "k"`, Detail: "Key (id)=(sesame) already exists."},
		{Code: "P0001", Message: `sesame is refused`},
	} {
		for _, err := range []error{Plain(&e), rowError(&e, schema.Name{}, sqlgen.Origin{})} {
			if strings.Contains(err.Error(), "ame") || !strings.Contains(err.Error(), e.Code) {
				t.Errorf("got %v", err)
			}
		}
	}
	if err := Plain(fmt.Errorf("read: %w", context.Canceled)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not the cancellation that it was", err)
	}
	if err := Plain(&pgconn.PgError{Code: codePrivilege, Message: "permission denied for table t"}); !txnsink.Permanent(err) {
		t.Errorf("%v is not permanent", err)
	}
}

// TestFullTableOfLocksSaysWhatToRaise: a checkpoint that changes thousands of tables meets it, and PREPARE has the same code.
func TestFullTableOfLocksSaysWhatToRaise(t *testing.T) {
	t.Parallel()
	full := &pgconn.PgError{Code: codeOutOfMemory, Message: "out of shared memory"}
	if err := Plain(full); txnsink.Permanent(err) || !strings.Contains(err.Error(), "max_locks_per_transaction") {
		t.Errorf("got %v", err)
	}
	if err := endError(full); txnsink.Permanent(err) || !strings.Contains(err.Error(), "max_prepared_transactions") || strings.Contains(err.Error(), "max_locks") {
		t.Errorf("got %v", err)
	}
}

// TestOwnTablesAreNoTargets, whatever the source calls its tables.
func TestOwnTablesAreNoTargets(t *testing.T) {
	t.Parallel()
	u := newDatabase(t)
	s := open(t, Config{URL: u, Pipeline: pipelineOf(u)})
	define := func(s *Sink, name schema.Name) error {
		return s.Define(t.Context(), txnsink.Definition{Pipeline: "p", Defined: []txnsink.Defined{{Source: "d.t", Target: name, State: "{}"}}})
	}
	if err := define(s, schema.Name{Schema: "replicator", Table: "anything"}); !txnsink.Permanent(err) || !strings.Contains(err.Error(), "target.table") {
		t.Errorf("in the own schema: %v", err)
	}
	if err := define(s, schema.Name{Table: "witness"}); err != nil {
		t.Errorf("in another: %v", err)
	}
	at := "?"
	if strings.Contains(u, "?") {
		at = "&"
	}
	home := open(t, Config{URL: u + at + "search_path=replicator", Pipeline: pipelineOf(u)})
	if err := define(home, schema.Name{Table: "witness"}); !txnsink.Permanent(err) {
		t.Errorf("in the own schema, by the search_path: %v", err)
	}
	if err := define(home, schema.Name{Table: "customers"}); err != nil {
		t.Errorf("beside the own tables: %v", err)
	}
}
