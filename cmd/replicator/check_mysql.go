package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator/checkpoint"
	"replicator/schema"
	"replicator/txnsink/mysql"
)

// checkMySQLTarget looks at a target of MySQL or MariaDB.
func checkMySQLTarget(ctx context.Context, c *config, tables []knownTable, maxMessage int64, f *findings) {
	sink, err := openMySQL(ctx, c, nil)
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
	facts, err := sink.Look(ctx, names)
	if err != nil {
		f.fail("target/unreachable", unlessSaid(err, "see to target.url and the server"), "%s", reason(err))
		return
	}
	f.ok("target", "%s %s, database %s, user %s", facts.Server, facts.Version, facts.Database, facts.User)
	missing := slices.DeleteFunc(facts.Missing, func(p string) bool { return !needsPrivilege(c, p) })
	switch {
	case len(facts.OwnDenied) > 0 && (facts.Unsure || len(missing) == 0): // or else grants/missing says it
		f.fail("own tables/grants", "GRANT SELECT, INSERT, UPDATE, DELETE on "+facts.Database+" or on its tables replicator_*; see docs/grants.md",
			"user %s may not %s in database %s, where the replicator keeps its own tables", facts.User, few(facts.OwnDenied, 10), facts.Database)
	case len(facts.OwnDenied) == 0:
		checkOwnVersion(ctx, c, c.Target.URL, f) // of what making them needs, see grants/missing
	}
	checkXA(ctx, c, sink, f)
	checkMySQLServer(c, &facts, missing, maxMessage, f)
	checkDisk(c.Target.URL, facts.DataDirectory, targetDiskWanted, f)
	checkClock(facts.Ahead, f)
	checkTargetTables(ctx, c, sink, tables, f)
}

// needsPrivilege says whether a privilege is needed for more than making the own tables, where those are made by somebody else.
func needsPrivilege(c *config, privilege string) bool {
	follows := func(p schema.Policy) bool { return p == schema.Evolve || p == schema.Lenient }
	switch privilege {
	case "CREATE", "ALTER", "INDEX":
		return c.Migrate == autoMigrate || c.Schema.Create || follows(c.Schema.Evolve) ||
			slices.ContainsFunc(c.Tables, func(r tableRule) bool { return follows(r.Evolve) })
	}
	return true
}

func checkXA(ctx context.Context, c *config, sink *mysql.Sink, f *findings) {
	if c.Delivery != checkpoint.TwoPhase {
		f.ok("two-phase", "not needed: delivery is %s", c.Delivery)
		return
	}
	two, err := sink.CheckTwoPhase(ctx)
	for _, w := range two.Warnings {
		f.warn("two-phase/settings", "", "%s", w)
	}
	if err != nil {
		f.fail("two-phase/unusable", "", "%s", reason(err))
		return
	}
	f.ok("two-phase", "XA works, %s prepared on the server", transactions(two.Prepared))
}

// checkMySQLServer looks at the server's settings, the user's grants and the tables' triggers.
func checkMySQLServer(c *config, facts *mysql.Facts, denied []string, maxMessage int64, f *findings) {
	if facts.Charset != "utf8mb4" {
		f.warn("settings/encoding", "ALTER DATABASE "+facts.Database+" CHARACTER SET utf8mb4", "the database's character set is %s: tables that are made by hand there lack characters that the source has", facts.Charset)
	}
	if maxMessage > facts.MaxPacket {
		f.warn("messages/packet", "raise max_allowed_packet", "a topic takes records of %d bytes, and the target statements of %d (max_allowed_packet)", maxMessage, facts.MaxPacket)
	}
	sessions := 1
	if facts.Server == "MariaDB" {
		sessions = 2
	}
	if want := c.Workers*sessions + sessionsBesides; facts.FreeSessions < want {
		f.warn("connections/few", "raise max_connections, or lower workers", "the target has room for %d sessions more, and %d workers may open %d", facts.FreeSessions, c.Workers, want)
	} else {
		f.ok("connections", "the target has room for %d sessions more, and up to %d are needed", facts.FreeSessions, want)
	}
	switch missing := strings.Join(denied, ", "); {
	case missing == "":
		f.ok("grants", "the user has what docs/grants.md lists")
	case facts.Unsure:
		f.warn("grants/unsure", "see docs/grants.md", "user %s has no %s on database %s, unless by a role or for single tables", facts.User, missing, facts.Database)
	default:
		f.fail("grants/missing", "GRANT it on the database; see docs/grants.md", "user %s has no %s on database %s", facts.User, missing, facts.Database)
	}
	if len(facts.Triggers) > 0 {
		f.warn("triggers/fire", "drop them in the target: what they did at the source is replicated", "triggers of the target's tables fire for replicated rows: %s", few(facts.Triggers, 10))
	} else {
		f.ok("triggers", "the target's tables have none, and foreign keys are not checked for replicated rows")
	}
}

// transactions counts them in words.
func transactions(n int) string {
	if n == 1 {
		return "1 transaction is"
	}
	return fmt.Sprintf("%d transactions are", n)
}
