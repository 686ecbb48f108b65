//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/txnsink/mysql/mysqlserver"
)

// faultServer is a database server that replicators write to, and that a test kills and stops.
type faultServer struct {
	service
	address string
	// target makes an empty database of the stack's name.
	target func(*testing.T, *stack) faultTarget
}

// faultTarget is a database on it, which gets the workload's tables and a journal.
type faultTarget interface {
	// url is target.url, with the server at this address.
	url(address string) string
	exec(context.Context, string) error
	// journal says of the transactions of the source how many up to this one are there.
	journal(ctx context.Context, upTo int64) (journal, error)
	// doubt is the prepared transactions of this target's pipeline.
	doubt(context.Context) ([]string, error)
	// compare compares all tables' rows with the source's.
	compare(*testing.T) (string, error)
}

// journal is what a target shows of the source's transactions.
type journal struct{ rows, distinct, upTo, last, pulse int64 }

func journalQuery(upTo int64) string {
	return fmt.Sprintf("SELECT count(*), count(DISTINCT n), count(CASE WHEN n <= %d THEN 1 END), COALESCE(max(n), 0), COALESCE((SELECT n FROM pulse), 0) FROM journal", upTo)
}

func (j *journal) columns() []any { return []any{&j.rows, &j.distinct, &j.upTo, &j.last, &j.pulse} }

// openFaultServer is the stack's PostgreSQL, or a server of this kind: mysql9, mysql8 or mariadb.
func openFaultServer(t *testing.T, s *stack, kind string) faultServer {
	t.Helper()
	if kind == "" || kind == "postgres" {
		return faultServer{
			service: s.labService("postgres"), address: s.postgresHost(t),
			target: func(t *testing.T, own *stack) faultTarget {
				t.Helper()
				own.createDatabase(t, own.database)
				return faultPostgres{own}
			},
		}
	}
	if !slices.Contains(mysqlserver.Kinds(), mysqlserver.Kind(kind)) {
		t.Fatalf("TARGET=%s: want postgres or one of %v", kind, mysqlserver.Kinds())
	}
	server := startNative(t, mysqlserver.Kind(kind))
	u, err := url.Parse(server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	return faultServer{
		service: nativeService(server), address: u.Host,
		target: func(t *testing.T, own *stack) faultTarget {
			t.Helper()
			return faultMySQL{openNative(t, own, server, own.database)}
		},
	}
}

// nativeService is a server that the test itself runs.
func nativeService(server *mysqlserver.Server) service {
	must := func(do func(*testing.T) error) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if err := do(t); err != nil {
				t.Fatalf("the target's server: %v", err)
			}
		}
	}
	return service{
		name:   "target " + string(server.Kind()),
		kill:   must(func(*testing.T) error { return server.Kill() }),
		start:  must(func(t *testing.T) error { return server.Restart(t.Context()) }),
		pause:  must(func(*testing.T) error { return server.Signal(syscall.SIGSTOP) }),
		resume: must(func(*testing.T) error { return server.Signal(syscall.SIGCONT) }),
	}
}

type faultPostgres struct{ *stack }

func (p faultPostgres) url(address string) string {
	config, err := pgx.ParseConfig(p.postgres)
	if err != nil {
		return err.Error()
	}
	return strings.Replace(p.databaseURL(p.database), fmt.Sprintf("%s:%d", config.Host, config.Port), address, 1)
}

func (p faultPostgres) exec(ctx context.Context, statement string) error {
	c, err := p.target(ctx)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, statement)
	return err
}

func (p faultPostgres) journal(ctx context.Context, upTo int64) (j journal, err error) {
	c, err := p.target(ctx)
	if err != nil {
		return j, err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, journalQuery(upTo)).Scan(j.columns()...)
	return j, err
}

func (p faultPostgres) doubt(ctx context.Context) ([]string, error) {
	c, err := p.target(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	return collect[string](ctx, c, preparedQuery)
}

type faultMySQL struct{ *nativeTarget }

func (m faultMySQL) url(address string) string {
	own := m.server.URL(m.database)
	u, err := url.Parse(own)
	if err != nil {
		return err.Error()
	}
	return strings.Replace(own, u.Host, address, 1)
}

func (m faultMySQL) exec(ctx context.Context, statement string) error {
	_, err := m.db.ExecContext(ctx, statement)
	return err
}

func (m faultMySQL) journal(ctx context.Context, upTo int64) (j journal, err error) {
	err = m.db.QueryRowContext(ctx, journalQuery(upTo)).Scan(j.columns()...)
	return j, err
}

// doubt looks for the pipeline's name: the list is the whole server's.
func (m faultMySQL) doubt(ctx context.Context) ([]string, error) {
	rows, err := m.db.QueryContext(ctx, "XA RECOVER")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var format, gtrid, bqual int64
		var id string
		if err := rows.Scan(&format, &gtrid, &bqual, &id); err != nil {
			return nil, err
		}
		if strings.HasPrefix(id, "replicator:"+m.pipeline+":") {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}

// compare leaves the types of columns out, as PostgreSQL's does: what they become has tests of its own.
func (m faultMySQL) compare(t *testing.T) (string, error) { t.Helper(); return m.compareRows(t) }
