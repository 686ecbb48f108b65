package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
}

// checkSource looks at brokers and topics, and returns the tables that the schema-change topic describes.
func checkSource(ctx context.Context, c *config, f *findings) []knownTable {
	ctx, cancel := within(ctx, checkSourceTimeout)
	defer cancel()
	source, err := openSource(c, nil)
	if err != nil {
		f.fail("brokers", "correct source", "%v", err)
		return nil
	}
	if err := source.Probe(ctx); err != nil {
		f.fail("brokers", "see to source.brokers", "no broker can be used: %s", reason(err))
		return nil
	}
	f.ok("brokers", "%s", strings.Join(c.Source.Brokers, ", "))
	all, err := source.Topics(ctx)
	if err != nil {
		f.fail("topics", "let this user DESCRIBE the topics", "the topics cannot be listed: %s", reason(err))
		return nil
	}
	checkTopics(ctx, source, all, f)
	checkRegistry(ctx, c, f)
	for _, t := range []struct{ key, name string }{{"transactions", c.Source.Transactions}, {"schema_changes", c.Source.SchemaChanges}} {
		if t.name != "" && !slices.Contains(all, t.name) {
			f.fail(t.key, fmt.Sprintf("start the connector; if it runs, correct source.%s: it is the connector's topic.prefix for schema_changes, and that with .transaction for transactions", t.key), "there is no topic %s", t.name)
		}
	}
	return checkSchemaChanges(ctx, c, source, all, f)
}

func checkTopics(ctx context.Context, source *kafka.Source, all []string, f *findings) {
	topics, err := source.Describe(ctx)
	if err != nil {
		f.fail("topics", "see to the brokers", "the topics cannot be described: %s", reason(err))
		return
	}
	if len(topics) == 0 {
		there := "the brokers have no topics"
		if len(all) > 0 {
			there = "there are " + few(all, 10)
		}
		f.fail("topics", "start the connector, which makes topics with the first rows; if it runs, correct source.topics, regular expressions of whole names", "no topic matches; %s", there)
		return
	}
	partitions, records := 0, int64(0)
	for _, t := range topics {
		partitions += len(t.Partitions)
		for _, p := range t.Partitions {
			records += p.LastStable - p.Earliest
		}
	}
	f.ok("topics", "%d topics, %d partitions, about %d records", len(topics), partitions, records)
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
		f.fail("registry", "see to source.registry", "the schema registry cannot be used: %s", reason(err))
		return
	}
	f.ok("registry", "%s", redact(c.Source.Registry.URL))
}

// checkSchemaChanges reads the schema-change topic.
func checkSchemaChanges(ctx context.Context, c *config, source *kafka.Source, all []string, f *findings) []knownTable {
	topic := c.Source.SchemaChanges
	if topic == "" {
		f.warn("schema_changes", "set it to the connector's topic.prefix", "source.schema_changes is not set: types of new tables come from the events alone, which do not tell all (unsigned, lengths)")
		return nil
	}
	if !slices.Contains(all, topic) {
		return nil
	}
	records, _, err := source.History(ctx, topic, -1)
	if err != nil {
		f.fail("schema_changes", "see to the topic", "topic %s cannot be read: %s", topic, reason(err))
		return nil
	}
	tables, err := describedTables(ctx, c, topic, records)
	if err != nil {
		f.fail("schema_changes", "is it the connector's schema-change topic?", "%v", err)
		return nil
	}
	if len(tables) == 0 {
		f.warn("schema_changes", "is it the connector's schema-change topic, and is include.schema.changes on?", "topic %s describes no table that is replicated", topic)
		return nil
	}
	f.ok("schema_changes", "topic %s describes %d tables", topic, len(tables))
	return tables
}

// describedTables returns the tables as the topic leaves them, by name, without those that a rule skips.
func describedTables(ctx context.Context, c *config, topic string, records []debezium.Record) ([]knownTable, error) {
	decoder, err := openDecoder(c, nil)
	if err != nil {
		return nil, err
	}
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
			t := knownTable{source: name, shape: *change.Shape, target: fillTemplate(c.Target.Table, topic, change)}
			skip := false
			for _, r := range c.Tables {
				if !r.Match.MatchString(name) {
					continue
				}
				skip, t.rows = r.Skip, r.Rows
				if r.Target != "" {
					t.target = fillTemplate(r.Target, topic, change)
				}
				break
			}
			if !skip {
				known[name] = t
			}
		}
	}
	tables := make([]knownTable, 0, len(known))
	for _, t := range known {
		tables = append(tables, t)
	}
	slices.SortFunc(tables, func(a, b knownTable) int { return strings.Compare(a.source, b.source) })
	return tables, nil
}

// fillTemplate returns where a table goes. {topic} is the name that Debezium gives to the table's topic by default.
func fillTemplate(template, prefix string, t debezium.TableChange) schema.Name {
	topic := dotted(prefix, t.Database, t.Schema, t.Table)
	fill := strings.NewReplacer("{topic}", topic, "{database}", t.Database, "{schema}", t.Schema, "{table}", t.Table)
	n := schema.ParseName(template) // before filling: a dot in a table's name separates nothing
	return schema.Name{Schema: fill.Replace(n.Schema), Table: fill.Replace(n.Table)}
}

// checkTables looks at what the tables are like.
func checkTables(c *config, tables []knownTable, f *findings) {
	dialect := sqlgen.Postgres{}
	var keyless []string
	goes := map[schema.Name]string{}
	for _, t := range tables {
		arranged, err := t.rows.Arrange(t.shape)
		if err != nil {
			f.fail("rules", "correct the table's rule", "table %s: %v", t.source, err)
			continue
		}
		t.shape = arranged
		if len(t.shape.PrimaryKey) == 0 {
			keyless = append(keyless, t.source)
		}
		if short := dialect.ShortName(t.target.Table); short != t.target.Table {
			f.warn("names", "", "table %s is longer than the target's limit of 63 bytes and is called %s there", t.source, short)
		}
		for _, col := range t.shape.Columns {
			if short := dialect.ShortName(col.Name); short != col.Name {
				f.warn("names", "", "column %s of table %s is longer than the target's limit of 63 bytes and is called %s there", col.Name, t.source, short)
			}
		}
		as := schema.Name{Schema: dialect.ShortName(t.target.Schema), Table: dialect.ShortName(t.target.Table)}
		if other, taken := goes[as]; taken {
			f.fail("names", "put {database} into target.table, as in {database}.{table}", "tables %s and %s both go to %v", other, t.source, as)
		}
		goes[as] = t.source
		if _, err := dialect.TargetTable(t.shape, as, c.Schema.Types); err != nil && c.Schema.Create {
			f.fail("types", "create the table in the target by hand, with a type that holds the values", "table %s: %s", t.source, typeReason(err))
		}
	}
	if len(keyless) > 0 {
		f.warn("keys", "give them a key (tables: key) if some columns are unique", "%d tables have no primary key, and changes look for an equal row: %s", len(keyless), few(keyless, 10))
	}
}

// typeReason leaves out of a row's error what only a record has.
func typeReason(err error) string {
	var row *sqlgen.RowError
	if !errors.As(err, &row) {
		return err.Error()
	}
	return fmt.Sprintf("column %s: %v", row.Column, row.Err)
}

// dotted joins the names that there are.
func dotted(names ...string) string {
	return strings.Join(slices.DeleteFunc(names, func(s string) bool { return s == "" }), ".")
}
