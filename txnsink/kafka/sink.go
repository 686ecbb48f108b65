package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

const (
	// DefaultTimeout is what Kafka's brokers allow unless they are set otherwise.
	DefaultTimeout = 15 * time.Minute

	dialTimeout   = 10 * time.Second
	requestWithin = 30 * time.Second // bounds the wait for one answer, with all tries
)

// Config is one pipeline's target.
type Config struct {
	URL string // kafka://user:password@host:9092,host:9092/topic
	// TLS is asked for each new connection how to encrypt it; what it returns is not changed. nil: none is encrypted.
	TLS      func() (*tls.Config, error)
	Pipeline string        // letters, digits, '_', '.', '-'
	SQL      bool          // messages are SQL of MySQL's, all in one partition, in place of JSON
	Timeout  time.Duration // after which the brokers end a transaction, prepared or not; 0: DefaultTimeout
	Log      *slog.Logger  // nil: silent
}

// Sink is the transactions on one topic and what its control topic knows, for one pipeline. It is safe for concurrent use.
type Sink struct {
	config  Config
	address address
	admin   *kgo.Client
	journal *journal

	defining sync.Mutex // one definition at a time, or a fence

	mu      sync.Mutex
	topics  topics
	epoch   int64 // that Fence was given; 0: none
	workers map[int]*worker
	held    map[txnsink.ID]*slot // that are prepared, and in doubt as far as is known
	leader  *producer            // nil: none, or it has failed
	closed  bool
}

var _ txnsink.Sink = (*Sink)(nil)

// worker is one worker in one epoch. A new epoch has new ones. It is guarded by Sink.mu.
type worker struct {
	last  witness // of its last transaction that is known to be committed
	slots [slotsOfAWorker]*slot
	open  *txn
}

// slot is one of a worker's transactional ids. Whoever has its transaction owns its producer.
type slot struct {
	number   int
	worker   int
	busy     bool      // its transaction is open or in doubt
	producer *producer // nil: none yet, or it has failed
}

// Open describes the target. It asks the brokers for nothing yet but whether they can be reached.
func Open(ctx context.Context, c Config) (*Sink, error) {
	if !pipelineName.MatchString(c.Pipeline) {
		return nil, permanent("the pipeline's name %q must consist of letters, digits, '_', '.' and '-': it becomes a part of transactional ids", c.Pipeline)
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a, err := parseURL(c.URL)
	if err != nil {
		return nil, fmt.Errorf("the target's URL %w", err)
	}
	s := &Sink{config: c, address: a, workers: map[int]*worker{}, held: map[txnsink.ID]*slot{}}
	if s.admin, err = s.newAdmin(); err != nil {
		return nil, fmt.Errorf("target: %w", plainError(err))
	}
	s.journal = newJournal(s.admin, a.topic+controlSuffix)
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	if err := s.admin.Ping(ctx); err != nil {
		s.admin.Close()
		return nil, fmt.Errorf("connect to the target's brokers: %w", plainError(err))
	}
	return s, nil
}

// Dialect returns that of a log.
func (s *Sink) Dialect() sqlgen.Dialect {
	if s.config.SQL {
		s.mu.Lock()
		defer s.mu.Unlock()
		most := s.topics.maxMessage
		if most == 0 { // no topic was looked at yet
			most = defaultMaxMessage
		}
		return sqlgen.SQLText{MySQL: sqlgen.MySQL{MaxPacket: int(most) - overhead}}
	}
	return sqlgen.JSON{}
}

// format names the messages' format, for the control topic.
func (s *Sink) format() string {
	if s.config.SQL {
		return "sql"
	}
	return "json"
}

// Begin opens a transaction. Fence must have been given the ID's epoch. Nothing is sent yet.
func (s *Sink) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	t := &txn{sink: s, id: id}
	if err := s.reserve(t); err != nil {
		return nil, fmt.Errorf("begin %v: %w", id, err)
	}
	var err error
	if t.slot.producer == nil {
		t.slot.producer, err = s.newFenced(ctx, slotName(id.Worker, t.slot.number), id.Epoch)
	}
	if err == nil {
		err = t.slot.producer.begin()
	}
	if err != nil {
		t.fail()
		s.release(t, false)
		return nil, fmt.Errorf("begin %v: %w", id, plainUnlessFenced(err))
	}
	return t, nil
}

