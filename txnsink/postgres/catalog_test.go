package postgres

import (
	"reflect"
	"strings"
	"sync"
	"testing"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

func column(name, formatType string, more ...func(*schema.Column)) schema.Column {
	c := schema.Column{Name: name, Type: sqlgen.PostgresType(formatType)}
	for _, m := range more {
		m(&c)
	}
	return c
}

func notNull(c *schema.Column)       { c.NotNull = true }
func autoIncrement(c *schema.Column) { c.AutoIncrement = true }
func generated(c *schema.Column)     { c.Generated = true }
func domainOf(name string) func(*schema.Column) {
	base := sqlgen.PostgresType(name)
	return func(c *schema.Column) { c.Type.Base = &base }
}

func withDefault(text string) func(*schema.Column) {
	return func(c *schema.Column) { c.Default = &text }
}

func TestCatalogTellsATableAsItIs(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	query(t, url, `CREATE SCHEMA "Crm"; CREATE TYPE "Crm".mood AS ENUM ('ok'); CREATE DOMAIN posint AS int NOT NULL CHECK (value > 0);
CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE "Crm".other (id int PRIMARY KEY);
CREATE TABLE "Crm"."Odd ""t""" (
	b numeric(10,2) NOT NULL, a bigint GENERATED ALWAYS AS IDENTITY, gone int, s serial, d text DEFAULT 'x', g int GENERATED ALWAYS AS (1 + 1) STORED,
	m "Crm".mood, p posint, ts timestamp(3), arr real[], vc varchar(20),
	PRIMARY KEY (vc, a), UNIQUE (d, b), UNIQUE (ts) DEFERRABLE, UNIQUE (m) INCLUDE (d),
	FOREIGN KEY (s) REFERENCES parent, FOREIGN KEY (p) REFERENCES "Crm".other);
ALTER TABLE "Crm"."Odd ""t""" DROP COLUMN gone;
CREATE UNIQUE INDEX ON "Crm"."Odd ""t""" (b) WHERE b > 0; CREATE UNIQUE INDEX ON "Crm"."Odd ""t""" (lower(d));
COMMENT ON TABLE "Crm"."Odd ""t""" IS 'odd'; COMMENT ON COLUMN "Crm"."Odd ""t""".b IS 'money';
CREATE TABLE parts (id int, PRIMARY KEY (id)) PARTITION BY RANGE (id); CREATE VIEW v AS SELECT 1 AS x;
CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE)`)
	s := open(t, Config{URL: url, Pipeline: "p"})
	want := &schema.Table{
		Name: schema.Name{Schema: "Crm", Table: `Odd "t"`},
		Columns: []schema.Column{
			column("b", "numeric(10,2)", notNull), column("a", "bigint", notNull, autoIncrement),
			column("s", "integer", notNull, autoIncrement, withDefault(`nextval('"Crm"."Odd ""t""_s_seq"'::regclass)`)),
			column("d", "text", withDefault("'x'::text")), column("g", "integer", generated), column("m", `"Crm".mood`),
			column("p", "posint", notNull, domainOf("integer")), column("ts", "timestamp(3) without time zone"), column("arr", "real[]"),
			column("vc", "character varying(20)", notNull),
		},
		PrimaryKey: []string{"vc", "a"},
		Unique:     [][]string{{"d", "b"}, {"m"}},
		Indexes: []schema.Index{
			{Name: `Odd "t"_b_idx`, Columns: []string{"b"}, Unique: true, Special: "partial"},
			{Name: `Odd "t"_d_b_key`, Columns: []string{"d", "b"}, Unique: true},
			{Name: `Odd "t"_lower_idx`, Unique: true, Special: "expression"},
			{Name: `Odd "t"_m_d_key`, Columns: []string{"m"}, Unique: true},
			{Name: `Odd "t"_ts_key`, Columns: []string{"ts"}, Unique: true},
		},
		PrimaryKeyName: `Odd "t"_pkey`,
		References:     []schema.Name{{Schema: "Crm", Table: "other"}, {Schema: "public", Table: "parent"}},
		Comment:        "odd",
	}
	want.Columns[0].Comment = "money"
	want.Columns[5].Type = schema.Type{Kind: schema.Enum, Values: []string{"ok"}, Native: `"Crm".mood`}
	got, err := s.Table(t.Context(), want.Name)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got, err := s.Table(t.Context(), schema.Name{Table: "parts"}); err != nil || got.Name.Schema != "public" || len(got.PrimaryKey) != 1 {
		t.Errorf("partitioned table: %+v, %v", got, err)
	}
	if got, err := s.Table(t.Context(), schema.Name{Table: "deferred"}); err != nil || got.PrimaryKey != nil {
		t.Errorf("deferrable key: %+v, %v", got, err)
	}
	if _, err := s.Table(t.Context(), schema.Name{Table: "v"}); err == nil || !txnsink.Permanent(err) {
		t.Errorf("view: %v", err)
	}
	inCrm := open(t, Config{URL: url, Pipeline: "p", Schema: "Crm"})
	if got, err := inCrm.Table(t.Context(), schema.Name{Table: "other"}); err != nil || got == nil {
		t.Errorf("table in the configured schema: %v, %v", got, err)
	}
}

func TestTablesMayBeDefinedAtOnce(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	var wg sync.WaitGroup
	for range 4 {
		s := open(t, Config{URL: url, Pipeline: "p"})
		wg.Go(func() {
			if err := s.Define(t.Context(), txnsink.Definition{DDL: []string{"CREATE TABLE IF NOT EXISTS t (id serial PRIMARY KEY)"}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, Config{URL: url, Pipeline: "p"})
	if err := s.Define(t.Context(), txnsink.Definition{DDL: []string{"CREATE TABLE t (id int)"}}); err == nil || !strings.Contains(err.Error(), "42P07") {
		t.Errorf("a table that is there: %v", err)
	}
}
