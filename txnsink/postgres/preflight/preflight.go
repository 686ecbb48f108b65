// Package preflight asks a PostgreSQL server what a pipeline's role may do there. It changes nothing.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/schema"
	"replicator/sqlgen"
)

// Facts is what a server says.
type Facts struct {
	Version  int    // server_version_num, as in 150004
	Release  string // server_version
	Role     string
	Database string
	Standby  bool // the server takes no writes: it follows another
	// OwnSchema says whether the schema of the replicator's own tables is there, and CreateOwn whether the role may make what is missing:
	// the schema, or tables in it. OwnDenied is what the role may not do with what is there, as in "UPDATE on replicator.witness".
	OwnSchema bool
	CreateOwn bool
	OwnDenied []string
	Schemas   []Schema
	Tables    []Table // those that were asked about, in their order

	Encoding      string // server_encoding
	FsyncOff      bool
	PagesOff      bool // full_page_writes is off
	Connections   Connections
	DataDirectory string        // empty: the role may not know
	Ahead         time.Duration // of the server's clock before this machine's, by the middle of the time that asking took
}

// Connections is how many sessions more the role may open, and the setting that bounds them.
type Connections struct {
	Free    int
	Setting string
}

// Table is one of the tables that was asked about.
type Table struct {
	Name        schema.Name
	Exists      bool
	Owner       bool     // the role owns it, or is a member of the role that does
	Missing     []string // privileges that the role lacks, of those that applying rows needs
	Unlogged    bool
	RowSecurity bool     // policies bind the role
	ForeignKeys bool     // from or to it
	Triggers    []string // user's triggers that fire in an ordinary session
	Always      []string // user's triggers that fire in a replica's session
}

// Schema is one of the schemas that was asked about.
type Schema struct {
	Name   string // of an empty name: the one that the search_path leads to, or empty if it leads nowhere
	Exists bool
	Create bool // the role may create tables in it
}

// Look asks the server of url about schemas and tables. The schema of an empty name is the connection's default.
func Look(ctx context.Context, url string, schemas []string, tables []schema.Name) (f Facts, err error) {
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
	pg_catalog.pg_is_in_recovery()`
	err = conn.QueryRow(ctx, server).Scan(&f.Version, &f.Release, &f.Role, &f.Database, &f.Standby)
	if err != nil {
		return f, fmt.Errorf("ask the server about its role: %s", err.Error())
	}
	if err := f.lookAtOwnTables(ctx, conn); err != nil {
		return f, fmt.Errorf("ask the server about the replicator's own tables: %s", err.Error())
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
	if err := f.lookAtServer(ctx, conn); err != nil {
		return f, fmt.Errorf("ask the server about its settings: %s", err.Error())
	}
	if err := f.lookAtTables(ctx, conn, tables); err != nil {
		return f, fmt.Errorf("ask the server about tables: %s", err.Error())
	}
	return f, nil
}

func (f *Facts) lookAtOwnTables(ctx context.Context, conn *pgx.Conn) error {
	const query = `SELECT n.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'CREATE'), has_database_privilege(current_database(), 'CREATE')),
	ARRAY(SELECT 'USAGE on schema replicator' WHERE NOT has_schema_privilege(n.oid, 'USAGE')) ||
	ARRAY(SELECT p || ' on replicator.' || c.relname FROM pg_catalog.pg_class c, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS p
		WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, p)
			AND (c.relname IN ('pipelines', 'checkpoints', 'witness', 'log', 'schema_version', 'dead_letters') OR c.relname = 'schema_migrations' AND p = 'SELECT'))
FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = 'replicator'`
	return conn.QueryRow(ctx, query).Scan(&f.OwnSchema, &f.CreateOwn, &f.OwnDenied)
}

func (f *Facts) lookAtServer(ctx context.Context, conn *pgx.Conn) error {
	const settings = `SELECT current_setting('server_encoding'), current_setting('fsync') <> 'on', current_setting('full_page_writes') <> 'on',
	CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory') ELSE '' END`
	if err := conn.QueryRow(ctx, settings).Scan(&f.Encoding, &f.FsyncOff, &f.PagesOff, &f.DataDirectory); err != nil {
		return err
	}
	// Each bound that is set, with what is left of it; this session is in use too, and ends.
	const rooms = `SELECT greatest(0, room), setting FROM (
	SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- coalesce(current_setting('reserved_connections', true)::int, 0) - (SELECT sum(numbackends)::int FROM pg_stat_database), 'max_connections'
	UNION ALL SELECT datconnlimit - (SELECT numbackends FROM pg_stat_database s WHERE s.datid = d.oid), 'the database''s CONNECTION LIMIT'
	FROM pg_database d WHERE datname = current_database() AND datconnlimit >= 0
	UNION ALL SELECT rolconnlimit - (SELECT count(*)::int FROM pg_stat_activity WHERE usesysid = r.oid), 'the role''s CONNECTION LIMIT'
	FROM pg_roles r WHERE rolname = session_user AND rolconnlimit >= 0
) AS r (room, setting) ORDER BY room LIMIT 1`
	if err := conn.QueryRow(ctx, rooms).Scan(&f.Connections.Free, &f.Connections.Setting); err != nil {
		return err
	}
	f.Connections.Free++
	before := time.Now()
	var now time.Time
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	f.Ahead = now.Sub(before.Add(time.Since(before) / 2))
	return nil
}

func (f *Facts) lookAtTables(ctx context.Context, conn *pgx.Conn, tables []schema.Name) error {
	const about = `SELECT c.oid IS NOT NULL, coalesce(pg_has_role(c.relowner, 'USAGE'), false),
	ARRAY(SELECT p FROM unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) AS p WHERE NOT has_table_privilege(c.oid, p)),
	coalesce(c.relpersistence = 'u', false), coalesce(row_security_active(c.oid), false),
	EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND c.oid IN (k.conrelid, k.confrelid)),
	ARRAY(SELECT tgname::text FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal AND tgenabled IN ('O', 'A') ORDER BY 1),
	ARRAY(SELECT tgname::text FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal AND tgenabled IN ('R', 'A') ORDER BY 1)
FROM (SELECT coalesce(nullif($1, ''), current_schema()) AS s, $2::text AS t) AS w
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.s
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.t AND c.relkind IN ('r', 'p')`
	for _, name := range tables {
		t := Table{Name: name}
		err := conn.QueryRow(ctx, about, name.Schema, name.Table).Scan(&t.Exists, &t.Owner, &t.Missing, &t.Unlogged, &t.RowSecurity, &t.ForeignKeys, &t.Triggers, &t.Always)
		if err != nil {
			return err
		}
		f.Tables = append(f.Tables, t)
	}
	return nil
}
