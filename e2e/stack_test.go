//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// stack is the lab's servers as `lab up` left them; the environment says where they are.
type stack struct {
	binary             string // the replicator under test
	postgres           string // URL of the server's database postgres
	broker, connect    string
	registry           string // of schemas, for the connectors that write Avro
	logs               string // a directory that outlives the test
	source             string // the database of MySQL's that the test changes
	connector          string // its name, which is also the prefix of its topics
	database, pipeline string // this run's own
}

// openStack finds the servers, and names a database to replicate into.
func openStack(t *testing.T, pipeline, source, connector string) *stack {
	t.Helper()
	env := func(name string) string {
		v := os.Getenv(name)
		if v == "" {
			t.Fatalf("%s is not set: run this test by `make e2e` or e2e/run, which start the servers that it needs", name)
		}
		return v
	}
	return &stack{
		binary: env("E2E_BINARY"), postgres: env("LAB_POSTGRES_URL"), broker: env("LAB_KAFKA"), connect: env("LAB_CONNECT"),
		registry: env("LAB_REGISTRY"), logs: env("E2E_LOGS"),
		source: source, connector: connector, database: fmt.Sprintf("%s_%d", pipeline, time.Now().Unix()), pipeline: pipeline,
	}
}

func (s *stack) createDatabase(t *testing.T, name string) {
	t.Helper()
	s.onTarget(t, s.postgres, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
		return err
	})
}

// lab runs a command of the lab's.
func (s *stack) lab(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, problems bytes.Buffer
	c := exec.CommandContext(t.Context(), "lab/lab", args...)
	c.Stdout, c.Stderr = &out, &problems
	if err := c.Run(); err != nil {
		t.Fatalf("lab %s: %v\n%s", strings.Join(args, " "), err, problems.String())
	}
	return out.Bytes()
}

// mysqlFile runs a file of statements.
func (s *stack) mysqlFile(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := exec.CommandContext(t.Context(), "lab/lab", "mysql")
	c.Stdin = f
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
}

// mysqlRows is a query's result as the client prints it: tab-separated, NULL for NULL, bytes in hexadecimal.
func (s *stack) mysqlRows(t *testing.T, query string) [][]string {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(s.lab(t, "mysql", "-N", "-B", "-r", "--binary-as-hex", s.source, "-e", query)))
	var rows [][]string
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF && line == "" {
			return rows
		}
		if err != nil {
			t.Fatalf("the client's output ends within a line: %v", err)
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
}

// tables is what the source says of its tables, the connector's signal table aside.
func (s *stack) tables(t *testing.T) []Table {
	t.Helper()
	var out []Table
	for _, r := range s.mysqlRows(t, `SELECT table_name, column_name, data_type, column_type, column_key FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name <> 'dbz_signal' ORDER BY table_name, ordinal_position`) {
		if len(out) == 0 || out[len(out)-1].Name != r[0] {
			out = append(out, Table{Name: r[0]})
		}
		last := &out[len(out)-1]
		last.Columns = append(last.Columns, Column{Name: r[1], Type: r[2], FullType: r[3], Key: r[4] == "PRI"})
	}
	return out
}

func (s *stack) sourceRows(t *testing.T, table Table) []Row {
	t.Helper()
	var columns []string
	for _, c := range table.Columns {
		columns = append(columns, c.SelectExpression())
	}
	var out []Row
	for _, r := range s.mysqlRows(t, "SELECT "+strings.Join(columns, ", ")+" FROM `"+table.Name+"`") {
		row := make(Row, len(r))
		for i := range r {
			if r[i] != "NULL" { // text is in hexadecimal, so this is no value
				row[i] = &r[i]
			}
		}
		out = append(out, row)
	}
	return out
}

