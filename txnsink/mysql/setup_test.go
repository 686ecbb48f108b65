package mysql

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/migrations"
	"replicator/schema"
	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
)

// as returns the URL for another user, which it makes with what grants give.
func as(t *testing.T, database, user string, grants ...string) string {
	t.Helper()
	statements := []string{fmt.Sprintf("CREATE USER '%s'@'127.0.0.1' IDENTIFIED BY 'sesame'", user)}
	for _, g := range grants {
		statements = append(statements, fmt.Sprintf("GRANT %s TO '%s'@'127.0.0.1'", g, user))
	}
	execute(t, database, statements...)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "sesame")
	return u.String()
}

func TestOwnTablesMayBeMadeBySeveralProcessesAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		if err := server.CreateDatabase(t.Context(), "migrated"); err != nil {
			t.Fatal(err)
		}
		u := server.URL("migrated")
		before, err := Status(t.Context(), u, nil)
		if want := (migrations.State{Current: 0, Latest: 2}); err != nil || before != want {
			t.Errorf("before: got %+v, %v, want %+v", before, err, want)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := Up(t.Context(), u, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		after, err := Status(t.Context(), u, nil)
		if want := (migrations.State{Current: 2, Latest: 2}); err != nil || after != want {
			t.Errorf("after: got %+v, %v, want %+v", after, err, want)
		}
		// A crash in the midst of it: some tables, and no version.
		execute(t, u, "DELETE FROM replicator_schema_migrations", "DROP TABLE replicator_witness")
		if err := Up(t.Context(), u, nil); err != nil {
			t.Error(err)
		}
		if got := query(t, u, "SELECT count(*) FROM replicator_witness"); !reflect.DeepEqual(got, []string{"0"}) {
			t.Errorf("got %v", got)
		}
		execute(t, u, "UPDATE replicator_schema_migrations SET version = 99")
		if err := Up(t.Context(), u, nil); err == nil || !txnsink.Permanent(err) {
			t.Errorf("tables of a later version: %v", err)
		}
	})
}

func TestMissingGrantsAreNamed(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		u := newDatabase(t, server)
		database := strings.TrimPrefix(pipelineOf(u), "p-")
		poor := as(t, u, "poor", "SELECT, INSERT, UPDATE, DELETE ON "+database+".*")
		if err := Up(t.Context(), poor, nil); err != nil {
			t.Errorf("own tables that are there: %v", err)
		}
		s := open(t, Config{URL: poor, Pipeline: "poor"})
		_, err := s.CheckTwoPhase(t.Context())
		if server.Kind() == mysqlserver.MariaDB {
			if err != nil {
				t.Error(err)
			}
		} else if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "XA_RECOVER_ADMIN") || !strings.Contains(err.Error(), "one-phase") {
			t.Errorf("without XA_RECOVER_ADMIN: %v", err)
		}
		if got, err := open(t, Config{URL: poor, Pipeline: "poor", OnePhase: true}).Pending(t.Context(), "poor"); err != nil || len(got) > 0 {
			t.Errorf("in one phase, without XA_RECOVER_ADMIN: %v, error %v", got, err)
		}
		if err := server.CreateDatabase(t.Context(), "bare_"+database); err != nil {
			t.Fatal(err)
		}
		bare := open(t, Config{URL: strings.Replace(u, "/"+database, "/bare_"+database, 1), Pipeline: "p"})
		if err := bare.Fence(t.Context(), "p", 1, 1); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "migrate up") {
			t.Errorf("fence without tables: %v", err)
		}
		_, err = Open(t.Context(), Config{URL: strings.Replace(poor, "sesame", "wrong", 1), Pipeline: "p"})
		if err == nil || !txnsink.Permanent(err) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("a wrong password: %v", err)
		}
		_, err = Open(t.Context(), Config{URL: u + "none", Pipeline: "p"})
		if err == nil || !txnsink.Permanent(err) {
			t.Errorf("a database that is not there: %v", err)
		}
	})
}

