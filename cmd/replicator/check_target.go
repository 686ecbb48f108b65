package main

import (
	"context"
	"net/url"
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
	oldestPostgres     = 120000  // server_version_num of the first release that is served
	slotsWanted        = 4       // prepared transactions for each worker: one in doubt, one under way, and as many for a run before
	sessionsBesides    = 8       // sessions beside the workers': checkpoints, recovery, the catalog, migrations
	targetDiskWanted   = 1 << 30 // bytes free for the target
)

// checkTarget looks at the target's server, grants and settings.
func checkTarget(ctx context.Context, c *config, tables []knownTable, maxMessage int64, f *findings) {
	ctx, cancel := within(ctx, checkTargetTimeout)
	defer cancel()
	if isKafka(c.Target.URL) {
		checkKafkaTarget(ctx, c, f)
		return
	}
	if isMySQL(c.Target.URL) {
		checkMySQLTarget(ctx, c, tables, maxMessage, f)
		return
	}
	sink, err := openPostgres(ctx, c, nil)
	if err != nil {
		f.fail("target/unreachable", unlessSaid(err, "see to target.url and the server"), "%s", reason(err))
		return
	}
	defer func() {
		if err := sink.Close(); err != nil {
			f.fail("target/unreachable", "see to the server", "closing the connection: %v", err)
		}
	}()
	var names []schema.Name
	for _, t := range tables {
		names = append(names, shortName(sink.Dialect(), t.target))
	}
	facts, err := preflight.Look(ctx, c.Target.URL, targetSchemas(c, tables), names)
	if err != nil {
		f.fail("target/unreachable", unlessSaid(err, "see to target.url and the server"), "%s", reason(err))
		return
	}
	checkVersion(&facts, f)
	checkTLS(c, sink, f)
	checkTwoPhase(ctx, c, sink, f)
	checkOwnTables(ctx, c, &facts, f)
	checkSchemas(c, facts, f)
	checkTriggers(sink.FiresTriggers(), facts, f)
	checkServer(facts, f)
	checkConnections(c, facts.Connections, f)
	checkDisk(c.Target.URL, facts.DataDirectory, targetDiskWanted, f)
	checkClock(facts.Ahead, f)
	checkRights(tables, facts, f)
	checkTargetTables(ctx, c, sink, tables, f)
}

func checkVersion(facts *preflight.Facts, f *findings) {
	if facts.Version < oldestPostgres {
		f.fail("target/old", "upgrade the server to PostgreSQL 12 or later", "the server is PostgreSQL %s", facts.Release)
		return
	}
	if facts.Standby {
		f.fail("target/standby", "name the primary, or both and target_session_attrs=read-write, in target.url", "the server is a standby, and takes no writes")
		return
	}
	f.ok("target", "PostgreSQL %s, database %s, role %s", facts.Release, facts.Database, facts.Role)
}

// checkTLS says how the connection to the target is encrypted. That the URL leaves it to the server is no error, and no secret either.
func checkTLS(c *config, sink *postgres.Sink, f *findings) {
	switch version := sink.TLS(); {
	case !postgres.SaysTLS(c.Target.URL) && version == "":
		f.warn("tls/off", adviceSSLMode, "target.url has no sslmode, and the connection is not encrypted")
	case !postgres.SaysTLS(c.Target.URL):
		f.warn("tls/optional", adviceSSLMode, "target.url has no sslmode: the connection is encrypted (%s) as long as the server offers it, and its certificate is not looked at", version)
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
		f.fail("two-phase/unusable", "", "%s", reason(err))
	case two.Free() < slotsWanted*c.sessions():
		f.warn("two-phase/few", "raise max_prepared_transactions and restart the server", "max_prepared_transactions is %d, and %d are in use: %d free are few", two.Max, two.Used, two.Free())
	default:
		f.ok("two-phase", "max_prepared_transactions is %d, %d in use", two.Max, two.Used)
	}
}

func checkSchemas(c *config, facts preflight.Facts, f *findings) {
	for _, s := range facts.Schemas {
		switch {
		case !s.Exists && s.Name == "":
			f.fail("schemas/none", "name a schema in target.table, or in the URL as search_path", "the role's search_path leads to no schema")
		case !s.Exists:
			f.fail("schemas/missing", "CREATE SCHEMA it in the target; the replicator creates tables, not schemas", "there is no schema %s", s.Name)
		case c.Schema.Create && !s.Create:
			f.fail("schemas/create", "GRANT CREATE ON SCHEMA "+s.Name+" TO "+facts.Role+", or create the tables and set schema.create: false", "role %s may not create tables in schema %s", facts.Role, s.Name)
		default:
			f.ok("schemas", "tables go to schema %s", s.Name)
		}
	}
}

