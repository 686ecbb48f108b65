package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"replicator/txnsink"
)

// sessionLockSeconds bounds the wait for the lock that a worker's last session holds: the server ends a session a moment after
// it was closed.
const sessionLockSeconds = 5

// session is a worker's connection.
type session struct {
	sink *Sink
	conn *sql.Conn
	id   int64 // the server's

	cautions txnsink.Cautions
}

// openSession opens the session of the ID's worker in its epoch. A process that was fenced meanwhile gets none: the lock is
// taken before the epoch is read, so that either it is found to be too old, or the fence finds the lock.
func (s *Sink) openSession(ctx context.Context, id txnsink.ID) (*session, error) {
	conn, err := s.sessions.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the target: %w", plain(err))
	}
	c := &session{sink: s, conn: conn}
	if err := s.enter(ctx, c, id); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (s *Sink) enter(ctx context.Context, c *session, id txnsink.ID) error {
	got, err := s.lock(ctx, c, id)
	if err != nil {
		return plain(err)
	}
	epoch, err := witnessEpoch(ctx, c.conn, id)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return plain(err)
	case err != nil || epoch < id.Epoch:
		return fmt.Errorf("the witness of worker %d is not at epoch %d: somebody has changed replicator_witness", id.Worker, id.Epoch)
	case epoch > id.Epoch:
		return fmt.Errorf("%w: epoch %d is at work", txnsink.ErrFenced, epoch)
	case !got:
		return fmt.Errorf("other sessions are at work for worker %d (they hold the locks %s and the next): %w", id.Worker,
			lockName(s.database, id.Pipeline, id.Worker, 0), txnsink.ErrBusy)
	}
	return nil
}

// lock takes one of the locks of the worker's sessions.
func (s *Sink) lock(ctx context.Context, c *session, id txnsink.ID) (bool, error) {
	for wait := 0; wait <= sessionLockSeconds; wait++ {
		for n := range sessionsOfAWorker {
			var got sql.NullInt64
			const query = "SELECT GET_LOCK(?, ?), CONNECTION_ID()"
			err := c.conn.QueryRowContext(ctx, query, lockName(s.database, id.Pipeline, id.Worker, n), min(wait, 1)).Scan(&got, &c.id)
			if err != nil {
				return false, err
			}
			if got.Int64 == 1 {
				s.mu.Lock()
				s.live[c.id] = true
				s.mu.Unlock()
				return true, nil
			}
		}
	}
	return false, nil
}

// queryer is a pool or a session.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func witnessEpoch(ctx context.Context, q queryer, id txnsink.ID) (epoch int64, err error) {
	const query = `SELECT epoch FROM replicator_witness WHERE pipeline = ? AND worker = ?`
	err = q.QueryRowContext(ctx, query, id.Pipeline, id.Worker).Scan(&epoch)
	return epoch, err
}

// close closes the connection. Whether the server hears of it does not matter: it ends a session whose connection is
// gone, and rolls back what is open and not prepared.
func (c *session) close() {
	c.sink.mu.Lock()
	delete(c.sink.live, c.id)
	c.sink.mu.Unlock()
	if err := c.conn.Close(); err != nil {
		return
	}
}

// foreign returns those of the sessions that are not this sink's.
func (s *Sink) foreign(sessions []int64) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(sessions), func(id int64) bool { return s.live[id] })
}

func (c *session) exec(ctx context.Context, sql string) error {
	_, err := c.conn.ExecContext(ctx, sql)
	return err
}

// explain says that a broken session of a worker was ended by a later epoch, if the witness says so.
func (s *Sink) explain(ctx context.Context, id txnsink.ID, err error) error {
	epoch, lookErr := witnessEpoch(ctx, s.control, id)
	if lookErr != nil || epoch <= id.Epoch {
		return err // that the server cannot be asked is told by err already
	}
	return fmt.Errorf("%w: epoch %d is at work (%w)", txnsink.ErrFenced, epoch, err)
}
