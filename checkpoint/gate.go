package checkpoint

import "sync"

// Gate stops a pipeline from reading on, and lets it again. What was read is applied and committed; the pipeline
// keeps its epoch and its connections. It is safe for concurrent use, and made by [NewGate].
type Gate struct {
	mu     sync.Mutex
	paused bool
	change chan struct{} // closed at the next change
}

// NewGate returns an open gate.
func NewGate() *Gate { return &Gate{change: make(chan struct{})} }

// Pause closes or opens the gate.
func (g *Gate) Pause(paused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused == paused {
		return
	}
	g.paused = paused
	close(g.change)
	g.change = make(chan struct{})
}

// Paused says whether the gate is closed.
func (g *Gate) Paused() bool {
	paused, _ := g.state()
	return paused
}

// state returns whether the gate is closed, and what is closed when that changes.
func (g *Gate) state() (bool, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paused, g.change
}
