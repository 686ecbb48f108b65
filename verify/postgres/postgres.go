package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/verify"
)

const connectTimeout = 10 * time.Second

// settings decide how values are written, and that nothing is changed.
var settings = map[string]string{
	"default_transaction_read_only": "on",
	"TimeZone":                      "UTC",
	"DateStyle":                     "ISO, YMD",
	"IntervalStyle":                 "postgres",
	"extra_float_digits":            "1", // the shortest digits that are the number
	"bytea_output":                  "hex",
	"lc_monetary":                   "C",
	"application_name":              "replicator verify",
}

// DB is a database. Its methods may be called by several goroutines.
type DB struct{ pool *pgxpool.Pool }

var _ verify.Side = (*DB)(nil)

// Open connects to a database with at most sessions sessions.
func Open(ctx context.Context, url string, sessions int) (*DB, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the URL cannot be read; it must be as postgres://user:password@host:5432/database") // the parser's error may show the password
	}
	c.MaxConns = int32(max(1, min(sessions, 100)))
	c.ConnConfig.ConnectTimeout = connectTimeout
	for name, value := range settings {
		c.ConnConfig.RuntimeParams[name] = value
	}
	c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		fresh, err := pgx.ParseConfig(url) // it reads the files of certificates, which may have been renewed
		if err != nil {
			return err
		}
		fresh.RuntimeParams, fresh.ConnectTimeout = c.RuntimeParams, c.ConnectTimeout
		c.Config = fresh.Config
		return nil
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sqlgen.OwnSchemaAside)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return &DB{pool}, nil
}

// Close closes the sessions.
func (d *DB) Close() error {
	d.pool.Close()
	return nil
}

// Database is the name of the database.
func (d *DB) Database() string { return d.pool.Config().ConnConfig.Database }

// Query implements [verify.Side].
func (d *DB) Query(ctx context.Context, sql string) ([][]*string, error) {
	c, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	result := c.Conn().PgConn().ExecParams(ctx, sql, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return nil, result.Err
	}
	out := make([][]*string, len(result.Rows))
	for i, row := range result.Rows {
		out[i] = make([]*string, len(row))
		for j, v := range row {
			if v != nil {
				text := string(v)
				out[i][j] = &text
			}
		}
	}
	return out, nil
}

// Tables implements [verify.Side].
func (d *DB) Tables(ctx context.Context) ([]schema.Name, error) {
	rows, err := d.pool.Query(ctx, `SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', 'replicator')
ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[schema.Name])
}

// Estimate implements [verify.Side].
func (d *DB) Estimate(ctx context.Context, name schema.Name) (n int64, err error) {
	err = d.pool.QueryRow(ctx, `SELECT coalesce(max(greatest(c.reltuples, 0)), 0)::bigint FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = coalesce(nullif($1, ''), current_schema()) AND c.relname = $2`,
		name.Schema, name.Table).Scan(&n)
	return n, err
}

// Table implements [verify.Side].
func (d *DB) Table(ctx context.Context, name schema.Name) (*schema.Table, error) {
	t := &schema.Table{}
	var oid uint32
	err := d.pool.QueryRow(ctx, `SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = coalesce(nullif($1, ''), current_schema()) AND c.relname = $2 AND c.relkind IN ('r', 'p')`, name.Schema, name.Table).
		Scan(&oid, &t.Name.Schema, &t.Name.Table)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read table %s from the catalog: %w", name, err)
	}
	if err := d.columns(ctx, oid, t); err != nil {
		return nil, fmt.Errorf("read the columns of %s from the catalog: %w", name, err)
	}
	rows, err := d.pool.Query(ctx, `SELECT a.attname FROM pg_catalog.pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n), pg_catalog.pg_attribute a
WHERE i.indrelid = $1 AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.n <= i.indnkeyatts ORDER BY k.n`, oid)
	if err != nil {
		return nil, err
	}
	if t.PrimaryKey, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, fmt.Errorf("read the key of %s from the catalog: %w", name, err)
	}
	return t, nil
}

func (d *DB) columns(ctx context.Context, oid uint32, t *schema.Table) error {
	rows, err := d.pool.Query(ctx, `SELECT a.attname, format_type(a.atttypid, a.atttypmod), ty.typtype = 'e', a.attnotnull, a.attgenerated <> '',
	a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false), CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type ty ON ty.oid = a.atttypid LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, oid)
	if err != nil {
		return err
	}
	var c schema.Column
	var formatType string
	var enum bool
	_, err = pgx.ForEachRow(rows, []any{&c.Name, &formatType, &enum, &c.NotNull, &c.Generated, &c.AutoIncrement, &c.Default}, func() error {
		c.Type = sqlgen.PostgresType(formatType)
		if enum {
			c.Type.Kind = schema.Enum
		}
		t.Columns = append(t.Columns, c)
		return nil
	})
	return err
}

