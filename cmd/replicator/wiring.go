package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"replicator/checkpoint"
	"replicator/checkpoint/file"
	mystore "replicator/checkpoint/mysql"
	pgstore "replicator/checkpoint/postgres"
	"replicator/debezium"
	"replicator/debezium/kafka"
	"replicator/debezium/registry"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// schemaWait is how long the first row of a table waits for the schema-change topic to describe the table: Debezium
// writes the description first, but to another partition.
const schemaWait = 10 * time.Second

// Bounds of the wait for a target that cannot be reached at start. Once a pipeline runs, checkpoint.Run waits.
const (
	firstConnectDelay = 100 * time.Millisecond
	lastConnectDelay  = 10 * time.Second
)

// kafkaSource makes a *kafka.Source a checkpoint.Source: its Open returns an interface.
type kafkaSource struct {
	*kafka.Source
	log    *slog.Logger
	absent *sync.Once // tells of a schema-change topic that is not there
}

func (s kafkaSource) Open(ctx context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	r, err := s.Source.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// History reads a topic that is not there yet as empty: the daemon may be started before the connector.
func (s kafkaSource) History(ctx context.Context, topic string, from int64) ([]debezium.Record, int64, error) {
	records, next, err := s.Source.History(ctx, topic, from)
	var ke *kafka.Error
	if from < 0 && errors.As(err, &ke) && ke.Class == kafka.TopicMissing {
		s.absent.Do(func() {
			s.log.Warn("there is no schema-change topic yet, and tables are known by their rows alone", "topic", topic, "do", "start the connector; if it runs, set source.schema_changes to its topic.prefix")
		})
		return nil, from, nil
	}
	return records, next, err
}

// openSource describes what the pipeline reads. It connects to nothing.
func openSource(c *config, log *slog.Logger, change ...func(*kafka.Config)) (*kafka.Source, error) {
	k := kafka.Config{
		Brokers: c.Source.Brokers, Topics: c.Source.Topics, Start: c.Source.Start,
		ClientID: "replicator-" + c.Pipeline, Log: log, SASL: c.Source.SASL,
	}
	var err error
	if k.TLS, err = c.Source.TLS.load(); err != nil {
		return nil, fmt.Errorf("source.tls: %w", err)
	}
	if k.SASL.OAuth.TLS, err = c.Source.TokenTLS.load(); err != nil {
		return nil, fmt.Errorf("source.sasl.tls: %w", err)
	}
	apart := []string{c.Source.SchemaChanges, c.Errors.LetterTopic}
	if c.Transactions == preserveTransactions {
		k.Topics = append(slices.Clone(k.Topics), regexp.QuoteMeta(c.Source.Transactions))
	} else {
		apart = append(apart, c.Source.Transactions)
	}
	for _, topic := range apart {
		if topic != "" {
			k.Exclude = append(k.Exclude, topic)
		}
	}
	for _, ch := range change {
		ch(&k)
	}
	return kafka.New(k)
}

// openDecoder describes how records are read. It connects to nothing.
func openDecoder(c *config, log *slog.Logger) (*debezium.Decoder, error) {
	d := debezium.DecoderConfig{
		Format: formats[c.Source.Format], Unavailable: c.Source.Unavailable,
		FieldPrefix: c.Source.FieldPrefix, HeaderPrefix: c.Source.HeaderPrefix,
	}
	if log != nil {
		d.Chose = func(topic string, f debezium.Format) {
			log.Info("found a topic's format", "pipeline", c.Pipeline, "topic", topic, "format", f.String())
		}
	}
	if c.Source.Registry.URL != "" {
		r, err := openRegistry(c)
		if err != nil {
			return nil, err
		}
		d.Schemas = r
	}
	return debezium.NewDecoder(d), nil
}

// sessions is how many transactions the processes of the pipeline may have open at once.
func (c *config) sessions() int {
	if c.Cluster {
		return c.Workers * c.Membership.Slots
	}
	return c.Workers
}

// openRegistry describes the schema registry. It connects to nothing.
func openRegistry(c *config) (*registry.Client, error) {
	r := c.Source.Registry
	var err error
	if r.TLS, err = c.Source.RegistryTLS.load(); err != nil {
		return nil, fmt.Errorf("source.registry.tls: %w", err)
	}
	out, err := registry.New(r)
	if err != nil {
		return nil, fmt.Errorf("source.registry: %w", err)
	}
	return out, nil
}

// formats are the values of source.format.
var formats = map[string]debezium.Format{"auto": debezium.Auto, "json": debezium.JSON, "avro": debezium.Avro, "protobuf": debezium.Protobuf}

// openStore opens the pipeline's checkpoints.
func openStore(ctx context.Context, c *config) (checkpoint.Store, error) {
	if dir, ok := strings.CutPrefix(c.Checkpoint.Store, "file:"); ok {
		s, err := file.Open(dir)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	url := storeURL(c)
	if isMySQL(url) {
		t, err := c.Target.loadTLS()
		if err != nil {
			return nil, err
		}
		s, err := mystore.Open(ctx, url, t)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := pgstore.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// storeURL is the database that the checkpoints are in, unless they are in a directory.
func storeURL(c *config) string {
	if c.Checkpoint.Store == "target" {
		return c.Target.URL
	}
	return c.Checkpoint.Store
}

// ownStore says whether the checkpoints are in a database of their own.
func ownStore(c *config) bool {
	return c.Checkpoint.Store != "target" && !strings.HasPrefix(c.Checkpoint.Store, "file:")
}

// ends is what a pipeline reads from and writes to.
type ends struct {
	source  *kafka.Source
	decoder *debezium.Decoder
	sink    txnsink.Sink
	store   checkpoint.Store
	letters *kafka.Writer // nil: records that are set aside are copied nowhere
}

// openEnds connects to everything, and sees to the replicator's own tables. While the target cannot
// be reached it tries again until ctx is done: a daemon may be started before its database.
func openEnds(ctx context.Context, c *config, log *slog.Logger) (*ends, error) {
	source, err := openSource(c, log)
	if err != nil {
		return nil, err
	}
	decoder, err := openDecoder(c, log)
	if err != nil {
		return nil, err
	}
	delay := firstConnectDelay
	for {
		e := &ends{source: source, decoder: decoder}
		if c.Errors.LetterTopic != "" {
			e.letters = source.Writer(c.Errors.LetterTopic)
		}
		err := e.connect(ctx, c, log)
		if err == nil {
			return e, nil
		}
		err = errors.Join(err, e.close())
		if ctx.Err() != nil || txnsink.Permanent(err) {
			return nil, err
		}
		log.Warn("the target or the checkpoint store cannot be opened; trying again", "pipeline", c.Pipeline, "error", err, "in", delay)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(delay):
		}
		delay = min(2*delay, lastConnectDelay)
	}
}

func (e *ends) connect(ctx context.Context, c *config, log *slog.Logger) (err error) {
	if e.sink, err = openSink(ctx, c, log); err != nil {
		return err
	}
	logTLS(c, e.sink, log)
	if c.Delivery == checkpoint.TwoPhase {
		if err := mustPrepare(ctx, e.sink, c.sessions(), log); err != nil {
			return err
		}
	}
	if err := needOwnTables(ctx, c, c.Target.URL); err != nil {
		return err
	}
	if ownStore(c) {
		if err := needOwnTables(ctx, c, storeURL(c)); err != nil {
			return fmt.Errorf("checkpoint.store %s: %w", redact(c.Checkpoint.Store), err)
		}
	}
	if e.store, err = openStore(ctx, c); err != nil {
		return fmt.Errorf("open checkpoint.store %s: %w", redact(c.Checkpoint.Store), err)
	}
	return nil
}

func (e *ends) close() error {
	var errs []error
	if e.letters != nil {
		errs = append(errs, e.letters.Close())
	}
	if e.store != nil {
		errs = append(errs, e.store.Close())
	}
	if e.sink != nil {
		errs = append(errs, e.sink.Close())
	}
	return errors.Join(errs...)
}

// pipelineConfig is what the configuration says, in the coordinator's terms.
func pipelineConfig(c *config, e *ends, log *slog.Logger) checkpoint.Config {
	altered := &alterations{pipeline: c.Pipeline, log: log, seen: map[alteration]int64{}}
	options := c.Schema.Types
	options.Binary = c.Source.Binary
	options.TimePrecision = c.Source.TimePrecision
	options.Units, options.Decimals = &sqlgen.TimeUnits{}, &sqlgen.DecimalForm{}
	options.Changed, options.Cut, options.Unknown = altered.counter(nulAltered), altered.counter(nanosCut), altered.unknown
	options.Unlabelled = altered.unlabelled
	out := checkpoint.Config{
		Pipeline: c.Pipeline, Delivery: c.Delivery,
		Interval: c.Checkpoint.Interval, MinInterval: c.Checkpoint.MinInterval,
		Rows: c.Checkpoint.Rows, Bytes: c.Checkpoint.Bytes, Retain: c.Checkpoint.Retain,
		Workers: c.Workers,
		Source:  kafkaSource{e.source, log, new(sync.Once)}, Sink: e.sink, Store: e.store,
		Decoder: e.decoder,
		Tables: checkpoint.TablesConfig{
			Template: c.Target.Table, Create: c.Schema.Create, Indexes: c.Schema.Indexes, Evolve: c.Schema.Evolve,
			SchemaTopic: c.Source.SchemaChanges, SchemaWait: schemaWait, Options: options,
		},
		Deduplicate: c.Source.Deduplicate,
		Log:         log,
	}
	if statements, ok := e.store.(checkpoint.StatementLog); ok {
		out.WriteAhead = statements
	}
	if letters, ok := e.sink.(checkpoint.Letters); ok && c.Errors.BadRecord == deadLetter {
		out.Letters = letters
		if e.letters != nil {
			out.LetterTopic = letterCopies{e.letters}
		}
	}
	if c.Transactions == preserveTransactions {
		whole := c.Preserve
		whole.Topic, whole.Reads = c.Source.Transactions, e.source.Reads
		out.Whole = &whole
	}
	out.Tables.Rules = tableRules(c)
	return out
}

func tableRules(c *config) []checkpoint.Rule {
	var out []checkpoint.Rule
	for _, r := range c.Tables {
		out = append(out, checkpoint.Rule{Match: r.Match, Skip: r.Skip, Target: r.Target, Evolve: r.Evolve, Rows: r.Rows})
	}
	return out
}
