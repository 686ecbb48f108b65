package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	cutpg "replicator/cutover/postgres"
	"replicator/debezium"
)

// migrated is a source and a target with the same rows, whose pipeline has reached the end of its topics. The target has tables
// and primary keys, and nothing else of what the source has.
func migrated(t *testing.T) *migration {
	t.Helper()
	m := newMigration(t, "customers", "orders")
	m.atSource(t, `CREATE TABLE customers (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, email varchar(50) NOT NULL, bio text, made timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
			UNIQUE (email), FULLTEXT INDEX words (bio))`,
		`CREATE TABLE orders (id int AUTO_INCREMENT PRIMARY KEY, customer bigint unsigned NOT NULL, placed datetime, INDEX by_day (placed, customer),
			CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE)`,
		"INSERT INTO customers VALUES (1, 'a@x', 'a', '2020-01-01'), (7, 'b@x', NULL, '2020-01-01')", "INSERT INTO orders VALUES (1, 1, '2020-01-01'), (5, 7, NULL), (9, 7, NULL)", "DELETE FROM orders WHERE id = 9")
	m.atTarget(t, "CREATE TABLE customers (id numeric(20,0) PRIMARY KEY, email varchar(50) NOT NULL, bio text, made timestamptz NOT NULL)",
		"CREATE TABLE orders (id integer PRIMARY KEY, customer numeric(20,0) NOT NULL, placed timestamp)",
		"INSERT INTO customers VALUES (1, 'a@x', 'a', '2020-01-01 00:00:00Z'), (7, 'b@x', NULL, '2020-01-01 00:00:00Z')", "INSERT INTO orders VALUES (1, 1, '2020-01-01'), (5, 7, NULL)")
	if code, _, stderr := call(t, "run", "--config", m.file, "--until-caught-up"); code != exitDone {
		t.Fatalf("run: exit code %d, %s", code, stderr)
	}
	return m
}

