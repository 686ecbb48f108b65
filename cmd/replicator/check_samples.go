package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/debezium/kafka"
)

// Bounds of what is read of the topics.
const (
	sampledRecords    = 20  // of each partition, its last
	sampledPartitions = 500 // the rest is not looked at
	sampledBytes      = 64 << 20
	refusedTopics     = 20 // that may not be read, each of which costs another try
)

// topicSample is the last records of a topic.
type topicSample struct {
	topic   kafka.TopicInfo
	events  []debezium.Event // those that change a row, of all partitions
	largest int              // bytes of the largest record
	spread  bool             // a key is found in more than one partition
	keyless bool             // rows are told apart by no key, neither the table's nor a rule's
}

// sample reads the last records of the topics.
func (v *sourceView) sample(ctx context.Context, c *config, f *findings) {
	from, left := debezium.Positions{}, 0
	for _, t := range v.topics {
		for _, p := range t.Partitions {
			switch {
			case p.Earliest == p.LastStable:
			case len(from) == sampledPartitions:
				left++
			default:
				from[debezium.Partition{Topic: t.Name, ID: p.ID}] = debezium.Position{Offset: max(p.Earliest, p.LastStable-sampledRecords)}
			}
		}
	}
	batches, err := v.readable(ctx, from, f)
	if err != nil {
		f.warn("records/unread", "see to the brokers, and check again", "the topics' last records cannot be read: %s", reason(err))
		return
	}
	records := 0
	for _, t := range v.topics {
		s := topicSample{topic: t}
		keys := map[string]int32{}
		for i := range batches {
			if batches[i].Partition.Topic == t.Name {
				records += len(batches[i].Records)
				s.add(ctx, v.decoder, c, &batches[i], keys, f)
			}
		}
		v.samples = append(v.samples, s)
	}
	more := ""
	if left > 0 {
		more = fmt.Sprintf("; %d partitions more are not looked at", left)
	}
	f.ok("records", "%d were looked at, the last of each partition%s", records, more)
}

// readable reads the samples, and leaves out the topics that may not be read.
func (v *sourceView) readable(ctx context.Context, from debezium.Positions, f *findings) ([]debezium.Batch, error) {
	var hidden []string
	defer func() {
		if len(hidden) > 0 {
			f.fail("acls/read", "let this user READ them", "%d topics may not be read: %s", len(hidden), few(hidden, 10))
		}
	}()
	for len(from) > 0 {
		batches, err := v.source.Sample(ctx, from, sampledRecords, sampledBytes)
		var refused *kafka.Error
		if !errors.As(err, &refused) || refused.Class != kafka.NotAuthorized || refused.Partition.Topic == "" || len(hidden) == refusedTopics {
			return batches, err
		}
		hidden = append(hidden, refused.Partition.Topic)
		for p := range from {
			if p.Topic == refused.Partition.Topic {
				delete(from, p)
			}
		}
	}
	return nil, nil
}

// add decodes one partition's records.
func (s *topicSample) add(ctx context.Context, d *debezium.Decoder, c *config, b *debezium.Batch, keys map[string]int32, f *findings) {
	for _, r := range b.Records {
		s.largest = max(s.largest, len(r.Key)+len(r.Value))
		if r.Key == nil {
			continue
		}
		in, known := keys[string(r.Key)]
		s.spread = s.spread || known && in != b.Partition.ID
		keys[string(r.Key)] = b.Partition.ID
	}
	events, err := d.DecodeBatchContext(ctx, b)
	if err != nil {
		const do = "see to the connector's converters, source.format and source.registry"
		if c.Errors.BadRecord == deadLetter && errors.As(err, new(*debezium.RecordError)) {
			f.warn("records/undecoded", do, "a record cannot be decoded, and would be set aside: %s", reason(err))
		} else {
			f.fail("records/undecoded", do, "a record cannot be decoded: %s", reason(err))
		}
	}
	for i := range events {
		if events[i].Op.Row() {
			s.events = append(s.events, events[i])
		}
	}
}

