package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"replicator/txnsink"
)

const (
	beatsPerSession = 10 // how often a member beats in the time that it may be silent
	leaveWithin     = 5 * time.Second
	maxFencings     = 5         // of a slot that the group says is this process's
	fencingsWithin  = time.Hour // so many are not a process that was slow to hear
)

// member is a process's part in a [Cluster]: one goroutine that keeps the membership and has a run for each slot that it holds.
type member struct {
	Cluster
	founding *Checkpoint // nil with Standby
	view     *view
	heard    *confirmation
	silence  bool // the group does not answer, and that was said

	assigned map[int]bool     // by the last Join
	holds    map[int]*holding // what runs, and what is stopping
	ended    chan ending
}

// holding is a slot that this process runs.
type holding struct {
	stop     context.CancelFunc
	stopping bool
}

// ending says that a run of a slot has ended, and why; nil: it was stopped.
type ending struct {
	slot int
	err  error
}

func newMember(c Cluster) *member {
	return &member{
		Cluster: c, view: newView(&c), heard: &confirmation{change: make(chan struct{})},
		assigned: map[int]bool{}, holds: map[int]*holding{}, ended: make(chan ending, max(c.Slots, 1)),
	}
}

// run keeps the membership until ctx is done or a slot cannot go on.
func (m *member) run(ctx context.Context) error {
	// The runs outlive ctx until they have cut a last checkpoint: each is stopped by its holding, and all of them here.
	err := m.loop(ctx)
	for _, h := range m.holds {
		h.end()
	}
	err = errors.Join(err, m.drain(ctx, true))
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if lerr := m.Group.Leave(leaving); lerr != nil {
		m.Log.Info("leaving the group; it goes on when the session has timed out", "pipeline", m.Pipeline, "error", lerr)
	}
	return err
}

