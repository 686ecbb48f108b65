//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/txnsink/mysql/mysqlserver"
)

// chaosServer is the server that both targets are on.
type chaosServer struct {
	service
	address string
	// target makes an empty database of the stack's name.
	target func(*testing.T, *stack) chaosTarget
}

// chaosTarget is a database that a replica writes to.
type chaosTarget interface {
	// url is target.url, with the server at this address.
	url(address string) string
	journal(context.Context) (journal, error)
	// doubt is the prepared transactions of this target's pipeline.
	doubt(context.Context) ([]string, error)
	compare(*testing.T) (string, error)
}

// journal is what a target shows of the source's transactions.
type journal struct{ rows, distinct, last, pulse int64 }

const journalQuery = "SELECT count(*), count(DISTINCT n), COALESCE(max(n), 0), COALESCE((SELECT n FROM pulse), 0) FROM journal"

// openChaosServer is the stack's PostgreSQL, or a server of the kind that CHAOS_TARGET names: mysql9, mysql8 or mariadb.
func openChaosServer(t *testing.T, s *stack) chaosServer {
	t.Helper()
	kind := mysqlserver.Kind(os.Getenv("CHAOS_TARGET"))
	if kind == "" || kind == "postgres" {
		return chaosServer{
			service: s.labService("postgres"), address: s.postgresHost(t),
			target: func(t *testing.T, own *stack) chaosTarget {
				t.Helper()
				own.createDatabase(t, own.database)
				return chaosPostgres{own}
			},
		}
	}
	if !slices.Contains(mysqlserver.Kinds(), kind) {
		t.Fatalf("CHAOS_TARGET=%s: want postgres or one of %v", kind, mysqlserver.Kinds())
	}
	server := startNative(t, kind)
	u, err := url.Parse(server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	return chaosServer{
		service: nativeService(server), address: u.Host,
		target: func(t *testing.T, own *stack) chaosTarget {
			t.Helper()
			return chaosMySQL{openNative(t, own, server, own.database)}
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

type chaosPostgres struct{ *stack }

func (p chaosPostgres) url(address string) string {
	config, err := pgx.ParseConfig(p.postgres)
	if err != nil {
		return err.Error()
	}
	return strings.Replace(p.databaseURL(p.database), fmt.Sprintf("%s:%d", config.Host, config.Port), address, 1)
}

func (p chaosPostgres) journal(ctx context.Context) (j journal, err error) {
	c, err := p.target(ctx)
	if err != nil {
		return j, err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, journalQuery).Scan(&j.rows, &j.distinct, &j.last, &j.pulse)
	return j, err
}

func (p chaosPostgres) doubt(ctx context.Context) ([]string, error) {
	c, err := p.target(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	return collect[string](ctx, c, preparedQuery)
}

type chaosMySQL struct{ *nativeTarget }

func (m chaosMySQL) url(address string) string {
	own := m.server.URL(m.database)
	u, err := url.Parse(own)
	if err != nil {
		return err.Error()
	}
	return strings.Replace(own, u.Host, address, 1)
}

func (m chaosMySQL) journal(ctx context.Context) (j journal, err error) {
	err = m.db.QueryRowContext(ctx, journalQuery).Scan(&j.rows, &j.distinct, &j.last, &j.pulse)
	return j, err
}

// doubt looks for the pipeline's name: the list is the whole server's.
func (m chaosMySQL) doubt(ctx context.Context) ([]string, error) {
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
