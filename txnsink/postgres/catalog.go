package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"replicator/schema"
	"replicator/sqlgen"
)

// Table reads a table's shape. Its name comes back with the schema in which it was found.
func (s *Sink) Table(ctx context.Context, name schema.Name) (*schema.Table, error) {
	var t *schema.Table
	err := s.control(ctx, func(c *pgx.Conn) (err error) {
		t, err = s.readTable(ctx, c, s.inSchema(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read table %s from the catalog: %w", name, plain(err))
	}
	return t, nil
}

// inSchema is name with the configured schema, where it has none.
func (s *Sink) inSchema(name schema.Name) schema.Name {
	if name.Schema == "" {
		name.Schema = s.config.Schema
	}
	return name
}

func (s *Sink) readTable(ctx context.Context, c *pgx.Conn, name schema.Name) (*schema.Table, error) {
	const query = `SELECT c.oid, n.nspname, c.relkind::text, coalesce(obj_description(c.oid, 'pg_class'), '')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = coalesce(nullif($1, ''), current_schema()) AND c.relname = $2`
	t := &schema.Table{Name: name}
	var oid uint32
	var kind string
	err := c.QueryRow(ctx, query, name.Schema, name.Table).Scan(&oid, &t.Name.Schema, &kind, &t.Comment)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if kind != "r" && kind != "p" {
		return nil, permanent("%s is not a table, and only a table can be a target", t.Name)
	}
	var b pgx.Batch // one turn for what is asked of each table
	readColumns(&b, oid, t)
	s.readIndexes(&b, oid, t)
	readReferences(&b, oid, t)
	readTied(&b, oid, t)
	return t, c.SendBatch(ctx, &b).Close()
}

// readTied reads whether this sink's sessions check foreign keys from or to a table: their triggers fire then.
func readTied(b *pgx.Batch, oid uint32, t *schema.Table) {
	const query = `SELECT current_setting('session_replication_role') <> 'replica' AND EXISTS (
	SELECT FROM pg_catalog.pg_constraint WHERE contype = 'f' AND $1 IN (conrelid, confrelid))`
	b.Queue(query, oid).QueryRow(func(row pgx.Row) error { return row.Scan(&t.Tied) })
}

// readColumns reads columns. A domain's own NOT NULL counts as the column's. A domain of a domain has no modifiers of its own.
func readColumns(b *pgx.Batch, oid uint32, t *schema.Table) {
	const query = `SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull OR ty.typnotnull,
	a.attidentity <> '', a.attgenerated <> '', pg_get_expr(d.adbin, d.adrelid), coalesce(col_description(a.attrelid, a.attnum), ''),
	coalesce(NOT co.collisdeterministic, false) OR coalesce(base.typname, ty.typname) = 'citext',
	CASE WHEN base.typtype = 'd' THEN format_type(base.typbasetype, base.typtypmod) WHEN ty.typtype = 'd' THEN format_type(base.oid, ty.typtypmod) END,
	CASE WHEN ty.typtype = 'e' THEN ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = ty.oid ORDER BY e.enumsortorder) END
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type ty ON ty.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type base ON base.oid = ty.typbasetype
LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`
	var col schema.Column
	var formatType string
	var identity bool
	var def, base *string
	var labels []string // nil: it is no enum type
	b.Queue(query, oid).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&col.Name, &formatType, &col.NotNull, &identity, &col.Generated, &def, &col.Comment, &col.Folds, &base, &labels}, func() error {
			next := col
			next.Type = sqlgen.PostgresType(formatType)
			if base != nil {
				of := sqlgen.PostgresType(*base)
				next.Type.Base = &of
			}
			if labels != nil {
				next.Type.Kind, next.Type.Values = schema.Enum, slices.Clone(labels)
			}
			next.AutoIncrement = identity
			if def != nil && !next.Generated {
				text := *def
				next.Default = &text
				next.AutoIncrement = identity || strings.HasPrefix(text, "nextval(")
			}
			t.Columns = append(t.Columns, next)
			return nil
		})
		return err
	})
}

// readExtensions finds out what PostGIS's and pgvector's types are called here, wherever they are installed: a type that
// SQL finds without a schema comes before others.
func (s *Sink) readExtensions(ctx context.Context, c *pgx.Conn) error {
	const query = `SELECT DISTINCT ON (typname) typname::text, format_type(oid, NULL) FROM pg_catalog.pg_type
WHERE typname IN ('geometry', 'geography', 'vector') AND typtype IN ('b', 'd') ORDER BY typname, pg_type_is_visible(oid) DESC, oid`
	rows, err := c.Query(ctx, query)
	if err != nil {
		return err
	}
	var name, native string
	_, err = pgx.ForEachRow(rows, []any{&name, &native}, func() error {
		switch name {
		case "geometry":
			s.dialect.Geometry = native
		case "geography":
			s.dialect.Geography = native
		case "vector":
			s.dialect.Vector = native
		}
		return nil
	})
	return err
}

// readIndexes reads indexes, among them the primary key and the unique ones that ON CONFLICT can use: of plain columns, whole,
// checked at once.
func (s *Sink) readIndexes(b *pgx.Batch, oid uint32, t *schema.Table) {
	const query = `SELECT x.relname, i.indisprimary, i.indisunique, i.indimmediate, CASE WHEN i.indexprs IS NOT NULL THEN 'expression'
	WHEN i.indpred IS NOT NULL THEN 'partial' WHEN m.amname <> 'btree' THEN m.amname ELSE '' END, ARRAY(
	SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
	JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
	WHERE k.n <= i.indnkeyatts ORDER BY k.n)
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = x.relam
WHERE i.indrelid = $1 AND i.indisvalid
ORDER BY x.relname`
	var x schema.Index
	var primary, immediate bool
	b.Queue(query, oid).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&x.Name, &primary, &x.Unique, &immediate, &x.Special, &x.Columns}, func() error {
			found := x
			found.Columns = append([]string(nil), x.Columns...)
			switch {
			case primary && !immediate:
				s.config.Log.Warn("the primary key is deferrable, so it cannot be used to find rows: set the table's key in the configuration, "+
					"or make it NOT DEFERRABLE", "table", t.Name.String())
			case primary:
				t.PrimaryKey, t.PrimaryKeyName = found.Columns, found.Name
			default:
				t.Indexes = append(t.Indexes, found)
			}
			if x.Unique && x.Special == "" && immediate && !primary {
				t.Unique = append(t.Unique, found.Columns)
			}
			return nil
		})
		return err
	})
}

func readReferences(b *pgx.Batch, oid uint32, t *schema.Table) {
	const query = `SELECT DISTINCT n.nspname, r.relname
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class r ON r.oid = k.confrelid
JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
WHERE k.conrelid = $1 AND k.contype = 'f' AND k.confrelid <> k.conrelid
ORDER BY 1, 2`
	var name schema.Name
	b.Queue(query, oid).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&name.Schema, &name.Table}, func() error {
			t.References = append(t.References, name)
			return nil
		})
		return err
	})
}
