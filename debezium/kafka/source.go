package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"

	"replicator/debezium"
)

// Config says what to read. Brokers and Topics are required; a zero value elsewhere is the default named at the field.
type Config struct {
	Brokers []string // host:port
	Topics  []string // regular expressions, each of which must match a topic's whole name
	Exclude []string // exact names of topics that are never read as data
	// Only, if it is not nil, says which partitions of them are read. It must not change its mind.
	Only     func(debezium.Partition) bool
	Start    string // without positions: earliest (default), latest, or an RFC 3339 time
	ClientID string // replicator

	// TLS is asked for each new connection how to encrypt it, so that renewed certificates come into use; what it returns is not
	// changed. nil: connections are not encrypted.
	TLS  func() (*tls.Config, error)
	SASL SASL // no log-in

	MaxWait       time.Duration // 500ms: how long a broker holds a fetch that finds nothing
	PartitionMax  int           // 2 MiB: bytes of one partition in one fetch, and of a batch that Next returns; a larger record is one by itself
	Buffer        int64         // 64 MiB: batches fetched and not yet taken; see Reader
	DiscoverEvery time.Duration // 10s: how often new topics and partitions are looked for
	GiveUp        time.Duration // 30s: how long brokers, or one partition's leader, may fail before Next returns an error
	Log           *slog.Logger  // discarded
}

// Source describes topics to read. It holds no connection, and is safe for concurrent use.
type Source struct {
	cfg      Config
	patterns []pattern
	policy   policy
	login    sasl.Mechanism // nil: none
	confirm  time.Duration  // how long a topic must be gone before it counts as deleted
}

type pattern struct {
	anchored *regexp.Regexp
	internal bool // it names topics that begin with two underscores
}

// policy is Config.Start: a time in milliseconds, or atStart or atEnd.
type policy int64

// New checks cfg. It connects to nothing.
func New(cfg Config) (*Source, error) {
	s := &Source{cfg: cfg, confirm: 2 * time.Second}
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("kafka: no brokers")
	}
	for _, b := range cfg.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return nil, fmt.Errorf("kafka: broker %q is not host:port: %w", b, err)
		}
	}
	if len(cfg.Topics) == 0 {
		return nil, errors.New("kafka: no topics")
	}
	for _, t := range cfg.Topics {
		p, err := compile(t)
		if err != nil {
			return nil, err
		}
		s.patterns = append(s.patterns, p)
	}
	var err error
	if s.policy, err = parseStart(cfg.Start); err != nil {
		return nil, err
	}
	if s.login, err = cfg.SASL.mechanism(); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	setDefault(&s.cfg.ClientID, "replicator")
	setDefault(&s.cfg.MaxWait, 500*time.Millisecond)
	setDefault(&s.cfg.PartitionMax, 2<<20)
	setDefault(&s.cfg.Buffer, 64<<20)
	setDefault(&s.cfg.DiscoverEvery, 10*time.Second)
	setDefault(&s.cfg.GiveUp, 30*time.Second)
	setDefault(&s.cfg.Log, slog.New(slog.DiscardHandler))
	if s.cfg.MaxWait < time.Millisecond || s.cfg.PartitionMax < 1 || s.cfg.PartitionMax > maxResponse/2 || s.cfg.Buffer < 1 ||
		s.cfg.DiscoverEvery < 0 || s.cfg.GiveUp < 0 {
		return nil, errors.New("kafka: a wait or size is negative, too small or too large")
	}
	return s, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func compile(topic string) (pattern, error) {
	plain, err := regexp.Compile(topic)
	if err != nil {
		return pattern{}, fmt.Errorf("kafka: topic pattern %q: %w", topic, err)
	}
	anchored, err := regexp.Compile(`\A(?:` + topic + `)\z`)
	if err != nil {
		return pattern{}, fmt.Errorf("kafka: topic pattern %q: %w", topic, err)
	}
	prefix, _ := plain.LiteralPrefix()
	return pattern{anchored: anchored, internal: strings.HasPrefix(prefix, internalPrefix)}, nil
}

func parseStart(start string) (policy, error) {
	switch start {
	case "", "earliest":
		return policy(atStart), nil
	case "latest":
		return policy(atEnd), nil
	}
	t, err := time.Parse(time.RFC3339, start)
	if err != nil || t.UnixMilli() < 0 {
		return 0, fmt.Errorf("kafka: start %q is not earliest, latest or an RFC 3339 time", start)
	}
	return policy(t.UnixMilli()), nil
}

// internalPrefix begins the names of topics that are not data unless a pattern says so literally: __consumer_offsets,
// __debezium-heartbeat.shop.
const internalPrefix = "__"

// matches says whether topic is to be read.
func (s *Source) matches(t topicMeta) bool {
	if t.internal || slices.Contains(s.cfg.Exclude, t.name) {
		return false
	}
	for _, p := range s.patterns {
		if p.anchored.MatchString(t.name) && (p.internal || !strings.HasPrefix(t.name, internalPrefix)) {
			return true
		}
	}
	return false
}

// Reads says whether a topic of that name is read as data.
func (s *Source) Reads(topic string) bool { return s.matches(topicMeta{name: topic}) }

const dialTimeout = 5 * time.Second

