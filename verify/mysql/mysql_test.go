package mysql

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"replicator/schema"
	"replicator/txnsink/mysql"
	"replicator/txnsink/mysql/mysqlserver"
)

// onServers runs a test on a server of each kind, with a database that holds what statements make.
func onServers(t *testing.T, test func(t *testing.T, server *mysqlserver.Server, db *DB, execute func(...string))) {
	t.Helper()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: kind, Settings: map[string]string{"log-bin": "binlog", "server-id": "1"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Stop(); err != nil {
					t.Error(err)
				}
			})
			if err := server.CreateDatabase(t.Context(), "shop"); err != nil {
				t.Fatal(err)
			}
			writer, err := mysql.OpenDB(server.URL("shop"), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			db, err := Open(t.Context(), Config{URL: server.URL(""), Sessions: 2})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := errors.Join(writer.Close(), db.Close()); err != nil {
					t.Error(err)
				}
			})
			test(t, server, db, func(statements ...string) {
				t.Helper()
				for _, s := range statements {
					if _, err := writer.ExecContext(t.Context(), s); err != nil {
						t.Fatalf("%s: %v", s, err)
					}
				}
			})
		})
	}
}

var orders = schema.Name{Schema: "shop", Table: "orders"}

// TestTheCatalogIsReadAsItIs, with what tells a cutover which indexes have no like elsewhere.
func TestTheCatalogIsReadAsItIs(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, server *mysqlserver.Server, db *DB, execute func(...string)) {
		execute("CREATE TABLE customers (region int, id int, bio text, PRIMARY KEY (region, id), FULLTEXT INDEX words (bio), INDEX begins (bio(10)))",
			"CREATE TABLE orders (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, r int, c int, twice int AS (c * 2), note varchar(9) DEFAULT 'it''s', "+
				"at datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, u varchar(40) DEFAULT (uuid()), five decimal(5,2) NOT NULL DEFAULT 5, UNIQUE INDEX by_note (note, c), "+
				"CONSTRAINT of_customer FOREIGN KEY (r, c) REFERENCES customers (region, id) ON DELETE CASCADE)")
		names, err := db.Tables(t.Context())
		if want := []schema.Name{{Schema: "shop", Table: "customers"}, orders}; err != nil || !reflect.DeepEqual(names, want) {
			t.Errorf("tables: got %v (%v), want %v", names, err, want)
		}
		table, err := db.Table(t.Context(), orders)
		if err != nil {
			t.Fatal(err)
		}
		type shape struct {
			name                      string
			notNull, counts, computed bool
			otherwise                 string
		}
		var columns []shape
		for _, c := range table.Columns {
			otherwise := "none"
			if c.Default != nil {
				otherwise = strings.TrimSuffix(strings.ToUpper(*c.Default), "()") // MariaDB writes current_timestamp()
			}
			columns = append(columns, shape{c.Name, c.NotNull, c.AutoIncrement, c.Generated, otherwise})
		}
		want := []shape{
			{"id", true, true, false, "none"}, {"r", false, false, false, "none"}, {"c", false, false, false, "none"}, {"twice", false, false, true, "none"},
			{"note", false, false, false, "IT'S"}, {"at", false, false, false, "CURRENT_TIMESTAMP"}, {"u", false, false, false, "none"}, {"five", true, false, false, "5.00"},
		}
		if !reflect.DeepEqual(columns, want) || !reflect.DeepEqual(table.PrimaryKey, []string{"id"}) || table.Columns[0].Type.Kind != schema.Uint64 {
			t.Errorf("got %+v of %+v, want %+v", columns, table, want)
		}
		computed, err := db.Computed(t.Context(), orders)
		if want := []string{"ON UPDATE CURRENT_TIMESTAMP of column at", "default uuid() of column u"}; err != nil || !reflect.DeepEqual(strip(computed), want) {
			t.Errorf("computed: got %q (%v), want %q", computed, err, want)
		}
		indexes, err := db.Indexes(t.Context(), orders)
		wantIndexes := []schema.Index{{Name: "by_note", Columns: []string{"note", "c"}, Unique: true}, {Name: "of_customer", Columns: []string{"r", "c"}}}
		if err != nil || !reflect.DeepEqual(indexes, wantIndexes) {
			t.Errorf("indexes: got %+v (%v), want %+v", indexes, err, wantIndexes)
		}
		indexes, err = db.Indexes(t.Context(), schema.Name{Schema: "shop", Table: "customers"})
		wantIndexes = []schema.Index{{Name: "begins", Columns: []string{"bio"}, Special: "prefix"}, {Name: "words", Columns: []string{"bio"}, Special: "fulltext"}}
		if err != nil || !reflect.DeepEqual(indexes, wantIndexes) {
			t.Errorf("indexes: got %+v (%v), want %+v", indexes, err, wantIndexes)
		}
		keys, err := db.ForeignKeys(t.Context(), orders)
		wantKeys := []schema.ForeignKey{{
			Name: "of_customer", Columns: []string{"r", "c"}, References: schema.Name{Schema: "shop", Table: "customers"}, Referenced: []string{"region", "id"},
			OnDelete: "CASCADE", OnUpdate: "NO ACTION",
		}}
		if server.Kind() == mysqlserver.MariaDB {
			wantKeys[0].OnUpdate = "RESTRICT" // which is the same there
		}
		if err != nil || !reflect.DeepEqual(keys, wantKeys) {
			t.Errorf("foreign keys: got %+v (%v), want %+v", keys, err, wantKeys)
		}
	})
}

