package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"replicator/checkpoint"
	"replicator/schema"
	"replicator/txnsink/postgres"
	"replicator/txnsink/postgres/preflight"
)

const (
	checkTargetTimeout = 20 * time.Second
	oldestPostgres     = 120000    // server_version_num of the first release that is served
	slotsWanted        = 4         // prepared transactions for each worker: one in doubt, one under way, and as many for a run before
	diskWanted         = 100 << 20 // bytes free for the file store
)

// checkTarget looks at the target's server, grants and settings.
func checkTarget(ctx context.Context, c *config, tables []knownTable, f *findings) {
	ctx, cancel := within(ctx, checkTargetTimeout)
	defer cancel()
	if isMySQL(c.Target.URL) {
		checkMySQLTarget(ctx, c, f)
		return
	}
	sink, err := openPostgres(ctx, c, nil)
	if err != nil {
		f.fail("target", "see to target.url and the server", "%s", reason(err))
		return
	}
	defer func() {
		if err := sink.Close(); err != nil {
			f.warn("target", "", "closing the connection: %v", err)
		}
	}()
	facts, err := preflight.Look(ctx, c.Target.URL, targetSchemas(c, tables))
	if err != nil {
		f.fail("target", "see to target.url and the server", "%s", reason(err))
		return
	}
	if facts.Version < oldestPostgres {
		f.fail("target", "upgrade the server to PostgreSQL 12 or later", "the server is PostgreSQL %s", facts.Release)
	} else {
		f.ok("target", "PostgreSQL %s, database %s, role %s", facts.Release, facts.Database, facts.Role)
	}
	checkTLS(c, sink, f)
	checkTwoPhase(ctx, c, sink, f)
	checkGrants(c, facts, f)
	if sink.FiresTriggers() {
		f.warn("triggers", "GRANT SET ON PARAMETER session_replication_role TO the role (PostgreSQL 15 and later), or make it a superuser",
			"role %s may not set session_replication_role: triggers and foreign keys of the target's tables are at work, and may refuse what the source allowed", facts.Role)
	} else {
		f.ok("triggers", "the target's triggers and foreign keys do not fire for replicated rows")
	}
}

// checkTLS says how the connection to the target is encrypted. That the URL leaves it to the server is no error, and no secret either.
func checkTLS(c *config, sink *postgres.Sink, f *findings) {
	switch version := sink.TLS(); {
	case !postgres.SaysTLS(c.Target.URL) && version == "":
		f.warn("tls", adviceSSLMode, "target.url has no sslmode, and the connection is not encrypted")
	case !postgres.SaysTLS(c.Target.URL):
		f.warn("tls", adviceSSLMode, "target.url has no sslmode: the connection is encrypted (%s) as long as the server offers it, and its certificate is not looked at", version)
	case version == "":
		f.ok("tls", "the connection is not encrypted, as target.url says")
	default:
		f.ok("tls", "the connection is encrypted (%s)", version)
	}
}

