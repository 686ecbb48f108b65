package checkpoint_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

// memoryStores is a Store of several pipelines.
type memoryStores struct {
	mu  sync.Mutex
	all map[string]*memoryStore
}

func (s *memoryStores) of(pipeline string) *memoryStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[pipeline] == nil {
		if s.all == nil {
			s.all = map[string]*memoryStore{}
		}
		s.all[pipeline] = &memoryStore{}
	}
	return s.all[pipeline]
}

func (s *memoryStores) Acquire(ctx context.Context, pipeline string) (checkpoint.Checkpoint, error) {
	return s.of(pipeline).Acquire(ctx, pipeline)
}

func (s *memoryStores) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	return s.of(c.Pipeline).Save(ctx, c, retain)
}

func (s *memoryStores) List(ctx context.Context, pipeline string) ([]checkpoint.Checkpoint, error) {
	return s.of(pipeline).List(ctx, pipeline)
}

func (s *memoryStores) Load(ctx context.Context, pipeline string, id int64) (checkpoint.Checkpoint, error) {
	return s.of(pipeline).Load(ctx, pipeline, id)
}

func (s *memoryStores) Forget(ctx context.Context, pipeline string, id int64) error {
	return s.of(pipeline).Forget(ctx, pipeline, id)
}

func (s *memoryStores) Close() error { return nil }

func (s *memoryStores) Append(ctx context.Context, id txnsink.ID, part int, body []byte) error {
	return s.of(id.Pipeline).Append(ctx, id, part, body)
}

func (s *memoryStores) Read(ctx context.Context, id txnsink.ID, part int) ([]byte, error) {
	return s.of(id.Pipeline).Read(ctx, id, part)
}

func (s *memoryStores) Prune(ctx context.Context, pipeline string, epoch, cp int64) error {
	return s.of(pipeline).Prune(ctx, pipeline, epoch, cp)
}

// reached returns the furthest position that a saved checkpoint has for each partition.
func (s *memoryStores) reached() debezium.Positions {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := debezium.Positions{}
	for _, one := range s.all {
		one.mu.Lock()
		if n := len(one.saved); n > 0 {
			for p, at := range one.saved[n-1].Positions {
				if at.Offset > out[p].Offset {
					out[p] = at
				}
			}
		}
		one.mu.Unlock()
	}
	return out
}

// coordinator is a group as a broker keeps it.
type coordinator struct {
	slots   int
	session time.Duration

	mu         sync.Mutex
	next       int
	generation int
	preparing  bool
	members    map[string]*memberState
	shares     map[string][]int
}

type memberState struct {
	held    []int
	joining bool
	heard   time.Time
}

// settle puts out who is silent, and ends a rebalance that everybody has joined. c.mu is held.
func (c *coordinator) settle() {
	joined := true
	for _, id := range slices.Collect(maps.Keys(c.members)) {
		m := c.members[id]
		if !m.joining && time.Since(m.heard) > c.session {
			delete(c.members, id)
			c.preparing = true
			continue
		}
		joined = joined && m.joining
	}
	if !c.preparing || !joined || len(c.members) == 0 {
		return
	}
	held := map[string][]int{}
	for id, m := range c.members {
		held[id] = m.held
		m.joining, m.heard = false, time.Now()
	}
	c.shares = checkpoint.Share(c.slots, held)
	c.preparing = false
	c.generation++
}

// memoryGroup is a process's membership.
type memoryGroup struct {
	c  *coordinator
	id string
}

func (g *memoryGroup) Join(ctx context.Context, held []int) ([]int, error) {
	c := g.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	switch {
	case g.id == "":
		if len(held) > 0 {
			return nil, unseenError{fmt.Errorf("a new member holds %v", held)}
		}
		c.next++
		g.id = fmt.Sprint("m", c.next)
		c.members[g.id] = &memberState{}
	case c.members[g.id] == nil:
		g.id = ""
		return nil, checkpoint.ErrNotMember
	}
	me := c.members[g.id]
	me.held, me.joining, me.heard = slices.Clone(held), true, time.Now()
	c.preparing = true
	began := c.generation
	for {
		c.settle()
		if c.generation > began {
			return slices.Clone(c.shares[g.id]), nil
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			c.mu.Lock()
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		c.mu.Lock()
	}
}

func (g *memoryGroup) Beat(context.Context) (bool, error) {
	c := g.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	m := c.members[g.id]
	if m == nil {
		g.id = ""
		return false, checkpoint.ErrNotMember
	}
	m.heard = time.Now()
	return c.preparing, nil
}

func (g *memoryGroup) Leave(context.Context) error {
	c := g.c
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, g.id)
	c.preparing = true
	return nil
}

// processGroup is the membership of a process that may be dead or stopped. Its calls are not counted: there is no end of them.
type processGroup struct {
	checkpoint.Group
	p *process
}

func (g processGroup) Join(ctx context.Context, held []int) (mine []int, err error) {
	err = g.p.pass(func() (err error) { mine, err = g.Group.Join(ctx, held); return err })
	return mine, err
}

func (g processGroup) Beat(ctx context.Context) (again bool, err error) {
	err = g.p.pass(func() (err error) { again, err = g.Group.Beat(ctx); return err })
	return again, err
}

func (g processGroup) Leave(ctx context.Context) error {
	return g.p.pass(func() error { return g.Group.Leave(ctx) })
}
