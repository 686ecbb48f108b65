package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// errFault is a failure that may pass; errDead is what every call of a dead process returns.
var errFault = errors.New("injected fault")

type deadError struct{}

func (deadError) Error() string   { return "the process is dead" }
func (deadError) Permanent() bool { return true }

// fault says which call of a process fails, and how.
type fault struct {
	at     int           // the number of the call, from 1; 0: none
	before bool          // the call has no effect; otherwise it takes effect and its answer is lost
	death  bool          // the process does nothing more
	pause  func()        // instead of failing, the call waits for this before it takes effect
	freeze time.Duration // instead of failing, the whole process does nothing for so long, before the call takes effect
}

// process counts the calls of all seams of one process and breaks one of them.
type process struct {
	fault
	mu    sync.Mutex
	calls int
	dead  bool
	hitAt time.Time        // when the fault happened
	thaw  <-chan time.Time // until then the process is frozen; nil: it never was
	die   func()           // what the world does when the process dies: its sessions end
	lag   func()           // how long a call takes; nil: no time
}

func (p *process) call(do func() error) error {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return deadError{}
	}
	p.calls++
	hit := p.calls == p.at
	if hit {
		p.hitAt = time.Now()
	}
	p.mu.Unlock()
	if hit && p.freeze > 0 {
		p.stop()
	}
	if !hit || p.freeze > 0 {
		return p.pass(do)
	}
	if p.pause != nil {
		p.pause()
		return do()
	}
	var err error
	if !p.before {
		err = do()
	}
	if p.death {
		p.mu.Lock()
		p.dead = true
		p.mu.Unlock()
		p.die()
		return deadError{}
	}
	if err != nil {
		return err
	}
	return errFault
}

// kill ends the process between two calls.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.die()
}

// stop freezes the process, as SIGSTOP does until SIGCONT.
func (p *process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	thaw := make(chan time.Time)
	p.thaw = thaw
	time.AfterFunc(p.freeze, func() { close(thaw) })
}

// pass makes a call that is not counted.
func (p *process) pass(do func() error) error {
	p.mu.Lock()
	dead, thaw := p.dead, p.thaw
	p.mu.Unlock()
	if dead {
		return deadError{}
	}
	if thaw != nil {
		<-thaw
	}
	if p.lag != nil {
		p.lag()
	}
	return do()
}

func call1[T any](p *process, do func() (T, error)) (T, error) {
	var v T
	err := p.call(func() (err error) { v, err = do(); return err })
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// The seams of a process, each call counted.
type (
	faultySink struct {
		txnsink.Sink
		p *process
	}
	faultyTxn struct {
		txnsink.Txn
		sink txnsink.Sink
		p    *process
	}
	faultyStore struct {
		checkpoint.Store
		p *process
	}
	faultyLog struct {
		checkpoint.StatementLog
		p *process
	}
	faultySource struct {
		checkpoint.Source
		p *process
	}
	faultyReader struct {
		checkpoint.Reader
		p *process
	}
)

func (s faultySink) Fence(ctx context.Context, pipeline string, epoch int64, workers int) error {
	return s.p.call(func() error { return s.Sink.Fence(ctx, pipeline, epoch, workers) })
}

func (s faultySink) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	t, err := call1(s.p, func() (txnsink.Txn, error) { return s.Sink.Begin(ctx, id) })
	if err != nil {
		return nil, err
	}
	return faultyTxn{t, s.Sink, s.p}, nil
}

func (s faultySink) Commit(ctx context.Context, id txnsink.ID) error {
	return s.p.call(func() error { return s.Sink.Commit(ctx, id) })
}

func (s faultySink) Abort(ctx context.Context, id txnsink.ID) error {
	return s.p.call(func() error { return s.Sink.Abort(ctx, id) })
}

func (s faultySink) Pending(ctx context.Context, pipeline string) ([]txnsink.Prepared, error) {
	return call1(s.p, func() ([]txnsink.Prepared, error) { return s.Sink.Pending(ctx, pipeline) })
}

