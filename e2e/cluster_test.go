//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	clusterPartitions = 12
	clusterSlots      = 12
	clusterSession    = 6 * time.Second // the shortest that a broker allows unless told otherwise
)

// clusterSchema is the workload's tables, and two of which rows are only inserted and none has a key. The journal's rows say which transaction
// wrote them: from 1 on, none left out.
const clusterSchema = `CREATE DATABASE shared CHARACTER SET utf8mb4; USE shared;
CREATE TABLE journal (n BIGINT NOT NULL, note VARCHAR(40));
` + workloadSchema

// clusterOptions spread each table over 12 partitions, but for one of which rows without a key are changed: those need their order. The journal's
// records have a key, so that what Debezium sends again goes to the partition where it was.
var clusterOptions = map[string]string{
	"topic.creation.default.partitions":         strconv.Itoa(clusterPartitions),
	"topic.creation.default.replication.factor": "1",
	"topic.creation.groups":                     "ordered",
	"topic.creation.ordered.include":            `.*\.transfer`,
	"topic.creation.ordered.partitions":         "1",
	"topic.creation.ordered.replication.factor": "1",
	"message.key.columns":                       "shared.journal:n",
	"signal.data.collection":                    "shared.dbz_signal",
}

// TestClusterLosesAndRepeatsNothing has three processes share a pipeline of 12 partitions, kills them, stops them and cuts them off from Kafka for longer than a
// session, adds and takes away some, kills the broker and the target's server, and changes tables meanwhile. Every second process's clock jumps by days. After every fault each slot must have
// one holder, and what the source wrote after it must arrive, each transaction once. At the end the target equals the source.
func TestClusterLosesAndRepeatsNothing(t *testing.T) {
	seed := seedOf(t)
	duration := durationOf(t, "CLUSTER_DURATION", 0)
	t.Logf("to repeat this schedule of faults: E2E_SEED=%d CLUSTER_DURATION=%v CLUSTER_TARGET=%s", seed, duration, os.Getenv("CLUSTER_TARGET"))

	c := newCluster(t, seed)
	defer func() { t.Logf("faults, and what came of them:\n%s", c.tally.report(nil)) }()
	load := startPulse(t, seed, c.mysql, c.source)
	for range clusterProcesses {
		c.join(t)
	}
	c.settled(t, c.sourcePulseAfter(t, c.mysql))
	until := time.Now().Add(duration)
	for i := 1; i <= len(c.faults.all) || time.Now().Before(until); i++ {
		c.fault(t, i, c.faults.next(c.random))
	}
	n := load.wait(t)
	c.settled(t, n)
	t.Logf("the source committed %d transactions, and %d changes of tables", n, c.changes)
	eventually(t, time.Minute, "the target equals the source", func(context.Context) error {
		c.running(t)
		if report, err := c.target.compare(t); err != nil {
			return fmt.Errorf("%w\n%s", err, report)
		}
		return nil
	})
	// What the topics still hold must change nothing.
	c.leaveAll(t)
	c.join(t)
	c.settled(t, n)
	c.leaveAll(t)
	report, err := c.target.compare(t)
	t.Logf("source and target, value by value:\n%s", report)
	if err != nil {
		t.Error(err)
	}
	if left, err := c.target.doubt(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("transactions left in doubt: got %q, %v, want none", left, err)
	}
}

const clusterProcesses = 3

// sharedCluster is a stream, and the processes that share the pipeline that reads it.
type sharedCluster struct {
	*liveConnector
	random *rand.Rand // of the schedule; nothing else draws from it
	mysql  string     // the source's DSN
	server faultServer
	target faultTarget
	// Every second process reaches Kafka by a wire, and has a clock that jumps.
	kafka   *wire
	jumping func(*testing.T) string
	configs [2]string // of the others, and of those
	members []*daemon
	begun   int // processes
	changes int // of tables
	faults  deck
	tally   tally
}

func newCluster(t *testing.T, seed uint64) *sharedCluster {
	t.Helper()
	jumping := buildWithJumpingClock(t)
	s := openStack(t, "cluster", "shared", "")
	l := &liveConnector{name: "plain", options: clusterOptions}
	l.on(s)
	c := &sharedCluster{
		liveConnector: l, jumping: jumping, random: rand.New(rand.NewPCG(seed, 12)), mysql: environment(t, "LAB_MYSQL_DSN"),
		tally: tally{kills: map[string]int{}, faults: map[string][]time.Duration{}},
	}
	c.lab(t, "mysql", "-e", clusterSchema)
	c.startConnector(t, c.connectorFile(t))
	c.server = openFaultServer(t, s, os.Getenv("CLUSTER_TARGET"))
	c.target = c.server.target(t, c.stack)
	// The journal has no key in the target: that of its records says only where they go.
	if err := c.target.exec(t.Context(), "CREATE TABLE journal (n bigint NOT NULL, note varchar(40))"); err != nil {
		t.Fatal(err)
	}
	c.awaitSnapshot(t)
	wires := c.openWires(t, "postgres", c.postgresHost(t))
	c.kafka = wires[slices.IndexFunc(wires, func(w *wire) bool { return w.name == "kafka" })]
	for i, broker := range []string{c.broker, c.kafka.near} {
		c.configs[i] = writeFile(t, fmt.Sprintf("cluster%d.yaml", i), fmt.Appendf(nil, `pipeline: %s
source:
  brokers: ['%s']
  topics: ['%s\.shared\..*']
target: {url: '%s'}
cluster: true
membership: {slots: %d, session_timeout: %v}
checkpoint: {interval: 200ms}
workers: 2
http: {listen: ''}
`, c.pipeline, broker, c.connector, c.target.url(c.server.address), clusterSlots, clusterSession))
	}
	c.faults = c.allFaults()
	return c
}