// constraints are the target's indexes and foreign keys.
func (m *migration) constraints(t *testing.T) []string {
	t.Helper()
	rows, err := m.conn.Query(t.Context(), `SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE '%pkey'
UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func messages(list []finding) map[string]string {
	out := map[string]string{}
	for _, f := range list {
		out[f.Check] += f.Level + ": " + f.Message + "\n"
	}
	return out
}

// TestAfterCutoverInsertsGoOn inserts into the target as the application does, before another cutover and after it.
func TestAfterCutoverInsertsGoOn(t *testing.T) {
	t.Parallel()
	m := migrated(t)
	got := facts[verdict](t, exitDone, m.args("cutover")...)
	if want := []string{"add", "caught up", "left out", "savepoint", "sequences", "source", "statistics", "verify"}; !got.Go || !slices.Equal(slices.Sorted(maps.Keys(messages(got.Findings))), want) {
		t.Errorf("got %+v, want go and findings about %v", got, want)
	}
	for check, want := range map[string]string{
		"left out":  "warning: ON UPDATE CURRENT_TIMESTAMP(6) of column made of public.customers\nwarning: index customers_words of public.customers\n",
		"sequences": "ok: 2 sequences are past the highest values\n",
		"verify":    "ok: 4 rows of 2 tables are equal\n",
	} {
		if got := messages(got.Findings)[check]; got != want {
			t.Errorf("%s: got %q, want %q", check, got, want)
		}
	}
	want := []string{
		"CREATE INDEX orders_by_day ON public.orders USING btree (placed, customer)",
		"CREATE INDEX orders_of_customer ON public.orders USING btree (customer)",
		"CREATE UNIQUE INDEX customers_email ON public.customers USING btree (email)",
		"orders FOREIGN KEY (customer) REFERENCES customers(id) ON DELETE CASCADE",
	}
	if got := m.constraints(t); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	insert := func(want string) {
		t.Helper()
		var customer, order string
		err := m.conn.QueryRow(t.Context(), `WITH c AS (INSERT INTO customers (email) VALUES (gen_random_uuid()) RETURNING id)
INSERT INTO orders (customer) SELECT id FROM c RETURNING customer, id`).Scan(&customer, &order)
		if got := customer + " " + order; err != nil || got != want {
			t.Errorf("got the keys %s (%v), want %s", got, err, want)
		}
	}
	insert("8 10") // the source has used 9
	insert("9 11")
	// The rows that are new here are differences now; sequences go on all the same once they are gone.
	if code, stdout, _ := call(t, m.args("cutover")...); code != exitDifferences || !strings.HasSuffix(stdout, "no-go\n") {
		t.Errorf("rows of the application: exit code %d\n%s", code, stdout)
	}
	m.atTarget(t, "DELETE FROM customers WHERE id > 7")
	again := facts[verdict](t, exitDone, m.args("cutover")...)
	if got := messages(again.Findings)["add"]; got != "ok: 0 statements for defaults, sequences, indexes and foreign keys have run\n" {
		t.Errorf("repeated: %s", got)
	}
	insert("10 12")
}

// TestCutoverSaysNoGo shows each reason, and that it passes.
func TestCutoverSaysNoGo(t *testing.T) {
	t.Parallel()
	m := migrated(t)
	m.atTarget(t, "UPDATE customers SET email = 'B@x' WHERE id = 7")
	got := facts[verdict](t, exitDifferences, m.args("cutover")...)
	if got.Go || len(m.constraints(t)) > 0 {
		t.Errorf("rows differ: got %+v, and %v in the target", got, m.constraints(t))
	}
	m.atTarget(t, "UPDATE customers SET email = 'b@x' WHERE id = 7", "CREATE TABLE orders_by_day ()") // has the index's name
	got = facts[verdict](t, exitPreflight, m.args("cutover")...)
	if want := "error: index orders_by_day of public.orders is still missing\n"; !strings.HasSuffix(messages(got.Findings)["add"], want) {
		t.Errorf("a name is taken: got %+v, want %q", got, want)
	}
	m.atTarget(t, "DROP TABLE orders_by_day")
	err := m.broker.Produce(t.Context(), debezium.Record{Partition: debezium.Partition{Topic: "p.shop.orders"}, Value: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	got = facts[verdict](t, exitPreflight, m.args("cutover", "--wait", "300ms")...)
	if want := "error: 1 offsets are not applied after 300ms\n"; messages(got.Findings)["caught up"] != want {
		t.Errorf("events are left: got %+v, want %q", got, want)
	}
}

// cuttingOf is a cutover that has not begun.
func cuttingOf(t *testing.T, m *migration) *cutting {
	t.Helper()
	c, err := loadConfig(m.file, []string{"verify.source=" + m.source}, anySecret)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSides(t.Context(), &c, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	source, err := openSource(&c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &cutting{app: &app{stdout: io.Discard, stderr: io.Discard}, config: &c, flags: &verifyFlags{lag: time.Millisecond}, wait: time.Minute, sides: s, source: source}
}

// TestWritesDuringACutoverAreNoGo although each of them has arrived when rows are compared for the last time: their keys may be those that the sequences give
// next. What others write to the source's server does not matter.
func TestWritesDuringACutoverAreNoGo(t *testing.T) {
	t.Parallel()
	m := migrated(t)
	cut := cuttingOf(t, m)
	before, err := cut.logPosition(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ends, ok, err := cut.catchUp(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	tables, err := cut.tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	still := func(want finding) {
		t.Helper()
		cut.found = findings{}
		if err := cut.still(t.Context(), before, ends, tables); err != nil {
			t.Fatal(err)
		}
		if got := cut.found.list[len(cut.found.list)-1]; got.Level != want.Level || got.Check != want.Check || !strings.HasPrefix(got.Message, want.Message) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	still(finding{Level: levelOK, Check: "source", Message: "nobody has written to it meanwhile: its log is still at "})
	m.atSource(t, "CREATE DATABASE other", "CREATE TABLE other.t (id int PRIMARY KEY)")
	still(finding{Level: levelOK, Check: "source", Message: "its log has moved from "})
	m.atSource(t, "INSERT INTO orders VALUES (20, 7, NULL)")
	err = m.broker.Produce(t.Context(), debezium.Record{
		Partition: debezium.Partition{Topic: "p.shop.orders"}, Key: []byte(`{"id":20}`),
		Value: []byte(`{"before":null,"after":{"id":20,"customer":7,"placed":null},"source":{"connector":"mysql","name":"p","db":"shop","table":"orders","snapshot":"false"},"op":"c"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "run", "--config", m.file, "--until-caught-up"); code != exitDone {
		t.Fatalf("run: exit code %d, %s", code, stderr)
	}
	still(finding{Level: levelError, Check: "source", Message: "changes came in meanwhile: shop.orders (1)"})
}

// TestTwoCutoversAtOnceAreNotMade: the second says so, and leaves everything to the first.
func TestTwoCutoversAtOnceAreNotMade(t *testing.T) {
	t.Parallel()
	m := migrated(t)
	first, err := cutpg.Open(t.Context(), m.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	got := facts[verdict](t, exitPreflight, m.args("cutover")...)
	want := verdict{Findings: []finding{{Level: levelError, Check: "cutover", Message: "another cutover of this database is at work", Do: "wait until it has ended, and repeat"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The server ends a session when it has read that it is to end.
	m.atTarget(t, "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory') LOOP PERFORM pg_sleep(0.01); END LOOP; END $$")
	facts[verdict](t, exitDone, m.args("cutover")...)
}

// TestTablesWithoutRowsAreCompletedToo has a table without a topic that schema apply has made, and one that nobody has made; and a column
// that counts at the source and cannot at the target, so that the application's inserts would fail.
func TestTablesWithoutRowsAreCompletedToo(t *testing.T) {
	t.Parallel()
	m := migrated(t)
	m.atSource(t, "CREATE TABLE refunds (id int AUTO_INCREMENT PRIMARY KEY, placed int, CONSTRAINT of_order FOREIGN KEY (placed) REFERENCES orders (id))", "CREATE TABLE coupons (id int PRIMARY KEY)")
	m.atTarget(t, "CREATE TABLE refunds (id int DEFAULT 0 PRIMARY KEY, placed int)")
	got := facts[verdict](t, exitPreflight, m.args("cutover")...)
	const without = "warning: table shop.coupons, which has no topic and is not in the target\n"
	if want := without + "warning: ON UPDATE CURRENT_TIMESTAMP(6) of column made of public.customers\nwarning: index customers_words of public.customers\nerror: sequence of public.refunds.id\n"; messages(got.Findings)["left out"] != want {
		t.Errorf("got %q, want %q", messages(got.Findings)["left out"], want)
	}
	m.atTarget(t, "ALTER TABLE refunds ALTER COLUMN id DROP DEFAULT")
	got = facts[verdict](t, exitDone, m.args("cutover")...)
	if want := "ok: 3 sequences are past the highest values\n"; messages(got.Findings)["sequences"] != want {
		t.Errorf("got %q, want %q", messages(got.Findings)["sequences"], want)
	}
	if n := len(m.constraints(t)); n != 6 { // the index and the foreign key of refunds are among them
		t.Errorf("%d indexes and foreign keys, want 6: %q", n, m.constraints(t))
	}
}

// TestABrokenIndexIsMadeAnew has an index that CREATE INDEX CONCURRENTLY gave up on.
func TestABrokenIndexIsMadeAnew(t *testing.T) {
	t.Parallel()
	m := migrated(t)
	m.atTarget(t, "INSERT INTO customers VALUES (8, 'b@x', NULL, now())")
	if _, err := m.conn.Exec(t.Context(), "CREATE UNIQUE INDEX CONCURRENTLY customers_email ON customers (email)"); err == nil {
		t.Fatal("an index over equal values is unique")
	}
	m.atTarget(t, "DELETE FROM customers WHERE id = 8")
	facts[verdict](t, exitDone, m.args("cutover")...)
	var valid int
	if err := m.conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid = 'customers_email'::regclass").Scan(&valid); err != nil || valid != 1 {
		t.Errorf("%d valid indexes (%v), want 1", valid, err)
	}
	if n := len(m.constraints(t)); n != 4 {
		t.Errorf("%d indexes and foreign keys, want 4: %s", n, fmt.Sprint(m.constraints(t)))
	}
}
