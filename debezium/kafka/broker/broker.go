// Package broker is a Kafka broker within this process, for tests and the demo: franz-go's kfake, a real TCP listener with
// transactions, compaction, retention and leader moves, pinned here and used nowhere else.
//
// What it does not do as Kafka does: a fetch that reaches the request's maximum lacks the list of aborted transactions of
// its last partition, and it writes no empty batches.
package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"replicator/debezium"
)

// Options says what to start. The zero value is one node on a free port that keeps its log in memory.
type Options struct {
	Nodes   int               // 1
	Ports   []int             // free ones
	Dir     string            // where the log is kept; empty: in memory
	Version string            // the Kafka release whose request versions are spoken, such as "v2.8"; empty: the newest
	Configs map[string]string // of the broker, such as message.max.bytes
	TLS     *tls.Config       // what connections are encrypted with; its own client trusts its first certificate. nil: they are not
	Users   []User            // who may log in, and must: the first may do everything. None: nobody need
}

// User may log in to a broker.
type User struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Name      string
	Password  string
	Reads     []string // topics that it may READ and DESCRIBE, and nothing else; nil, as Describes: it may do everything
	Describes []string // topics that it may DESCRIBE
}

func (u User) limited() bool { return u.Reads != nil || u.Describes != nil }

// rights are what a limited user may do.
func (u User) rights() []kfake.ACL {
	var out []kfake.ACL
	may := func(topics []string, operations ...kmsg.ACLOperation) {
		for _, t := range topics {
			for _, o := range operations {
				out = append(out, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: t, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: o, Allow: true})
			}
		}
	}
	may(u.Reads, kmsg.ACLOperationRead, kmsg.ACLOperationDescribe)
	may(u.Describes, kmsg.ACLOperationDescribe)
	return out
}

// Broker is a running cluster. It is safe for concurrent use.
type Broker struct {
	cluster  *kfake.Cluster
	client   *kgo.Client
	secure   []kgo.Opt // how its own clients connect
	maxBatch int32     // bytes of a batch that is produced
	latency  *atomic.Int64
}

// messageMax is the broker setting that bounds a batch, and defaultBatch what it allows unless set.
const (
	messageMax   = "message.max.bytes"
	defaultBatch = 1_000_000
)

// Start listens and returns. Close ends it.
func Start(o Options) (*Broker, error) {
	latency := new(atomic.Int64)
	opts := []kfake.Opt{
		kfake.NumBrokers(max(o.Nodes, 1)), kfake.BrokerConfigs(o.Configs),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return slowListener{l, latency}, err
		}),
	}
	if len(o.Ports) > 0 {
		opts = append(opts, kfake.Ports(o.Ports...))
	}
	if o.Dir != "" {
		opts = append(opts, kfake.DataDir(o.Dir), kfake.SyncWrites())
	}
	if o.Version != "" {
		v := kversion.FromString(o.Version)
		if v == nil {
			return nil, fmt.Errorf("broker: %q is no Kafka version", o.Version)
		}
		opts = append(opts, kfake.MaxVersions(v))
	}
	secure, err := o.secure(&opts)
	if err != nil {
		return nil, err
	}
	maxBatch := int64(defaultBatch)
	if v, ok := o.Configs[messageMax]; ok {
		if maxBatch, err = strconv.ParseInt(v, 10, 31); err != nil {
			return nil, fmt.Errorf("broker: %s: %w", messageMax, err)
		}
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	b := &Broker{cluster: c, maxBatch: int32(maxBatch), latency: latency, secure: secure}
	if b.client, err = b.newClient(); err != nil {
		c.Close()
		return nil, err
	}
	return b, nil
}

// secure adds what TLS and Users ask of the cluster, and returns what they ask of its clients.
func (o Options) secure(cluster *[]kfake.Opt) ([]kgo.Opt, error) {
	var client []kgo.Opt
	if o.TLS != nil {
		leaf, err := x509.ParseCertificate(o.TLS.Certificates[0].Certificate[0])
		if err != nil {
			return nil, fmt.Errorf("broker: certificate: %w", err)
		}
		trusted := x509.NewCertPool()
		trusted.AddCert(leaf)
		*cluster = append(*cluster, kfake.TLS(o.TLS))
		client = append(client, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted, Certificates: o.TLS.Certificates}))
	}
	for i, u := range o.Users {
		if i == 0 {
			*cluster = append(*cluster, kfake.EnableSASL())
			client = append(client, kgo.SASL(u.login()))
		}
		if u.limited() {
			*cluster = append(*cluster, kfake.EnableACLs(), kfake.User(u.Mechanism, u.Name, u.Password, u.rights()...))
			continue
		}
		*cluster = append(*cluster, kfake.Superuser(u.Mechanism, u.Name, u.Password))
	}
	return client, nil
}

func (u User) login() sasl.Mechanism {
	switch u.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: u.Name, Pass: u.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: u.Name, Pass: u.Password}.AsSha512Mechanism()
	}
	return plain.Auth{User: u.Name, Pass: u.Password}.AsMechanism()
}

// newClient returns a producer that keeps each record's partition and sends at once.
func (b *Broker) newClient(opts ...kgo.Opt) (*kgo.Client, error) {
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(b.Addrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(b.maxBatch),
		kgo.BrokerMaxWriteBytes(128 << 20),
		kgo.BrokerMaxReadBytes(512 << 20),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}, slices.Concat(b.secure, opts)...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("broker: client: %w", err)
	}
	return c, nil
}

// Addrs returns host:port of every node.
func (b *Broker) Addrs() []string { return b.cluster.ListenAddrs() }

