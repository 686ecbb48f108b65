//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/txnsink/mysql/mysqlserver"
)

const (
	nativeDatabase = "native"
	nativeRounds   = 4 // of kills: the replicator and the server, each at a random moment and with a transaction prepared
	nativeInDoubt  = 2 // kills of each target that must leave a transaction in doubt
	nativeMost     = 40
)

// nativeTarget is a server that is a target, and the replicator that writes to it.
type nativeTarget struct {
	*stack
	server  *mysqlserver.Server
	db      *sql.DB // by the driver: MySQL's own client cannot log in to MariaDB
	config  string
	daemon  *daemon
	inDoubt int // kills that left a transaction in doubt
}

// TestMySQLAndMariaDBEqualTheSourceUnderKills replicates the lab's tables and a workload, rows and changes of tables, from MySQL into MySQL 9
// and into MariaDB, and kills the replicators and the target's servers. Afterwards every table has the source's rows, and its
// columns the source's own types.
func TestMySQLAndMariaDBEqualTheSourceUnderKills(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 8))
	t.Logf("to use the same random moments and changes again: E2E_SEED=%d", seed)

	s := openStack(t, "native", nativeDatabase, "")
	s.mysqlFile(t, renamedSource(t, nativeDatabase, "01-schema.sql"))
	s.lab(t, "mysql", s.source, "-e", workloadSchema)
	l := &liveConnector{name: "plain", options: map[string]string{"signal.data.collection": nativeDatabase + ".dbz_signal"}}
	l.on(s)
	l.startConnector(t, l.connectorFile(t))
	targets := []*nativeTarget{l.beginNative(t, mysqlserver.MySQL9), l.beginNative(t, mysqlserver.MariaDB)}
	l.awaitSnapshot(t)
	changes := startLoad(t, seed, s.source, renamedSource(t, nativeDatabase, "02-changes.sql"), renamedSource(t, nativeDatabase, "03-ddl.sql"))
	enough := func(round int) bool {
		return round >= nativeRounds && changes.played(t) && !slices.ContainsFunc(targets, func(n *nativeTarget) bool { return n.inDoubt < nativeInDoubt })
	}
	round := 0
	for ; !enough(round); round++ {
		if round == nativeMost {
			t.Fatalf("%d rounds of kills, and they left too few transactions in doubt: %d on MySQL, %d on MariaDB", round, targets[0].inDoubt, targets[1].inDoubt)
		}
		for _, n := range targets {
			if round%2 == 0 {
				after(t, n.daemon, time.Duration(random.IntN(1000))*time.Millisecond)
			} else {
				n.awaitPrepared(t)
			}
			if round%4 < 2 {
				n.killDaemon(t)
			} else {
				n.killServer(t)
			}
		}
	}
	transactions := changes.wait(t)
	t.Logf("replicators and servers were killed %d times each, of which %d on MySQL and %d on MariaDB left a transaction in doubt; the source committed %d transactions",
		round, targets[0].inDoubt, targets[1].inDoubt, transactions)
	for _, n := range targets {
		n.equalsSource(t)
	}
}

// native starts a server, with a database for the replicator.
func (l *liveConnector) native(t *testing.T, kind mysqlserver.Kind) *nativeTarget {
	t.Helper()
	own := *l.stack
	own.pipeline += "-" + string(kind)
	return openNative(t, &own, startNative(t, kind), l.database)
}