func TestTwoPhaseIsProbed(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		f := &fault{marker: []byte("XA PREPARE")}
		s := faulty(t, Config{URL: url, Pipeline: "probed"}, f)
		f.armed.Store(true)
		if _, err := s.CheckTwoPhase(t.Context()); err == nil || txnsink.Permanent(err) {
			t.Errorf("a probe whose connection is lost: %v, want an error that passes", err)
		}
		two, err := s.CheckTwoPhase(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// The tests' servers do not sync their logs.
		warnings := strings.Join(two.Warnings, "\n")
		if logged := server.Kind() != mysqlserver.MariaDB; !strings.Contains(warnings, "innodb_flush_log_at_trx_commit is 2") || strings.Contains(warnings, "sync_binlog is 0") != logged {
			t.Errorf("got warnings %q", two.Warnings)
		}
		listed, err := s.recover(t.Context())
		for _, x := range listed {
			if x.gtrid == probeGtrid && strings.HasPrefix(x.bqual, s.database+hash("probed")) {
				t.Errorf("the probe has left %q", x)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func TestServersThatLosePreparedTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	own := ownServer(t, mysqlserver.MySQL8, map[string]string{"binlog-format": "STATEMENT"})
	if err := Up(t.Context(), own.URL("mysql"), nil); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "binlog_format") {
		t.Errorf("own tables: %v", err)
	}
	s := open(t, Config{URL: own.URL("mysql"), Pipeline: "p"})
	for number, word := range map[int]string{s.facts.number: "binlog_format", 80028: "8.0.30"} {
		s.facts.number = number
		if _, err := s.CheckTwoPhase(t.Context()); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), word) {
			t.Errorf("version %d: got %v", number, err)
		}
	}
	execute(t, own.URL("mysql"), "SET GLOBAL binlog_format = ROW")
	s.facts.number = 80031
	if two, err := s.CheckTwoPhase(t.Context()); err != nil || len(two.Warnings) != 0 {
		t.Errorf("got %+v, %v", two, err)
	}
}

// What the server has for defaults must not reach the data path.
func TestSessionsIgnoreDefaults(t *testing.T) {
	t.Parallel()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			settings := map[string]string{
				"sql-mode": "ANSI,NO_BACKSLASH_ESCAPES,NO_ZERO_DATE", "default-time-zone": "+05:00", "transaction-isolation": "SERIALIZABLE",
				"autocommit": "OFF", "innodb-lock-wait-timeout": "1000", "wait-timeout": "60", "character-set-server": "latin1",
			}
			own := ownServer(t, kind, settings)
			url := newDatabase(t, own)
			s := fenced(t, url)
			tx := begun(t, s, 1, [2]int64{1, 10})
			isolation := "@@transaction_isolation"
			if kind == mysqlserver.MariaDB {
				isolation = "@@tx_isolation"
			}
			var got string
			err := tx.session.conn.QueryRowContext(t.Context(), `SELECT CONCAT_WS('|', @@sql_mode, @@time_zone, `+isolation+`, @@autocommit + 0,
	@@innodb_lock_wait_timeout, @@lock_wait_timeout, @@wait_timeout, @@foreign_key_checks + 0, @@unique_checks + 0, @@character_set_client, @@character_set_results)`).Scan(&got)
			want := "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION|+00:00|READ-COMMITTED|1|10|10|28800|0|1|utf8mb4|utf8mb4"
			if err != nil || sorted(got) != sorted(want) {
				t.Errorf("got  %v, %v\nwant %v", got, err, want)
			}
			id := tx.ID()
			if err := tx.PreCommit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			wantRows(t, url, "1|10")
		})
	}
}

// sorted returns the words of the first of the values in an order that does not depend on the server's.
func sorted(s string) string {
	mode, rest, _ := strings.Cut(s, "|")
	set := map[string]bool{}
	for m := range strings.SplitSeq(mode, ",") {
		set[m] = true
	}
	return fmt.Sprint(set, rest)
}

// TestASilentServerIsNotWaitedForForEver: PostgreSQL, say, waits for the client to speak first.
func TestASilentServerIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // the system accepts connections, and nobody speaks
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config, err := parseURL("mysql://u:secret@"+l.Addr().String()+"/d", nil)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = connector{Connector: inner, greeting: 50 * time.Millisecond}.Connect(t.Context())
	if want := "no session began within 50ms: is it MySQL or MariaDB that listens there?"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestURLsAreReadStrictly(t *testing.T) {
	t.Parallel()
	c, err := parseURL("mariadb://us%40er:p%2Fw@[::1]/d", nil)
	if err != nil || c.User != "us@er" || c.Passwd != "p/w" || c.Addr != "[::1]:3306" || c.DBName != "d" {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, u := range []string{
		"mysql://u:sesame@h/d?tls=skip-verify", "mysql://u:sesame@h/d?sslmode=require", "mysql://u:sesame@h/", "mysql://u:sesame@h", "mysql://u:sesame@/d",
		"postgres://u:sesame@h/d", "mysql://u:sesame@h:x/d", "mysql://u:sesame@h/d/e",
	} {
		if _, err := parseURL(u, nil); err == nil || !txnsink.Permanent(err) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: got %v", u, err)
		}
	}
}

