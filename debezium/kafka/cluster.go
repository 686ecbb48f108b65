package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"replicator/debezium"
)

// slack is what a round trip may take beyond what the broker was asked to wait. A connection has no deadline but this.
const slack = 10 * time.Second

// cluster is the connections of one run of reading. It is safe for concurrent use.
type cluster struct {
	transport *kafkago.Transport
	seeds     []string // configured addresses
	clientID  string
	log       *slog.Logger

	mu       sync.Mutex
	addrs    []string                            // seeds and, later, the brokers that metadata named: seeds may all be replaced
	versions map[int32]map[protocol.ApiKey]int16 // highest spoken, by broker; forgotten with its connections
}

func (c *cluster) roundTrip(ctx context.Context, req *call, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+slack)
	defer cancel()
	req.clientID = c.clientID
	c.mu.Lock()
	addr := kafkago.TCP(c.addrs...)
	c.mu.Unlock()
	res, err := c.transport.RoundTrip(ctx, addr, req)
	if err != nil {
		if final := unwelcome(err); final != nil {
			return nil, final
		}
		return nil, fmt.Errorf("%v to broker %s: %w", req.key, brokerName(req.broker), err)
	}
	a, ok := res.(*answer)
	if !ok {
		return nil, fmt.Errorf("%v to broker %s: answered by %T", req.key, brokerName(req.broker), res)
	}
	return a.body, nil
}

func brokerName(id int32) string {
	if id == anyBroker {
		return "(any)"
	}
	return fmt.Sprint(id)
}

// reset closes idle connections and forgets what was negotiated on them: the next request meets the brokers as they are now.
func (c *cluster) reset() {
	c.mu.Lock()
	c.versions = map[int32]map[protocol.ApiKey]int16{}
	c.mu.Unlock()
	c.transport.CloseIdleConnections()
}

// version returns the highest version of a request that broker speaks, which must be lowest or more.
func (c *cluster) version(ctx context.Context, broker int32, key protocol.ApiKey, lowest int16) (int16, error) {
	c.mu.Lock()
	known, ok := c.versions[broker]
	c.mu.Unlock()
	if !ok {
		body, err := c.roundTrip(ctx, &call{broker: broker, key: protocol.ApiVersions}, 0)
		if err == nil {
			known, err = parseVersions(body)
		}
		if err != nil {
			return 0, err
		}
		c.mu.Lock()
		c.versions[broker] = known
		c.mu.Unlock()
	}
	v, ok := known[key]
	if !ok || v < lowest {
		return 0, &Error{
			Class: BrokerTooOld, Offset: -1,
			Detail: fmt.Sprintf("broker %s speaks %v up to version %d and %d is needed; Kafka 1.0 or newer is required", brokerName(broker), key, v, lowest),
		}
	}
	return v, nil
}

// metadata asks any broker for all topics.
func (c *cluster) metadata(ctx context.Context) (metadata, error) {
	v, err := c.version(ctx, anyBroker, protocol.Metadata, metadataPlain)
	if err != nil {
		return metadata{}, err
	}
	if v >= metadataIDs {
		v = metadataIDs
	} else {
		v = metadataPlain
	}
	body, err := c.roundTrip(ctx, metadataCall(v), 0)
	if err != nil {
		return metadata{}, err
	}
	m, err := parseMetadata(v, body)
	if err == nil {
		c.learn(m)
	}
	return m, err
}

// learn keeps the addresses of m's brokers. The Transport has a pool for each list of addresses, so a new list begins anew.
func (c *cluster) learn(m metadata) {
	addrs := slices.AppendSeq(slices.Clone(c.seeds), maps.Values(m.brokers))
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	c.mu.Lock()
	changed := !slices.Equal(addrs, c.addrs)
	c.addrs = addrs
	c.mu.Unlock()
	if changed {
		c.transport.CloseIdleConnections()
	}
}

// fetch asks broker for what follows the positions of parts.
func (c *cluster) fetch(ctx context.Context, broker int32, parts []*part, most int, wait time.Duration) (map[topicPartition]fetched, int16, error) {
	v, err := c.version(ctx, broker, protocol.Fetch, fetchMin)
	if err != nil {
		return nil, 0, err
	}
	v = fetchVersion(v, parts)
	body, err := c.roundTrip(ctx, fetchCall(v, broker, parts, most, wait), wait)
	if err != nil {
		return nil, 0, err
	}
	list, err := parseFetch(v, body)
	if err != nil {
		return nil, 0, fmt.Errorf("fetch from broker %d: %w", broker, err)
	}
	out := make(map[topicPartition]fetched, len(list))
	for _, f := range list {
		out[f.topicPartition] = f
	}
	return out, v, nil
}

// offsets asks the leaders of parts for each one's offset at a time (or atStart, atEnd).
func (c *cluster) offsets(ctx context.Context, parts []*part, at int64, committed bool) (map[debezium.Partition]int64, error) {
	leaders := map[int32][]*part{}
	for _, p := range parts {
		if p.leader < 0 {
			return nil, fmt.Errorf("%v has no leader at the moment", p.key)
		}
		leaders[p.leader] = append(leaders[p.leader], p)
	}
	out := make(map[debezium.Partition]int64, len(parts))
	for leader, led := range leaders {
		if _, err := c.version(ctx, leader, protocol.ListOffsets, offsetsVersion); err != nil {
			return nil, err
		}
		body, err := c.roundTrip(ctx, offsetsCall(leader, led, at, committed), 0)
		if err != nil {
			return nil, err
		}
		answers, err := parseOffsets(body)
		if err != nil {
			return nil, fmt.Errorf("offsets from broker %d: %w", leader, err)
		}
		for _, p := range led {
			l, ok := answers[topicPartition{p.key.Topic, p.key.ID}]
			switch {
			case !ok:
				return nil, fmt.Errorf("offsets of %v: broker %d left it out", p.key, leader)
			case l.err != codeNone:
				if err := refused(p.key, -1, l.err); err != nil {
					return nil, err
				}
				return nil, fmt.Errorf("offsets of %v: %w", p.key, l.err)
			}
			out[p.key] = l.offset
		}
	}
	return out, nil
}

// attempts calls f until it succeeds, fails for good, or has failed for as long as bound. Connections are made anew each time.
func (c *cluster) attempts(ctx context.Context, bound time.Duration, f func() error) error {
	const loud = 5 // failures in a row; fewer are a broker that restarts, unless each takes long
	const quiet = 5 * time.Second
	begun := time.Now()
	until, told := begun.Add(bound), false
	for delay, n := firstBackoff, 1; ; delay, n = min(2*delay, lastBackoff), n+1 {
		err := f()
		var final *Error
		if err == nil || errors.As(err, &final) || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
		if !told && (n >= loud || time.Since(begun) >= quiet) {
			told = true
			c.log.Warn("no answer from the brokers yet, trying again", "brokers", c.seeds, "error", err, "do", "see to source.brokers and source.tls; replicator check says what is wrong with each")
		}
		c.reset()
		if err := pause(ctx, delay); err != nil {
			return err
		}
	}
}

// The waits between two tries of what failed.
const (
	firstBackoff = 20 * time.Millisecond
	lastBackoff  = time.Second
)

// pause waits for d, or returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
