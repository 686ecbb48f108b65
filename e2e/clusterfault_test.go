//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// allFaults is every fault, each once: the shortest run makes all of them.
func (c *sharedCluster) allFaults() deck {
	faults := []fault{
		{name: "process killed", begin: c.killOne},
		{name: "process stopped beyond its session", begin: func(t *testing.T) { c.freezeOne(t, func() {}) }},
		{name: "grown to four processes, shrunk to two", begin: c.scale},
		{name: "table changed, and a process killed", begin: func(t *testing.T) {
			c.changeTables(t)
			wait(t, time.Duration(c.random.IntN(1500))*time.Millisecond)
			c.killOne(t)
		}},
		{name: "table changed while a process is stopped", begin: func(t *testing.T) { c.freezeOne(t, func() { c.changeTables(t) }) }},
		{name: "Kafka killed", begin: func(t *testing.T) { c.lab(t, "kill", "kafka"); c.tally.kills["Kafka"]++ }, end: func(t *testing.T) { c.lab(t, "up", "kafka") }},
		{name: "database killed", begin: func(t *testing.T) { c.server.kill(t); c.tally.kills["database"]++ }, end: c.server.start},
	}
	for _, name := range []string{"silent", "refused"} {
		x := toxics[slices.IndexFunc(toxics, func(x toxic) bool { return x.name == name })]
		faults = append(faults, fault{name: "a process's connection to Kafka " + name + " beyond its session", begin: func(t *testing.T) {
			c.kafka.poison(t, x)
			c.beyondSession(t)
			c.kafka.mend(t)
		}})
	}
	return deck{all: faults}
}

// beyondSession waits for longer than a process may be silent.
func (c *sharedCluster) beyondSession(t *testing.T) {
	t.Helper()
	wait(t, clusterSession+time.Second+time.Duration(c.random.IntN(3000))*time.Millisecond)
}

// killOne kills a process, and starts another, at once or when the others have taken its slots over.
func (c *sharedCluster) killOne(t *testing.T) {
	t.Helper()
	c.leave(c.random.IntN(len(c.members))).kill(t)
	c.tally.kills["replicator"]++
	if c.random.IntN(2) == 0 {
		c.beyondSession(t)
	}
	c.join(t)
}

// freezeOne stops a process for longer than a session, does something meanwhile, and lets it go on.
func (c *sharedCluster) freezeOne(t *testing.T, meanwhile func()) {
	t.Helper()
	d := c.members[c.random.IntN(len(c.members))]
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		d.running(t)
		if err := d.process.Process.Signal(s); err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		if s == syscall.SIGSTOP {
			meanwhile()
			c.beyondSession(t)
		}
	}
}

// scale has a fourth process, then two, then three again.
func (c *sharedCluster) scale(t *testing.T) {
	t.Helper()
	c.join(t)
	c.settled(t, c.sourcePulseAfter(t, c.mysql))
	for range 2 {
		c.stop(t, c.leave(c.random.IntN(len(c.members))))
	}
	c.settled(t, c.sourcePulseAfter(t, c.mysql))
	c.join(t)
}

// changeTables adds a column to two tables, or widens the one that was added last and fills it with what did not fit before.
func (c *sharedCluster) changeTables(t *testing.T) {
	t.Helper()
	added := fmt.Sprintf("extra%d", c.changes/2)
	statements := fmt.Sprintf("ALTER TABLE journal ADD COLUMN %[1]s INT; ALTER TABLE account ADD COLUMN %[1]s INT; UPDATE account SET %[1]s = id WHERE id %% 11 = 3", added)
	if c.changes%2 == 1 {
		statements = fmt.Sprintf("ALTER TABLE account MODIFY COLUMN %[1]s BIGINT; UPDATE account SET %[1]s = 3000000000 + id WHERE id %% 11 = 5", added)
	}
	c.lab(t, "mysql", c.source, "-e", statements)
	c.changes++
}