// targetSchemas returns the schemas that tables go to, once each. "" is the connection's default.
func targetSchemas(c *config, tables []knownTable) []string {
	if len(tables) == 0 {
		if name := schema.ParseName(c.Target.Table).Schema; !strings.Contains(name, "{") {
			return []string{name}
		}
		return nil
	}
	var names []string
	for _, t := range tables {
		names = append(names, t.target.Schema)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func checkTwoPhase(ctx context.Context, c *config, sink *postgres.Sink, f *findings) {
	if c.Delivery != checkpoint.TwoPhase {
		f.ok("two-phase", "not needed: delivery is %s", c.Delivery)
		return
	}
	two, err := sink.CheckTwoPhase(ctx)
	switch {
	case err != nil:
		f.fail("two-phase", "", "%s", reason(err))
	case two.Free() < slotsWanted*c.sessions():
		f.warn("two-phase", "raise max_prepared_transactions and restart the server", "max_prepared_transactions is %d, and %d are in use: %d free are few", two.Max, two.Used, two.Free())
	default:
		f.ok("two-phase", "max_prepared_transactions is %d, %d in use", two.Max, two.Used)
	}
}

func checkGrants(c *config, facts preflight.Facts, f *findings) {
	switch {
	case facts.OwnTables:
		f.ok("own tables", "schema replicator is there")
	case facts.OwnSchema:
		f.warn("own tables", "GRANT ALL ON SCHEMA replicator and its tables TO "+facts.Role+", unless that role owns it", "schema replicator is there, and its tables are missing or role %s may not write them", facts.Role)
	case facts.CreateSchema:
		f.ok("own tables", "schema replicator will be created by run")
	default:
		f.fail("own tables", "GRANT CREATE ON DATABASE "+facts.Database+" TO "+facts.Role, "role %s may not create schema replicator", facts.Role)
	}
	for _, s := range facts.Schemas {
		switch {
		case !s.Exists && s.Name == "":
			f.fail("schemas", "name a schema in target.table, or in the URL as search_path", "the role's search_path leads to no schema")
		case !s.Exists:
			f.fail("schemas", "CREATE SCHEMA it in the target; the replicator creates tables, not schemas", "there is no schema %s", s.Name)
		case c.Schema.Create && !s.Create:
			f.fail("schemas", "GRANT CREATE ON SCHEMA "+s.Name+" TO "+facts.Role+", or create the tables and set schema.create: false", "role %s may not create tables in schema %s", facts.Role, s.Name)
		default:
			f.ok("schemas", "tables go to schema %s", s.Name)
		}
	}
}

// checkStore looks at the directory of a file store, or connects to a database; the store in the target is checked with
// the target.
func checkStore(ctx context.Context, c *config, f *findings) {
	if ownStore(c) {
		checkStoreDatabase(ctx, c, f)
		return
	}
	dir, isFile := strings.CutPrefix(c.Checkpoint.Store, "file:")
	if !isFile {
		f.ok("store", "checkpoints are kept in the target")
		return
	}
	at, err := nearestDir(dir)
	if err == nil {
		err = tryWrite(at)
	}
	if err != nil {
		f.fail("store", "make the directory writable for this user", "checkpoints cannot be written to %s: %v", dir, err)
		return
	}
	free, err := diskFree(at)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		f.ok("store", "checkpoints are written to %s", dir)
	case err != nil:
		f.warn("store", "", "how much of the disk of %s is free is not known: %v", dir, err)
	case free < diskWanted:
		f.warn("store", "free some", "%d MiB are free on the disk of %s", free>>20, dir)
	default:
		f.ok("store", "checkpoints are written to %s, %d MiB free", dir, free>>20)
	}
}

func checkStoreDatabase(ctx context.Context, c *config, f *findings) {
	ctx, cancel := within(ctx, checkTargetTimeout)
	defer cancel()
	s, err := openStore(ctx, c)
	if err != nil {
		f.fail("store", "see to checkpoint.store and its server", "%s", reason(err))
		return
	}
	_, err = s.List(ctx, c.Pipeline)
	switch err := errors.Join(err, s.Close()); {
	case err != nil:
		f.warn("store", "run creates the own tables there if they are missing", "%s", reason(err))
	default:
		f.ok("store", "checkpoints are kept in a database of their own")
	}
}

// nearestDir returns dir, or the directory in which its missing part will be made.
func nearestDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			return dir, nil
		case err == nil:
			return "", errors.New(dir + " is no directory")
		case !errors.Is(err, os.ErrNotExist) || filepath.Dir(dir) == dir:
			return "", err
		}
		dir = filepath.Dir(dir)
	}
}

// tryWrite makes a file in dir and removes it.
func tryWrite(dir string) error {
	t, err := os.CreateTemp(dir, ".replicator-check-")
	if err != nil {
		return err
	}
	_, err = t.WriteString("check")
	return errors.Join(err, t.Close(), os.Remove(t.Name()))
}
