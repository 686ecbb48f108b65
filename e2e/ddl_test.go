//go:build e2e

package e2e

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const ddlDatabase = "ddlshop"

// TestSchemaChangesArriveUnderKills replicates changes of tables between changes of rows through three connectors at once, and kills the
// replicators at random moments. All tables equal the source's afterwards: their rows, types, keys, NOT NULL and defaults.
func TestSchemaChangesArriveUnderKills(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 4))
	t.Logf("to use the same random moments again: E2E_SEED=%d", seed)

	s := openStack(t, "ddl", ddlDatabase, "")
	s.mysqlFile(t, renamedSource(t, ddlDatabase, "01-schema.sql"))
	const more = "schema: {types: {nul: strip}}\n"
	live := []*liveConnector{
		{name: "plain", skip: "dbz_signal", more: more, options: map[string]string{"signal.data.collection": ddlDatabase + ".dbz_signal"}},
		// By its file this one cuts microseconds off, and tells nothing of a TRUNCATE.
		{name: "bare", skip: "dbz_signal", more: more, options: map[string]string{"time.precision.mode": "adaptive_time_microseconds", "skipped.operations": "none"}},
		// Tables that change have more than one schema, and their global and content ids go apart.
		{name: "avro", ids: "global", skip: "dbz_signal", more: more},
	}
	for _, l := range live {
		l.begin(t, s)
	}
	for _, l := range live {
		l.awaitSnapshot(t)
	}
	played := make(chan error, 1)
	files := []string{renamedSource(t, ddlDatabase, "02-changes.sql"), renamedSource(t, ddlDatabase, "03-ddl.sql")}
	pauses := rand.New(rand.NewPCG(seed, 5))
	go func() {
		var err error
		for _, f := range files {
			err = errors.Join(err, playFile(t.Context(), pauses, f))
		}
		played <- err
	}()
	kills := 0
	for done := false; !done; kills++ {
		l := live[random.IntN(len(live))]
		after(t, l.daemon, time.Duration(random.IntN(1000))*time.Millisecond)
		l.daemon.kill(t)
		l.daemon = l.start(t, l.config)
		select {
		case err := <-played:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
	}
	t.Logf("the replicators were killed %d times", kills)
	for _, l := range live {
		l.equalSource(t)
	}
}

// equalSource waits until the target has the source's tables and rows, also after what the topics still hold.
func (l *liveConnector) equalSource(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "the target of connector "+l.connector+" equals the source", func(context.Context) error {
		l.daemon.running(t)
		return l.differs(t)
	})
	l.daemon.stop(t)
	l.start(t, l.config, "--until-caught-up").wait(t, time.Minute)
	if err := l.differs(t); err != nil {
		t.Errorf("connector %s, after the rest of its topics: %v", l.connector, err)
	}
	if planned := l.schemaCommand(t, "plan"); planned != "" {
		t.Errorf("connector %s: schema plan still prints\n%s", l.connector, planned)
	}
}

// differs is an error if the target's rows or shapes are not the source's.
func (l *liveConnector) differs(t *testing.T) error {
	t.Helper()
	report, err := l.compare(t)
	if err := errors.Join(err, l.compareShapes(t)); err != nil {
		return fmt.Errorf("%w\n%s", err, report)
	}
	return nil
}

// schemaCommand runs a command of `replicator schema` and returns what it prints.
func (l *liveConnector) schemaCommand(t *testing.T, command string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), l.binary, "schema", command, "--config", l.config)
	var problems strings.Builder
	c.Stderr = &problems
	out, err := c.Output()
	if err != nil {
		t.Fatalf("replicator schema %s: %v\n%s", command, err, problems.String())
	}
	return string(out)
}

