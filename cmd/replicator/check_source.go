package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/debezium/kafka"
	"replicator/schema"
	"replicator/sqlgen"
)

const checkSourceTimeout = 20 * time.Second

// knownTable is a table that the schema-change topic describes, and where it goes.
type knownTable struct {
	source string // database.table
	shape  schema.Table
	target schema.Name // as the template says, before names are shortened
	rows   sqlgen.Rules
	evolve schema.Policy
	since  debezium.LogPosition // in the source's log, from which on it has this shape; zero: that is not known
}

// before says whether an event is from before the table had its shape.
func (t *knownTable) before(e *debezium.Event) bool {
	at, ok := e.Source.Position()
	if !ok || t.since == (debezium.LogPosition{}) {
		return false
	}
	c, ok := at.Compare(t.since)
	return ok && c < 0
}

// sourceView is what the preflight has seen of the source's side.
type sourceView struct {
	source   *kafka.Source
	decoder  *debezium.Decoder // one for all topics: some schemas' ids show what others mean
	all      []string          // topics that this user may see
	topics   []kafka.TopicInfo
	settings map[string]kafka.Settings // by topic
	samples  []topicSample
	tables   []knownTable
}

// maxMessage is the size of the largest message that a topic may hold, in bytes; 0: it is not known.
func (v *sourceView) maxMessage() int64 {
	var most int64
	for _, s := range v.settings {
		most = max(most, s.MaxMessage)
	}
	return most
}

// checkSource looks at brokers, topics and a few of their records. last is the pipeline's last checkpoint; nil: there is none.
func checkSource(ctx context.Context, c *config, last *checkpoint.Checkpoint, f *findings) (v sourceView) {
	ctx, cancel := within(ctx, checkSourceTimeout)
	defer cancel()
	var err error
	if v.source, err = openSource(c, nil); err == nil {
		v.decoder, err = openDecoder(c, nil)
	}
	if err != nil {
		f.fail("brokers/settings", "correct source", "%v", err)
		return v
	}
	if err := v.source.Probe(ctx); err != nil {
		f.fail("brokers/unreachable", unlessSaid(err, "see to source.brokers"), "no broker can be used: %s", reason(err))
		return v
	}
	f.ok("brokers", "%s", strings.Join(c.Source.Brokers, ", "))
	if v.all, err = v.source.Topics(ctx); err != nil {
		f.fail("topics/hidden", "let this user DESCRIBE the topics", "the topics cannot be listed: %s", reason(err))
		return v
	}
	v.describeTopics(ctx, f)
	checkRegistry(ctx, c, f)
	if t := c.Source.Transactions; t != "" && !slices.Contains(v.all, t) {
		f.fail("transactions/missing", "start the connector; if it runs, correct source.transactions: it is the connector's topic.prefix with .transaction", "there is no topic %s", t)
	}
	if t := c.Errors.LetterTopic; t != "" && !slices.Contains(v.all, t) {
		f.fail("dead_letters/missing", "create it, and let this user WRITE to it", "there is no topic %s, which errors.dead_letters names, or this user may not DESCRIBE it", t)
	}
	v.tables = v.checkSchemaChanges(ctx, c, f)
	v.sample(ctx, c, f)
	if len(v.tables) == 0 {
		v.tables = tablesOfSamples(c, v.samples)
	}
	v.checkTopicSettings(ctx, c, last, f)
	v.checkPositions(last, f)
	v.checkBeginning(ctx, c, last, f)
	v.checkSamples(c, f)
	return v
}

func (v *sourceView) describeTopics(ctx context.Context, f *findings) {
	var err error
	if v.topics, err = v.source.Describe(ctx); err != nil {
		f.fail("topics/hidden", "let this user DESCRIBE the topics, and see to the brokers", "the topics cannot be described: %s", reason(err))
		return
	}
	if len(v.topics) == 0 {
		there := "the brokers have no topics that this user may DESCRIBE"
		if len(v.all) > 0 {
			there = "there are " + few(slices.Clone(v.all), 10)
		}
		f.fail("topics/none", "start the connector, which makes topics with the first rows; if it runs, correct source.topics, regular expressions of whole names", "no topic matches; %s", there)
		return
	}
	partitions, records := 0, int64(0)
	for _, t := range v.topics {
		partitions += len(t.Partitions)
		for _, p := range t.Partitions {
			records += p.LastStable - p.Earliest
		}
	}
	f.ok("topics", "%d topics, %d partitions, about %d records", len(v.topics), partitions, records)
}