// beginNative starts a server, and the replicator into it.
func (l *liveConnector) beginNative(t *testing.T, kind mysqlserver.Kind) *nativeTarget {
	t.Helper()
	n := l.native(t, kind)
	// A source in a loose sql_mode keeps an error value in an ENUM, which prints as an empty text and which no strict server takes: here it is
	// a label. MariaDB 10.11 has no VECTOR.
	vector := map[mysqlserver.Kind]string{mysqlserver.MySQL9: "vector(3)", mysqlserver.MariaDB: "json"}[kind]
	if _, err := n.db.ExecContext(t.Context(), "CREATE TABLE others (id int PRIMARY KEY, j json, e enum('a','b','c,d',''), s set('x','y','z'), p point, g geometry, v "+vector+")"); err != nil {
		t.Fatal(err)
	}
	n.config = writeFile(t, n.pipeline+".yaml", fmt.Appendf(nil, "pipeline: %s\nsource:\n  brokers: [%s]\n  topics: ['%[3]s\\.%[4]s\\..*']\n  schema_changes: %[3]s\n"+
		"target: {url: '%[5]s'}\ntables: [{match: '%[4]s\\.dbz_signal', skip: true}]\ndelivery: two-phase\ncheckpoint: {interval: 200ms}\nhttp: {listen: ''}\n",
		n.pipeline, n.broker, l.connector, n.source, n.server.URL(l.database)))
	n.daemon = n.start(t, n.config)
	return n
}

