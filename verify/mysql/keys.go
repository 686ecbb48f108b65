package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"replicator/schema"
)

// Indexes reads a table's indexes but for the primary key's, in the order of their names.
func (d *DB) Indexes(ctx context.Context, name schema.Name) ([]schema.Index, error) {
	rows, err := d.Query(ctx, `SELECT INDEX_NAME, NON_UNIQUE = 0, COLUMN_NAME, SUB_PART, INDEX_TYPE FROM information_schema.STATISTICS
WHERE INDEX_NAME <> 'PRIMARY' AND TABLE_SCHEMA = `+literal(name.Schema)+" AND TABLE_NAME = "+literal(name.Table)+" ORDER BY INDEX_NAME, SEQ_IN_INDEX")
	if err != nil {
		return nil, fmt.Errorf("read the indexes of %s: %w", name, err)
	}
	var out []schema.Index
	for _, r := range rows {
		if len(out) == 0 || out[len(out)-1].Name != text(r[0]) {
			out = append(out, schema.Index{Name: text(r[0]), Unique: text(r[1]) == "1"})
		}
		x := &out[len(out)-1]
		switch {
		case r[2] == nil:
			x.Special = "expression"
			continue
		case r[3] != nil:
			x.Special = "prefix"
		case text(r[4]) != "BTREE" && text(r[4]) != "HASH":
			x.Special = strings.ToLower(text(r[4]))
		}
		x.Columns = append(x.Columns, text(r[2]))
	}
	return out, nil
}

// ForeignKeys reads a table's foreign keys.
func (d *DB) ForeignKeys(ctx context.Context, name schema.Name) ([]schema.ForeignKey, error) {
	rows, err := d.Query(ctx, `SELECT k.CONSTRAINT_NAME, k.COLUMN_NAME, k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME, r.DELETE_RULE, r.UPDATE_RULE
FROM information_schema.KEY_COLUMN_USAGE k
JOIN information_schema.REFERENTIAL_CONSTRAINTS r ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME AND r.TABLE_NAME = k.TABLE_NAME
WHERE k.REFERENCED_TABLE_NAME IS NOT NULL AND k.TABLE_SCHEMA = `+literal(name.Schema)+" AND k.TABLE_NAME = "+literal(name.Table)+" ORDER BY k.CONSTRAINT_NAME, k.ORDINAL_POSITION")
	if err != nil {
		return nil, fmt.Errorf("read the foreign keys of %s: %w", name, err)
	}
	var out []schema.ForeignKey
	for _, r := range rows {
		i := slices.IndexFunc(out, func(k schema.ForeignKey) bool { return k.Name == text(r[0]) })
		if i < 0 {
			i = len(out)
			out = append(out, schema.ForeignKey{Name: text(r[0]), References: schema.Name{Schema: text(r[2]), Table: text(r[3])}, OnDelete: text(r[5]), OnUpdate: text(r[6])})
		}
		out[i].Columns = append(out[i].Columns, text(r[1]))
		out[i].Referenced = append(out[i].Referenced, text(r[4]))
	}
	return out, nil
}

// NextValue is the value that the table's column of AUTO_INCREMENT takes next; 0: it has none. It is more than the
// highest value where rows were deleted.
func (d *DB) NextValue(ctx context.Context, name schema.Name) (int64, error) {
	rows, err := d.Query(ctx, "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+
		literal(name.Schema)+" AND TABLE_NAME = "+literal(name.Table))
	if err != nil || len(rows) == 0 || rows[0][0] == nil {
		return 0, err
	}
	n, err := strconv.ParseUint(*rows[0][0], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("AUTO_INCREMENT of %s is beyond what a sequence counts to: %w", name, err)
	}
	return int64(n), nil
}

// LogPosition is where the server's binary log ends, as a text to compare; "" if it keeps none, or this user may not know.
func (d *DB) LogPosition(ctx context.Context) (string, error) {
	rows, err := d.Query(ctx, "SHOW BINARY LOG STATUS") // MySQL 8.2 and later
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		rows, err = d.Query(ctx, "SHOW MASTER STATUS")
	}
	if errors.As(err, &refused) {
		return "", nil
	}
	if err != nil || len(rows) == 0 || len(rows[0]) < 2 {
		return "", err
	}
	return text(rows[0][0]) + ":" + text(rows[0][1]), nil
}
