package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// breaker is a TCP proxy to a database that breaks once, when a client's message holds trigger: either before the
// message reaches the server, or after it did and before the answer comes back. From then on it refuses everything
// until it is mended.
type breaker struct {
	trigger []byte
	before  bool
	target  string
	resume  chan struct{} // nil: connections break; else they stand still from then on until it is closed

	listener net.Listener
	mu       sync.Mutex
	broken   bool
	fired    chan struct{}
	conns    map[net.Conn]bool
	wait     sync.WaitGroup
}

// newBreaker listens before the server that databaseURL names, and returns the URL that goes through it.
func newBreaker(t *testing.T, databaseURL, trigger string, before bool) (*breaker, string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{trigger: []byte(trigger), before: before, target: u.Host, listener: l, fired: make(chan struct{}), conns: map[net.Conn]bool{}}
	b.wait.Go(b.accept)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		b.cut()
		b.wait.Wait()
	})
	u.Host = l.Addr().String()
	return b, u.String()
}

// stall makes connections stand still at the trigger in place of breaking, until the function that it returns is called. It is called
// before any connection comes.
func (b *breaker) stall() (resume func()) {
	b.resume = make(chan struct{})
	return sync.OnceFunc(func() {
		b.mend()
		close(b.resume)
	})
}

func (b *breaker) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", b.target)
		if err != nil || !b.keep(client, server) {
			b.refuse(client, server)
			continue
		}
		answer := new(atomic.Bool)
		b.wait.Go(func() { b.pipe(server, client, answer, true) })
		b.wait.Go(func() { b.pipe(client, server, answer, false) })
	}
}

// refuse closes the connections that there are.
func (b *breaker) refuse(conns ...net.Conn) {
	for _, c := range conns {
		if c != nil && c.Close() != nil {
			return // closed by its other side
		}
	}
}

func (b *breaker) keep(conns ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return false
	}
	for _, c := range conns {
		b.conns[c] = true
	}
	return true
}

// pipe copies until the trigger or an error. The messages of interest fit one read: they are short and sent alone. answer says that the
// connection's next one is what the trigger's message is answered.
func (b *breaker) pipe(dst, src net.Conn, answer *atomic.Bool, client bool) {
	defer b.refuse(dst) // as its peer is gone
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		hit := client && b.triggers(buf[:n])
		if hit && !b.before {
			answer.Store(true) // before the server can answer
		}
		if hit && b.before || !client && answer.CompareAndSwap(true, false) {
			b.fire()
			if b.resume == nil {
				return
			}
			<-b.resume
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (b *breaker) triggers(message []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Contains(message, b.trigger)
}

func (b *breaker) fire() {
	b.mu.Lock()
	first := !b.broken
	b.broken = true
	b.mu.Unlock()
	if !first {
		return
	}
	if b.resume == nil {
		b.cut()
	}
	close(b.fired)
}

func (b *breaker) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			continue // the other side closed it: as good
		}
		delete(b.conns, c)
	}
}

func (b *breaker) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken, b.trigger = false, []byte("\x00never\x00")
}

// TestCaseUnknownCommit runs case 58: the outcome of COMMIT PREPARED is not known.
func TestCaseUnknownCommit(t *testing.T) {
	t.Parallel()
	all := caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}}
	none := caseResult{Query: "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()", Rows: [][]*string{{ptr("0")}}}

	t.Run("the answer is lost", func(t *testing.T) {
		t.Parallel()
		r := newCaseRun(t, loadCase(t, "58"))
		direct := r.url
		b, through := newBreaker(t, direct, "COMMIT PREPARED", false)
		r.produce(t, r.records(t)...)
		go func() {
			<-b.fired
			b.mend()
		}()
		r.target = through
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		r.expect(t, all)
		r.expect(t, none)
	})

	t.Run("rolled back by hand", func(t *testing.T) {
		t.Parallel()
		r := newCaseRun(t, loadCase(t, "58"))
		b, through := newBreaker(t, r.url, "COMMIT PREPARED", true)
		r.produce(t, r.records(t)...)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-b.fired
			cancel() // the process goes away while its transaction is in doubt
		}()
		r.target = through
		r.runContext(ctx, t) // the stop comes before the failure is seen, or after it: exit code 1 or 0
		prepared := r.exec(t, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
		if len(prepared) != 1 || !strings.HasPrefix(*prepared[0][0], "replicator:case-") {
			t.Fatalf("prepared: %s", rowsText(prepared))
		}
		r.exec(t, "ROLLBACK PREPARED '"+*prepared[0][0]+"'")
		r.target = r.url
		for range 2 {
			code, stderr := r.run(t)
			r.stopped(t, code, stderr, "transaction lost", "run --from")
		}
		r.expect(t, caseResult{Query: "SELECT count(*) FROM pay", Rows: [][]*string{{ptr("0")}}})
	})

	t.Run("the process dies", func(t *testing.T) {
		t.Parallel()
		r := newCaseRun(t, loadCase(t, "58"))
		b, through := newBreaker(t, r.url, "COMMIT PREPARED", true)
		r.produce(t, r.records(t)...)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-b.fired
			cancel()
		}()
		r.target = through
		r.runContext(ctx, t) // the stop comes before the failure is seen, or after it: exit code 1 or 0
		r.expect(t, caseResult{Query: "SELECT count(*) FROM pay", Rows: [][]*string{{ptr("0")}}})
		r.target = r.url
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		r.expect(t, all)
		r.expect(t, none)
	})
}

func ptr(s string) *string { return &s }