// startNative starts a server that goes with the test.
func startNative(t *testing.T, kind mysqlserver.Kind) *mysqlserver.Server {
	t.Helper()
	server, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: kind, Durable: true, Settings: map[string]string{"default-time-zone": "+00:00"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// openNative makes a database on a server, and opens it.
func openNative(t *testing.T, s *stack, server *mysqlserver.Server, database string) *nativeTarget {
	t.Helper()
	if err := server.CreateDatabase(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	login := mysql.NewConfig()
	login.User, login.Net, login.Addr, login.DBName, login.Logger = "root", "tcp", u.Host, database, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(login)
	if err != nil {
		t.Fatal(err)
	}
	n := &nativeTarget{stack: s, server: server, db: sql.OpenDB(connector)}
	t.Cleanup(func() {
		if err := n.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *nativeTarget) killDaemon(t *testing.T) {
	t.Helper()
	n.daemon.kill(t)
	if n.prepared(t) > 0 {
		n.inDoubt++
	}
	n.daemon = n.start(t, n.config)
}

// killServer kills the target's server, which the replicator survives.
func (n *nativeTarget) killServer(t *testing.T) {
	t.Helper()
	if err := errors.Join(n.server.Kill(), n.server.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	n.awaitTransaction(t, n.sourcePulse(t)+1)
}

// rows is a query's result as the server prints it, nil for NULL.
func (n *nativeTarget) rows(t *testing.T, query string) []Row {
	t.Helper()
	rows, err := n.db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %s: %v", n.server.Kind(), query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []Row
	for rows.Next() {
		row, into := make(Row, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %s: %v", n.server.Kind(), query, err)
	}
	return out
}

// tableRows is the rows of a table as MySQL's client prints them.
func (n *nativeTarget) tableRows(t *testing.T, table Table) []Row {
	t.Helper()
	var columns []string
	for _, c := range table.Columns {
		columns = append(columns, c.SelectExpression())
	}
	out := n.rows(t, "SELECT "+strings.Join(columns, ", ")+" FROM `"+table.Name+"`")
	for _, row := range out {
		for i, c := range table.Columns {
			switch kindOf(c.Type) {
			case binaryString, bits, shape, vector:
				if row[i] != nil {
					text := "0x" + hex.EncodeToString([]byte(*row[i]))
					row[i] = &text
				}
			}
		}
	}
	return out
}

// prepared is how many transactions are prepared on the server.
func (n *nativeTarget) prepared(t *testing.T) int {
	t.Helper()
	return len(n.rows(t, "XA RECOVER"))
}

// awaitPrepared returns as soon as a transaction is seen prepared.
func (n *nativeTarget) awaitPrepared(t *testing.T) {
	t.Helper()
	limit := time.NewTimer(3 * time.Minute)
	defer limit.Stop()
	for n.prepared(t) == 0 {
		n.daemon.running(t)
		select {
		case <-limit.C:
			t.Fatalf("%s: no transaction is prepared\n%s", n.server.Kind(), n.daemon.tail())
		default:
		}
	}
}

// awaitTransaction waits until the target has the workload's transaction number.
func (n *nativeTarget) awaitTransaction(t *testing.T, number int64) {
	t.Helper()
	eventually(t, 3*time.Minute, fmt.Sprintf("transaction %d of the source arrives on %s", number, n.server.Kind()), func(ctx context.Context) error {
		n.daemon.running(t)
		var got int64
		err := n.db.QueryRowContext(ctx, "SELECT n FROM pulse").Scan(&got)
		if err == nil && got < number {
			err = fmt.Errorf("the target's pulse is %d", got)
		}
		if err != nil {
			return errors.Join(err, errors.New(n.daemon.tail()))
		}
		return nil
	})
}

// equalsSource waits until the target has the source's rows and types, also after what the topics still hold.
func (n *nativeTarget) equalsSource(t *testing.T) {
	t.Helper()
	n.awaitTransaction(t, n.sourcePulse(t))
	eventually(t, time.Minute, string(n.server.Kind())+" equals the source", func(context.Context) error {
		n.daemon.running(t)
		if report, err := n.compare(t); err != nil {
			return fmt.Errorf("%w\n%s", err, report)
		}
		return nil
	})
	n.daemon.stop(t)
	n.start(t, n.config, "--until-caught-up").wait(t, time.Minute)
	report, err := n.compare(t)
	t.Logf("the source and %s, value by value:\n%s", n.server.Kind(), report)
	if err != nil {
		t.Errorf("%s, after the rest of the topics: %v", n.server.Kind(), err)
	}
	if left := n.prepared(t); left > 0 {
		t.Errorf("%s: %d transactions are left in doubt", n.server.Kind(), left)
	}
}

// compare compares all tables' rows and columns.
func (n *nativeTarget) compare(t *testing.T) (string, error) {
	t.Helper()
	const catalog = "SELECT table_name, column_name, column_type, is_nullable, column_key = 'PRI' FROM information_schema.columns WHERE table_schema = DATABASE()"
	var source []Row
	for _, r := range n.mysqlRows(t, catalog) {
		source = append(source, Row{&r[0], &r[1], &r[2], &r[3], &r[4]})
	}
	have, want := columnTypes(n.rows(t, catalog)), columnTypes(source)
	if others := want["others"]; others != nil { // see beginNative
		others["e"], others["v"] = have["others"]["e"], have["others"]["v"]
	}
	var problems []error
	for _, table := range n.tables(t) {
		if !maps.Equal(have[table.Name], want[table.Name]) {
			problems = append(problems, fmt.Errorf("table %s has the columns %v, and in the source %v", table.Name, have[table.Name], want[table.Name]))
		}
	}
	if len(problems) > 0 {
		return "", errors.Join(problems...)
	}
	return n.compareRows(t)
}

// compareRows compares all tables' rows.
func (n *nativeTarget) compareRows(t *testing.T) (string, error) {
	t.Helper()
	tables := n.tables(t)
	for i := range tables {
		tables[i].Written = Column.FromMySQL
		if n.server.Kind() == mysqlserver.MariaDB {
			tables[i].Written = vectorInJSON
		}
	}
	return compareTables(tables, func(table Table) []Row { return n.sourceRows(t, table) }, func(table Table) ([]Row, error) { return n.tableRows(t, table), nil })
}

// vectorInJSON reads what MariaDB prints; a vector is JSON there.
func vectorInJSON(c Column, s string) (Value, error) {
	if kindOf(c.Type) != vector {
		return c.FromMySQL(s)
	}
	text, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
	if err != nil {
		return Value{}, fmt.Errorf("vector in hexadecimal: %w", err)
	}
	return c.FromPostgres(strings.ReplaceAll(string(text), " ", ""))
}

var integerWidth = regexp.MustCompile(`^((?:tiny|small|medium|big)?int|year)\([0-9]+\)`)

// columnTypes is each table's columns and their types, in a text that MySQL and MariaDB come to: without the width of an integer, and
// JSON as what it is on MariaDB.
func columnTypes(catalog []Row) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, r := range catalog {
		table, column := *r[0], *r[1]
		if out[table] == nil {
			out[table] = map[string]string{}
		}
		full := integerWidth.ReplaceAllString(*r[2], "$1")
		if full == "json" {
			full = "longtext"
		}
		out[table][column] = fmt.Sprintf("%s, nullable %s, key %s", full, *r[3], *r[4])
	}
	return out
}