// plainUnlessFenced keeps the errors that a caller branches on.
func plainUnlessFenced(err error) error {
	if errors.Is(err, txnsink.ErrFenced) {
		return err
	}
	return plainError(err)
}

// reserve makes t its worker's open transaction, in a slot of the worker's.
func (s *Sink) reserve(t *txn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workers[t.id.Worker]
	switch {
	case s.closed:
		return errClosed
	case t.id.Pipeline != s.config.Pipeline:
		return fmt.Errorf("this sink is of pipeline %s", s.config.Pipeline)
	case w == nil || t.id.Epoch != s.epoch:
		return fmt.Errorf("worker %d of epoch %d was not fenced by this process", t.id.Worker, t.id.Epoch)
	case w.open != nil:
		return fmt.Errorf("transaction %v of the same worker is open", w.open.id)
	}
	for _, slot := range w.slots {
		if !slot.busy {
			slot.busy = true
			w.open, t.worker, t.slot = t, w, slot
			return nil
		}
	}
	return fmt.Errorf("%d transactions of worker %d are in doubt: %w", slotsOfAWorker, t.id.Worker, txnsink.ErrBusy)
}

// release ends t. If it is prepared, its slot is held for its decision.
func (s *Sink) release(t *txn, prepared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.worker.open = nil
	if prepared {
		s.held[t.id] = t.slot
		return
	}
	t.slot.busy = false
}

// inDoubt says whether a transaction of the worker's is prepared and not decided.
func (s *Sink) inDoubt(worker int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.held {
		if id.Worker == worker {
			return true
		}
	}
	return false
}

// last returns the witness of the worker's last committed transaction.
func (s *Sink) last(w *worker) witness {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.last
}

// advance notes that a transaction is committed.
func (s *Sink) advance(id txnsink.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workers[id.Worker]; w != nil && id.Epoch == s.epoch && w.last.Checkpoint <= id.Checkpoint {
		w.last = witness{Epoch: id.Epoch, Checkpoint: id.Checkpoint}
	}
}

// Pending lists the prepared transactions. Their age is by the brokers' clock and this machine's.
func (s *Sink) Pending(ctx context.Context, pipeline string) ([]txnsink.Prepared, error) {
	var out []txnsink.Prepared
	err := s.journal.view(ctx, func(st *state) error {
		list, err := st.doubts(pipeline)
		for _, d := range list {
			if d.prepared {
				out = append(out, txnsink.Prepared{ID: d.id, AgeSeconds: max(0, time.Since(d.since).Seconds())})
			}
		}
		return err
	})
	return out, err
}

// Notes returns the witness of every worker that the pipeline has ever had.
func (s *Sink) Notes(ctx context.Context, pipeline string) ([]txnsink.Note, error) {
	var out []txnsink.Note
	err := s.journal.view(ctx, func(st *state) error {
		f := st.fences[pipeline]
		for i := range f.Workers {
			w := st.witness(pipeline, i)
			out = append(out, txnsink.Note{Worker: i, Epoch: f.Epoch, Checkpoint: w.Checkpoint, Text: w.Note})
		}
		return nil
	})
	return out, err
}

// Table returns the shape that the control topic has; nil: none.
func (s *Sink) Table(ctx context.Context, name schema.Name) (*schema.Table, error) {
	var out *schema.Table
	err := s.journal.view(ctx, func(st *state) error {
		if t, ok := st.tables[name]; ok {
			out = &t
		}
		return nil
	})
	return out, err
}

// Close closes all connections. What is open stays so until its transactional id is taken over, or its time is over.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	gone := s.takeProducers()
	s.mu.Unlock()
	for _, p := range gone {
		p.close()
	}
	s.admin.Close()
	return nil
}

// takeProducers takes away the producers that no open transaction owns. It is called with s.mu held.
func (s *Sink) takeProducers() []*producer {
	var out []*producer
	take := func(p **producer) {
		if *p != nil {
			out = append(out, *p)
			*p = nil
		}
	}
	take(&s.leader)
	for _, w := range s.workers {
		for _, slot := range w.slots {
			if w.open == nil || w.open.slot != slot {
				take(&slot.producer)
			}
		}
	}
	clear(s.held)
	return out
}
