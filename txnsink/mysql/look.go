package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"replicator/schema"
)

// Facts is what a target says of itself.
type Facts struct {
	Server    string // MySQL or MariaDB
	Version   string
	User      string // the account that the server took the session's user for
	Database  string
	OwnDenied []string // what the user may not do to the replicator's own tables, as in "UPDATE on replicator_witness"

	Charset       string // of the database
	MaxPacket     int64  // max_allowed_packet
	FreeSessions  int    // of max_connections
	DataDirectory string
	Ahead         time.Duration // of the server's clock before this machine's, by the middle of the time that asking took
	Missing       []string      // privileges that the user lacks on the database, of those that applying rows and making tables needs
	Unsure        bool          // some may come from a role, or be granted for single tables
	Triggers      []string      // of the tables that were asked about
}

// Look asks the target about itself and about tables.
func (s *Sink) Look(ctx context.Context, tables []schema.Name) (Facts, error) {
	f := Facts{Server: "MySQL", Version: s.facts.version, Database: s.facts.database, MaxPacket: int64(s.facts.maxPacket)}
	if s.facts.mariaDB {
		f.Server = "MariaDB"
	}
	for _, ask := range []func(context.Context, *Facts) error{s.lookAtServer, s.lookAtClock, s.lookAtGrants, s.lookAtOwnTables} {
		if err := ask(ctx, &f); err != nil {
			return f, fmt.Errorf("ask the target about itself: %w", plain(err))
		}
	}
	for _, t := range tables {
		if err := s.triggersOf(ctx, &f, t); err != nil {
			return f, fmt.Errorf("ask the target about triggers of table %v: %w", t, plain(err))
		}
	}
	return f, nil
}

func (s *Sink) lookAtServer(ctx context.Context, f *Facts) error {
	const query = `SELECT CURRENT_USER(), @@datadir, (SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = DATABASE())`
	if err := s.control.QueryRowContext(ctx, query).Scan(&f.User, &f.DataDirectory, &f.Charset); err != nil {
		return err
	}
	var most, used int
	if err := s.control.QueryRowContext(ctx, "SELECT @@max_connections").Scan(&most); err != nil {
		return err
	}
	var name string
	if err := s.control.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'").Scan(&name, &used); err != nil {
		return err
	}
	f.FreeSessions = max(0, most-used+1) // this session ends
	return nil
}

func (s *Sink) lookAtClock(ctx context.Context, f *Facts) error {
	before := time.Now()
	var micros int64
	const query = `SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	if err := s.control.QueryRowContext(ctx, query).Scan(&micros); err != nil {
		return err
	}
	f.Ahead = time.UnixMicro(micros).Sub(before.Add(time.Since(before) / 2))
	return nil
}

// needed are the privileges on the database that replicating needs: docs/grants.md.
var needed = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "INDEX", "DROP"}

// grantLine is a line of SHOW GRANTS that gives privileges. One that gives a role has no ON.
var grantLine = regexp.MustCompile(`^GRANT (.+) ON (\S+) TO `)

func (s *Sink) lookAtGrants(ctx context.Context, f *Facts) (err error) {
	rows, err := s.control.QueryContext(ctx, "SHOW GRANTS")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	missing := slices.Clone(needed)
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		given := grantLine.FindStringSubmatch(line)
		switch {
		case given == nil:
			f.Unsure = true // a role
		case given[2] == "*.*" || covers(given[2], f.Database):
			list := strings.Split(given[1], ", ")
			missing = slices.DeleteFunc(missing, func(p string) bool {
				return slices.Contains(list, p) || slices.Contains(list, "ALL PRIVILEGES")
			})
		case !strings.HasSuffix(given[2], ".*"):
			f.Unsure = true // a table
		}
	}
	f.Missing = missing
	return rows.Err()
}

// usedTables are those that replicating reads and writes.
var usedTables = []string{"replicator_pipelines", "replicator_checkpoints", "replicator_witness", "replicator_log", "replicator_schema_version", "replicator_dead_letters"}

// lookAtOwnTables tries what replicating does to the own tables, each time of no row: roles and privileges of single tables count as the
// server counts them. A table that is not there is made later.
func (s *Sink) lookAtOwnTables(ctx context.Context, f *Facts) error {
	for _, table := range append([]string{"replicator_schema_migrations"}, usedTables...) {
		for _, try := range [][2]string{
			{"SELECT", "SELECT 1 FROM " + table + " WHERE FALSE"},
			{"INSERT", "INSERT INTO " + table + " SELECT * FROM " + table + " WHERE FALSE"},
			{"UPDATE", "UPDATE " + table + " SET pipeline = pipeline WHERE FALSE"},
			{"DELETE", "DELETE FROM " + table + " WHERE FALSE"},
		} {
			_, err := s.control.ExecContext(ctx, try[1])
			denied := number(err) == errTableDenied || number(err) == errColumnDenied
			switch {
			case denied:
				f.OwnDenied = append(f.OwnDenied, try[0]+" on "+table)
			case err != nil && number(err) != errNoSuchTable && number(err) != errReadOnlyOption: // check says something else of the latter
				return err
			}
			if denied && try[0] == "SELECT" || table == "replicator_schema_migrations" {
				break // the others read too; and this one is only read, unless it is made
			}
		}
	}
	return nil
}

// covers says whether a grant on `pattern`.* is one on the database. In the pattern _ and % are wildcards, unless escaped.
func covers(on, database string) bool {
	pattern, ok := strings.CutSuffix(on, ".*")
	if !ok {
		return false
	}
	pattern = strings.ReplaceAll(strings.Trim(pattern, "`"), "``", "`")
	var b strings.Builder
	escaped := false
	for _, r := range pattern {
		switch {
		case escaped:
			b.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '_':
			b.WriteString(".")
		case r == '%':
			b.WriteString(".*")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	matched, err := regexp.MatchString("(?i)^"+b.String()+"$", database)
	return err == nil && matched
}

func (s *Sink) triggersOf(ctx context.Context, f *Facts, table schema.Name) (err error) {
	const query = `SELECT TRIGGER_NAME FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND EVENT_OBJECT_TABLE = ? ORDER BY 1`
	var rows *sql.Rows
	if rows, err = s.control.QueryContext(ctx, query, table.Schema, table.Table); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		f.Triggers = append(f.Triggers, name+" of "+table.String())
	}
	return rows.Err()
}