// strip leaves out the parentheses that MariaDB writes after CURRENT_TIMESTAMP.
func strip(list []string) []string {
	for i := range list {
		list[i] = strings.Replace(list[i], "TIMESTAMP()", "TIMESTAMP", 1)
	}
	return list
}

// TestWhatWasUsedIsKnown of keys and of the log, also where the rows are gone, and at once.
func TestWhatWasUsedIsKnown(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, server *mysqlserver.Server, db *DB, execute func(...string)) {
		execute("CREATE TABLE orders (id int AUTO_INCREMENT PRIMARY KEY)", "CREATE TABLE plain (id int PRIMARY KEY)")
		for _, step := range []struct {
			sql  string
			next int64
		}{
			{"INSERT INTO orders VALUES (NULL), (NULL), (NULL)", 4},
			{"DELETE FROM orders", 4},
			{"INSERT INTO orders VALUES (100)", 101},
		} {
			execute(step.sql)
			if got, err := db.NextValue(t.Context(), orders); got != step.next || err != nil {
				t.Errorf("%s: next is %d (%v), want %d", step.sql, got, err, step.next)
			}
		}
		if got, err := db.NextValue(t.Context(), schema.Name{Schema: "shop", Table: "plain"}); got != 0 || err != nil {
			t.Errorf("without AUTO_INCREMENT: next is %d (%v), want 0", got, err)
		}
		before, err := db.LogPosition(t.Context())
		if err != nil || !strings.HasPrefix(before, "binlog.0") {
			t.Errorf("position %q (%v)", before, err)
		}
		again, err := db.LogPosition(t.Context())
		if again != before || err != nil {
			t.Errorf("nobody wrote: got %s (%v), want %s", again, err, before)
		}
		execute("INSERT INTO plain VALUES (1)")
		if after, err := db.LogPosition(t.Context()); after == before || err != nil {
			t.Errorf("somebody wrote: still %s (%v)", after, err)
		}
		execute("CREATE USER 'weak'@'127.0.0.1' IDENTIFIED BY 'sesame'")
		weak, err := Open(t.Context(), Config{URL: strings.Replace(server.URL(""), "root@", "weak:sesame@", 1), Sessions: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := weak.LogPosition(t.Context()); got != "" || err != nil {
			t.Errorf("a user who may not know: got %q (%v), want nothing", got, err)
		}
		if err := weak.Close(); err != nil {
			t.Error(err)
		}
		if _, err := db.Query(t.Context(), "INSERT INTO shop.plain VALUES (2)"); err == nil || !strings.Contains(err.Error(), "READ ONLY") {
			t.Errorf("a side that writes: %v, want an error", err)
		}
	})
}

func TestURLsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mysql://u:p@h:1/":             "",
		"mariadb://u@h/d?tls=true":     "",
		"postgres://u@h/":              "the URL must be as mysql://user:password@host:3306/",
		"mysql:///d":                   "the URL must be as mysql://user:password@host:3306/",
		"mysql://u:s%zz@h/":            "the URL cannot be read; characters such as @ / # % of a password must be percent-encoded",
		"mysql://u:s@cr/t@h/":          "the URL cannot be read; characters such as @ / # % of a password must be percent-encoded",
		"mysql://u@h/?charset=latin1":  "the URL has the parameter charset; it takes tls alone",
		"mysql://u@h/d?tls=preferred":  "tls_configuration: the URL has a tls that there is not; it must be true, false, skip-verify",
		"mysql://u@h/d?tls=false&x=1x": "the URL has the parameter x; it takes tls alone",
	} {
		got := ""
		if err := CheckURL(url); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}
