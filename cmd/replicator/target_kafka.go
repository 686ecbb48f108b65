package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"replicator/checkpoint"
	kafkasink "replicator/txnsink/kafka"
)

// isKafka says whether a URL is one of Kafka brokers.
func isKafka(url string) bool { return strings.HasPrefix(url, "kafka://") }

// ownSource returns a topic of the target's that the source reads too, on the same brokers; empty: there is none.
func ownSource(c *config) string {
	brokers, topics, err := kafkasink.Places(c.Target.URL)
	if err != nil || !slices.ContainsFunc(brokers, func(b string) bool { return slices.Contains(c.Source.Brokers, b) }) {
		return ""
	}
	wanted := c.wantsTopic()
	for _, t := range topics {
		if wanted(t) {
			return t
		}
	}
	return ""
}

// maskKafka returns a URL without its password. It names several brokers, which package net/url does not read.
func maskKafka(s string) string {
	if kafkasink.CheckURL(s) != nil {
		return masked
	}
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s
	}
	user, _, _ := strings.Cut(strings.TrimPrefix(s[:at], "kafka://"), ":")
	return "kafka://" + user + s[at:]
}

func openKafka(ctx context.Context, c *config, log *slog.Logger) (*kafkasink.Sink, error) {
	t, err := c.Target.loadTLS()
	if err != nil {
		return nil, err
	}
	return kafkasink.Open(ctx, kafkasink.Config{URL: c.Target.URL, TLS: t, Pipeline: c.Pipeline, SQL: c.Target.Format == "sql", Timeout: c.Target.TransactionTimeout, Log: log})
}

// needsDatabase says that a command is about what a database holds.
func needsDatabase(c *config, command string) error {
	if isKafka(c.Target.URL) {
		return fmt.Errorf("%s is for databases, and the target is Kafka, which holds no rows", command)
	}
	return nil
}

// migrateKafka makes the topics that the target lacks.
func migrateKafka(ctx context.Context, c *config) error {
	sink, err := openKafka(ctx, c, nil)
	if err != nil {
		return err
	}
	return errors.Join(sink.Up(ctx), sink.Close())
}

// lookAtTopics says whether the topics are there. It makes none.
func lookAtTopics(ctx context.Context, c *config) (tablesVersion, error) {
	sink, err := openKafka(ctx, c, nil)
	if err != nil {
		return tablesVersion{}, err
	}
	v := tablesVersion{Latest: 1}
	there, err := sink.Ready(ctx)
	if there {
		v.Current = 1
	}
	return v, errors.Join(err, sink.Close())
}

// checkKafkaTarget looks at the topics and at the brokers' settings.
func checkKafkaTarget(ctx context.Context, c *config, f *findings) {
	sink, err := openKafka(ctx, c, nil)
	if err != nil {
		f.fail("target", unlessSaid(err, "see to target.url and the brokers"), "%s", reason(err))
		return
	}
	defer func() {
		if err := sink.Close(); err != nil {
			f.warn("target", "", "closing the connection: %v", err)
		}
	}()
	facts, err := sink.Look(ctx)
	if err != nil {
		f.fail("target", unlessSaid(err, "see to target.url and the brokers"), "%s", reason(err))
		return
	}
	switch {
	case facts.Partitions == 0 && c.Migrate == manualMigrate:
		f.fail("target", adviceMigrate+", or create it", "there is no topic %s, and migrate is manual", facts.Topic)
	case facts.Partitions == 0:
		f.ok("target", "topic %s will be created by run", facts.Topic)
	default:
		f.ok("target", "topic %s has %d partitions", facts.Topic, facts.Partitions)
	}
	if facts.Compacted {
		f.warn("target", "set cleanup.policy of the topic to delete if it has tables without a key, or tables that are truncated", "topic %s is compacted: "+
			"of a table without a key it keeps the last change only, and it keeps rows of tables that were truncated", facts.Topic)
	}
	checkControlTopic(c, &facts, f)
	checkOutage(c, &facts, f)
}

func checkControlTopic(c *config, facts *kafkasink.Facts, f *findings) {
	switch {
	case facts.OwnTopic:
		f.ok("own topic", "the control topic %s is there", facts.Control)
	case c.Migrate == manualMigrate:
		f.fail("own topic", adviceMigrate, "there is no control topic %s, and migrate is manual", facts.Control)
	default:
		f.ok("own topic", "the control topic %s will be created by run", facts.Control)
	}
	switch {
	case facts.Replicas == 1:
		f.warn("own topic", "give the topics 3 replicas, and set min.insync.replicas to 2", "the topics have 1 replica: a broker that is lost takes with it what was committed")
	case facts.Replicas > 1 && facts.MinInSync == 1:
		f.warn("own topic", "set min.insync.replicas to 2", "the topics have %d replicas, and min.insync.replicas is 1: a message may be on one of them only", facts.Replicas)
	}
}

// checkOutage compares the time after which the brokers end a prepared transaction with what a pipeline needs.
func checkOutage(c *config, facts *kafkasink.Facts, f *findings) {
	const what = "transaction timeout"
	timeout := c.Target.TransactionTimeout
	switch survives := timeout - c.Checkpoint.Interval; {
	case facts.MaxTimeout > 0 && timeout > facts.MaxTimeout:
		f.fail(what, "lower target.transaction_timeout, or raise transaction.max.timeout.ms on the brokers",
			"target.transaction_timeout is %v, and the brokers allow %v (transaction.max.timeout.ms)", timeout, facts.MaxTimeout)
	case survives < c.Checkpoint.Interval:
		f.fail(what, "raise target.transaction_timeout, or lower checkpoint.interval", "target.transaction_timeout is %v, and a transaction is open for checkpoint.interval (%v) "+
			"before it is prepared", timeout, c.Checkpoint.Interval)
	case c.Delivery != checkpoint.TwoPhase:
		f.ok(what, "transactions may be open for %v", timeout)
	case facts.MaxTimeout == 0:
		f.warn(what, "grant the user DESCRIBE_CONFIGS on the cluster to have it compared", "target.transaction_timeout is %v; what the brokers allow is not known", timeout)
	default:
		f.ok(what, "a process that is away between prepare and commit has %v to come back, as target.transaction_timeout says (the brokers allow %v); after that "+
			"the checkpoint's changes are lost, and must be replayed", survives, facts.MaxTimeout)
	}
}