// tablesOfSamples are the tables as the records alone show them, for a source without a schema-change topic.
func tablesOfSamples(c *config, samples []topicSample) []knownTable {
	known := map[string]knownTable{}
	for _, s := range samples {
		for i := range s.events {
			e := &s.events[i]
			shape := debezium.TableFromEvent(e)
			change := debezium.TableChange{Database: e.Source.Database, Schema: e.Source.Schema, Table: e.Source.Table, Shape: &shape}
			name := dotted(change.Database, change.Schema, change.Table)
			was := known[name]
			if was.shape.Columns != nil && (len(shape.Columns) == 0 || was.before(e)) {
				continue // another one shows more
			}
			if t, skip := ruled(c, e.Source.Name, change); !skip {
				t.since, _ = e.Source.Position()
				known[name] = t
			}
		}
	}
	return sortedTables(known)
}

// checkBeginning looks, before the first run, whether the topics begin with the tables' rows.
func (v *sourceView) checkBeginning(ctx context.Context, c *config, last *checkpoint.Checkpoint, f *findings) {
	if last != nil || c.Source.Start != "earliest" {
		return
	}
	from, cut := debezium.Positions{}, map[string]bool{}
	for _, s := range v.samples {
		for _, p := range s.topic.Partitions {
			if len(s.events) == 0 || p.Earliest == p.LastStable || len(from) == sampledPartitions {
				continue
			}
			from[debezium.Partition{Topic: s.topic.Name, ID: p.ID}] = debezium.Position{Offset: p.Earliest}
			cut[s.topic.Name] = cut[s.topic.Name] || p.Earliest > 0
		}
	}
	if len(from) == 0 {
		return
	}
	batches, err := v.source.Sample(ctx, from, 1, sampledBytes)
	if err != nil {
		return // the last records could be read a moment ago: it is told by those
	}
	var partial []string
	for _, s := range v.samples {
		whole, seen := false, false
		for i := range batches {
			if batches[i].Partition.Topic != s.topic.Name {
				continue
			}
			events, err := v.decoder.DecodeBatchContext(ctx, &batches[i])
			if err != nil || len(events) == 0 {
				continue
			}
			seen = true
			whole = whole || events[0].Source.Snapshot || events[0].Op == debezium.Read || events[0].Op == debezium.Create && !cut[s.topic.Name]
		}
		if seen && !whole {
			partial = append(partial, s.topic.Name)
		}
	}
	if len(partial) > 0 {
		f.warn("start/partial", "have the connector snapshot the tables (an incremental snapshot, or snapshot.mode), unless the target has their rows",
			"%d topics do not begin with a snapshot, and rows that did not change since are in none of their records: %s", len(partial), few(partial, 10))
	}
}

// clockSlack is by how much two clocks may differ.
const clockSlack = 5 * time.Second

// checkSamples looks at what the records show of the connector.
func (v *sourceView) checkSamples(c *config, f *findings) {
	known := map[string]*knownTable{}
	for i := range v.tables {
		known[v.tables[i].source] = &v.tables[i]
	}
	found := newSampleFindings()
	now := time.Now()
	for i := range v.samples {
		s := &v.samples[i]
		for j := range s.events {
			e := &s.events[j]
			t := known[dotted(e.Source.Database, e.Source.Schema, e.Source.Table)]
			if t == nil {
				continue
			}
			s.look(e, t, found)
			found.options(c, e, t, now)
		}
		if s.spread {
			found.note("partitions/moved", s.topic.Name)
		}
		if limit := v.settings[s.topic.Name].MaxMessage; limit > 0 && float64(s.largest) > largePart*float64(limit) {
			found.note("messages/large", fmt.Sprintf("%s (%d of %d bytes)", s.topic.Name, s.largest, limit))
		}
	}
	v.checkCompaction(f)
	found.report(f)
}

// look compares a table's key with the topic's partitions.
func (s *topicSample) look(e *debezium.Event, t *knownTable, found *sampleFindings) {
	key := t.shape.PrimaryKey
	if len(t.rows.Key) > 0 {
		key = t.rows.Key
	}
	s.keyless = s.keyless || len(key) == 0
	if len(s.topic.Partitions) < 2 {
		return
	}
	if !e.Key.Sent() {
		found.note("partitions/keyless", s.topic.Name)
		return
	}
	for i := range e.Key.Shape.Fields {
		if name := e.Key.Shape.Fields[i].Name; len(key) > 0 && !slices.Contains(key, name) {
			found.note("partitions/key", fmt.Sprintf("%s (by %s)", s.topic.Name, name))
		}
	}
}
