//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// moveSchema is an application's: keys that count by themselves, one of them unsigned, foreign keys, indexes, a table that nobody has
// written to yet, and one row that counts the application's transactions. Its last customers are gone, and their keys are used.
const moveSchema = `CREATE DATABASE move CHARACTER SET utf8mb4; USE move; SET SESSION cte_max_recursion_depth = 100000;
CREATE TABLE customers (id INT AUTO_INCREMENT PRIMARY KEY, email VARCHAR(80) NOT NULL UNIQUE, name VARCHAR(80), INDEX by_name (name, id));
CREATE TABLE orders (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer_id INT NOT NULL, total DECIMAL(12,2) NOT NULL, placed DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), INDEX by_day (placed),
  CONSTRAINT of_customer FOREIGN KEY (customer_id) REFERENCES customers (id));
CREATE TABLE order_items (order_id BIGINT UNSIGNED, line SMALLINT, sku VARCHAR(20) NOT NULL, PRIMARY KEY (order_id, line), CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES orders (id));
CREATE TABLE refunds (id INT AUTO_INCREMENT PRIMARY KEY, order_id BIGINT UNSIGNED NOT NULL, CONSTRAINT of_refunded FOREIGN KEY (order_id) REFERENCES orders (id));
CREATE TABLE pulse (id INT PRIMARY KEY, n BIGINT NOT NULL); INSERT INTO pulse VALUES (1, 0);
INSERT INTO customers (email, name) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT CONCAT('c', i, '@example.org'), CONCAT('name ', i % 100) FROM n;
INSERT INTO orders (customer_id, total, placed) SELECT id, id / 8, '2024-01-01' FROM customers WHERE id <= 4990;
INSERT INTO order_items SELECT id, 1, CONCAT('sku ', id % 10) FROM orders; DELETE FROM customers WHERE id > 4990;
`

// move is the statements of random transaction number n of the application.
func move(random *rand.Rand, n int64) []string {
	row := 1 + random.IntN(5000)
	switch random.IntN(4) {
	case 0: // an order of a new customer
		return []string{
			fmt.Sprintf("INSERT INTO customers (email, name) VALUES ('new%d@example.org', 'new')", n),
			"INSERT INTO orders (customer_id, total, placed) VALUES (LAST_INSERT_ID(), 1.5, NOW(6))",
			"INSERT INTO order_items VALUES (LAST_INSERT_ID(), 1, 'sku'), (LAST_INSERT_ID(), 2, 'sku')",
		}
	case 1:
		return []string{fmt.Sprintf("UPDATE customers SET name = 'changed %d' WHERE id = %d", n, row), fmt.Sprintf("UPDATE orders SET total = total + 1 WHERE id = %d", row)}
	case 2:
		return []string{fmt.Sprintf("DELETE FROM order_items WHERE order_id = %d", row), fmt.Sprintf("DELETE FROM orders WHERE id = %d", row)}
	default: // keys are used, and nobody has them
		return []string{
			fmt.Sprintf("INSERT INTO customers (email) VALUES ('short%d@example.org')", n),
			"DELETE FROM customers WHERE id = LAST_INSERT_ID()",
		}
	}
}

// application writes to the source until it is stopped.
type application struct {
	stop  chan struct{}
	ended chan error
	n     int64 // transactions; valid when ended has been received
}

func startApplication(t *testing.T, random *rand.Rand) *application {
	t.Helper()
	a := &application{stop: make(chan struct{}), ended: make(chan error, 1)}
	c, err := startClient(t.Context(), "mysql", "move")
	if err != nil {
		t.Fatal(err)
	}
	go func() { a.ended <- a.write(t.Context(), c, random) }()
	return a
}

func (a *application) write(ctx context.Context, c *client, random *rand.Rand) error {
	next := time.NewTicker(20 * time.Millisecond)
	defer next.Stop()
	for {
		select {
		case <-a.stop:
			return c.end()
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		}
		a.n++
		statements := append(move(random, a.n), fmt.Sprintf("UPDATE pulse SET n = %d", a.n))
		if _, err := fmt.Fprintf(c.stdin, "START TRANSACTION; %s; COMMIT;\n", strings.Join(statements, "; ")); err != nil {
			return fmt.Errorf("application: %w", c.endedEarly(err))
		}
	}
}

// migration is the pipeline of the application's database.
type migration struct {
	*liveConnector
	config string
}

const moveConfiguration = `pipeline: %[1]s
source:
  brokers: [%[2]s]
  topics: ['%[3]s\.move\..*']
  schema_changes: %[3]s
target: {url: '%[4]s'}
schema: {indexes: false}   # cutover makes them
checkpoint: {interval: 200ms}
http: {listen: '%[5]s', token: secret}
verify: {source: 'mysql://%[6]s'}
log: {level: warn}
`

