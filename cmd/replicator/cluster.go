package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/debezium/kafka"
)

// What the slots of a process buffer of Kafka, together and each at least.
const (
	slotsBuffer = 64 << 20
	slotBuffer  = 4 << 20
)

// kafkaGroup makes a *kafka.Member a checkpoint.Group.
type kafkaGroup struct{ *kafka.Member }

func (g kafkaGroup) Join(ctx context.Context, held []int) ([]int, error) {
	mine, err := g.Member.Join(ctx, held)
	return mine, notMember(err)
}

func (g kafkaGroup) Beat(ctx context.Context) (bool, error) {
	again, err := g.Member.Beat(ctx)
	return again, notMember(err)
}

func notMember(err error) error {
	if errors.Is(err, kafka.ErrNotMember) {
		return fmt.Errorf("%w: %w", checkpoint.ErrNotMember, err)
	}
	return err
}

// clusterOf describes the part that this process takes in running c's pipeline. p has the observers.
func clusterOf(ctx context.Context, c *config, e *ends, p *checkpoint.Config, log *slog.Logger) (checkpoint.Cluster, error) {
	out := checkpoint.Cluster{
		Pipeline: c.Pipeline, Standby: c.Standby, Session: c.Membership.Session,
		Gate: p.Gate, Observe: p.Observe, Progress: p.Progress, Failed: p.Failed, Log: log,
	}
	slots := 1
	if c.Cluster {
		slots = c.Membership.Slots
		out.Slots = slots
		var err error
		if out.Source, err = e.source.ClusterID(ctx); err != nil {
			return out, fmt.Errorf("ask for the Kafka cluster's id: %w", err)
		}
		out.Shared = func(ctx context.Context, topic string) (bool, error) {
			n, err := e.source.Partitions(ctx, topic)
			return n > 1 && slots > 1, err
		}
	}
	out.Group = kafkaGroup{e.source.Member(kafka.GroupConfig{
		Name: "replicator-" + c.Pipeline, Protocol: "replicator-1-" + c.digest(), Session: c.Membership.Session,
		Share: func(held map[string][]int) map[string][]int { return checkpoint.Share(slots, held) },
	})}
	out.Open = func(ctx context.Context, pipeline string, slot int) (checkpoint.Config, func() error, error) {
		if slot == checkpoint.Whole {
			whole := pipelineConfig(c, e, log)
			whole.Savepoints = p.Savepoints
			return whole, func() error { return nil }, nil
		}
		return openSlot(ctx, c, e, pipeline, slot, log)
	}
	return out, nil
}

// openSlot connects what a slot has of its own: a source of its partitions, and a sink. The rest it shares with the process's others.
func openSlot(ctx context.Context, c *config, e *ends, pipeline string, slot int, log *slog.Logger) (checkpoint.Config, func() error, error) {
	s := *c
	s.Pipeline = pipeline
	slots := c.Membership.Slots
	source, err := openSource(&s, log, func(k *kafka.Config) {
		k.Only = func(p debezium.Partition) bool { return checkpoint.SlotOf(p, slots) == slot }
		k.Buffer = max(slotBuffer, int64(slotsBuffer/slots))
	})
	if err != nil {
		return checkpoint.Config{}, nil, err
	}
	sink, err := openSink(ctx, &s, log)
	if err != nil {
		return checkpoint.Config{}, nil, err
	}
	return pipelineConfig(&s, &ends{source: source, decoder: e.decoder, sink: sink, store: e.store}, log), sink.Close, nil
}

// digest is of all that decides what is written, and where. The processes of a pipeline must have it in common; what else they set is
// each one's own business.
func (c *config) digest() string {
	h := sha256.New()
	s := c.Source
	put := func(values ...any) { fmt.Fprintf(h, "%+v\n", values) } // a hash's Write never fails
	put(s.Topics, s.SchemaChanges, s.Transactions, s.Deduplicate, s.Start, s.Format, s.Binary, s.TimePrecision, s.Unavailable, s.FieldPrefix, s.HeaderPrefix)
	put(place(c.Target.URL), c.Target.Table, c.Tables, c.Delivery, c.Schema, c.Errors)
	put(place(c.Checkpoint.Store), c.Cluster, c.Standby, c.Membership.Slots)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// place is which database a URL is of, whoever connects and however.
func place(store string) string {
	u, err := url.Parse(store)
	if err != nil || u.Host == "" {
		return store
	}
	return strings.ToLower(u.Host) + u.Path
}

// shareErrors are what is wrong with sharing a pipeline as c says, by key.
func (c *config) shareErrors() map[string]string {
	out := map[string]string{}
	key := "cluster"
	switch {
	case c.Cluster && c.Standby:
		out["standby"] = "cannot be true with cluster: true, in which every process takes over from the others anyway"
	case c.Standby:
		key = "standby"
	case !c.Cluster:
		return out
	}
	if strings.HasPrefix(c.Checkpoint.Store, "file:") {
		out["checkpoint.store"] = "cannot be file:DIR with " + key + ": true: the processes need one store; set it to target, or to a database's URL"
	}
	if c.Cluster && c.Source.SchemaChanges != "" {
		out["source.schema_changes"] = "cannot be followed with cluster: true: a statement may concern tables of several processes; leave it out, and " +
			"new columns and wider types are taken from the rows' own schema"
	}
	if c.Cluster && c.Errors.BadRecord == deadLetter {
		out["errors.bad_record"] = "cannot be dead-letter yet with cluster: true; set it to stop"
	}
	if c.Cluster && c.Transactions == preserveTransactions {
		out["source_transactions"] = "cannot be preserve with cluster: true: a transaction's rows may be several processes'; set it to ignore"
	}
	if c.Cluster && isKafka(c.Target.URL) {
		out["target.url"] = "cannot be Kafka with cluster: true; run one process, and standby: true for another that waits"
	}
	return out
}

// isSlot says whether a pipeline's name is that of a cluster's slot. Commands other than run take it by --set pipeline=NAME.
func isSlot(pipeline string) bool { return strings.Contains(pipeline, "+") }

// mayShareRun says why flags of run, or the pipeline's name, do not go with c.
func (c *config) mayShareRun(f *runFlags) error {
	if isSlot(c.Pipeline) {
		return usage(fmt.Errorf("pipeline %s is a slot of a cluster: run the pipeline that it is of, with cluster: true", c.Pipeline))
	}
	if (c.Cluster || c.Standby) && (f.untilCaughtUp || f.from != 0 || f.until != "") {
		return usage(errors.New("--until-caught-up, --from and --until are of a process that runs a pipeline by itself: set cluster and standby to false"))
	}
	return nil
}
