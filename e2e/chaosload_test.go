//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the source's sessions
)

// pulseLoad is changes to the source that go on whatever happens to it. How many there were is what the source says.
type pulseLoad struct {
	stop  chan struct{}
	ended chan int64
	last  atomic.Pointer[error] // of the last transaction that failed
}

// startPulse plays random transactions to a database of the source, a hundred a second, until wait. Each raises the pulse by one and writes its number
// into the journal.
func startPulse(t *testing.T, seed uint64, dsn, database string) *pulseLoad {
	t.Helper()
	db, err := sql.Open("mysql", dsn+database+"?multiStatements=true&timeout=5s&readTimeout=60s")
	if err != nil {
		t.Fatal(err)
	}
	l := &pulseLoad{stop: make(chan struct{}), ended: make(chan int64, 1)}
	ctx := t.Context()
	go func() {
		l.play(ctx, db, rand.New(rand.NewPCG(seed, 9)))
		var n int64
		if err := errors.Join(db.QueryRowContext(ctx, "SELECT n FROM pulse").Scan(&n), db.Close()); err != nil {
			l.last.Store(&err)
		}
		l.ended <- n
	}()
	return l
}

func (l *pulseLoad) play(ctx context.Context, db *sql.DB, random *rand.Rand) {
	next := time.NewTicker(10 * time.Millisecond)
	defer next.Stop()
	for n := int64(1); ; n++ {
		select {
		case <-l.stop:
			return
		case <-ctx.Done():
			return
		case <-next.C:
		}
		statements := append(change(random, n), "UPDATE pulse SET n = n + 1", fmt.Sprintf("INSERT INTO journal (n, note) SELECT n, 'change %d' FROM pulse", n))
		if _, err := db.ExecContext(ctx, "START TRANSACTION; "+strings.Join(statements, "; ")+"; COMMIT"); err != nil {
			l.last.Store(&err)
			db.SetMaxIdleConns(0) // a session in the middle of a transaction is closed, not used again
			db.SetMaxIdleConns(1)
		}
	}
}

// wait ends the load and returns how many transactions the source has committed.
func (l *pulseLoad) wait(t *testing.T) int64 {
	t.Helper()
	close(l.stop)
	n := <-l.ended
	if n == 0 {
		t.Fatalf("the source has no pulse: %v", l.lastError())
	}
	return n
}

func (l *pulseLoad) lastError() error {
	if err := l.last.Load(); err != nil {
		return *err
	}
	return nil
}

// pulseOf is how many transactions the source has committed.
func pulseOf(ctx context.Context, dsn, database string) (n int64, err error) {
	db, err := sql.Open("mysql", dsn+database+"?timeout=5s&readTimeout=5s")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, "SELECT n FROM pulse").Scan(&n)
	return n, err
}
