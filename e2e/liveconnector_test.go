//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// liveConnector is a connector of lab/connectors, pointed at the tables of this test, and the replicator behind it.
type liveConnector struct {
	name     string            // of its file
	postgres bool              // its source is PostgreSQL
	skip     string            // tables that are not replicated, as a regular expression
	options  map[string]string // of the connector, in place of its file's
	ids      string            // source.registry.ids, where it must be said
	more     string            // of the replicator's configuration

	*stack // with the connector's name, and a target of its own
	daemon *daemon
	config string
}

// begin starts the connector, and the replicator without waiting for it.
func (l *liveConnector) begin(t *testing.T, s *stack) {
	t.Helper()
	l.on(s)
	l.createDatabase(t, l.database)
	l.startConnector(t, l.connectorFile(t))
	l.config = writeFile(t, l.pipeline+".yaml", l.configuration())
	l.daemon = l.start(t, l.config)
}

// on names what is the connector's own on a stack.
func (l *liveConnector) on(s *stack) {
	own := *s
	own.connector = s.database + "-" + l.name // another one on a stack that was left running
	own.pipeline = own.connector
	own.database = s.database + "_" + l.name
	l.stack = &own
}

// schema is what a table's name begins with in the source.
func (l *liveConnector) schema() string {
	if l.postgres {
		return "public"
	}
	return l.source
}

// connectorFile is the connector's file with another name, source and server id or slot, so that it runs beside the one that other tests
// start from the same file.
func (l *liveConnector) connectorFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("lab/connectors/" + l.name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Name   string            `json:"name"`
		Config map[string]string `json:"config"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatalf("lab/connectors/%s.json: %v", l.name, err)
	}
	c.Name, c.Config["topic.prefix"] = l.connector, l.connector
	if l.postgres {
		c.Config["database.dbname"] = liveDatabase
		c.Config["slot.name"], c.Config["publication.name"] = "live", "live"
	} else {
		delete(c.Config, "table.include.list")
		c.Config["database.include.list"] = l.source
		c.Config["database.server.id"] = "1" + c.Config["database.server.id"]
		c.Config["schema.history.internal.kafka.topic"] = "history-" + l.connector
	}
	maps.Copy(c.Config, l.options)
	if text, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, l.connector+".json", text)
}

// configuration is the replicator's.
func (l *liveConnector) configuration() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "pipeline: %s\nsource:\n  brokers: [%s]\n  topics: ['%s\\.%s\\..*']\n", l.pipeline, l.broker, l.connector, l.schema())
	if !l.postgres {
		fmt.Fprintf(&b, "  schema_changes: %s\n", l.connector)
	}
	fmt.Fprintf(&b, "  registry: {url: '%s', ids: %s}\ntarget: {url: '%s'}\ncheckpoint: {interval: 200ms}\nhttp: {listen: ''}\n", l.registry, cmp.Or(l.ids, "auto"), l.databaseURL(l.database))
	if l.skip != "" {
		fmt.Fprintf(&b, "tables: [{match: '%s\\.%s', skip: true}]\n", l.schema(), l.skip)
	}
	b.WriteString(l.more)
	return []byte(b.String())
}

// livePostgresRows is the rows of a table of PostgreSQL's source database.
func (s *stack) livePostgresRows(t *testing.T, table Table) []Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := s.session(ctx, liveDatabase)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	rows, err := s.postgresRows(ctx, c, table)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// makeLiveTables makes the tables in both sources.
func (s *stack) makeLiveTables(t *testing.T) {
	t.Helper()
	s.lab(t, "mysql", "-e", "CREATE DATABASE "+liveDatabase+" CHARACTER SET utf8mb4; USE "+liveDatabase+"; "+liveSchema)
	s.createDatabase(t, liveDatabase)
	s.onTarget(t, s.databaseURL(liveDatabase), func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, liveSchema+liveIdentity)
		return err
	})
}
