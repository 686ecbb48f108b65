package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"replicator/schema"
)

// relation is a table's oid; 0: there is none.
const relation = `(SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = coalesce(nullif($1, ''), current_schema()) AND c.relname = $2)`

// Indexes reads a table's indexes but for the primary key's, in the order of their names. broken are the names of those that a
// failed CREATE INDEX CONCURRENTLY has left.
func (d *DB) Indexes(ctx context.Context, name schema.Name) (out []schema.Index, broken []string, err error) {
	rows, err := d.pool.Query(ctx, `SELECT x.relname, i.indisunique, i.indisvalid, CASE WHEN i.indexprs IS NOT NULL THEN 'expression'
	WHEN i.indpred IS NOT NULL THEN 'partial' WHEN m.amname <> 'btree' THEN m.amname ELSE '' END, ARRAY(
	SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
	JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE k.n <= i.indnkeyatts ORDER BY k.n)
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = x.relam
WHERE i.indrelid = `+relation+` AND NOT i.indisprimary ORDER BY x.relname`, name.Schema, name.Table)
	if err != nil {
		return nil, nil, fmt.Errorf("read the indexes of %s: %w", name, err)
	}
	var x schema.Index
	var valid bool
	_, err = pgx.ForEachRow(rows, []any{&x.Name, &x.Unique, &valid, &x.Special, &x.Columns}, func() error {
		if !valid {
			broken = append(broken, x.Name)
			return nil
		}
		found := x
		found.Columns = append([]string(nil), x.Columns...)
		out = append(out, found)
		return nil
	})
	return out, broken, err
}

// ForeignKeys reads a table's foreign keys. checked says of each whether every row was checked.
func (d *DB) ForeignKeys(ctx context.Context, name schema.Name) (out []schema.ForeignKey, checked []bool, err error) {
	const columns = `ARRAY(SELECT a.attname::text FROM unnest(k.%s) WITH ORDINALITY AS u(attnum, n)
	JOIN pg_catalog.pg_attribute a ON a.attrelid = k.%s AND a.attnum = u.attnum ORDER BY u.n)`
	const action = `CASE k.%s WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' WHEN 'r' THEN 'RESTRICT' ELSE '' END`
	rows, err := d.pool.Query(ctx, "SELECT k.conname, k.convalidated, n.nspname, r.relname, "+fmt.Sprintf(columns, "conkey", "conrelid")+", "+fmt.Sprintf(columns, "confkey", "confrelid")+
		", "+fmt.Sprintf(action, "confdeltype")+", "+fmt.Sprintf(action, "confupdtype")+
		" FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class r ON r.oid = k.confrelid JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace"+
		" WHERE k.contype = 'f' AND k.conrelid = "+relation+" ORDER BY k.conname", name.Schema, name.Table)
	if err != nil {
		return nil, nil, fmt.Errorf("read the foreign keys of %s: %w", name, err)
	}
	var k schema.ForeignKey
	var valid bool
	_, err = pgx.ForEachRow(rows, []any{&k.Name, &valid, &k.References.Schema, &k.References.Table, &k.Columns, &k.Referenced, &k.OnDelete, &k.OnUpdate}, func() error {
		found := k
		found.Columns, found.Referenced = append([]string(nil), k.Columns...), append([]string(nil), k.Referenced...)
		out, checked = append(out, found), append(checked, valid)
		return nil
	})
	return out, checked, err
}