func beginMigration(t *testing.T) *migration {
	t.Helper()
	l := &liveConnector{name: "plain", stack: openStack(t, "move", "move", "")}
	l.connector, l.pipeline = l.database, l.database // another one on a stack that was left running
	l.createDatabase(t, l.database)
	l.lab(t, "mysql", "-e", moveSchema)
	l.startConnector(t, l.connectorFile(t))
	mysql := strings.NewReplacer("tcp(", "", ")", "").Replace(os.Getenv("LAB_MYSQL_DSN"))
	port, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := port.Addr().String()
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	config := fmt.Appendf(nil, moveConfiguration, l.pipeline, l.broker, l.connector, l.databaseURL(l.database), listen, mysql)
	return &migration{l, writeFile(t, l.pipeline+".yaml", config)}
}

// command runs a command of the replicator's and returns its exit code and what it printed.
func (m *migration) command(t *testing.T, args ...string) (code int, stdout []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, m.binary, append(args, "--config", m.config)...)
	var problems strings.Builder
	c.Stderr = &problems
	stdout, err := c.Output()
	if c.ProcessState == nil || !c.ProcessState.Exited() {
		t.Fatalf("%v: %v\n%s", args, err, problems.String())
	}
	shown := stdout
	if slices.Contains(args, "--json") {
		shown = nil
	}
	t.Logf("%s: exit code %d\n%s%s", strings.Join(args, " "), c.ProcessState.ExitCode(), shown, problems.String())
	return c.ProcessState.ExitCode(), stdout
}

// order inserts a customer with an order at the target as the application does, and returns the keys that it was given.
func order(ctx context.Context, c *pgx.Conn, email string) (customer int64, placed string, err error) {
	err = c.QueryRow(ctx, `WITH c AS (INSERT INTO customers (email, name) VALUES ($1, 'moved') RETURNING id),
	o AS (INSERT INTO orders (customer_id, total) SELECT id, 9 FROM c RETURNING id, customer_id),
	i AS (INSERT INTO order_items SELECT id, 1, 'sku' FROM o)
SELECT customer_id, id::text FROM o`, email).Scan(&customer, &placed)
	return customer, placed, err
}

// The exit codes of cutover.
const (
	codeGo          = 0
	codeNoGo        = 3
	codeDifferences = 4
)

// TestAnApplicationMovesToPostgreSQL from a MySQL server under writes: the snapshot, catching up, a cutover that comes too early, the application's
// end at the source, a cutover, its inserts at the target, and the way back.
func TestAnApplicationMovesToPostgreSQL(t *testing.T) {
	seed := seedOf(t)
	t.Logf("to use the same random changes again: E2E_SEED=%d", seed)
	m := beginMigration(t)
	app := startApplication(t, rand.New(rand.NewPCG(seed, 5)))
	m.daemon = m.start(t, m.config)
	m.awaitSnapshot(t)
	m.awaitPulse(t, m.daemon, m.sourcePulse(t)+1)
	// The pulse changes with each transaction, and is never seen to be equal.
	if code, _ := m.command(t, "verify", "--lag", "15s", "--tables", `move\.(customers|orders|order_items)`); code != codeGo {
		t.Errorf("verify under writes: exit code %d, want no differences", code)
	}
	m.onTarget(t, m.databaseURL(m.database), func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE TABLE refunds (id integer PRIMARY KEY, order_id numeric(20,0) NOT NULL)") // no event has made it
		return err
	})
	if code, _ := m.command(t, "cutover", "--wait", "5s", "--lag", "200ms"); code != codeNoGo && code != codeDifferences {
		t.Errorf("cutover under writes: exit code %d, want no-go", code)
	}
	close(app.stop)
	if err := <-app.ended; err != nil {
		t.Fatal(err)
	}
	m.awaitPulse(t, m.daemon, app.n)
	savepoint := m.cutover(t)

	m.goOn(t)
	if code, _ := m.command(t, "cutover", "--lag", "200ms"); code != codeDifferences {
		t.Errorf("cutover when the application has moved: exit code %d, want %d", code, codeDifferences)
	}
	m.goBack(t, savepoint)
}

