//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/txnsink/mysql/mysqlserver"
)

// openTarget makes the database that the cluster writes to: PostgreSQL's, or of a server that CLUSTER_TARGET names. The journal has no key there: that of its
// records says only where they go.
func (c *sharedCluster) openTarget(t *testing.T) sharedTarget {
	t.Helper()
	if kind := os.Getenv("CLUSTER_TARGET"); kind != "" {
		n := c.native(t, mysqlserver.Kind(kind))
		if _, err := n.db.ExecContext(t.Context(), "CREATE TABLE journal (n bigint NOT NULL, note varchar(40))"); err != nil {
			t.Fatal(err)
		}
		return sharedNative{n}
	}
	c.createDatabase(t, c.database)
	c.onTarget(t, c.databaseURL(c.database), func(ctx context.Context, db *pgx.Conn) error {
		_, err := db.Exec(ctx, "CREATE TABLE journal (n bigint NOT NULL, note text)")
		return err
	})
	return sharedPostgres{c.stack}
}

// sharedJournal is what a target shows of the transactions: all that have arrived, how many of them there are, how many of these up to one, and the pulse.
type sharedJournal struct{ rows, distinct, wanted, pulse int64 }

// look is what [sharedTarget] says of it. Slots do not wait for each other, so the journal has gaps until all have come.
func (j sharedJournal) look(t *testing.T, n int64) error {
	t.Helper()
	if j.rows != j.distinct {
		t.Fatalf("the journal shows %d rows of %d transactions: want each once", j.rows, j.distinct)
	}
	if j.wanted < n || j.pulse < n {
		return fmt.Errorf("the target's pulse is %d, and its journal has %d of %d transactions", j.pulse, j.wanted, n)
	}
	return nil
}

// sharedPostgres is PostgreSQL as a cluster's target.
type sharedPostgres struct{ *stack }

func (s sharedPostgres) url() string { return s.databaseURL(s.database) }

func (s sharedPostgres) look(ctx context.Context, t *testing.T, n int64) error {
	t.Helper()
	db, err := s.target(ctx)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	var j sharedJournal
	err = db.QueryRow(ctx, `SELECT count(*), count(DISTINCT n), count(*) FILTER (WHERE n <= $1), COALESCE((SELECT n FROM public.pulse), 0) FROM public.journal`, n).Scan(&j.rows, &j.distinct, &j.wanted, &j.pulse)
	if err != nil {
		return err
	}
	return j.look(t, n)
}

func (s sharedPostgres) inDoubt(t *testing.T) []string { t.Helper(); return s.prepared(t) }
func (s sharedPostgres) crash(t *testing.T)            { t.Helper(); s.lab(t, "kill", "postgres") }
func (s sharedPostgres) recover(t *testing.T)          { t.Helper(); s.lab(t, "up", "postgres") }

// sharedNative is MySQL or MariaDB as a cluster's target.
type sharedNative struct{ *nativeTarget }

func (s sharedNative) url() string { return s.server.URL(s.database) }

func (s sharedNative) look(ctx context.Context, t *testing.T, n int64) error {
	t.Helper()
	var j sharedJournal
	err := s.db.QueryRowContext(ctx, "SELECT count(*), count(DISTINCT n), count(IF(n <= ?, n, NULL)), COALESCE((SELECT n FROM pulse), 0) FROM journal", n).Scan(&j.rows, &j.distinct, &j.wanted, &j.pulse)
	if err != nil {
		return err
	}
	return j.look(t, n)
}

func (s sharedNative) compare(t *testing.T) (string, error) {
	t.Helper()
	tables := s.tables(t)
	for i := range tables {
		tables[i].Written = Column.FromMySQL
	}
	return compareTables(tables, func(table Table) []Row { return s.sourceRows(t, table) }, func(table Table) ([]Row, error) { return s.tableRows(t, table), nil })
}

func (s sharedNative) inDoubt(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, r := range s.rows(t, "XA RECOVER") {
		out = append(out, *r[len(r)-1])
	}
	return out
}

func (s sharedNative) crash(t *testing.T) {
	t.Helper()
	if err := s.server.Kill(); err != nil {
		t.Fatal(err)
	}
}

func (s sharedNative) recover(t *testing.T) {
	t.Helper()
	if err := s.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}
