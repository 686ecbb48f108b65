package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
	"replicator/cutover"
	cutpg "replicator/cutover/postgres"
	"replicator/debezium"
	"replicator/debezium/kafka"
	"replicator/verify"
	"replicator/verify/mysql"
)

// catchUpInterval is the time between two looks at how far the pipeline has come.
const catchUpInterval = 200 * time.Millisecond

func (a *app) cutoverCommand() *cobra.Command {
	var f verifyFlags
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "cutover --config FILE", Short: "The last mile of a migration: catch up, verify, add what is missing, and say go or no-go.", Args: cobra.NoArgs,
		Long: `Run it when writes to the source have stopped, and before the application writes to the target. The pipeline goes on running.
It asks the pipeline for a savepoint, waits until the pipeline has caught up, compares all rows, makes the source's indexes and
foreign keys that the target lacks, sets sequences past the highest values, gathers statistics, and says go or no-go with its
reasons. It may be repeated: what is there already is not made again. The exit code is 0 for go, 4 if rows differ, and 3 for
any other no-go.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return usage(err)
			}
			if len(f.tables) > 0 {
				return usage(errors.New("--tables: a cutover is of all tables"))
			}
			c, err := a.load(&f.configFlags)
			if err != nil {
				return err
			}
			return a.cutover(cmd.Context(), &c, &f, wait)
		},
	}
	f.add(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 10*time.Minute, "how long to wait until the pipeline has caught up")
	a.jsonFlag(cmd)
	return cmd
}

// verdict is what cutover prints.
type verdict struct {
	Go        bool          `json:"go"`
	Savepoint int64         `json:"savepoint,omitempty"` // the way back: run --from
	Findings  []finding     `json:"findings"`
	Verify    *verification `json:"verify,omitempty"`
}

func (a *app) cutover(ctx context.Context, c *config, f *verifyFlags, wait time.Duration) (err error) {
	if !isPostgres(c.Target.URL) {
		return usage(errors.New("cutover serves targets of PostgreSQL"))
	}
	s, err := openSides(ctx, c, f.parallel)
	if err != nil {
		return inPipeline(c, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	cut := &cutting{app: a, config: c, flags: f, wait: wait, sides: s}
	if err := cut.run(ctx); err != nil {
		return inPipeline(c, err)
	}
	d := verdict{Go: cut.found.count(levelError) == 0, Savepoint: cut.savepoint, Findings: cut.found.list, Verify: cut.verified}
	for i := range d.Findings {
		d.Findings[i].Message = redact(d.Findings[i].Message)
	}
	if a.json {
		err = a.printJSON(d)
	} else {
		err = a.printVerdict(&d)
	}
	switch {
	case err != nil || d.Go:
		return err
	case d.Verify != nil && !d.Verify.Equal:
		return &codedError{exitDifferences, fmt.Errorf("pipeline %s: no-go: source and target differ", c.Pipeline)}
	}
	return &codedError{exitPreflight, fmt.Errorf("pipeline %s: no-go", c.Pipeline)}
}

func (a *app) printVerdict(d *verdict) error {
	if d.Verify != nil && !d.Verify.Equal {
		if err := a.printVerification(d.Verify); err != nil {
			return err
		}
	}
	if err := a.printFindings(d.Findings); err != nil {
		return err
	}
	word := "no-go"
	if d.Go {
		word = "go"
	}
	_, err := fmt.Fprintln(a.stdout, word)
	return err
}

// cutting is one cutover.
type cutting struct {
	*app
	config *config
	flags  *verifyFlags
	wait   time.Duration
	sides  *sides

	found     findings
	savepoint int64
	verified  *verification
}

// run goes from step to step until one says no-go. Its error is for what cannot be known.
func (t *cutting) run(ctx context.Context) error {
	before, err := t.logPosition(ctx)
	if err != nil {
		return err
	}
	t.save(ctx)
	if ok, err := t.catchUp(ctx); err != nil || !ok {
		return err
	}
	pairs, err := t.pairs(ctx, t.config, t.sides, t.flags.wants)
	if err != nil {
		return err
	}
	if ok, err := t.verify(ctx, pairs); err != nil || !ok {
		return err
	}
	if err := t.complete(ctx, pairs); err != nil {
		return err
	}
	return t.still(ctx, before, pairs)
}

// save asks for the savepoint that is the way back.
func (t *cutting) save(ctx context.Context) {
	made, err := askForSavepoint(ctx, t.config)
	if err != nil {
		t.found.warn("savepoint", "have the pipeline running with http.listen and http.token set, and repeat, if you want one", "there is no savepoint to go back to: %v", err)
		return
	}
	t.savepoint = made.Checkpoint
	t.found.ok("savepoint", "checkpoint %d is kept; replicator run --from %d goes back to it", made.Checkpoint, made.Checkpoint)
}

// logPosition is where the source's log ends; "" where that does not tell whether somebody writes.
func (t *cutting) logPosition(ctx context.Context) (string, error) {
	db, ok := t.sides.source.(*mysql.DB)
	if !ok {
		return "", nil
	}
	at, err := db.LogPosition(ctx)
	if err != nil {
		return "", fmt.Errorf("read the position of the source's log: %w", err)
	}
	return at, nil
}

// catchUp waits until the last checkpoint is at the end of every partition.
func (t *cutting) catchUp(ctx context.Context) (_ bool, err error) {
	store, err := openStore(ctx, t.config)
	if err != nil {
		return false, fmt.Errorf("open the checkpoint store: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	source, err := openSource(t.config, nil)
	if err != nil {
		return false, err
	}
	limit := time.NewTimer(t.wait)
	defer limit.Stop()
	tick := time.NewTicker(catchUpInterval)
	defer tick.Stop()
	for {
		left, err := toGo(ctx, store, source, t.config.Pipeline)
		if err != nil {
			return false, err
		}
		if left == 0 {
			t.found.ok("caught up", "the last checkpoint is at the end of every partition")
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-limit.C:
			t.found.fail("caught up", "see that the pipeline runs and that the source is quiet, and repeat", "%d offsets are not applied after %v", left, t.wait)
			return false, nil
		case <-tick.C:
		}
	}
}

// toGo counts the offsets between the last checkpoint and the ends.
func toGo(ctx context.Context, store checkpoint.Store, source *kafka.Source, pipeline string) (int64, error) {
	list, err := store.List(ctx, pipeline)
	if err != nil {
		return 0, err
	}
	var last checkpoint.Checkpoint
	if len(list) > 0 {
		last = list[len(list)-1]
	}
	topics, err := source.Describe(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the topics: %w", err)
	}
	left := int64(0)
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			from := p.Earliest
			if at, ok := last.Positions[debezium.Partition{Topic: topic.Name, ID: p.ID}]; ok {
				from = at.Offset
			}
			left += max(0, p.LastStable-from)
		}
	}
	return left, nil
}

func (t *cutting) verify(ctx context.Context, pairs []verify.Pair) (bool, error) {
	v, err := t.compare(ctx, t.sides, pairs, t.flags)
	if err != nil {
		return false, err
	}
	t.verified = &v
	if !v.Equal {
		t.found.fail("verify", "see what differs above (or under verify), repair it and repeat", "source and target differ")
		return false, nil
	}
	t.found.ok("verify", "%d rows of %d tables are equal", v.Rows, len(v.Tables))
	return true, nil
}

// still says whether the source was left alone meanwhile. Where its log does not tell, rows are compared once more.
func (t *cutting) still(ctx context.Context, before string, pairs []verify.Pair) error {
	after, err := t.logPosition(ctx)
	if err != nil {
		return err
	}
	if before != "" && before == after {
		t.found.ok("source", "nobody has written to it meanwhile: its log is still at %s", after)
		return nil
	}
	if before != "" {
		t.found.warn("source", "see who writes, unless it is the connector's heartbeat", "its log has moved from %s to %s meanwhile", before, after)
	}
	if ok, err := t.catchUp(ctx); err != nil || !ok {
		return err
	}
	_, err = t.verify(ctx, pairs)
	return err
}

// complete makes what the target lacks.
func (t *cutting) complete(ctx context.Context, pairs []verify.Pair) (err error) {
	target, err := cutpg.Open(ctx, t.config.Target.URL)
	if err != nil {
		return fmt.Errorf("open target.url: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close(context.WithoutCancel(ctx))) }()
	tables, err := t.catalogs(ctx, pairs)
	if err != nil {
		return err
	}
	steps, left, err := cutover.Plan(tables, t.config.Schema.Types)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		if p.Target.Columns == nil {
			t.found.warn("left out", "create it by hand if the application needs it", "table %s, which has no rows and is not in the target", p.Target.Name)
		}
	}
	for _, l := range left {
		t.found.warn("left out", l.Why, "%s", l.What)
	}
	done := 0
	for _, s := range steps {
		if err := target.Run(ctx, s.SQL); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t.found.fail("add", "see to it and repeat", "%s: %s", s.What, reason(err))
			continue
		}
		done++
	}
	if done == len(steps) {
		t.found.ok("add", "%d statements for sequences, indexes and foreign keys have run", done)
		if err := t.nothingLeft(ctx, pairs); err != nil {
			return err
		}
	}
	return t.finish(ctx, target, tables)
}

// nothingLeft believes the catalog and not the silence of IF NOT EXISTS, which a name that something else has satisfies too.
func (t *cutting) nothingLeft(ctx context.Context, pairs []verify.Pair) error {
	fresh, err := t.catalogs(ctx, pairs)
	if err != nil {
		return err
	}
	steps, _, err := cutover.Plan(fresh, t.config.Schema.Types)
	for _, s := range steps {
		t.found.fail("add", "see whether something else has its name, and repeat", "%s is still missing", s.What)
	}
	return err
}

// finish advances sequences and gathers statistics.
func (t *cutting) finish(ctx context.Context, target *cutpg.Target, tables []cutover.Table) error {
	advanced := 0
	for i := range tables {
		least := int64(0)
		if db, ok := t.sides.source.(*mysql.DB); ok {
			var err error
			if least, err = db.NextValue(ctx, tables[i].Source.Name); err != nil {
				return err
			}
		}
		name := tables[i].Target.Name
		sequences, err := target.Advance(ctx, name, least)
		if err != nil {
			t.found.fail("sequences", "see to it and repeat", "%s", reason(err))
			continue
		}
		advanced += len(sequences)
		if err := target.Run(ctx, "ANALYZE "+t.sides.names.Quote(name.Schema)+"."+t.sides.names.Quote(name.Table)); err != nil {
			return err
		}
	}
	t.found.ok("sequences", "%d sequences are past the highest values", advanced)
	t.found.ok("statistics", "gathered for %d tables", len(tables))
	return nil
}
