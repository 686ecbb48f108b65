package main

import (
	"strings"
	"testing"
)

// withoutEmpty is captureWithDDL without a table of which the capture has no rows: a pipeline makes a table at its first row.
func withoutEmpty(t *testing.T, name string) *ddlCapture {
	t.Helper()
	c := captureWithDDL(t, "plain", name)
	c.config = strings.Replace(c.config, `shop\.dbz_signal`, `shop\.(dbz_signal|big)`, 1)
	return c
}

// schema runs a command of schema on the capture's pipeline and returns what it prints.
func (c *ddlCapture) schema(t *testing.T, command string, set ...string) string {
	t.Helper()
	args := []string{"schema", command, "--config", configFile(t, c.config)}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	code, stdout, stderr := call(t, args...)
	if code != exitDone {
		t.Fatalf("schema %s: exit code %d:\n%s", command, code, stderr)
	}
	return stdout
}

// TestSchemaApplyMakesTheIndexesThatALoadLeftOut loads tables without their indexes, and adds them afterwards.
func TestSchemaApplyMakesTheIndexesThatALoadLeftOut(t *testing.T) {
	t.Parallel()
	c := withoutEmpty(t, "schema-indexes")
	c.caseRun.config["schema.indexes"] = "false"
	if code, stderr := c.runConfig(t.Context(), t, c.config); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	const secondary = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE '%pkey'"
	if got := rowsText(c.exec(t, secondary)); got != "\"0\"\n" {
		t.Fatalf("%s indexes were made by the load, want none", got)
	}
	planned := c.schema(t, "plan")
	for line := range strings.Lines(planned) {
		if !strings.HasPrefix(line, "-- shop.") && !strings.HasPrefix(line, "CREATE INDEX ") && !strings.HasPrefix(line, "CREATE UNIQUE INDEX ") {
			t.Errorf("planned besides indexes: %s", line)
		}
	}
	if applied := c.schema(t, "apply"); applied != planned {
		t.Errorf("applied:\n%s\nplanned:\n%s", applied, planned)
	}
	c.equal(t)
	if again := c.schema(t, "plan"); again != "" {
		t.Errorf("still planned:\n%s", again)
	}
}

// TestSchemaPlanPrintsNothingForATargetThatIsUpToDate plans for what a pipeline has made.
func TestSchemaPlanPrintsNothingForATargetThatIsUpToDate(t *testing.T) {
	t.Parallel()
	c := withoutEmpty(t, "schema-done")
	if code, stderr := c.runConfig(t.Context(), t, c.config); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	if planned := c.schema(t, "plan"); planned != "" {
		t.Errorf("planned:\n%s", planned)
	}
}

// TestRowsOfEarlierVersionsGoToTablesThatWereMadeAhead makes the tables as they are at the end of the schema-change topic, and then
// replicates the rows from before.
func TestRowsOfEarlierVersionsGoToTablesThatWereMadeAhead(t *testing.T) {
	t.Parallel()
	c := captureWithDDL(t, "plain", "schema-ahead")
	c.caseRun.config["schema.types.enum"] = "enum"
	c.schema(t, "apply", "schema.types.enum=enum")
	if planned := c.schema(t, "plan", "schema.types.enum=enum"); planned != "" {
		t.Errorf("still planned:\n%s", planned)
	}
	if code, stderr := c.runConfig(t.Context(), t, c.config); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	compareCapture(t, c.caseRun, "mysql", c.skip, "", c.lost)
}

// TestSchemaApplyDoesWhatThePolicyStopAsksFor stops at changes of tables, and goes on when they were applied.
func TestSchemaApplyDoesWhatThePolicyStopAsksFor(t *testing.T) {
	t.Parallel()
	c := withoutEmpty(t, "schema-stop")
	c.caseRun.config["schema.evolve"] = "stop"
	stops := 0
	for ; stops < 10; stops++ {
		code, stderr := c.runConfig(t.Context(), t, c.config)
		if code == exitDone {
			break
		}
		if !strings.Contains(stderr, "schema.evolve is stop") {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		if c.schema(t, "apply", "schema.evolve=stop") == "" {
			t.Fatalf("nothing was applied after:\n%s", stderr)
		}
	}
	if stops == 0 || stops == 10 {
		t.Errorf("the pipeline stopped %d times", stops)
	}
	compareCapture(t, c.caseRun, "mysql", c.skip, "", c.lost)
}
