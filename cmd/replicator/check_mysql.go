package main

import (
	"context"
	"fmt"

	"replicator/checkpoint"
)

// checkMySQLTarget looks at a target of MySQL or MariaDB.
func checkMySQLTarget(ctx context.Context, c *config, f *findings) {
	sink, err := openMySQL(ctx, c, nil)
	if err != nil {
		f.fail("target", "see to target.url and the server", "%s", reason(err))
		return
	}
	defer func() {
		if err := sink.Close(); err != nil {
			f.warn("target", "", "closing the connection: %v", err)
		}
	}()
	facts, err := sink.Look(ctx)
	if err != nil {
		f.fail("target", "see to target.url and the server", "%s", reason(err))
		return
	}
	f.ok("target", "%s %s, database %s, user %s", facts.Server, facts.Version, facts.Database, facts.User)
	if facts.OwnTables {
		f.ok("own tables", "the tables replicator_* are there")
	} else {
		f.ok("own tables", "the tables replicator_* will be created by run")
	}
	if c.Delivery != checkpoint.TwoPhase {
		f.ok("two-phase", "not needed: delivery is %s", c.Delivery)
		return
	}
	two, err := sink.CheckTwoPhase(ctx)
	for _, w := range two.Warnings {
		f.warn("two-phase", "", "%s", w)
	}
	if err != nil {
		f.fail("two-phase", "", "%s", reason(err))
		return
	}
	f.ok("two-phase", "XA works, %s prepared on the server", transactions(two.Prepared))
}

// transactions counts them in words.
func transactions(n int) string {
	if n == 1 {
		return "1 transaction is"
	}
	return fmt.Sprintf("%d transactions are", n)
}