// join starts a process.
func (c *sharedCluster) join(t *testing.T) {
	t.Helper()
	own := *c.stack
	own.pipeline = fmt.Sprintf("%s.%d", c.pipeline, c.begun) // its log
	if c.begun%2 == 1 {
		own.binary = c.jumping(t)
	}
	c.members = append(c.members, own.start(t, c.configs[c.begun%2]))
	c.begun++
}

// leave takes a process away and returns it.
func (c *sharedCluster) leave(i int) *daemon {
	d := c.members[i]
	c.members = slices.Delete(c.members, i, i+1)
	return d
}

func (c *sharedCluster) leaveAll(t *testing.T) {
	t.Helper()
	for len(c.members) > 0 {
		c.stop(t, c.leave(0))
	}
}

// stop asks a process to end, and waits for as long as its last checkpoints may take on a loaded machine.
func (c *sharedCluster) stop(t *testing.T, d *daemon) {
	t.Helper()
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("ask the replicator to end: %v", err)
	}
	d.wait(t, 2*time.Minute)
}

func (c *sharedCluster) running(t *testing.T) {
	t.Helper()
	for _, d := range c.members {
		d.running(t)
	}
}

// fault makes one, ends it, and waits until everything works again.
func (c *sharedCluster) fault(t *testing.T, i int, f fault) {
	t.Helper()
	t.Logf("fault %d: %s", i, f.name)
	f.begin(t)
	if f.end != nil {
		wait(t, time.Duration(c.random.IntN(3000))*time.Millisecond)
		f.end(t)
	}
	began := time.Now()
	c.settled(t, c.sourcePulseAfter(t, c.mysql))
	c.tally.add(f.name, time.Since(began))
}

// settled waits until every slot has one holder, and the target has transaction n of the source.
func (c *sharedCluster) settled(t *testing.T, n int64) {
	t.Helper()
	eventually(t, settleLimit, fmt.Sprintf("each slot has a holder, and transaction %d of the source arrives", n), func(ctx context.Context) error {
		c.running(t)
		err := errors.Join(c.shared(t), c.look(ctx, t, n))
		if err != nil {
			err = errors.Join(err, c.mendConnector(ctx))
			for _, d := range c.members {
				err = errors.Join(err, errors.New(d.tail()))
			}
		}
		return err
	})
}

// look is an error as long as the target lacks transactions up to n; it fails the test if it has one twice. Slots do not wait for each other, so that the
// journal has gaps until all have come.
func (c *sharedCluster) look(ctx context.Context, t *testing.T, n int64) error {
	t.Helper()
	j, err := c.target.journal(ctx, n)
	if err != nil {
		return err
	}
	if j.rows != j.distinct {
		t.Fatalf("the journal shows %d rows of %d transactions: want each once", j.rows, j.distinct)
	}
	if j.upTo < n || j.pulse < n {
		return fmt.Errorf("the target's pulse is %d, and its journal has %d of %d transactions", j.pulse, j.upTo, n)
	}
	return nil
}

var joinedLine = regexp.MustCompile(`msg=joined .*slots="?\[([0-9 ]*)\]`)

// shared is an error unless each slot is held by one process, as far as these say.
func (c *sharedCluster) shared(t *testing.T) error {
	t.Helper()
	holders := map[int][]string{}
	for _, d := range c.members {
		text, err := os.ReadFile(d.log)
		if err != nil {
			t.Fatal(err)
		}
		all := joinedLine.FindAllStringSubmatchIndex(string(text), -1)
		if len(all) == 0 {
			continue
		}
		last := all[len(all)-1]
		if strings.Contains(string(text[last[1]:]), "no member any more") {
			continue
		}
		for _, s := range strings.Fields(string(text[last[2]:last[3]])) {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			holders[n] = append(holders[n], filepath.Base(d.log))
		}
	}
	held := maps.Clone(holders)
	maps.DeleteFunc(held, func(_ int, by []string) bool { return len(by) != 1 })
	if len(held) != clusterSlots || len(holders) != clusterSlots {
		return fmt.Errorf("the %d slots are held by %v", clusterSlots, holders)
	}
	return nil
}
