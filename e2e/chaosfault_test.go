//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// fault is something that goes wrong for a while.
type fault struct {
	name  string
	begin func(*testing.T)
	end   func(*testing.T) // nil: it has ended by itself
}

// service is a program that the replicators or their source need.
type service struct {
	name                       string
	kill, start, pause, resume func(*testing.T)
}

// labService is one that the lab runs.
func (s *stack) labService(name string) service {
	command := func(verb string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			s.lab(t, verb, name)
		}
	}
	return service{name: name, kill: command("kill"), start: command("up"), pause: command("pause"), resume: command("resume")}
}

// deck deals faults as cards: in a random order, each as often as any other.
type deck struct{ all, left []fault }

func (d *deck) next(random *rand.Rand) fault {
	if len(d.left) == 0 {
		d.left = slices.Clone(d.all)
		random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	f := d.left[0]
	d.left = d.left[1:]
	return f
}

// allFaults is every fault; kills stand more than once, so that they come more often.
func (c *chaos) allFaults() deck {
	faults := []fault{{name: "process stopped, another started in its place", begin: c.supersede}}
	if c.disk.mounted {
		faults = append(faults,
			fault{name: "checkpoint disk full", begin: c.disk.fill, end: c.disk.empty},
			fault{name: "checkpoint disk slow", begin: c.disk.freezeAgainAndAgain, end: c.disk.thaw})
	}
	for _, s := range []struct {
		service
		often int // how many times a deck has it killed again and again
		least int // kills of such a time, of which there are up to twice as many
	}{
		// The slower one is to start, the fewer: else a run would be waiting for Kafka Connect.
		{c.server.service, 4, 4},
		{c.labService("mysql"), 4, 3},
		{c.labService("kafka"), 3, 2},
		{c.labService("registry"), 3, 2},
		{c.labService("connect"), 2, 1},
	} {
		faults = append(faults,
			fault{name: s.name + " stopped", begin: s.pause, end: s.resume},
			fault{name: s.name + " killed", begin: func(t *testing.T) { s.kill(t); c.tally.kills[s.name]++ }, end: s.start})
		for range s.often {
			faults = append(faults, fault{
				name:  s.name + " killed again and again",
				begin: func(t *testing.T) { c.killServiceOften(t, s.service, s.least+c.random.IntN(s.least+1)) },
			})
		}
	}
	for _, w := range c.wires {
		for _, toxic := range toxics {
			faults = append(faults, fault{
				name:  "connection to " + w.name + " " + toxic.name,
				begin: func(t *testing.T) { w.poison(t, toxic) },
				end:   w.mend,
			})
		}
	}
	for range 8 {
		faults = append(faults, fault{name: "replicator killed again and again", begin: c.killOften})
	}
	for _, r := range c.replicas() {
		faults = append(faults, fault{
			name:  "replicator stopped",
			begin: func(t *testing.T) { r.signal(t, syscall.SIGSTOP) },
			end:   func(t *testing.T) { r.signal(t, syscall.SIGCONT) },
		})
	}
	return deck{all: faults}
}

func (r *replica) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	r.daemon.running(t)
	if err := r.daemon.process.Process.Signal(s); err != nil {
		t.Fatalf("%v to pipeline %s: %v", s, r.pipeline, err)
	}
}

// killOften kills the mortal many times, every second one as soon as a transaction is prepared.
func (c *chaos) killOften(t *testing.T) {
	t.Helper()
	for i := range 20 + c.random.IntN(30) {
		c.killAt(t, time.Duration(c.random.IntN(1200))*time.Millisecond, i%2 == 1)
	}
}

// killServiceOften kills a service a number of times, a while after it answers again, and fewer times when the run is over meanwhile.
func (c *chaos) killServiceOften(t *testing.T, s service, times int) {
	t.Helper()
	for i := range times {
		if i > 0 && time.Now().After(c.until) {
			return
		}
		wait(t, time.Duration(c.random.IntN(3000))*time.Millisecond)
		s.kill(t)
		c.tally.kills[s.name]++
		s.start(t)
	}
}

// supersede starts a second process of the pipeline while the first is stopped, and lets the first go on then. One of them must find
// that the other has taken its place, and end.
func (c *chaos) supersede(t *testing.T) {
	t.Helper()
	old := c.mortal.daemon
	c.mortal.signal(t, syscall.SIGSTOP)
	young := c.mortal.start(t, c.mortal.config)
	wait(t, time.Duration(c.random.IntN(5000))*time.Millisecond)
	c.mortal.signal(t, syscall.SIGCONT)
	late := time.NewTimer(settleLimit)
	defer late.Stop()
	select {
	case <-old.ended:
		c.mortal.daemon = young
	case <-young.ended:
	case <-late.C:
		t.Fatalf("two processes of pipeline %s still run %v after the first could go on\n%s", c.mortal.pipeline, settleLimit, old.tail())
	}
}

// tally is what happened.
type tally struct {
	kills  map[string]int // SIGKILLs, by what was killed
	faults map[string][]time.Duration
}

// add counts a fault, and what followed it.
func (c *tally) add(name string, recovered time.Duration) {
	c.faults[name] = append(c.faults[name], recovered)
}

// report is a table of the faults, each with the time from its end until the changes made after it had arrived.
func (c *tally) report(samples []sample) string {
	var b strings.Builder
	tab := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintln(tab, "| fault\t| times\t| works again after: median\t| longest\t|")
	fmt.Fprintln(tab, "|---\t|---:\t|---:\t|---:\t|")
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		times := slices.Sorted(slices.Values(c.faults[name]))
		fmt.Fprintf(tab, "| %s\t| %d\t| %.1f s\t| %.1f s\t|\n", name, len(times), times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
	}
	if err := tab.Flush(); err != nil {
		return err.Error()
	}
	sum := 0
	names := slices.SortedFunc(maps.Keys(c.kills), func(a, b string) int { return cmp.Compare(c.kills[b], c.kills[a]) })
	for _, name := range names {
		sum += c.kills[name]
		fmt.Fprintf(&b, "%s killed %d times\n", name, c.kills[name])
	}
	fmt.Fprintf(&b, "%d kills in all\n", sum)
	for i, s := range samples {
		if i == 0 || i == len(samples)-1 || i%max(1, len(samples)/8) == 0 {
			fmt.Fprintf(&b, "survivor at %v: %.1f MiB resident, %.0f descriptors, %.0f goroutines\n", s.at.Format(time.TimeOnly), s.memory/(1<<20), s.files, s.goroutines)
		}
	}
	return b.String()
}
