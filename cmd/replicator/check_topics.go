package main

import (
	"context"
	"slices"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/debezium/kafka"
)

const (
	shortRetention = 24 * time.Hour // less leaves no night in which the replicator may be stopped
	largePart      = 0.8            // of what a topic takes: the next record may be too large
)

// checkTopicSettings looks at what removes records before they are read.
func (v *sourceView) checkTopicSettings(ctx context.Context, c *config, last *checkpoint.Checkpoint, f *findings) {
	var names []string
	for _, t := range v.topics {
		names = append(names, t.Name)
	}
	history := c.Source.SchemaChanges
	if history != "" && slices.Contains(v.all, history) {
		names = append(names, history)
	}
	if len(names) == 0 {
		return
	}
	settings, err := v.source.Settings(ctx, names)
	if err == nil {
		v.settings = settings
	}
	hidden := slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, ok := settings[n]; return ok })
	if len(hidden) > 0 {
		f.warn("acls/settings", "let this user DESCRIBE_CONFIGS them, or see to their retention.ms and cleanup.policy yourself",
			"the settings of %d topics may not be seen, and are not checked: %s", len(hidden), few(hidden, 10))
	}
	checkHistorySettings(history, settings, f)
	v.checkRetention(last, f)
}

func checkHistorySettings(topic string, all map[string]kafka.Settings, f *findings) {
	s, seen := all[topic]
	if !seen {
		return
	}
	if s.Deletes && (s.Retention >= 0 || s.RetentionBytes >= 0) {
		f.warn("schema_changes/retention", "set its retention.ms and retention.bytes to -1",
			"topic %s forgets what it says of tables %s: a pipeline that starts later does not know them", topic, bounds(s))
	}
	if s.Compacts {
		f.fail("schema_changes/compacted", "set its cleanup.policy to delete, with retention.ms and retention.bytes -1, and have the connector write it anew",
			"topic %s is compacted, and keeps one record of each database", topic)
	}
}

// bounds says when a topic's records go.
func bounds(s kafka.Settings) string {
	switch {
	case s.Retention >= 0 && s.RetentionBytes >= 0:
		return "after " + s.Retention.String() + ", or earlier by its size"
	case s.Retention >= 0:
		return "after " + s.Retention.String()
	}
	return "by its size"
}

func (v *sourceView) checkRetention(last *checkpoint.Checkpoint, f *findings) {
	var short, bySize, soon []string
	var least time.Duration
	for _, t := range v.topics {
		s, seen := v.settings[t.Name]
		if !seen || !s.Deletes {
			continue
		}
		if s.RetentionBytes >= 0 {
			bySize = append(bySize, t.Name)
		}
		if s.Retention < 0 {
			continue
		}
		if s.Retention < shortRetention {
			if len(short) == 0 || s.Retention < least {
				least = s.Retention
			}
			short = append(short, t.Name)
		}
		if last != nil && waits(t, last) && time.Since(last.Created) > s.Retention/2 {
			soon = append(soon, t.Name)
		}
	}
	if len(short) > 0 {
		f.warn("retention/short", "raise retention.ms", "%d topics keep records for %v or little more; what the replicator has not read by then is lost: %s", len(short), least, few(short, 10))
	}
	if len(bySize) > 0 {
		f.warn("retention/size", "set retention.bytes to -1, and retention.ms to more than the longest stop",
			"%d topics are cut by size, so how long the replicator may be stopped depends on the writes: %s", len(bySize), few(bySize, 10))
	}
	if len(soon) > 0 {
		f.warn("retention/soon", "start the pipeline, or raise retention.ms",
			"the last checkpoint is %v old, more than half of what these topics keep, and records wait in them: %s", time.Since(last.Created).Round(time.Second), few(soon, 10))
	}
	if len(short)+len(bySize)+len(soon) == 0 && len(v.settings) > 0 {
		f.ok("retention", "no topic that is read forgets within %v", shortRetention)
	}
}

// waits says whether a topic holds records that the checkpoint does not cover.
func waits(t kafka.TopicInfo, last *checkpoint.Checkpoint) bool {
	return slices.ContainsFunc(t.Partitions, func(p kafka.PartitionInfo) bool {
		at, known := last.Positions[debezium.Partition{Topic: t.Name, ID: p.ID}]
		return known && at.Offset < p.LastStable
	})
}

// checkCompaction looks for topics that keep one record of each key, and whose tables' rows are told apart by no key.
func (v *sourceView) checkCompaction(f *findings) {
	var keyless []string
	for _, s := range v.samples {
		if v.settings[s.topic.Name].Compacts && s.keyless {
			keyless = append(keyless, s.topic.Name)
		}
	}
	if len(keyless) > 0 {
		f.fail("compaction/keyless", "set their cleanup.policy to delete, and snapshot their tables again",
			"%d compacted topics hold tables without a key: changes are removed that rows are made of: %s", len(keyless), few(keyless, 10))
	}
}

// checkPositions compares the last checkpoint with what the logs still hold.
func (v *sourceView) checkPositions(last *checkpoint.Checkpoint, f *findings) {
	if last == nil || v.all == nil {
		return
	}
	there := map[string]kafka.TopicInfo{}
	for _, t := range v.topics {
		there[t.Name] = t
	}
	var lost, other, gone []string
	for p, at := range last.Positions {
		t, described := there[p.Topic]
		if !described {
			if !slices.Contains(v.all, p.Topic) {
				gone = append(gone, p.Topic)
			}
			continue
		}
		i := slices.IndexFunc(t.Partitions, func(q kafka.PartitionInfo) bool { return q.ID == p.ID })
		switch {
		case at.TopicID != "" && t.ID != "" && at.TopicID != t.ID:
			other = append(other, p.Topic)
		case i < 0, at.Offset < t.Partitions[i].Earliest:
			lost = append(lost, p.String())
		}
	}
	const anew = "snapshot the tables again, into empty ones, with a new pipeline name; see docs/operations.md"
	if len(lost) > 0 {
		f.fail("positions/lost", anew, "the log no longer holds what follows the last checkpoint: %s", few(lost, 10))
	}
	if len(other) > 0 {
		f.fail("positions/recreated", anew, "topics were deleted and made again since the last checkpoint: %s", few(slices.Compact(slices.Sorted(slices.Values(other))), 10))
	}
	if len(gone) > 0 {
		f.fail("positions/deleted", "let this user DESCRIBE them, or take them out of source.topics if they are meant to be gone",
			"topics of the last checkpoint are not to be seen: %s", few(slices.Compact(slices.Sorted(slices.Values(gone))), 10))
	}
	if len(lost)+len(other)+len(gone) == 0 {
		f.ok("positions", "the logs hold what follows checkpoint %d, which is %v old", last.ID, time.Since(last.Created).Round(time.Second))
	}
}