// Quote implements [verify.Side].
func (d *DB) Quote(ident string) string { return `"` + strings.ReplaceAll(ident, `"`, `""`) + `"` }

// Hash implements [verify.Side].
func (d *DB) Hash(text string) string { return "encode(sha256(convert_to(" + text + ",'UTF8')),'hex')" }

// Number implements [verify.Side].
func (d *DB) Number(hash string) string { return "('x'||left(" + hash + ",15))::bit(60)::bigint" }

// Text implements [verify.Side].
func (d *DB) Text(c schema.Column, f verify.Form) string {
	q := d.Quote(c.Name)
	number := q + "::text"
	if c.Type.Kind == schema.Bool || c.Type.Kind == schema.Bit && c.Type.Length == 1 {
		number = q + "::int::text"
	}
	switch f {
	case verify.Integer, verify.Truth, verify.Bits:
		if c.Type.Kind == schema.Bit {
			return q + "::text"
		}
		return number
	case verify.Trimmed:
		return "CASE WHEN strpos(" + q + "::text,'.')>0 THEN rtrim(rtrim(" + q + "::text,'0'),'.') ELSE " + number + " END"
	case verify.Float:
		// MySQL writes an exponent from 1e15 on, and below 1e-15.
		return strings.ReplaceAll(`CASE WHEN {}=0 THEN '0' WHEN abs({}::float8)>=1e15 OR abs({}::float8)<1e-15 THEN replace({}::float8::text,'e+','e')
 ELSE {}::float8::text::numeric::text END`, "{}", q)
	case verify.Instant:
		return "to_char(" + q + ",'YYYY-MM-DD HH24:MI:SS.US')"
	case verify.Micros:
		return "(extract(epoch from " + q + ")*1000000)::bigint::text"
	case verify.Blank:
		return "rtrim(" + q + "::text,' ')"
	case verify.Members:
		return "array_to_string(" + q + "::text[],',')"
	case verify.Hex:
		return "encode(" + q + ",'hex')"
	case verify.Document:
		return q + "::jsonb::text"
	case verify.Shape:
		return shape(q, c.Type.Kind)
	case verify.Floats:
		return "(SELECT string_agg(substr(h,7,2)||substr(h,5,2)||substr(h,3,2)||substr(h,1,2),'' ORDER BY n) FROM (" +
			"SELECT encode(float4send(e),'hex') AS h, n FROM unnest(" + q + "::real[]) WITH ORDINALITY AS u(e,n)) AS f)"
	}
	return q + "::text"
}

// shape rewrites PostGIS's extended well-known binary: a flag of the type says that the spatial reference's number follows it.
func shape(q string, kind schema.Kind) string {
	h := "encode(" + q + ",'hex')"
	if kind == schema.Geometry {
		h = "encode(ST_AsEWKB(" + q + "::geometry,'NDR'),'hex')"
	}
	return strings.ReplaceAll("CASE WHEN substr({},9,2)='20' THEN substr({},11,8)||substr({},1,8)||'00'||substr({},19) ELSE '00000000'||{} END", "{}", h)
}
