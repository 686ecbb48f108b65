package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"replicator/txnsink"
)

const (
	// deliverWithin bounds the wait for a broker to take a record.
	deliverWithin = 30 * time.Second
	// bufferBytes bounds the records that a producer has and no broker has taken.
	bufferBytes = 16 << 20
	// bufferRecords bounds their number.
	bufferRecords = 20_000
	// overhead is more than a batch of one record takes beside the record's key, value and headers.
	overhead = 512
)

// The keys of requests whose versions are limited.
const (
	keyFetch  = 1
	keyEndTxn = 26
)

// options are what all clients of the sink have in common.
func (s *Sink) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.address.brokers...), kgo.ClientID("replicator-" + s.config.Pipeline), kgo.DisableClientMetrics(),
		kgo.DialTimeout(dialTimeout), kgo.RetryTimeout(requestWithin),
	}
	if s.config.TLS != nil {
		opts = append(opts, kgo.Dialer(s.dialTLS))
	}
	if s.address.login != nil {
		opts = append(opts, kgo.SASL(s.address.login))
	}
	return opts
}

// dialTLS connects to a broker with the certificates as they are now.
func (s *Sink) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := s.config.TLS()
	if err != nil {
		return nil, fmt.Errorf("target.tls: %w", err)
	}
	if config = config.Clone(); config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
}

// newAdmin returns the client for everything but producing. It ends transactions by a version of EndTxn that leaves the producer's
// epoch as it is, so that asking twice gets the same answer; and fetches by a version that knows topics by their names.
func (s *Sink) newAdmin() (*kgo.Client, error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(keyEndTxn, 4)
	versions.SetMaxKeyVersion(keyFetch, 12)
	return kgo.NewClient(append(s.options(), kgo.MaxVersions(versions))...)
}

// producer writes the transactions of one transactional id, one after the other. After an error of any kind it can only be closed.
// It belongs to one goroutine at a time.
type producer struct {
	client *kgo.Client
	id     string
	number int64           // Kafka's producer id
	topics map[string]bool // that records were sent to; true: the client has shown that it knows the topic's partitions

	mu     sync.Mutex
	failed error // the first error of a record
}

// newProducer takes a transactional id over: a transaction that is open there ends, and whoever had it can do nothing more.
func (s *Sink) newProducer(ctx context.Context, name string) (*producer, error) {
	p := &producer{id: transactionalID(s.config.Pipeline, s.address.topic, name), topics: map[string]bool{}}
	opts := append(s.options(),
		kgo.TransactionalID(p.id), kgo.TransactionTimeout(s.config.Timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(s.topics.maxMessage),
		kgo.BrokerMaxWriteBytes(max(s.topics.maxMessage, leastWrite)),
		kgo.RecordDeliveryTimeout(deliverWithin), kgo.MaxBufferedBytes(max(bufferBytes, 2*int(s.topics.maxMessage))), kgo.MaxBufferedRecords(bufferRecords),
	)
	var err error
	if p.client, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("producer %s: %w", p.id, plainError(err))
	}
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	if p.number, _, err = p.client.ProducerID(ctx); err != nil {
		p.close()
		return nil, fmt.Errorf("producer %s: %w", p.id, plainError(err))
	}
	return p, nil
}

// leastWrite is kgo's own bound on what is sent at once.
const leastWrite = 100 << 20

// newFenced is newProducer for a run: it fails with ErrFenced unless the fence is still epoch's afterwards (see the package's text).
func (s *Sink) newFenced(ctx context.Context, name string, epoch int64) (*producer, error) {
	p, err := s.newProducer(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.stillFenced(ctx, epoch); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// stillFenced says whether the fence is epoch's.
func (s *Sink) stillFenced(ctx context.Context, epoch int64) error {
	return s.journal.view(ctx, func(st *state) error {
		if f := st.fences[s.config.Pipeline]; f.Epoch != epoch {
			return fmt.Errorf("the fence is at epoch %d: %w", f.Epoch, txnsink.ErrFenced)
		}
		return nil
	})
}

func (p *producer) begin() error {
	p.mu.Lock()
	p.failed = nil // of records that an abort took back
	p.mu.Unlock()
	return p.client.BeginTransaction()
}

// send hands a record over. It waits while too much is on its way; err and flush tell what became of it.
func (p *producer) send(ctx context.Context, r *kgo.Record) {
	if !p.topics[r.Topic] {
		p.topics[r.Topic] = false
	}
	p.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err == nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.failed == nil {
			p.failed = err
		}
	})
}

// err is the first error of what was sent.
func (p *producer) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// flush waits until all in-sync replicas have what was sent.
func (p *producer) flush(ctx context.Context) error {
	if err := p.client.Flush(ctx); err != nil {
		return err
	}
	return p.err()
}

// unknown returns a topic that records were sent to and whose partitions the client does not show yet; empty: there is none.
//
// The client (kgo 1.22.3) sends the records that waited for a topic's partitions before it stores these. A transaction that ends in between
// has no partition in the client's eyes, and EndTransaction then rolls it back, or leaves it open, whatever it was asked, without an error.
func (p *producer) unknown() string {
	for topic, known := range p.topics {
		if known {
			continue
		}
		if leader, _, err := p.client.PartitionLeader(topic, 0); leader < 0 && err == nil {
			return topic
		}
		p.topics[topic] = true
	}
	return ""
}

// end ends the transaction. After an error it is not known whether it did.
func (p *producer) end(ctx context.Context, commit bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	for topic := p.unknown(); topic != ""; topic = p.unknown() {
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("the partitions of topic %s are not known: %w", topic, err)
		}
	}
	return p.client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

// abort rolls the transaction back, with what was not sent yet.
func (p *producer) abort(ctx context.Context) error {
	if err := p.client.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	if err := p.err(); err != nil && taken(err) {
		return err
	}
	if topic := p.unknown(); topic != "" {
		return fmt.Errorf("the partitions of topic %s are not known yet", topic)
	}
	return p.end(ctx, false)
}

// close ends the connections. A transaction that is open stays so, until its transactional id is taken over or its time is over.
func (p *producer) close() {
	p.client.UnsafeAbortBufferedRecords() // or Close would wait for them
	p.client.Close()
}

var errClosed = errors.New("the sink is closed")