// transport and dialer are where connections are configured: one for reading, the other for Probe.
func (s *Source) transport() *kafkago.Transport {
	return &kafkago.Transport{
		ClientID:    s.cfg.ClientID,
		DialTimeout: dialTimeout,
		Dial:        s.dial,
		SASL:        s.login,
		// Requests name their broker themselves, so the Transport's own metadata need hold no topic. Empty is none, nil is all.
		MetadataTopics: []string{},
	}
}

func (s *Source) dialer() *kafkago.Dialer {
	return &kafkago.Dialer{ClientID: s.cfg.ClientID, Timeout: dialTimeout, DialFunc: s.dial, SASLMechanism: s.login}
}

func (s *Source) connect() *cluster {
	return &cluster{
		transport: s.transport(), seeds: s.cfg.Brokers, addrs: s.cfg.Brokers, clientID: s.cfg.ClientID, log: s.cfg.Log,
		versions: map[int32]map[protocol.ApiKey]int16{},
	}
}

// Probe connects to the brokers in turn and returns nil when one speaks Kafka to us. Otherwise its error says of each what is
// wrong, which the errors of reading cannot always tell.
func (s *Source) Probe(ctx context.Context) error {
	var failed []error
	for _, addr := range s.cfg.Brokers {
		err := s.probe(ctx, addr)
		if err == nil {
			return nil
		}
		failed = append(failed, &probeError{addr, err})
	}
	return errors.Join(failed...)
}

func (s *Source) probe(ctx context.Context, addr string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := s.dialer().DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	_, err = conn.Brokers() // versions are told to anybody, this only to whom the broker lets in
	return err
}

// TopicInfo is a topic that the source reads.
type TopicInfo struct {
	Name       string
	ID         string // as in debezium.Position
	Partitions []PartitionInfo
}

// PartitionInfo is what a partition's log holds now.
type PartitionInfo struct {
	ID         int32
	Leader     int32
	Earliest   int64 // the first offset
	LastStable int64 // the offset after the last that can be read
}

// Describe lists the topics that match now, by name.
func (s *Source) Describe(ctx context.Context) ([]TopicInfo, error) {
	c := s.connect()
	defer c.reset()
	var out []TopicInfo
	err := c.attempts(ctx, s.cfg.GiveUp, func() (err error) {
		out, err = s.describe(ctx, c)
		return err
	})
	return out, err
}

func (s *Source) describe(ctx context.Context, c *cluster) ([]TopicInfo, error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return nil, err
	}
	var out []TopicInfo
	for _, t := range m.topics {
		if !s.matches(t) {
			continue
		}
		parts, err := t.parts()
		if err != nil {
			return nil, err
		}
		starts, err := c.offsets(ctx, parts, atStart, true)
		if err != nil {
			return nil, err
		}
		ends, err := c.offsets(ctx, parts, atEnd, true)
		if err != nil {
			return nil, err
		}
		info := TopicInfo{Name: t.name, ID: t.id}
		for _, p := range parts {
			info.Partitions = append(info.Partitions, PartitionInfo{ID: p.key.ID, Leader: p.leader, Earliest: starts[p.key], LastStable: ends[p.key]})
		}
		slices.SortFunc(info.Partitions, func(a, b PartitionInfo) int { return int(a.ID) - int(b.ID) })
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b TopicInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Topics lists the names of all topics that this user may see, matching or not, without Kafka's own.
func (s *Source) Topics(ctx context.Context) ([]string, error) {
	c := s.connect()
	defer c.reset()
	var m metadata
	err := c.attempts(ctx, s.cfg.GiveUp, func() (err error) {
		m, err = c.metadata(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range m.topics {
		if !t.internal {
			out = append(out, t.name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// History reads topic, which must have one partition, from the offset from (-1: its beginning) to its present end. It
// returns its committed records and the next offset. A topic that does not exist is an [Error] of class TopicMissing.
// Nothing bounds what it holds in memory but the topic: it is for Debezium's schema-change topic.
func (s *Source) History(ctx context.Context, topic string, from int64) ([]debezium.Record, int64, error) {
	one := *s
	one.policy, one.cfg.Only = policy(atStart), nil
	key := debezium.Partition{Topic: topic}
	want := debezium.Positions{}
	if from >= 0 {
		want[key] = debezium.Position{Offset: from}
	}
	r, err := one.open(ctx, func(t topicMeta) bool { return t.name == topic }, want)
	if err != nil {
		return nil, from, err
	}
	records, next, err := readAll(ctx, r, key)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, from, err
	}
	return records, next, nil
}

func readAll(ctx context.Context, r *Reader, key debezium.Partition) ([]debezium.Record, int64, error) {
	start := r.Start()
	if len(start) != 1 {
		if len(start) == 0 {
			return nil, 0, &Error{Class: TopicMissing, Partition: key, Offset: -1, Detail: "there is no such topic; check its name, and that this user may DESCRIBE it"}
		}
		return nil, 0, &Error{Class: PartitionMissing, Partition: key, Offset: -1, Detail: fmt.Sprintf("the topic has %d partitions, and the order of its records is needed; it must have one", len(start))}
	}
	next, end := start[key].Offset, r.End()[key]
	var out []debezium.Record
	for next < end {
		b, err := r.Next(ctx)
		if err != nil {
			return nil, 0, err
		}
		for _, rec := range b.Records {
			if rec.Offset < end {
				out = append(out, rec)
			}
		}
		next = b.Next
	}
	return out, min(next, max(end, start[key].Offset)), nil
}