// checkRegistry asks the schema registry, if there is one.
func checkRegistry(ctx context.Context, c *config, f *findings) {
	if c.Source.Registry.URL == "" {
		return
	}
	r, err := openRegistry(c)
	if err == nil {
		err = r.Probe(ctx)
	}
	if err != nil {
		f.fail("registry/unreachable", unlessSaid(err, "see to source.registry"), "%s", reason(err))
		return
	}
	f.ok("registry", "%s", redact(c.Source.Registry.URL))
}

// checkSchemaChanges reads the schema-change topic.
func (v *sourceView) checkSchemaChanges(ctx context.Context, c *config, f *findings) []knownTable {
	topic := c.Source.SchemaChanges
	if topic == "" {
		f.warn("schema_changes/unset", "set it to the connector's topic.prefix", "source.schema_changes is not set: types of new tables come from the events alone, which do not tell all (unsigned, lengths)")
		return nil
	}
	if !slices.Contains(v.all, topic) {
		f.fail("schema_changes/missing", "start the connector; if it runs, correct source.schema_changes: it is the connector's topic.prefix", "there is no topic %s", topic)
		return nil
	}
	records, _, err := v.source.History(ctx, topic, -1)
	if err != nil {
		f.fail("schema_changes/unreadable", "let this user READ it; it must have one partition", "topic %s cannot be read: %s", topic, reason(err))
		return nil
	}
	tables, err := describedTables(ctx, c, v.decoder, topic, records)
	if err != nil {
		f.fail("schema_changes/not_debezium", "is it the connector's schema-change topic?", "%v", err)
		return nil
	}
	if len(tables) == 0 {
		f.warn("schema_changes/empty", "is it the connector's schema-change topic, and is include.schema.changes on?", "topic %s describes no table that is replicated", topic)
		return nil
	}
	f.ok("schema_changes", "topic %s describes %d tables", topic, len(tables))
	return tables
}

// describedTables returns the tables as the topic leaves them, by name, without those that a rule skips.
func describedTables(ctx context.Context, c *config, decoder *debezium.Decoder, topic string, records []debezium.Record) ([]knownTable, error) {
	events, err := decoder.DecodeBatchContext(ctx, &debezium.Batch{Partition: debezium.Partition{Topic: topic}, Records: records})
	if err != nil {
		return nil, err
	}
	known := map[string]knownTable{}
	for i := range events {
		if events[i].Change == nil {
			continue
		}
		for _, change := range events[i].Change.Tables {
			name := dotted(change.Database, change.Schema, change.Table)
			if change.Shape == nil {
				delete(known, name)
				continue
			}
			if t, skip := ruled(c, topic, change); !skip {
				t.since, _ = events[i].Source.Position()
				known[name] = t
			}
		}
	}
	return sortedTables(known), nil
}

func sortedTables(known map[string]knownTable) []knownTable {
	tables := slices.Collect(maps.Values(known))
	slices.SortFunc(tables, func(a, b knownTable) int { return strings.Compare(a.source, b.source) })
	return tables
}

// ruled is a table as the rules have it; skip: they leave it out.
func ruled(c *config, prefix string, change debezium.TableChange) (t knownTable, skip bool) {
	name := dotted(change.Database, change.Schema, change.Table)
	t = knownTable{source: name, shape: *change.Shape, target: fillTemplate(c.Target.Table, prefix, change), evolve: c.Schema.Evolve}
	for _, r := range c.Tables {
		if !r.Match.MatchString(name) {
			continue
		}
		t.rows = r.Rows
		if r.Target != "" {
			t.target = fillTemplate(r.Target, prefix, change)
		}
		if r.Evolve != "" {
			t.evolve = r.Evolve
		}
		return t, r.Skip
	}
	return t, false
}

// fillTemplate returns where a table goes. {topic} is the name that Debezium gives to the table's topic by default.
func fillTemplate(template, prefix string, t debezium.TableChange) schema.Name {
	topic := dotted(prefix, t.Database, t.Schema, t.Table)
	fill := strings.NewReplacer("{topic}", topic, "{database}", t.Database, "{schema}", t.Schema, "{table}", t.Table)
	n := schema.ParseName(template) // before filling: a dot in a table's name separates nothing
	return schema.Name{Schema: fill.Replace(n.Schema), Table: fill.Replace(n.Table)}
}

// dotted joins the names that there are.
func dotted(names ...string) string {
	return strings.Join(slices.DeleteFunc(names, func(s string) bool { return s == "" }), ".")
}
