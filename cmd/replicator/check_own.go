package main

import (
	"context"

	"replicator/txnsink/postgres/preflight"
)

// adviceOtherRole is for a role that may not make the own tables.
const adviceOtherRole = "have another role run `replicator migrate up --config FILE`, and set migrate: manual"

// checkOwnTables looks at the own tables in a target of PostgreSQL, and at what the role may do with them.
func checkOwnTables(ctx context.Context, c *config, facts *preflight.Facts, f *findings) {
	if len(facts.OwnDenied) > 0 {
		f.fail("own tables/grants", "GRANT USAGE ON SCHEMA replicator, and SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA replicator TO "+facts.Role,
			"role %s may not %s", facts.Role, few(facts.OwnDenied, 10))
		return
	}
	toMake := checkOwnVersion(ctx, c, c.Target.URL, f)
	switch {
	case !toMake || facts.CreateOwn:
	case facts.OwnSchema:
		f.fail("own tables/create", "GRANT CREATE ON SCHEMA replicator TO "+facts.Role+", or "+adviceOtherRole, "role %s may not create tables in schema replicator", facts.Role)
	default:
		f.fail("own tables/create", "GRANT CREATE ON DATABASE "+facts.Database+" TO "+facts.Role+", or "+adviceOtherRole, "role %s may not create schema replicator", facts.Role)
	}
}

// checkOwnVersion compares the version of the own tables in a database with what this program needs. toMake: run will bring them there.
func checkOwnVersion(ctx context.Context, c *config, url string, f *findings) (toMake bool) {
	where := ""
	if url != c.Target.URL {
		where = " in checkpoint.store"
	}
	v, err := lookAtVersion(ctx, c, url)
	switch {
	case err != nil:
		f.fail("own tables/unread", "docs/grants.md has what the role needs", "%s", reason(err))
	case v.Current > v.Latest:
		f.fail("own tables/newer", "use the later program that made them", "the own tables%s have version %d, and this program knows them up to %d", where, v.Current, v.Latest)
	case v.Current == v.Latest:
		f.ok("own tables", "the own tables%s have version %d, as this program needs", where, v.Current)
	case c.Migrate == manualMigrate && v.Current == 0:
		f.fail("own tables/version", adviceMigrate, "the own tables%s are missing (this program needs version %d), and migrate is manual", where, v.Latest)
	case c.Migrate == manualMigrate:
		f.fail("own tables/version", adviceMigrate, "the own tables%s have version %d, this program needs version %d, and migrate is manual", where, v.Current, v.Latest)
	case v.Current == 0:
		f.ok("own tables", "the own tables%s will be created by run", where)
		return true
	default:
		f.ok("own tables", "the own tables%s have version %d, and run brings them to version %d", where, v.Current, v.Latest)
		return true
	}
	return false
}
