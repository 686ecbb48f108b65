package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// cutting is one cutover.
type cutting struct {
	*app
	config *config
	flags  *verifyFlags
	wait   time.Duration
	sides  *sides
	target *cutpg.Target
	source *kafka.Source

	found     findings
	savepoint int64
	verified  *verification
}

// run goes from step to step until one says no-go. Its error is for what cannot be known.
func (t *cutting) run(ctx context.Context) (err error) {
	t.target, err = cutpg.Open(ctx, t.config.Target.URL)
	if errors.Is(err, cutpg.ErrRunning) {
		t.found.fail("cutover", "wait until it has ended, and repeat", "%v", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("open target.url: %w", err)
	}
	defer func() { err = errors.Join(err, t.target.Close(context.WithoutCancel(ctx))) }()
	if t.source, err = openSource(t.config, nil); err != nil {
		return err
	}
	before, err := t.logPosition(ctx)
	if err != nil {
		return err
	}
	t.save(ctx)
	ends, ok, err := t.catchUp(ctx)
	if err != nil || !ok {
		return err
	}
	tables, err := t.tables(ctx)
	if err != nil {
		return err
	}
	if ok, err := t.verify(ctx, tables.pairs); err != nil || !ok {
		return err
	}
	if err := t.complete(ctx, tables.pairs); err != nil {
		return err
	}
	return t.still(ctx, before, ends, tables)
}

// tables are those that are replicated, and those of the target that will be: the connector makes the topic of a table with its first row.
func (t *cutting) tables(ctx context.Context) (replicated, error) {
	out, err := t.pairs(ctx, t.config, t.sides, t.flags.wants)
	if err != nil {
		return out, err
	}
	all, err := t.sides.source.Tables(ctx)
	if err != nil {
		return out, fmt.Errorf("list the source's tables: %w", err)
	}
	prefix := strings.TrimSuffix(out.topics[0], topicSuffix(out.pairs[0].Source.Name))
	places, wanted, known := tablePlaces(t.config), t.config.wantsTopic(), out.topics
	for _, name := range all {
		topic := prefix + topicSuffix(name)
		place := t.sides.place(&places, topic, name)
		if slices.Contains(known, topic) || !wanted(topic) || place.Skip {
			continue
		}
		p, err := t.sides.pair(ctx, name, place)
		if err != nil {
			return out, err
		}
		if p.Target.Columns == nil {
			t.found.warn("left out", "if the application needs it, see whether the connector captures it, and make it by replicator schema apply or by hand", "table %s, which has no topic and is not in the target", name)
			continue
		}
		out.pairs, out.topics = append(out.pairs, p), append(out.topics, topic)
	}
	return out, nil
}

// save asks for the savepoint that is the way back.
func (t *cutting) save(ctx context.Context) {
	made, err := askForSavepoint(ctx, t.config)
	if err != nil {
		t.found.warn("savepoint", "repeat with that, if you want a way back", "none was made: %s", strings.TrimPrefix(reason(err), "savepoint: "))
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

// catchUp waits until the last checkpoint is at the end of every partition, and returns how many records each topic has had.
func (t *cutting) catchUp(ctx context.Context) (ends map[string]int64, _ bool, err error) {
	store, err := openStore(ctx, t.config)
	if err != nil {
		return nil, false, fmt.Errorf("open the checkpoint store: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	limit := time.NewTimer(t.wait)
	defer limit.Stop()
	tick := time.NewTicker(catchUpInterval)
	defer tick.Stop()
	for {
		left, ends, err := toGo(ctx, store, t.source, t.config.Pipeline)
		if err != nil {
			return nil, false, err
		}
		if left == 0 {
			t.found.ok("caught up", "the last checkpoint is at the end of every partition")
			return ends, true, nil
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-limit.C:
			t.found.fail("caught up", "see that the pipeline runs and that the source is quiet, and repeat", "%d offsets are not applied after %v", left, t.wait)
			return nil, false, nil
		case <-tick.C:
		}
	}
}

// toGo counts the offsets between the last checkpoint and the ends, and adds the ends up by topic.
func toGo(ctx context.Context, store checkpoint.Store, source *kafka.Source, pipeline string) (left int64, ends map[string]int64, err error) {
	list, err := store.List(ctx, pipeline)
	if err != nil {
		return 0, nil, err
	}
	var last checkpoint.Checkpoint
	if len(list) > 0 {
		last = list[len(list)-1]
	}
	topics, err := source.Describe(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("list the topics: %w", err)
	}
	ends = map[string]int64{}
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			from := p.Earliest
			if at, ok := last.Positions[debezium.Partition{Topic: topic.Name, ID: p.ID}]; ok {
				from = at.Offset
			}
			left += max(0, p.LastStable-from)
			ends[topic.Name] += p.LastStable
		}
	}
	return left, ends, nil
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

// still says whether the source was left alone since the first look. Where its log has moved, or does not tell, rows are compared once
// more, and no topic of a table may have got a record: a row that came after the sequences were set may have a key that they give next.
func (t *cutting) still(ctx context.Context, before string, ends map[string]int64, tables replicated) error {
	after, err := t.logPosition(ctx)
	if err != nil {
		return err
	}
	if before != "" && before == after {
		t.found.ok("source", "nobody has written to it meanwhile: its log is still at %s", after)
		return nil
	}
	if _, ok, err := t.catchUp(ctx); err != nil || !ok {
		return err
	}
	if ok, err := t.verify(ctx, tables.pairs); err != nil || !ok {
		return err
	}
	now, ok, err := t.catchUp(ctx) // what has arrived while rows were compared counts too
	if err != nil || !ok {
		return err
	}
	changed := map[string]int64{}
	for i, topic := range tables.topics {
		if n := now[topic] - ends[topic]; n > 0 {
			changed[tables.pairs[i].Source.Name.String()] = n
		}
	}
	switch {
	case len(changed) > 0:
		var list []string
		for _, name := range slices.Sorted(maps.Keys(changed)) {
			list = append(list, fmt.Sprintf("%s (%d)", name, changed[name]))
		}
		t.found.fail("source", "stop what writes to them and repeat; a table of heartbeats can be left out by a rule (tables: skip)", "changes came in meanwhile: %s", few(list, 10))
	case before != "":
		t.found.ok("source", "its log has moved from %s to %s meanwhile, and nobody has changed a table that is replicated", before, after)
	default:
		t.found.ok("source", "nobody has changed a table that is replicated meanwhile")
	}
	return nil
}

// complete makes what the target lacks.
func (t *cutting) complete(ctx context.Context, pairs []verify.Pair) error {
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
			t.found.warn("left out", "make it by replicator schema apply or by hand if the application needs it", "table %s, which has no rows and is not in the target", p.Target.Name)
		}
	}
	for _, l := range left {
		if l.Needed {
			t.found.fail("left out", l.Why+", and repeat", "%s", l.What)
			continue
		}
		t.found.warn("left out", l.Why, "%s", l.What)
	}
	done := 0
	for _, s := range steps {
		if err := t.target.Run(ctx, s.SQL); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t.found.fail("add", "see to it and repeat", "%s: %s", s.What, reason(err))
			continue
		}
		done++
	}
	if done == len(steps) {
		t.found.ok("add", "%d statements for defaults, sequences, indexes and foreign keys have run", done)
		if err := t.nothingLeft(ctx, pairs); err != nil {
			return err
		}
	}
	return t.finish(ctx, tables)
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
func (t *cutting) finish(ctx context.Context, tables []cutover.Table) error {
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
		sequences, err := t.target.Advance(ctx, name, least)
		if err != nil {
			t.found.fail("sequences", "see to it and repeat", "%s", reason(err))
			continue
		}
		advanced += len(sequences)
		if err := t.target.Run(ctx, "ANALYZE "+t.sides.names.Quote(name.Schema)+"."+t.sides.names.Quote(name.Table)); err != nil {
			return err
		}
	}
	t.found.ok("sequences", "%d sequences are past the highest values", advanced)
	t.found.ok("statistics", "gathered for %d tables", len(tables))
	return nil
}
