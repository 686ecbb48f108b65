package sqlgen

import (
	"fmt"
	"strings"
	"testing"
)

// TestImplicitValuesAreTheServers: a row gets by Implicit what the server gives one that is there when a column is added.
func TestImplicitValuesAreTheServers(t *testing.T) {
	t.Parallel()
	onEachMySQL(t, func(t *testing.T, db mysqlDatabase) {
		types := []string{
			"tinyint", "tinyint(1)", "smallint unsigned", "mediumint", "int", "bigint unsigned", "decimal(12,2)", "float", "double", "bit(12)", "year", "date", "datetime(3)",
			"timestamp", "time(6)", "char(4)", "varchar(9)", "text", "binary(6)", "varbinary(9)", "longblob", "enum('x''y','b')", "set('a','b')",
		}
		if !db.MariaDB { // whose JSON is a text, and becomes an empty one that it would not take
			types = append(types, "json")
		}
		added, names, values := make([]string, len(types)), make([]string, len(types)), make([]string, len(types))
		for i, native := range types {
			typ := MySQLType(native)
			v := db.Implicit(typ, typ)
			if v == nil {
				t.Errorf("%s: no value", native)
			}
			names[i] = fmt.Sprintf("c%d", i)
			added[i] = fmt.Sprintf("ADD COLUMN %s %s NOT NULL", names[i], native)
			values[i] = string(mysqlLiteralOf(typ).append(nil, v))
		}
		for _, sql := range []string{
			"SET sql_mode = 'NO_ENGINE_SUBSTITUTION'", // as at a source that let it pass
			"CREATE TABLE implicit (id int PRIMARY KEY)", "INSERT INTO implicit VALUES (1)", "ALTER TABLE implicit " + strings.Join(added, ", "),
			"SET sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'", // as ours
			"INSERT INTO implicit (id, " + strings.Join(names, ", ") + ") VALUES (2, " + strings.Join(values, ", ") + ")",
		} {
			if _, err := db.conn.ExecContext(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		for i, name := range names {
			var same bool
			query := "SELECT a." + name + " = b." + name + " AND LENGTH(a." + name + ") = LENGTH(b." + name + ") FROM implicit a, implicit b WHERE a.id = 1 AND b.id = 2"
			if err := db.conn.QueryRowContext(t.Context(), query).Scan(&same); err != nil || !same {
				t.Errorf("%s: %v; the values differ: %s", types[i], err, values[i])
			}
		}
	})
}
