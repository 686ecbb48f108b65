//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// chaosDuration is how long faults are made when CHAOS_DURATION does not say.
const chaosDuration = 3 * time.Minute

// TestFaultsLoseAndRepeatNothing kills, stops and cuts off everything that two replicators of one stream need, fills and freezes the disk
// of one's checkpoints, and lets its clock jump. One of the two is killed as well, and the other must live through all of it. After every fault
// both must go on by themselves, with the source's changes from first to last, each once. At the end they equal the source.
func TestFaultsLoseAndRepeatNothing(t *testing.T) {
	seed := seedOf(t)
	duration := durationOf(t, "CHAOS_DURATION", chaosDuration)
	t.Logf("to repeat this schedule of faults: E2E_SEED=%d CHAOS_DURATION=%v CHAOS_TARGET=%s", seed, duration, os.Getenv("CHAOS_TARGET"))

	c := newChaos(t, seed)
	defer func() { t.Logf("faults, and what came of them:\n%s", c.tally.report(c.survivor.samples)) }()
	load := startPulse(t, seed, c.mysql, c.source)
	c.until = time.Now().Add(duration)
	for i := 1; time.Now().Before(c.until); i++ {
		c.fault(t, i, c.faults.next(c.random))
	}
	n := load.wait(t)
	c.settled(t, n)
	t.Logf("the source committed %d transactions", n)

	for _, r := range c.replicas() {
		eventually(t, time.Minute, "the target of pipeline "+r.pipeline+" equals the source", func(context.Context) error {
			r.daemon.running(t)
			return r.equalsSource(t)
		})
		r.daemon.stop(t)
		// What the topics still hold must change nothing.
		r.start(t, r.config, "--until-caught-up").wait(t, time.Minute)
		report, err := r.target.compare(t)
		t.Logf("source and target of pipeline %s, value by value:\n%s", r.pipeline, report)
		if err != nil {
			t.Error(err)
		}
		if left, err := r.target.doubt(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("transactions left in doubt: got %q, %v, want none", left, err)
		}
	}
	if err := flat(c.survivor.samples); err != nil {
		t.Errorf("the process that was never killed: %v", err)
	}
}

// durationOf reads a duration from the environment.
func durationOf(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// chaos is one stream, the two replicators that read it, and what can be done to them.
type chaos struct {
	*liveConnector
	random   *rand.Rand // of the schedule; nothing else draws from it
	until    time.Time  // when the last fault begins
	mysql    string     // the source's DSN
	server   faultServer
	disk     *smallDisk // of the mortal's checkpoints
	mortal   *replica   // killed and stopped, with its checkpoints on the disk and a clock that jumps
	survivor *replica   // never killed, with its checkpoints in the target
	wires    []*wire    // to what both talk to
	faults   deck
	tally    tally
}

func (c *chaos) replicas() []*replica { return []*replica{c.mortal, c.survivor} }

// chaosSchema is the workload's tables, and one without a key whose rows say which transaction wrote them: from 1 on, none left out.
const chaosSchema = `CREATE DATABASE chaos CHARACTER SET utf8mb4; USE chaos;
CREATE TABLE journal (n BIGINT NOT NULL, note VARCHAR(40));
` + workloadSchema

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	jumping := buildWithJumpingClock(t)
	s := openStack(t, "chaos", "chaos", "chaos-avro")
	c := &chaos{
		liveConnector: &liveConnector{name: "avro", stack: s, options: map[string]string{"connect.keep.alive.interval.ms": "10000"}},
		random:        rand.New(rand.NewPCG(seed, 8)), mysql: environment(t, "LAB_MYSQL_DSN"), disk: newSmallDisk(t),
		tally: tally{kills: map[string]int{}, faults: map[string][]time.Duration{}},
	}
	s.lab(t, "mysql", "-e", chaosSchema)
	s.startConnector(t, c.connectorFile(t))
	c.awaitSnapshot(t)
	c.server = openFaultServer(t, s, os.Getenv("CHAOS_TARGET"))
	c.wires = s.openWires(t, c.server.name, c.server.address)
	c.mortal = c.newReplica(t, "mortal", "checkpoint: {interval: 200ms, store: 'file:"+filepath.Join(c.disk.dir, "checkpoints")+"'}\nworkers: 4\nhttp: {listen: ''}\n")
	c.survivor = c.newReplica(t, "survivor", "checkpoint: {interval: 200ms}\n")
	c.mortal.binary = jumping(t)
	c.mortal.daemon = c.mortal.start(t, c.mortal.config)
	c.survivor.daemon = c.survivor.start(t, c.survivor.config)
	c.faults = c.allFaults()
	return c
}

// fault makes one, holds it, ends it, and waits until everything works again. The mortal is killed meanwhile, or not.
func (c *chaos) fault(t *testing.T, i int, f fault) {
	t.Helper()
	hold := time.Duration(c.random.IntN(4000)) * time.Millisecond
	kills, killsAfter := c.random.IntN(3), c.random.IntN(2)
	t.Logf("fault %d: %s", i, f.name)
	f.begin(t)
	for range kills {
		c.killAt(t, hold/time.Duration(kills+1), false)
	}
	wait(t, hold/time.Duration(kills+1))
	if f.end != nil {
		f.end(t)
	}
	began := time.Now()
	for range killsAfter {
		c.killAt(t, time.Duration(c.random.IntN(1500))*time.Millisecond, c.random.IntN(2) == 0)
	}
	c.settled(t, c.sourcePulseAfter(t, c.mysql))
	c.tally.add(f.name, time.Since(began))
}

// killAt kills the mortal after a while, if asked as soon as a transaction of its own is prepared, and starts it again.
func (c *chaos) killAt(t *testing.T, pause time.Duration, prepared bool) {
	t.Helper()
	after(t, c.mortal.daemon, pause)
	if prepared {
		c.mortal.untilPrepared(t.Context())
	}
	c.mortal.daemon.kill(t)
	c.tally.kills["replicator"]++
	c.mortal.daemon = c.mortal.start(t, c.mortal.config)
}

// sourcePulseAfter waits until the source has committed something that it had not when it was asked.
func (s *stack) sourcePulseAfter(t *testing.T, dsn string) int64 {
	t.Helper()
	var first, n int64
	eventually(t, settleLimit, "the source goes on", func(ctx context.Context) error {
		var err error
		if n, err = pulseOf(ctx, dsn, s.source); err != nil {
			return err
		}
		if first == 0 {
			first = n
		}
		if n == first {
			return fmt.Errorf("its pulse is still %d", n)
		}
		return nil
	})
	return n
}

// settled waits until both replicators have transaction n of the source, and checks what each shows.
func (c *chaos) settled(t *testing.T, n int64) {
	t.Helper()
	for _, r := range c.replicas() {
		eventually(t, settleLimit, fmt.Sprintf("transaction %d of the source arrives through pipeline %s", n, r.pipeline), func(ctx context.Context) error {
			r.daemon.running(t)
			if err := r.look(ctx, t, n); err != nil {
				return errors.Join(err, c.mendConnector(ctx), errors.New(r.daemon.tail()))
			}
			return nil
		})
	}
	c.survivor.sample(t)
}

// wait lets time pass.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	if err := pause(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}
