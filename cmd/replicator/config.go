package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"replicator/checkpoint"
	"replicator/cmd/replicator/ops"
	"replicator/debezium"
	"replicator/debezium/kafka"
	"replicator/debezium/registry"
	"replicator/schema"
	"replicator/sqlgen"
	kafkasink "replicator/txnsink/kafka"
)

// config is a configuration file, checked.
type config struct {
	Pipeline   string
	Source     sourceConfig
	Target     targetConfig
	Tables     []tableRule
	Delivery   checkpoint.Delivery
	Checkpoint checkpointConfig
	Schema     schemaConfig
	Errors     errorsConfig
	Workers    int
	Verify     verifyConfig
	Cluster    bool // several processes share the pipeline
	Standby    bool // others wait while one runs it
	Membership membershipConfig
	HTTP       httpConfig
	Log        logConfig
	Migrate    ownTables

	Transactions sourceTransactions
	Preserve     checkpoint.WholeTransactions // its topic is Source.Transactions

	Settings []ops.Setting // what was set, for people to see
}

type sourceConfig struct {
	Brokers       []string
	Topics        []string // regular expressions, not yet anchored
	SchemaChanges string
	Transactions  string
	Deduplicate   bool
	Start         string // earliest, latest or an RFC 3339 time
	Format        string
	Binary        string
	TimePrecision string
	Unavailable   string // the connector's unavailable.value.placeholder
	FieldPrefix   string // of flattened rows' metadata
	HeaderPrefix  string
	TLS           tlsConfig
	SASL          kafka.SASL // its OAuth's TLS is TokenTLS
	TokenTLS      tlsConfig
	Registry      registry.Config // its URL is empty if there is none; its TLS is RegistryTLS
	RegistryTLS   tlsConfig
}

type targetConfig struct {
	URL   string // holds a password: for drivers only, see redact
	TLS   tlsConfig
	Table string

	Format             string        // of messages, where the target is Kafka
	TransactionTimeout time.Duration // likewise
}

type tableRule struct {
	Match  *regexp.Regexp // anchored
	Skip   bool
	Target string        // a template; empty: target.table
	Evolve schema.Policy // empty: schema.evolve
	Rows   sqlgen.Rules
}

type checkpointConfig struct {
	Interval    time.Duration
	MinInterval time.Duration
	Rows        int
	Bytes       int64
	Store       string // target, file:DIR or a URL, which holds a password
	Retain      int
}

type schemaConfig struct {
	Create  bool
	Indexes bool
	Evolve  schema.Policy
	Types   sqlgen.Options
}

type errorsConfig struct {
	BadRecord   badRecords
	LetterTopic string // takes copies of the records that are set aside; empty: none does
}

// badRecords is what becomes of a record that cannot be decoded or stored.
type badRecords string

const (
	stopAtBad  badRecords = "stop"
	deadLetter badRecords = "dead-letter"
)

// sourceTransactions says whether the source's transactions are kept whole.
type sourceTransactions string

const (
	ignoreTransactions   sourceTransactions = "ignore"
	preserveTransactions sourceTransactions = "preserve"
)

type verifyConfig struct {
	Source string // a URL, which holds a password; empty: there is none
}

type membershipConfig struct {
	Slots   int
	Session time.Duration
}

type httpConfig struct {
	Listen string // empty: off
	Token  string // a secret
	Pprof  bool
}

type logConfig struct {
	Level  string
	Format string
}

// defaultListen is http.listen's default.
// maxWorkers bounds the apply lanes: each is a session of the target, with up to two transactions of it prepared.
const maxWorkers = 64

// maxSlots bounds the slots of a cluster, and so its processes.
const maxSlots = 1024

const defaultListen = "127.0.0.1:8088"

// defaults returns the configuration of a file that sets only what it must.
func defaults() config {
	return config{
		Source: sourceConfig{
			Deduplicate: true, Start: "earliest", Format: "auto", Binary: "base64", TimePrecision: "auto",
			Unavailable: debezium.DefaultUnavailable, FieldPrefix: debezium.DefaultMetaPrefix, HeaderPrefix: debezium.DefaultMetaPrefix,
			Registry: registry.Config{IDs: registry.AutoIDs},
		},
		Target:   targetConfig{Table: "{table}", Format: "json", TransactionTimeout: kafkasink.DefaultTimeout},
		Delivery: checkpoint.TwoPhase,
		Checkpoint: checkpointConfig{
			Interval: time.Second, MinInterval: 20 * time.Millisecond,
			Rows: 100_000, Bytes: 256 << 20,
			Store: "target", Retain: 100,
		},
		Workers: 1,
		Schema:  schemaConfig{Create: true, Indexes: true, Evolve: schema.Evolve, Types: sqlgen.Options{Boolean: "tinyint1", Time: "interval", JSON: "jsonb", Enum: "text", Nul: "stop"}},
		Errors:  errorsConfig{BadRecord: stopAtBad},
		Migrate: autoMigrate,

		Membership: membershipConfig{Slots: 16, Session: 10 * time.Second},
		HTTP:       httpConfig{Listen: defaultListen},
		Log:        logConfig{Level: "info", Format: "text"},

		Transactions: ignoreTransactions,
		Preserve:     checkpoint.WholeTransactions{Broken: checkpoint.StopAtBroken, Wait: time.Minute, Memory: 256 << 20, Disk: 16 << 30},
	}
}

