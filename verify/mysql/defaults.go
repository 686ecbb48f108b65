package mysql

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"replicator/schema"
)

var (
	nowExpression = regexp.MustCompile(`(?i)^current_timestamp(\([0-6]?\))?$`)
	plainConstant = regexp.MustCompile(`(?i)^(-?[0-9][0-9.e+-]*|b'[01]+')$`)
)

// defaultOf reads what information_schema writes of a column's default: its constant, as in b'1', 5 or a text without quotes, or
// CURRENT_TIMESTAMP. Any other expression is computed. MySQL marks expressions; MariaDB writes all as SQL does.
func defaultOf(written *string, extra string, mariaDB bool) (constant *string, computed bool) {
	switch {
	case written == nil, mariaDB && *written == "NULL":
		return nil, false
	case nowExpression.MatchString(*written) && (mariaDB || strings.Contains(extra, "default_generated")):
		return written, false
	case !mariaDB:
		if strings.Contains(extra, "default_generated") {
			return nil, true
		}
		return written, false
	case plainConstant.MatchString(*written):
		return written, false
	case len(*written) >= 2 && strings.HasPrefix(*written, "'") && strings.HasSuffix(*written, "'"):
		inner := (*written)[1 : len(*written)-1]
		if strings.Contains(strings.ReplaceAll(inner, "''", ""), "'") || strings.Contains(inner, `\`) {
			return nil, true // several constants, or one with an escape
		}
		inner = strings.ReplaceAll(inner, "''", "'")
		return &inner, false
	}
	return nil, true
}

// Computed says in words which columns of a table get values from the server by expressions, when a row is inserted or updated.
func (d *DB) Computed(ctx context.Context, name schema.Name) ([]string, error) {
	rows, err := d.Query(ctx, "SELECT COLUMN_NAME, COLUMN_DEFAULT, LOWER(EXTRA), VERSION() LIKE '%MariaDB%' FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "+
		literal(name.Schema)+" AND TABLE_NAME = "+literal(name.Table)+" ORDER BY ORDINAL_POSITION")
	if err != nil {
		return nil, fmt.Errorf("read the defaults of %s: %w", name, err)
	}
	var out []string
	for _, r := range rows {
		if _, computed := defaultOf(r[1], text(r[2]), text(r[3]) == "1"); computed {
			out = append(out, fmt.Sprintf("default %s of column %s", text(r[1]), text(r[0])))
		}
		if _, clause, ok := strings.Cut(text(r[2]), "on update "); ok {
			out = append(out, fmt.Sprintf("ON UPDATE %s of column %s", strings.ToUpper(clause), text(r[0])))
		}
	}
	return out, nil
}