// checkTriggers says which triggers and foreign keys of the target are at work.
func checkTriggers(fires bool, facts preflight.Facts, f *findings) {
	var always, plain, tied []string
	for _, t := range facts.Tables {
		for _, name := range t.Always {
			always = append(always, name+" of "+t.Name.String())
		}
		for _, name := range t.Triggers {
			plain = append(plain, name+" of "+t.Name.String())
		}
		if t.ForeignKeys {
			tied = append(tied, t.Name.String())
		}
	}
	if len(always) > 0 {
		f.warn("triggers/always", "ALTER TABLE … ENABLE TRIGGER, unless they are meant for replicated rows", "triggers fire for replicated rows too (ENABLE ALWAYS or REPLICA): %s", few(always, 10))
	}
	if !fires {
		if len(always) == 0 {
			f.ok("triggers", "the target's triggers and foreign keys do not fire for replicated rows")
		}
		return
	}
	const do = "GRANT SET ON PARAMETER session_replication_role TO the role (PostgreSQL 15 and later), or make it a superuser"
	switch {
	case len(plain) > 0:
		f.warn("triggers/fire", do, "role %s may not set session_replication_role: triggers of the target's tables fire for replicated rows: %s", facts.Role, few(plain, 10))
	case len(tied) == 0:
		f.warn("triggers/role", do, "role %s may not set session_replication_role: triggers and foreign keys that the target's tables may get are at work, and may refuse what the source allowed", facts.Role)
	}
	if len(tied) > 0 {
		f.warn("foreign keys/checked", do, "role %s may not set session_replication_role: foreign keys of the target are checked, and may refuse what the source allowed: %s", facts.Role, few(tied, 10))
	}
}

// checkServer looks at the server's settings.
func checkServer(facts preflight.Facts, f *findings) {
	if facts.Encoding != "UTF8" {
		f.fail("settings/encoding", "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and use that", "the database's encoding is %s, which lacks characters that the source has", facts.Encoding)
	}
	if facts.FsyncOff || facts.PagesOff {
		f.warn("settings/durability", "turn fsync and full_page_writes on", "fsync or full_page_writes is off: a crash of the machine may destroy the database, with its prepared transactions and checkpoints")
	}
	var unlogged []string
	for _, t := range facts.Tables {
		if t.Unlogged {
			unlogged = append(unlogged, t.Name.String())
		}
	}
	if len(unlogged) > 0 {
		f.warn("tables/unlogged", "ALTER TABLE … SET LOGGED", "tables are unlogged: after a crash of the server they are empty, and the checkpoint does not know: %s", few(unlogged, 10))
	}
}

// checkConnections compares the sessions that a pipeline opens with those that are left.
func checkConnections(c *config, have preflight.Connections, f *findings) {
	want := c.Workers + sessionsBesides
	if have.Free < want {
		f.warn("connections/few", "raise "+have.Setting+", or lower workers", "the target has room for %d sessions more (%s), and %d workers may open %d", have.Free, have.Setting, c.Workers, want)
		return
	}
	f.ok("connections", "the target has room for %d sessions more, and up to %d are needed", have.Free, want)
}

// checkDisk looks at the target's disk, if it is a disk of this machine: no statement tells.
func checkDisk(target, dir string, want uint64, f *findings) {
	u, err := url.Parse(target)
	if err != nil || dir == "" || !slices.Contains([]string{"", "localhost", "127.0.0.1", "::1"}, u.Hostname()) {
		return
	}
	free, err := diskFree(dir)
	switch {
	case err != nil: // another machine's after all, through a tunnel or from a container
	case free < want:
		f.warn("disk/low", "free some, or give it more", "%d MiB are free on the disk of the target's %s", free>>20, dir)
	default:
		f.ok("disk", "%d MiB are free on the target's disk", free>>20)
	}
}

// checkClock compares the target's clock with this machine's.
func checkClock(ahead time.Duration, f *findings) {
	if ahead.Abs() > clockSlack {
		f.warn("clocks/target", "see to the clocks (NTP) of both machines", "the target's clock differs from this machine's by %v", ahead.Round(time.Second))
		return
	}
	f.ok("clocks", "the target's clock differs from this machine's by less than %v", clockSlack)
}

// checkRights looks at what the role may do with tables that are there.
func checkRights(tables []knownTable, facts preflight.Facts, f *findings) {
	var missing, foreign, guarded []string
	for i, t := range facts.Tables {
		if !t.Exists {
			continue
		}
		if len(t.Missing) > 0 {
			missing = append(missing, strings.Join(t.Missing, ", ")+" on "+t.Name.String())
		}
		if !t.Owner && (tables[i].evolve == schema.Evolve || tables[i].evolve == schema.Lenient) {
			foreign = append(foreign, t.Name.String())
		}
		if t.RowSecurity {
			guarded = append(guarded, t.Name.String())
		}
	}
	if len(missing) > 0 {
		f.fail("grants/missing", "GRANT it to "+facts.Role, "role %s may not %s", facts.Role, few(missing, 10))
	}
	if len(foreign) > 0 {
		f.warn("grants/owner", "ALTER TABLE … OWNER TO "+facts.Role+", or set schema.evolve to stop or ignore", "role %s does not own tables, and cannot change them as the source changes: %s", facts.Role, few(foreign, 10))
	}
	if len(guarded) > 0 {
		f.fail("grants/row_security", "ALTER ROLE "+facts.Role+" BYPASSRLS, or a policy that lets it see and write every row", "row security hides rows from role %s: %s", facts.Role, few(guarded, 10))
	}
}