// loadConfig reads a file, puts the overrides (each KEY.PATH=VALUE) over it, and checks the whole. Its error has one line
// for each thing that is wrong.
func loadConfig(file string, overrides []string, getenv func(string) (string, bool)) (config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return config{}, fmt.Errorf("read the configuration: %w", err)
	}
	return parseConfig(file, text, overrides, getenv)
}

func parseConfig(file string, text []byte, overrides []string, getenv func(string) (string, bool)) (config, error) {
	c := defaults()
	d, err := parseDocument(file, text)
	if err != nil {
		return config{}, err
	}
	root := section(configKeys(&c))
	for _, o := range overrides {
		if err := d.override(root, o); err != nil {
			return config{}, err
		}
	}
	d.expand(d.root, getenv)
	root.set(d, d.root, "")
	d.require(root)
	if f := c.Source.Format; (f == "avro" || f == "protobuf") && c.Source.Registry.URL == "" {
		d.missing("source.registry.url", "source.format: "+f+" needs the registry that the connector uses")
	}
	if c.Errors.BadRecord == deadLetter && c.Delivery == checkpoint.WriteAhead {
		d.errs = append(d.errs, configError{where: d.file, line: math.MaxInt, key: "errors.bad_record", msg: "cannot be dead-letter with delivery: write-ahead, " +
			"in which the target refuses a record only after its checkpoint was saved; set it to stop, or delivery to two-phase or one-phase"})
	}
	if c.Errors.LetterTopic != "" && c.Errors.BadRecord != deadLetter {
		d.errs = append(d.errs, configError{where: d.file, line: math.MaxInt, key: "errors.dead_letters", msg: "names a topic, and errors.bad_record is stop, with which nothing is set aside; set it to dead-letter"})
	}
	if isKafka(c.Target.URL) {
		d.checkKafka(&c)
	}
	for key, msg := range c.shareErrors() {
		d.errs = append(d.errs, configError{where: d.file, line: math.MaxInt, key: key, msg: msg})
	}
	d.preserves(&c)
	checkSASL(&c.Source, d)
	if c.Source.RegistryTLS.On && !strings.HasPrefix(c.Source.Registry.URL, "https://") {
		d.missing("source.registry.url", "source.registry.tls needs one that begins with https://")
	}
	if c.Target.TLS.On && c.Target.URL != "" && !isMySQL(c.Target.URL) && !isKafka(c.Target.URL) && !isMySQL(c.Checkpoint.Store) {
		d.fail(member(member(d.root, "target"), "tls"), "target.tls", "is for mysql://, mariadb:// and kafka://; a postgres:// URL takes sslmode and sslrootcert")
	}
	if err := d.err(); err != nil {
		return config{}, err
	}
	c.Settings = settings(root, d.root, "")
	return c, nil
}

// checkKafka says what a target cannot do that holds no rows.
func (d *document) checkKafka(c *config) {
	if c.Checkpoint.Store == "target" {
		d.missing("checkpoint.store", "Kafka keeps no checkpoints: set it to file:DIR, or to a postgres://, mysql:// or mariadb:// URL")
	}
	if c.Errors.BadRecord == deadLetter {
		d.errs = append(d.errs, configError{where: d.file, line: math.MaxInt, key: "errors.bad_record", msg: "cannot be dead-letter where the target is Kafka; set it to stop"})
	}
	if len(d.errs) > 0 {
		return // the topics' expressions may be none
	}
	if topic := ownSource(c); topic != "" {
		d.errs = append(d.errs, configError{where: d.file, line: math.MaxInt, key: "source.topics", msg: "fits " + topic + ", which is the target's: the pipeline would read what it writes; " +
			"make the expressions narrower, or give the target's topic another name"})
	}
}

// preserves says what source_transactions: preserve cannot be with.
func (d *document) preserves(c *config) {
	if c.Transactions != preserveTransactions {
		return
	}
	refuse := func(key, msg string) {
		d.errs = append(d.errs, configError{where: d.file, line: math.MaxInt, key: key, msg: msg})
	}
	if c.Source.Transactions == "" {
		d.missing("source.transactions", "source_transactions: preserve needs the connector's transaction topic (its topic.prefix and .transaction), with provide.transaction.metadata: true on the connector")
	}
	if c.Workers != 1 {
		refuse("workers", "must be 1 with source_transactions: preserve: each worker has a transaction of the target of its own, and these are committed one after the other")
	}
	if !c.Source.Deduplicate {
		refuse("source.deduplicate", "must be true with source_transactions: preserve: a connector that restarts sends parts of transactions again")
	}
	if c.Errors.BadRecord == deadLetter {
		refuse("errors.bad_record", "must be stop with source_transactions: preserve: a transaction of which a record is set aside is not whole")
	}
}

// logger returns the log that the configuration asks for.
func (c *config) logger(w interface{ Write([]byte) (int, error) }) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		level = slog.LevelInfo // the key's check admits the four names that slog knows
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: redactAttr}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// isNull says whether n is YAML's null, which is what "key:" without a value means.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
