package txnsink

import (
	"errors"
	"fmt"
	"sync"
)

// Workers is what a sink knows of its pipeline's workers in the epoch that it has fenced: the transaction that each has open, its session S
// while no transaction uses it, and where its witness is. It opens and closes nothing, and is safe for concurrent use.
//
// The witness's previous checkpoint is that of the worker's last transaction that is known to be committed: [Workers.Fence] is told it,
// [Workers.Committed] moves it, and a prepared transaction does not, so that an aborted one needs no step back. That may rest on commits
// alone because a worker's next witness cannot be written before the prepared one is decided: its row is locked until then.
type Workers[S any] struct {
	mu       sync.Mutex
	pipeline string
	epoch    int64 // that Fence was given; 0: none
	workers  map[int]*worker[S]
	closed   bool
}

// worker is one worker in one epoch. A new epoch has new ones.
type worker[S any] struct {
	previous int64
	idle     *S
	open     *ID
}

// NewWorkers returns the workers of a pipeline. There are none before Fence.
func NewWorkers[S any](pipeline string) *Workers[S] { return &Workers[S]{pipeline: pipeline} }

// Fence gives workers 0..workers-1 to epoch. previous is where the witnesses are, by worker. It returns the idle sessions of the epoch before,
// for closing.
func (w *Workers[S]) Fence(epoch int64, workers int, previous map[int]int64) []*S {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := w.takeIdle()
	w.epoch, w.workers = epoch, make(map[int]*worker[S], workers)
	for i := range workers {
		w.workers[i] = &worker[S]{previous: previous[i]}
	}
	return idle
}

// Begin makes id its worker's open transaction and returns the worker's idle session; nil: it has none.
func (w *Workers[S]) Begin(id ID) (*S, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.of(id)
	switch {
	case w.closed:
		return nil, errors.New("the sink is closed")
	case id.Pipeline != w.pipeline:
		return nil, fmt.Errorf("this sink is of pipeline %s", w.pipeline)
	case one == nil:
		return nil, fmt.Errorf("worker %d of epoch %d was not fenced by this process", id.Worker, id.Epoch)
	case one.open != nil:
		return nil, fmt.Errorf("transaction %v of the same worker is open", *one.open)
	}
	session := one.idle
	one.idle, one.open = nil, &id
	return session, nil
}

// End ends id as its worker's open transaction, and keeps a session as Keep does.
func (w *Workers[S]) End(id ID, session *S) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.of(id); one != nil && one.open != nil && *one.open == id {
		one.open = nil
	}
	return w.keep(id, session)
}

// Keep makes a session the idle one of id's worker, if that is still of id's epoch and has none. Where it returns false the caller closes the
// session, unless it is nil.
func (w *Workers[S]) Keep(id ID, session *S) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keep(id, session)
}

func (w *Workers[S]) keep(id ID, session *S) bool {
	one := w.of(id)
	if session == nil || w.closed || one == nil || one.idle != nil {
		return false
	}
	one.idle = session
	return true
}

// of returns id's worker in id's epoch; nil: there is none, or another epoch has been fenced.
func (w *Workers[S]) of(id ID) *worker[S] {
	if id.Epoch != w.epoch {
		return nil
	}
	return w.workers[id.Worker]
}

// Previous returns the checkpoint that the worker's witness is at when id's transaction writes it.
func (w *Workers[S]) Previous(id ID) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.of(id); one != nil {
		return one.previous
	}
	return 0 // whatever it is: the witness is of another epoch
}

// Committed notes that a transaction, of any epoch, is committed.
func (w *Workers[S]) Committed(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.workers[id.Worker]; one != nil && one.previous < id.Checkpoint {
		one.previous = id.Checkpoint
	}
}

// TakeIdle takes the idle sessions away, for closing.
func (w *Workers[S]) TakeIdle() []*S {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.takeIdle()
}

// Close is TakeIdle for the last time: nothing begins, and no session is kept, from now on.
func (w *Workers[S]) Close() []*S {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.takeIdle()
}

func (w *Workers[S]) takeIdle() []*S {
	var out []*S
	for _, one := range w.workers {
		if one.idle != nil {
			out = append(out, one.idle)
			one.idle = nil
		}
	}
	return out
}