// loop joins again and again. It returns nil when ctx is done.
func (m *member) loop(ctx context.Context) error {
	m.heard.at(time.Now())
	delay := firstBackoff
	for ctx.Err() == nil {
		err := m.join(ctx)
		if err == nil {
			delay = firstBackoff
			err = m.stay(ctx)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			continue
		case errors.Is(err, ErrNotMember):
			m.Log.Warn("this process is no member any more: it stops what it runs, and joins anew", "pipeline", m.Pipeline, "slots", len(m.holds))
			if err := m.drop(ctx); err != nil {
				return err
			}
		case txnsink.Permanent(err):
			return err
		default:
			m.unanswered(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		delay = min(2*delay, m.Session/beatsPerSession)
	}
	return nil
}

// join takes part in a division of the slots, and starts and stops runs by it.
func (m *member) join(ctx context.Context) error {
	if m.silent() {
		return ErrNotMember // whether or not it would still be one
	}
	held, sent := slices.Sorted(maps.Keys(m.holds)), time.Now()
	assigned, err := m.Group.Join(ctx, held)
	if err != nil {
		return err
	}
	m.confirmed(sent)
	clear(m.assigned)
	for _, slot := range assigned {
		if slot < 0 || slot >= max(m.Slots, 1) {
			return permanent(fmt.Errorf("the group's leader assigns slot %d of %d: do all processes of pipeline %s run the same version?", slot, max(m.Slots, 1), m.Pipeline))
		}
		m.assigned[slot] = true
	}
	slices.Sort(assigned)
	m.Log.Info("joined", "pipeline", m.Pipeline, "slots", assigned, "held", held)
	for slot, h := range m.holds {
		if !m.assigned[slot] {
			h.end()
		}
	}
	for slot := range m.assigned {
		m.start(ctx, slot)
	}
	m.Observe(Joined{Slots: assigned})
	return nil
}

// silent says whether the group may have gone on without this process.
func (m *member) silent() bool { return len(m.holds) > 0 && time.Since(m.heard.last()) > m.Session }

// stay beats until the members are to join again, or a slot that is to move is free. It begins with a beat: runs wait for one.
func (m *member) stay(ctx context.Context) error {
	tick := time.NewTicker(m.Session / beatsPerSession)
	defer tick.Stop()
	for {
		again, err := m.beat(ctx)
		if err != nil || again {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case e := <-m.ended:
			if err := m.over(ctx, e); err != nil {
				return err
			}
			if !m.assigned[e.slot] && !m.stopping() {
				return nil // what was to move is free
			}
		}
	}
}

// beat says that this process lives. A failure that may pass is none, until the process has been silent for too long.
func (m *member) beat(ctx context.Context) (again bool, _ error) {
	sent := time.Now()
	asking, cancel := context.WithTimeout(ctx, m.Session)
	defer cancel()
	again, err := m.Group.Beat(asking)
	switch {
	case err == nil:
		m.confirmed(sent)
	case ctx.Err() != nil:
		return false, nil
	case errors.Is(err, ErrNotMember) || txnsink.Permanent(err):
		return false, err
	case m.silent():
		return false, ErrNotMember
	default:
		m.unanswered(err)
	}
	return again, nil
}

// confirmed notes that the group has answered a question that was sent at a time.
func (m *member) confirmed(sent time.Time) {
	m.heard.at(sent)
	if m.silence {
		m.silence = false
		m.Log.Info("the group answers again", "pipeline", m.Pipeline)
	}
}

// unanswered says once, until the group answers again, that it does not: a broker that is away is asked many times a second.
func (m *member) unanswered(err error) {
	if !m.silence {
		m.silence = true
		m.Log.Warn("the group does not answer, trying again", "pipeline", m.Pipeline, "error", err)
	}
}

func (m *member) stopping() bool {
	for _, h := range m.holds {
		if h.stopping {
			return true
		}
	}
	return false
}

func (h *holding) end() {
	h.stopping = true
	h.stop()
}

// over notes that a run has ended. What was assigned again meanwhile runs again.
func (m *member) over(ctx context.Context, e ending) error {
	delete(m.holds, e.slot)
	m.view.forget(e.slot)
	if e.err != nil {
		return e.err
	}
	if m.assigned[e.slot] && ctx.Err() == nil {
		m.start(ctx, e.slot)
	}
	return nil
}

// drop stops everything and waits for it: a process that is no member holds nothing.
func (m *member) drop(ctx context.Context) error {
	clear(m.assigned)
	for _, h := range m.holds {
		h.end()
	}
	err := m.drain(ctx, false)
	m.Observe(Joined{})
	return err
}

// drain waits until every run has ended. A member beats meanwhile: the last checkpoints may take their time.
func (m *member) drain(ctx context.Context, beating bool) error {
	tick := time.NewTicker(m.Session / beatsPerSession)
	defer tick.Stop()
	var errs []error
	for len(m.holds) > 0 {
		select {
		case e := <-m.ended:
			delete(m.holds, e.slot)
			m.view.forget(e.slot)
			errs = append(errs, e.err)
		case <-tick.C:
			if !beating {
				continue
			}
			if _, err := m.beat(context.WithoutCancel(ctx)); err != nil {
				m.Log.Info("no member any more while last checkpoints are cut", "pipeline", m.Pipeline, "error", err)
				beating = false
			}
		}
	}
	return errors.Join(errs...)
}

// start runs a slot, unless it runs.
func (m *member) start(ctx context.Context, slot int) {
	if m.holds[slot] != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	m.holds[slot] = &holding{stop: stop}
	go func() {
		defer stop()
		m.ended <- ending{slot, m.hold(ctx, slot)} // never blocks: it has room for every slot
	}()
}

// hold runs a slot until ctx is done. If another process has fenced it, it begins again when the group has confirmed that the slot is
// this process's.
func (m *member) hold(ctx context.Context, slot int) error {
	var fenced []time.Time
	delay := firstBackoff
	for {
		began := time.Now()
		err := m.runSlot(ctx, slot)
		switch {
		case ctx.Err() != nil:
			if err != nil && !errors.Is(err, context.Canceled) {
				m.Log.Warn("a slot was stopped without a last checkpoint; its next run goes on from the one before", "pipeline", m.Pipeline, "slot", slot, "error", err)
			}
			return nil
		case err == nil:
			return nil
		case errors.Is(err, txnsink.ErrFenced):
			now := time.Now()
			fenced = slices.DeleteFunc(append(fenced, now), func(t time.Time) bool { return now.Sub(t) > fencingsWithin })
			if now.Sub(began) > m.Session {
				delay = firstBackoff
			}
			if len(fenced) > maxFencings {
				return fmt.Errorf("%w: a process that is not in the group runs the same, again and again: is one running without cluster or standby, or on another Kafka cluster?", err)
			}
		case txnsink.Permanent(err):
			return err
		}
		m.Log.Warn("a slot begins again", "pipeline", m.Pipeline, "slot", slot, "error", err, "in", delay)
		m.Failed(err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
		delay = min(2*delay, lastBackoff)
	}
}

// runSlot connects and runs once.
func (m *member) runSlot(ctx context.Context, slot int) (err error) {
	if !m.heard.after(ctx, time.Now()) {
		return nil
	}
	name, as := m.Pipeline, Whole
	if !m.Standby {
		name, as = slotName(m.founding, slot), slot
	}
	c, done, err := m.Open(ctx, name, as)
	if err != nil {
		return fmt.Errorf("open slot %d of pipeline %s: %w", slot, m.Pipeline, err)
	}
	defer func() {
		if derr := done(); derr != nil {
			m.Log.Info("closing the connections of a slot", "pipeline", m.Pipeline, "slot", slot, "error", derr)
		}
	}()
	c.begin = func(ctx context.Context) bool { return m.heard.after(ctx, time.Now()) }
	if !m.Standby {
		c.origin = m.part(m.founding, slot)
		if m.Shared != nil {
			c.shared = askedOnce(m.Shared)
		}
		c.Sink = heir{c.Sink, m.Pipeline}
	}
	m.view.watch(slot, &c)
	return Run(ctx, c)
}

// confirmation is when the group last confirmed the membership. It is safe for concurrent use.
type confirmation struct {
	mu       sync.Mutex
	sent     time.Time // the question
	answered time.Time
	change   chan struct{} // closed at the next one
}

// at notes that a question which was sent at a time was answered.
func (c *confirmation) at(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent, c.answered = sent, time.Now()
	close(c.change)
	c.change = make(chan struct{})
}

func (c *confirmation) last() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// after waits for the answer to a question that is sent at a time or later (invariant 3 of docs/adr/0020-cluster.md). It returns false if ctx
// is done before.
func (c *confirmation) after(ctx context.Context, t time.Time) bool {
	for {
		c.mu.Lock()
		sent, change := c.sent, c.change
		c.mu.Unlock()
		if !sent.Before(t) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-change:
		}
	}
}