// renamedSource is a file of lab/source for another database.
func renamedSource(t *testing.T, database, name string) string {
	t.Helper()
	text, err := os.ReadFile("lab/source/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, name, regexp.MustCompile(`\bshop\b`).ReplaceAll(text, []byte(database)))
}

// compareShapes compares all tables in both catalogs.
func (s *stack) compareShapes(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := s.target(ctx)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	var problems []error
	want, have := s.sourceShapes(t), map[string][]string{}
	tables, err := collect[string](ctx, c, "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'")
	if err != nil {
		return err
	}
	for _, table := range tables {
		if have[table], err = targetShape(ctx, c, table); err != nil {
			return fmt.Errorf("shape of table %s: %w", table, err)
		}
		if want[table] == nil {
			problems = append(problems, fmt.Errorf("the target has a table %s, and the source has none", table))
		}
	}
	for table, lines := range want {
		if !slices.Equal(lines, have[table]) {
			problems = append(problems, fmt.Errorf("table %s is\n\t%s\ninstead of\n\t%s", table, strings.Join(have[table], "\n\t"), strings.Join(lines, "\n\t")))
		}
	}
	return errors.Join(problems...)
}

// sourceShapes is the shapes of the source's tables, the connector's signal table aside.
func (s *stack) sourceShapes(t *testing.T) map[string][]string {
	t.Helper()
	columns, keys := map[string][]Definition{}, map[string][]Key{}
	for _, r := range s.mysqlRows(t, `SELECT table_name, column_name, column_type, is_nullable, column_default IS NOT NULL, HEX(COALESCE(column_default, '')), extra
		FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name <> 'dbz_signal' ORDER BY table_name, ordinal_position`) {
		c := Definition{Name: r[1], Type: r[2], NotNull: r[3] == "NO", Auto: strings.Contains(r[6], "auto_increment")}
		if r[4] == "1" {
			text := unhex(t, r[5])
			c.Default = &text
		}
		c.Unsaid = strings.Contains(r[6], "DEFAULT_GENERATED") && (c.Default == nil || !moment.MatchString(*c.Default)) || strings.Contains(r[6], " GENERATED")
		columns[r[0]] = append(columns[r[0]], c)
	}
	for _, r := range s.mysqlRows(t, `SELECT table_name, index_name, MIN(non_unique), GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR '|'),
		MAX(sub_part IS NOT NULL OR column_name IS NULL OR index_type <> 'BTREE') FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name <> 'dbz_signal' GROUP BY table_name, index_name`) {
		kind := map[string]string{"0": "UNIQUE", "1": "INDEX"}[r[2]]
		if r[1] == "PRIMARY" {
			kind = "PRIMARY KEY"
		}
		if r[4] == "0" {
			keys[r[0]] = append(keys[r[0]], Key{kind, strings.Split(r[3], "|")})
		}
	}
	out := map[string][]string{}
	for table := range columns {
		lines, err := MySQLShape(columns[table], keys[table])
		if err != nil {
			t.Fatalf("table %s: %v", table, err)
		}
		out[table] = lines
	}
	return out
}

// targetShape is the shape of a table of the target's.
func targetShape(ctx context.Context, c *pgx.Conn, table string) ([]string, error) {
	rows, err := c.Query(ctx, `SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity <> ''
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = format('public.%I', $1::text)::regclass AND a.attnum > 0 AND NOT a.attisdropped`, table)
	if err != nil {
		return nil, err
	}
	columns, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (d Definition, err error) {
		err = r.Scan(&d.Name, &d.Type, &d.NotNull, &d.Default, &d.Auto)
		return d, err
	})
	if err != nil {
		return nil, err
	}
	rows, err = c.Query(ctx, `SELECT CASE WHEN i.indisprimary THEN 'PRIMARY KEY' WHEN i.indisunique THEN 'UNIQUE' ELSE 'INDEX' END,
		ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k(n, o) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n ORDER BY k.o)
		FROM pg_index i WHERE i.indrelid = format('public.%I', $1::text)::regclass`, table)
	if err != nil {
		return nil, err
	}
	keys, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (k Key, err error) {
		err = r.Scan(&k.Kind, &k.Columns)
		return k, err
	})
	return PostgresShape(columns, keys), err
}

func unhex(t *testing.T, digits string) string {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