// Close stops the broker and breaks its connections.
func (b *Broker) Close() {
	b.client.Close()
	b.cluster.Close()
}

// CreateTopic creates a topic; configs may be nil.
func (b *Broker) CreateTopic(name string, partitions int32, configs map[string]string) error {
	return b.cluster.CreateTopic(name, partitions, configs)
}

// DeleteTopic deletes a topic. Created again, it has another id.
func (b *Broker) DeleteTopic(name string) error { return b.cluster.DeleteTopic(name) }

// AddPartitions gives topic n more partitions.
func (b *Broker) AddPartitions(ctx context.Context, topic string, n int) error {
	res, err := kadm.NewClient(b.client).CreatePartitions(ctx, n, topic)
	if err != nil {
		return err
	}
	return res.Error()
}

// DeleteRecords removes what lies before offset, as retention does; -1 is everything.
func (b *Broker) DeleteRecords(topic string, partition int32, offset int64) error {
	return b.cluster.DeleteRecords(topic, partition, offset)
}

// Compact compacts all topics with cleanup.policy=compact now. The last batch of a log always stays.
func (b *Broker) Compact() { b.cluster.Compact() }

// Leader returns the node that leads a partition, or -1.
func (b *Broker) Leader(topic string, partition int32) int32 {
	return b.cluster.LeaderFor(topic, partition)
}

// MoveLeader makes node the leader of a partition.
func (b *Broker) MoveLeader(topic string, partition, node int32) error {
	return b.cluster.MoveTopicPartition(topic, partition, node)
}

// StopNode stops one node: its listener and connections are closed. Its partitions must have been moved.
func (b *Broker) StopNode(node int32) error { return b.cluster.RemoveNode(node) }

// StartNode starts one more node on a free port.
func (b *Broker) StartNode(node int32) error {
	_, _, err := b.cluster.AddNode(node, 0)
	return err
}

// Intercept has fn see every request with a key of the Kafka protocol. If it returns true, its response or error (which
// closes the connection) is the answer. It runs on the broker's own goroutine and must not call the Broker.
func (b *Broker) Intercept(key kmsg.Key, fn func(kmsg.Request) (kmsg.Response, error, bool)) {
	b.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		return fn(req)
	})
}

// SetLatency holds back every answer for d from now on; 0 ends that.
func (b *Broker) SetLatency(d time.Duration) { b.latency.Store(int64(d)) }

// slowListener accepts connections whose writes wait for latency. (kfake's own SleepControl has a data race.)
type slowListener struct {
	net.Listener
	latency *atomic.Int64
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return slowConn{c, l.latency}, nil
}

type slowConn struct {
	net.Conn
	latency *atomic.Int64
}

func (c slowConn) Write(b []byte) (int, error) {
	if d := c.latency.Load(); d > 0 {
		t := time.NewTimer(time.Duration(d))
		defer t.Stop()
		<-t.C
	}
	return c.Conn.Write(b)
}

// compressions are the codecs that ProduceWith knows, by Kafka's names.
var compressions = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// Produce appends records, each to its Partition and with its Time if it has one. Records of one partition keep their order
// and share a batch if they fit into message.max.bytes. Offsets are ignored.
func (b *Broker) Produce(ctx context.Context, records ...debezium.Record) error {
	return b.client.ProduceSync(ctx, convert(records)...).FirstErr()
}

// ProduceWith is Produce with a compression: none, gzip, snappy, lz4 or zstd.
func (b *Broker) ProduceWith(ctx context.Context, compression string, records ...debezium.Record) error {
	codec, ok := compressions[compression]
	if !ok {
		return fmt.Errorf("broker: unknown compression %q", compression)
	}
	c, err := b.newClient(kgo.ProducerBatchCompression(codec))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.ProduceSync(ctx, convert(records)...).FirstErr()
}

func convert(records []debezium.Record) []*kgo.Record {
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{Topic: r.Partition.Topic, Partition: r.Partition.ID, Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	return out
}

// Txn is a Kafka transaction that a producer has open. It is used by one goroutine.
type Txn struct{ client *kgo.Client }

// Begin opens a transaction by the producer called id, and fences an earlier one of that name. Commit or Abort ends it.
func (b *Broker) Begin(ctx context.Context, id string) (*Txn, error) {
	c, err := b.newClient(kgo.TransactionalID(id))
	if err != nil {
		return nil, err
	}
	if err := c.BeginTransaction(); err != nil {
		c.Close()
		return nil, err
	}
	return &Txn{client: c}, nil
}

// Produce appends records within the transaction and returns when the broker has them.
func (t *Txn) Produce(ctx context.Context, records ...debezium.Record) error {
	return t.client.ProduceSync(ctx, convert(records)...).FirstErr()
}

// Commit makes the records visible to read_committed.
func (t *Txn) Commit(ctx context.Context) error { return t.end(ctx, kgo.TryCommit) }

// Abort leaves the records in the log, to be skipped.
func (t *Txn) Abort(ctx context.Context) error { return t.end(ctx, kgo.TryAbort) }

func (t *Txn) end(ctx context.Context, how kgo.TransactionEndTry) error {
	defer t.client.Close()
	return t.client.EndTransaction(ctx, how)
}

// Transact appends records in one transaction, and commits or aborts it.
func (b *Broker) Transact(ctx context.Context, id string, commit bool, records ...debezium.Record) error {
	t, err := b.Begin(ctx, id)
	if err != nil {
		return err
	}
	if err := t.Produce(ctx, records...); err != nil {
		return errors.Join(err, t.Abort(ctx))
	}
	if !commit {
		return t.Abort(ctx)
	}
	return t.Commit(ctx)
}
