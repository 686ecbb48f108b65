// Package preflight asks a PostgreSQL server what a pipeline's role may do there. It changes nothing.
package preflight

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"replicator/sqlgen"
)

// Facts is what a server says.
type Facts struct {
	Version  int    // server_version_num, as in 150004
	Release  string // server_version
	Role     string
	Database string
	Standby  bool // the server takes no writes: it follows another
	// OwnTables says whether the replicator's own tables are there and the role may write them; OwnSchema whether their
	// schema is; CreateSchema whether the role may make it.
	OwnTables    bool
	OwnSchema    bool
	CreateSchema bool
	Schemas      []Schema
}

// Schema is one of the schemas that was asked about.
type Schema struct {
	Name   string // of an empty name: the one that the search_path leads to, or empty if it leads nowhere
	Exists bool
	Create bool // the role may create tables in it
}

// Look asks the server of url about the schemas. The schema of an empty name is the connection's default.
func Look(ctx context.Context, url string, schemas []string) (f Facts, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return f, errors.New(err.Error()) // the driver's types stay here
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.RuntimeParams["application_name"] = "replicator-check"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return f, errors.New(err.Error())
	}
	defer func() {
		if cerr := conn.Close(ctx); err == nil && cerr != nil {
			err = errors.New(cerr.Error())
		}
	}()
	if _, err := conn.Exec(ctx, sqlgen.OwnSchemaAside); err != nil {
		return f, fmt.Errorf("set up a session: %s", err.Error())
	}
	const server = `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_user, current_database(),
	coalesce(has_table_privilege(to_regclass('replicator.witness'), 'SELECT, INSERT, UPDATE'), false),
	to_regnamespace('replicator') IS NOT NULL,
	has_database_privilege(current_database(), 'CREATE'), pg_is_in_recovery()`
	err = conn.QueryRow(ctx, server).Scan(&f.Version, &f.Release, &f.Role, &f.Database, &f.OwnTables, &f.OwnSchema, &f.CreateSchema, &f.Standby)
	if err != nil {
		return f, fmt.Errorf("ask the server about its role: %s", err.Error())
	}
	for _, name := range schemas {
		s := Schema{Name: name}
		const about = `SELECT coalesce(n.nspname, ''), n.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'CREATE'), false)
FROM (SELECT CASE WHEN $1 = '' THEN current_schema()::text ELSE $1 END AS wanted) AS w
LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = w.wanted`
		if err := conn.QueryRow(ctx, about, name).Scan(&s.Name, &s.Exists, &s.Create); err != nil {
			return f, fmt.Errorf("ask the server about schema %q: %s", name, err.Error())
		}
		if !s.Exists {
			s.Name = name
		}
		f.Schemas = append(f.Schemas, s)
	}
	return f, nil
}
