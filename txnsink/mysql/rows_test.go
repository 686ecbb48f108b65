package mysql

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
)

func TestCheckViolationNamesTheRowAndHoldsNoValue(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := fenced(t, url)
		tx := begun(t, s, 1, [2]int64{1, 10})
		var rows [][2]int64
		for i := range int64(500) {
			rows = append(rows, [2]int64{i + 10, 1})
		}
		rows[321][1] = 987654
		err := tx.Apply(t.Context(), payments(t, s, rows...))
		var row *sqlgen.RowError
		if !errors.As(err, &row) || row.Class != sqlgen.CheckViolation || row.Origin.Offset != 321 || row.Origin.Key != "id=331" {
			t.Fatalf("got %v", err)
		}
		if strings.Contains(err.Error(), "987654") {
			t.Errorf("the value is in %v", err)
		}
		if err := tx.PreCommit(t.Context()); err == nil {
			t.Error("prepared after an error")
		}
		if err := tx.Abort(t.Context()); err != nil {
			t.Error(err)
		}
		wantRows(t, url)
		if got := pendingIDs(t, s); got != nil {
			t.Errorf("in doubt: %v", got)
		}
	})
}

func TestRowThatNoPacketHoldsIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := fenced(t, url)
		statements := payments(t, s, [2]int64{1, 10}, [2]int64{2, 20})
		s.facts.maxPacket = 10
		tx := begun(t, s, 1)
		err := tx.Apply(t.Context(), statements)
		var row *sqlgen.RowError
		if !errors.As(err, &row) || row.Class != sqlgen.TooLarge || row.Origin.Key != "id=1" || !strings.Contains(err.Error(), "max_allowed_packet") {
			t.Errorf("got %v", err)
		}
		if err := tx.Abort(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestServerErrorsHoldNoValues(t *testing.T) {
	t.Parallel()
	for message, e := range map[string]mysql.MySQLError{
		"unique_violation, key pay.PRIMARY (error 1062)":   {Number: 1062, SQLState: state("23000"), Message: "Duplicate entry 'sesame' for key 'pay.PRIMARY'"},
		"invalid_value, column id (error 1366)":            {Number: 1366, SQLState: state("HY000"), Message: "Incorrect integer value: 'sesame' for column 'id' at row 1"},
		"invalid_value, column amt (error 1366)":           {Number: 1366, SQLState: state("22007"), Message: "Incorrect integer value: 'sesame' for column `d`.`pay`.`amt` at row 1"},
		"invalid_value (error 1292)":                       {Number: 1292, SQLState: state("22007"), Message: "Truncated incorrect DOUBLE value: 'sesame'"},
		"check_violation, constraint pay.amt (error 4025)": {Number: 4025, SQLState: state("23000"), Message: "CONSTRAINT `pay.amt` failed for `d`.`pay`"},
		"a trigger raised an error (error 1644)":           {Number: 1644, SQLState: state("45000"), Message: "sesame is refused"},
		"a statement has a syntax error (error 1064)":      {Number: 1064, SQLState: state("42000"), Message: "You have an error near 'sesame'"},
	} {
		if err := Plain(&e); err.Error() != message {
			t.Errorf("got %q, want %q", err, message)
		}
		if err := rowError(&e, schema.Name{}, sqlgen.Origin{}); strings.Contains(err.Error(), "sesame") {
			t.Errorf("got %v", err)
		}
	}
}

func state(s string) (out [5]byte) {
	copy(out[:], s)
	return out
}

func TestCatalogSaysWhatATableIs(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		execute(t, url, "CREATE TABLE parent (id int PRIMARY KEY) ENGINE=InnoDB", `CREATE TABLE c (
	id bigint unsigned NOT NULL AUTO_INCREMENT, parent int, email varchar(20) NOT NULL DEFAULT 'x', long_text text,
	twice int AS (parent * 2) STORED, mood enum('sad','it''s ok') COMMENT 'today''s',
	PRIMARY KEY (id, email), UNIQUE KEY u (email, parent), UNIQUE KEY prefixed (long_text(5)), FOREIGN KEY (parent) REFERENCES parent (id)
) ENGINE=InnoDB COMMENT='all'`, "CREATE TABLE flat (id int PRIMARY KEY) ENGINE=MyISAM", "CREATE VIEW v AS SELECT 1 AS one")
		s := open(t, Config{URL: url, Pipeline: "p"})
		got, err := s.Table(t.Context(), schema.Name{Table: "c"})
		if err != nil || got == nil {
			t.Fatalf("got %v, %v", got, err)
		}
		database := strings.TrimPrefix(pipelineOf(url), "p-")
		x := "x"
		if server.Kind() == mysqlserver.MariaDB {
			x = "'x'" // an expression there
		}
		want := schema.Table{
			Name: schema.Name{Schema: database, Table: "c"}, Comment: "all", PrimaryKey: []string{"id", "email"},
			Unique: [][]string{{"email", "parent"}},
			Indexes: []schema.Index{
				{Name: "parent", Columns: []string{"parent"}},
				{Name: "prefixed", Columns: []string{"long_text"}, Unique: true, Special: "prefix", Parts: []schema.IndexPart{{Column: "long_text", Length: 5}}},
				{Name: "u", Columns: []string{"email", "parent"}, Unique: true},
			},
			References: []schema.Name{{Schema: database, Table: "parent"}},
			Columns: []schema.Column{
				{Name: "id", NotNull: true, AutoIncrement: true},
				{Name: "parent"},
				{Name: "email", NotNull: true, Default: &x},
				{Name: "long_text"},
				{Name: "twice", Generated: true},
				{Name: "mood", Comment: "today's"},
			},
		}
		types := []string{"bigint unsigned", "int", "varchar(20)", "text", "int", "enum('sad','it''s ok')"}
		if server.Kind() == mysqlserver.MariaDB {
			types[0], types[1], types[4] = "bigint(20) unsigned", "int(11)", "int(11)"
		}
		for i, native := range types {
			want.Columns[i].Type = sqlgen.MySQLType(native)
		}
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("got  %+v\nwant %+v", *got, want)
		}
		for table, word := range map[string]string{"flat": "ENGINE = InnoDB", "v": "not a table"} {
			if _, err := s.Table(t.Context(), schema.Name{Table: table}); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v", table, err)
			}
		}
		if kinds := []schema.Kind{got.Columns[0].Type.Kind, got.Columns[5].Type.Kind}; !slices.Equal(kinds, []schema.Kind{schema.Uint64, schema.Enum}) {
			t.Errorf("got kinds %v", kinds)
		}
	})
}