// A target's TLS is used, and a certificate that nothing vouches for is refused, not accepted.
func TestTLSIsNotWeakened(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		u := newDatabase(t, server)
		_, err := Open(t.Context(), Config{URL: u, Pipeline: "p", TLS: func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }})
		if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "tls_configuration") || !strings.Contains(err.Error(), "target.tls: ca") {
			t.Errorf("an unknown certificate, or none: got %v", err)
		}
	})
}

func TestNamesAreReadBackOrNotAtAll(t *testing.T) {
	t.Parallel()
	const database = "0a1b2c3d"
	long := strings.Repeat("p", maxPipeline)
	for _, id := range []txnsink.ID{
		{Pipeline: "shop", Epoch: 1, Checkpoint: 20, Worker: 3},
		{Pipeline: long, Epoch: 1<<63 - 1, Checkpoint: 1<<63 - 1, Worker: 1<<31 - 1},
	} {
		x := xidOf(id, database)
		if got, ok := x.id(database); !ok || got != id {
			t.Errorf("got %v, %v, want %v", got, ok, id)
		}
		if len(x.gtrid) > maxPart || len(x.bqual) > maxPart {
			t.Errorf("%q is too long", x)
		}
		if _, ok := x.id("00000000"); ok {
			t.Errorf("%q is taken for another database's", x)
		}
	}
	for _, x := range []xid{
		{"replicator:shop", ":1:20:3"},
		{"replicator:shop", ":01:20:3@" + database},
		{"replicator:shop", ":1:20:-3@" + database},
		{"replicator:sh op", ":1:20:3@" + database},
		{"replicator:", ":1:20:3@" + database},
		{"Replicator:shop", ":1:20:3@" + database},
		{"replicator:shop", ":1:20:3:4@" + database},
		{"replicator:shop", "1:20:3@" + database},
		{probeGtrid, database},
	} {
		if got, ok := x.id(database); ok {
			t.Errorf("%q is taken for %v", x, got)
		}
	}
	for _, name := range []string{"", "a:b", "a b", long + "p"} {
		if err := checkPipeline(name); err == nil || !txnsink.Permanent(err) {
			t.Errorf("pipeline %q: %v", name, err)
		}
	}
}

func TestVersionsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"8.0.31": 80031, "9.7.4-2": 90704, "10.11.19-MariaDB-0+deb12u1-log": 101119, "8.0.30.1": 80030, "unknown": 0} {
		if got := versionNumber(text); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// TestOwnTablesAreNoTargets, whatever the source calls its tables.
func TestOwnTablesAreNoTargets(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		s, err := Open(t.Context(), Config{URL: newDatabase(t, server), Pipeline: "p"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for name, own := range map[schema.Name]bool{
			{Table: "replicator_witness"}: true, {Table: "Replicator_x"}: true, {Schema: s.facts.database, Table: "replicator_log"}: true,
			{Schema: "elsewhere", Table: "replicator_log"}: false, {Table: "replicator"}: false, {Table: "my_replicator_log"}: false,
		} {
			err := s.Define(t.Context(), txnsink.Definition{Pipeline: "p", Defined: []txnsink.Defined{{Source: "d.t", Target: name, State: "{}"}}})
			if own != (err != nil) || own && !txnsink.Permanent(err) {
				t.Errorf("%v: %v", name, err)
			}
		}
	})
}

// TestOwnTablesStayInTheirFirstVersion: below it there are none, and the positions would be lost.
func TestOwnTablesStayInTheirFirstVersion(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		u := newDatabase(t, server)
		if err := Down(t.Context(), u, nil, 1); err != nil {
			t.Error(err)
		}
		for _, version := range []int{0, 2} {
			if err := Down(t.Context(), u, nil, version); !txnsink.Permanent(err) {
				t.Errorf("version %d: %v", version, err)
			}
		}
		if at, err := Status(t.Context(), u, nil); err != nil || at.Current != 1 {
			t.Errorf("at %+v, %v", at, err)
		}
	})
}