// cutover is the one that says go, twice. It returns the way back.
func (m *migration) cutover(t *testing.T) string {
	t.Helper()
	var verdict struct {
		Go        bool
		Savepoint int64
	}
	for range 2 {
		code, out := m.command(t, "cutover", "--json", "--lag", "1s")
		if err := json.Unmarshal(out, &verdict); err != nil || code != codeGo || !verdict.Go || verdict.Savepoint == 0 {
			t.Fatalf("cutover: exit code %d, %+v (%v)\n%s", code, verdict, err, m.daemon.tail())
		}
	}
	m.onTarget(t, m.databaseURL(m.database), func(ctx context.Context, c *pgx.Conn) error {
		got, err := collect[string](ctx, c, `SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE '%pkey'
UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' ORDER BY 1`)
		want := []string{
			"CREATE INDEX customers_by_name ON public.customers USING btree (name, id)",
			"CREATE INDEX orders_by_day ON public.orders USING btree (placed)",
			"CREATE INDEX orders_of_customer ON public.orders USING btree (customer_id)",
			"CREATE INDEX refunds_of_refunded ON public.refunds USING btree (order_id)",
			"CREATE UNIQUE INDEX customers_email ON public.customers USING btree (email)",
			"order_items FOREIGN KEY (order_id) REFERENCES orders(id)",
			"orders FOREIGN KEY (customer_id) REFERENCES customers(id)",
			"refunds FOREIGN KEY (order_id) REFERENCES orders(id)",
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("indexes and foreign keys: got %q\nwant %q", got, want)
		}
		return err
	})
	return fmt.Sprint(verdict.Savepoint)
}

// goOn is the application at the target: its keys are those that the source would have given next, and what the source forbade is
// forbidden.
func (m *migration) goOn(t *testing.T) {
	t.Helper()
	next := m.mysqlRows(t, `SET SESSION information_schema_stats_expiry = 0; SELECT AUTO_INCREMENT FROM information_schema.TABLES
WHERE TABLE_SCHEMA = 'move' AND TABLE_NAME IN ('customers', 'orders') ORDER BY TABLE_NAME`)
	m.onTarget(t, m.databaseURL(m.database), func(ctx context.Context, c *pgx.Conn) error {
		for i := range 20 {
			customer, placed, err := order(ctx, c, fmt.Sprintf("moved%d@example.org", i))
			if err != nil {
				return fmt.Errorf("the application's insert %d: %w", i, err)
			}
			if got, want := fmt.Sprint(customer, " ", placed), next[0][0]+" "+next[1][0]; i == 0 && got != want {
				t.Errorf("the first keys at the target: got %s, want %s, which the source would have given next", got, want)
			}
		}
		if _, err := c.Exec(ctx, "INSERT INTO refunds (order_id) SELECT max(id) FROM orders"); err != nil {
			return fmt.Errorf("the first row of a table: %w", err)
		}
		for _, sql := range []string{
			"INSERT INTO customers (email) VALUES ('moved1@example.org')", "INSERT INTO orders (customer_id, total, placed) VALUES (-1, 1, now())",
			"DELETE FROM customers WHERE email = 'moved1@example.org'",
		} {
			if _, err := c.Exec(ctx, sql); err == nil {
				t.Errorf("%s: no error, and the source would have had one", sql)
			}
		}
		return nil
	})
}

// goBack is the way back: the application writes to the source again, with keys that it had given at the target too. Its rows there are
// removed by what verify says of them, and what the source has changed since the savepoint is applied once more.
func (m *migration) goBack(t *testing.T, savepoint string) {
	t.Helper()
	m.daemon.stop(t)
	m.lab(t, "mysql", "move", "-e", "INSERT INTO customers (email, name) VALUES ('back@example.org', 'back'); UPDATE customers SET name = 'back' WHERE id = 1; UPDATE pulse SET n = n + 1")
	code, out := m.command(t, "verify", "--json", "--lag", "200ms")
	var report struct {
		Tables []struct {
			Table       string
			Differences []struct {
				Kind string
				Key  []string
			}
		}
	}
	if err := json.Unmarshal(out, &report); err != nil || code != codeDifferences {
		t.Fatalf("verify: exit code %d (%v)", code, err)
	}
	m.onTarget(t, m.databaseURL(m.database), func(ctx context.Context, c *pgx.Conn) error {
		if _, err := c.Exec(ctx, "DELETE FROM refunds"); err != nil { // it has no topic, and no part in verify
			return err
		}
		removed := map[string]int{}
		for _, name := range []string{"order_items", "orders", "customers"} { // children first: their keys are checked
			for _, table := range report.Tables {
				for _, d := range table.Differences {
					if table.Table != "move."+name || d.Kind != "extra" {
						continue
					}
					column := map[bool]string{false: "id", true: "order_id"}[name == "order_items"]
					if _, err := c.Exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s = %s", name, column, d.Key[0])); err != nil {
						return err
					}
					removed[name]++
				}
			}
		}
		t.Logf("removed what the application had written at the target: %v", removed)
		return nil
	})
	m.start(t, m.config, "--from", savepoint, "--replay", "--until-caught-up").wait(t, 2*time.Minute)
	eventually(t, time.Minute, "the connector has sent what was written", func(context.Context) error {
		m.start(t, m.config, "--until-caught-up").wait(t, time.Minute)
		report, err := m.compare(t)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, report)
		}
		return nil
	})
	if code, _ := m.command(t, "verify", "--lag", "200ms"); code != codeGo {
		t.Errorf("verify after the way back: exit code %d", code)
	}
}