// postgresRows reads a table of PostgreSQL's.
func (s *stack) postgresRows(ctx context.Context, c *pgx.Conn, table Table) ([]Row, error) {
	names, err := collect[string](ctx, c, `SELECT attname::text FROM pg_attribute
		WHERE attrelid = format('public.%I', $1::text)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table.Name)
	if err != nil {
		return nil, fmt.Errorf("columns of %s: %w", table.Name, err)
	}
	if len(names) != len(table.Columns) {
		return nil, fmt.Errorf("table %s has %d columns in the source, and in the target %q", table.Name, len(table.Columns), names)
	}
	var texts []string
	for _, c := range table.Columns {
		i := slices.IndexFunc(names, func(name string) bool { return sharedName(name) == sharedName(c.Name) })
		if i < 0 {
			return nil, fmt.Errorf("column %s of %s is not in the target, which has %q", c.Name, table.Name, names)
		}
		texts = append(texts, pgx.Identifier{names[i]}.Sanitize()+"::text")
	}
	rows, err := c.Query(ctx, "SELECT "+strings.Join(texts, ", ")+" FROM "+pgx.Identifier{"public", table.Name}.Sanitize())
	if err != nil {
		return nil, fmt.Errorf("rows of %s: %w", table.Name, err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (Row, error) {
		row := make(Row, len(names))
		into := make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		return row, r.Scan(into...)
	})
}

func collect[T any](ctx context.Context, c *pgx.Conn, query string, args ...any) ([]T, error) {
	rows, err := c.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// databaseURL is a database of the server's.
func (s *stack) databaseURL(name string) string {
	base, options, _ := strings.Cut(s.postgres, "?")
	return base[:strings.LastIndex(base, "/")+1] + name + "?" + options
}

// target opens a session on this run's database.
func (s *stack) target(ctx context.Context) (*pgx.Conn, error) { return s.session(ctx, s.database) }

// session opens a session on a database, with the settings that FromPostgres expects.
func (s *stack) session(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(s.databaseURL(database))
	if err != nil {
		return nil, err
	}
	for k, v := range map[string]string{"TimeZone": "UTC", "DateStyle": "ISO", "IntervalStyle": "postgres", "extra_float_digits": "1", "application_name": "e2e"} {
		config.RuntimeParams[k] = v
	}
	return pgx.ConnectConfig(ctx, config)
}

// onTarget does something in a session of its own.
func (s *stack) onTarget(t *testing.T, url string, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := do(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// startConnector puts the connector and waits until its task runs. It goes with the test, so that the next one has Connect for itself.
func (s *stack) startConnector(t *testing.T, file string) {
	t.Helper()
	s.lab(t, "connector", file)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := s.removeConnector(ctx); err != nil {
			t.Errorf("remove connector %s: %v", s.connector, err)
		}
	})
	eventually(t, 3*time.Minute, "connector "+s.connector+" runs", s.connectorRuns)
}

func (s *stack) removeConnector(ctx context.Context) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.connect+"/connectors/"+s.connector, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusNoContent {
		return fmt.Errorf("Connect answers %s", r.Status)
	}
	return nil
}

// connectorRuns is an error when Debezium sends no more changes.
func (s *stack) connectorRuns(ctx context.Context) error {
	var status struct {
		Tasks []struct{ State, Trace string }
	}
	if err := s.askConnect(ctx, "/connectors/"+s.connector+"/status", &status); err != nil {
		return err
	}
	if len(status.Tasks) != 1 || status.Tasks[0].State != "RUNNING" {
		return fmt.Errorf("connector %s: its tasks are %+v", s.connector, status.Tasks)
	}
	return nil
}

// awaitSnapshot waits until Connect has stored that the snapshot is complete. A connector that starts again before that takes
// the snapshot once more, and then no reader can tell the rows of a table without a key from new ones.
func (s *stack) awaitSnapshot(t *testing.T) {
	t.Helper()
	eventually(t, 3*time.Minute, "the snapshot is complete", func(ctx context.Context) error {
		var stored struct {
			Offsets []struct{ Offset map[string]any }
		}
		if err := s.askConnect(ctx, "/connectors/"+s.connector+"/offsets", &stored); err != nil {
			return err
		}
		if len(stored.Offsets) != 1 || stored.Offsets[0].Offset == nil || stored.Offsets[0].Offset["snapshot"] != nil {
			return fmt.Errorf("connector %s: stored offsets are %+v", s.connector, stored.Offsets)
		}
		return nil
	})
}

func (s *stack) askConnect(ctx context.Context, path string, answer any) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.connect+path, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("Connect answers %s to %s", r.Status, path)
	}
	return json.NewDecoder(r.Body).Decode(answer)
}

// eventually tries a check until it passes, and fails the test with its last error when it does not in time.
func eventually(t *testing.T, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
	}
}