func (s faultySink) Notes(ctx context.Context, pipeline string) ([]txnsink.Note, error) {
	return call1(s.p, func() ([]txnsink.Note, error) { return s.Sink.Notes(ctx, pipeline) })
}

func (s faultySink) Table(ctx context.Context, name schema.Name) (*schema.Table, error) {
	return call1(s.p, func() (*schema.Table, error) { return s.Sink.Table(ctx, name) })
}

func (s faultySink) Define(ctx context.Context, d txnsink.Definition) error {
	return s.p.call(func() error { return s.Sink.Define(ctx, d) })
}

func (s faultySink) Defined(ctx context.Context, pipeline string) ([]txnsink.Defined, error) {
	return call1(s.p, func() ([]txnsink.Defined, error) { return s.Sink.Defined(ctx, pipeline) })
}

// unseenError ends a run.
type unseenError struct{ error }

func (unseenError) Permanent() bool { return true }

// Apply fails if a transaction is in doubt: on a real database its rows would not be seen (invariant 14).
func (t faultyTxn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	return t.p.call(func() error {
		pending, err := t.sink.Pending(ctx, t.ID().Pipeline)
		if err == nil && len(pending) > 0 && pending[0].ID.Epoch == t.ID().Epoch {
			err = unseenError{fmt.Errorf("%v is applied while %v is in doubt", t.ID(), pending[0].ID)}
		}
		if err != nil {
			return err
		}
		return t.Txn.Apply(ctx, batch)
	})
}

func (t faultyTxn) PreCommit(ctx context.Context) error {
	return t.p.call(func() error { return t.Txn.PreCommit(ctx) })
}

func (t faultyTxn) Commit(ctx context.Context, note []byte) error {
	return t.p.call(func() error { return t.Txn.Commit(ctx, note) })
}

func (t faultyTxn) Abort(ctx context.Context) error {
	return t.p.call(func() error { return t.Txn.Abort(ctx) })
}

func (s faultyStore) Acquire(ctx context.Context, pipeline string) (checkpoint.Checkpoint, error) {
	return call1(s.p, func() (checkpoint.Checkpoint, error) { return s.Store.Acquire(ctx, pipeline) })
}

func (s faultyStore) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	return s.p.call(func() error { return s.Store.Save(ctx, c, retain) })
}

func (l faultyLog) Append(ctx context.Context, id txnsink.ID, part int, body []byte) error {
	return l.p.call(func() error { return l.StatementLog.Append(ctx, id, part, body) })
}

func (l faultyLog) Read(ctx context.Context, id txnsink.ID, part int) ([]byte, error) {
	return call1(l.p, func() ([]byte, error) { return l.StatementLog.Read(ctx, id, part) })
}

func (l faultyLog) Prune(ctx context.Context, pipeline string, epoch, cp int64) error {
	return l.p.call(func() error { return l.StatementLog.Prune(ctx, pipeline, epoch, cp) })
}

func (s faultySource) Open(ctx context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	r, err := call1(s.p, func() (checkpoint.Reader, error) { return s.Source.Open(ctx, from) })
	if err != nil {
		return nil, err
	}
	return faultyReader{r, s.p}, nil
}

func (s faultySource) History(ctx context.Context, topic string, from int64) (records []debezium.Record, next int64, err error) {
	err = s.p.call(func() (err error) { records, next, err = s.Source.History(ctx, topic, from); return err })
	return records, next, err
}

func (r faultyReader) Ends(ctx context.Context) (map[debezium.Partition]int64, error) {
	return call1(r.p, func() (map[debezium.Partition]int64, error) { return r.Reader.Ends(ctx) })
}

func (r faultyReader) EndOf(ctx context.Context, topic string) (int64, error) {
	return call1(r.p, func() (int64, error) { return r.Reader.EndOf(ctx, topic) })
}

func (r faultyReader) Next(ctx context.Context) (debezium.Batch, error) {
	return call1(r.p, func() (debezium.Batch, error) { return r.Reader.Next(ctx) })
}
