package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// target is the demo's own look at the target database.
type target struct{ conn *pgconn.PgConn }

func openTarget(ctx context.Context, url string) (*target, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"application_name": "demo", "timezone": "UTC", "datestyle": "ISO", "intervalstyle": "postgres", "bytea_output": "hex",
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the target: %w", err)
	}
	return &target{conn}, nil
}

// query runs one statement and returns its rows as text.
func (t *target) query(ctx context.Context, sql string) (*pgconn.Result, error) {
	results, err := t.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("%s: %d results", sql, len(results))
	}
	return results[0], nil
}

// inDoubt returns the names of the pipeline's prepared transactions.
func (t *target) inDoubt(ctx context.Context) ([]string, error) {
	r, err := t.query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, 'replicator:"+pipeline+":')")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, row := range r.Rows {
		names = append(names, string(row[0]))
	}
	return names, nil
}

// rows returns all rows of a table as text, nil for NULL, and the columns' types.
func (t *target) rows(ctx context.Context, table string) (rows [][]*string, types []uint32, err error) {
	r, err := t.query(ctx, "SELECT * FROM "+pgx.Identifier{table}.Sanitize())
	if err != nil {
		return nil, nil, err
	}
	for _, f := range r.FieldDescriptions {
		types = append(types, f.DataTypeOID)
	}
	for _, row := range r.Rows {
		values := make([]*string, len(row))
		for i, v := range row {
			if v != nil {
				s := strings.Clone(string(v))
				values[i] = &s
			}
		}
		rows = append(rows, values)
	}
	return rows, types, nil
}

func (t *target) close(ctx context.Context) error { return t.conn.Close(ctx) }
