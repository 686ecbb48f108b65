package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
)

// A worker's session that somebody ended, with no later epoch at work, is a failure that passes.
func TestEndedSessionIsNoFence(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := fenced(t, url)
		tx := begun(t, s, 1, [2]int64{1, 10})
		if n, err := s.killWorkers(t.Context(), []int{0}); n != 1 || err != nil {
			t.Fatalf("killed %d sessions: %v", n, err)
		}
		if err := tx.PreCommit(t.Context()); err == nil || txnsink.Permanent(err) {
			t.Errorf("prepare on an ended session: %v", err)
		}
		if err := tx.Abort(t.Context()); err != nil {
			t.Error(err)
		}
		if err := begun(t, s, 1, [2]int64{1, 11}).Commit(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		wantRows(t, url, "1|11")
	})
}

// On MariaDB a prepared transaction belongs to the session that prepared it while that lives, which is for hours when its process is
// gone without a word.
func TestTransactionOfASilentSessionIsDecided(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		for name, decide := range map[string]func(*Sink, context.Context, txnsink.ID) error{"commit": (*Sink).Commit, "abort": (*Sink).Abort} {
			url := newDatabase(t, server)
			s := fenced(t, url)
			tx := begun(t, s, 1, [2]int64{1, 10})
			if err := tx.end(t.Context(), nil, "XA PREPARE "+tx.xid().String()); err != nil { // and the session stays open
				t.Fatal(err)
			}
			next := open(t, Config{URL: url, Pipeline: s.config.Pipeline})
			if err := decide(next, t.Context(), tx.ID()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			fence(t, next, 2)
			if err := begun(t, next, 2, [2]int64{2, 20}).Commit(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			tx.session.close()
			if name == "commit" {
				wantRows(t, url, "1|10", "2|20")
			} else {
				wantRows(t, url, "2|20")
			}
		}
	})
}

// TestTransactionsOfOthersAreLeftAlone: one prepared by hand, by another pipeline, and by a pipeline of the same name in another
// database are there after many recoveries.
func TestTransactionsOfOthersAreLeftAlone(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url, elsewhere := newDatabase(t, server), newDatabase(t, server)
		byHand := xid{"billing-app", server.URL("")}
		byHand.bqual = byHand.bqual[max(0, len(byHand.bqual)-40):]
		alike := xid{gtridPrefix + "p", ":1:1:0"} // as ours, but for the database
		for i, x := range []xid{byHand, alike} {
			create := fmt.Sprintf("CREATE TABLE IF NOT EXISTS bill%d (id int PRIMARY KEY) ENGINE=InnoDB", i)
			execute(t, url, create, "XA START "+x.String(), fmt.Sprintf("INSERT INTO bill%d VALUES (500)", i), "XA END "+x.String(), "XA PREPARE "+x.String())
		}
		theirs := prepared(t, fence(t, open(t, Config{URL: elsewhere, Pipeline: "p"}), 1), 1, [2]int64{1, 1})
		longer := prepared(t, fence(t, open(t, Config{URL: elsewhere, Pipeline: "pp"}), 1), 1, [2]int64{2, 2})

		s := open(t, Config{URL: url, Pipeline: "p"})
		for epoch := int64(1); epoch <= 20; epoch++ {
			for _, id := range pendingIDs(t, s) {
				t.Errorf("epoch %d finds %v", epoch, id)
			}
			if err := s.Commit(t.Context(), theirs); epoch == 1 && !errors.Is(err, txnsink.ErrLost) {
				t.Errorf("commit of what only another database has: %v", err)
			}
			if err := s.Abort(t.Context(), theirs); err != nil {
				t.Error(err)
			}
			fence(t, s, epoch)
			if err := begun(t, s, epoch, [2]int64{epoch, 1}).Commit(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		listed, err := s.recover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		other := databaseHash(elsewhere[strings.LastIndexByte(elsewhere, '/')+1:])
		for _, want := range []xid{byHand, alike, xidOf(theirs, other), xidOf(longer, other)} {
			if !slices.Contains(listed, want) {
				t.Errorf("%q is gone; listed are %q", want, listed)
			}
		}
		for _, x := range []xid{byHand, alike} {
			execute(t, url, "XA ROLLBACK "+x.String())
		}
	})
}

// A backup's lock stops the second phase, which passes, and undoes a prepare under it.
func TestGlobalReadLockPasses(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		own := ownServer(t, server.Kind(), nil) // the lock is the whole server's
		url := newDatabase(t, own)
		s := fence(t, open(t, Config{URL: url, Pipeline: "p", LockTimeout: time.Second}), 1)
		id := prepared(t, s, 1, [2]int64{1, 10})
		backup, err := pool(t, url).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := backup.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK"); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), id); !errors.Is(err, txnsink.ErrBusy) {
			t.Errorf("commit under the lock: %v", err)
		}
		if _, err := backup.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		tx := begun(t, s, 2, [2]int64{2, 20})
		if err := tx.witness(t.Context(), nil); err != nil { // which the lock would stop before the prepare
			t.Fatal(err)
		}
		if err := tx.session.exec(t.Context(), "XA END "+tx.xid().String()); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK"); err != nil {
			t.Fatal(err)
		}
		tx.ending = true
		err = tx.session.exec(t.Context(), "XA PREPARE "+tx.xid().String())
		if number(err) != errLockWait {
			t.Errorf("prepare under the lock: %v", err)
		}
		tx.failed = err
		if err := tx.Abort(t.Context()); err != nil {
			t.Error(err)
		}
		if err := backup.Close(); err != nil { // returned to the pool, with the lock
			t.Fatal(err)
		}
		if _, err := pool(t, url).ExecContext(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	})
}

// DDL behind somebody's open transaction fails after a bounded wait, and does not wait behind our own idle session.
func TestDefineWaitsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := fence(t, open(t, Config{URL: url, Pipeline: "ddl", LockTimeout: time.Second}), 1)
		if err := begun(t, s, 1, [2]int64{1, 10}).Commit(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		reader, err := pool(t, url).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.ExecContext(t.Context(), "SELECT * FROM pay"); err != nil {
			t.Fatal(err)
		}
		ddl := txnsink.Definition{Pipeline: "ddl", Epoch: 1, DDL: []string{"ALTER TABLE pay ADD COLUMN cur varchar(3)"}}
		if err := s.Define(t.Context(), ddl); err == nil || txnsink.Permanent(err) || !strings.Contains(err.Error(), "another session") {
			t.Errorf("behind a reader: %v", err)
		}
		if err := reader.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := s.Define(t.Context(), ddl); err != nil {
			t.Error(err)
		}
		wantRows(t, url, "1|10|NULL")
	})
}

// A row that another session holds, and a deadlock, fail the transaction and leave nothing of it.
func TestLockWaitAndDeadlockFailTheTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := fence(t, open(t, Config{URL: url, Pipeline: pipelineOf(url), LockTimeout: time.Second}), 1)
		if err := begun(t, s, 1, [2]int64{1, 10}, [2]int64{2, 20}).Commit(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		other, err := pool(t, url).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.ExecContext(t.Context(), "UPDATE pay SET amt = 1 WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		tx := begun(t, s, 2, [2]int64{2, 21})
		if err := tx.Apply(t.Context(), payments(t, s, [2]int64{1, 11})); err == nil || txnsink.Permanent(err) {
			t.Errorf("a locked row: %v", err)
		}
		if err := tx.PreCommit(t.Context()); err == nil {
			t.Error("prepared without a statement that failed")
		}
		if err := tx.Abort(t.Context()); err != nil {
			t.Error(err)
		}

		tx = begun(t, s, 2, [2]int64{2, 22})
		waits := make(chan error, 1)
		go func() {
			_, err := other.ExecContext(context.WithoutCancel(t.Context()), "UPDATE pay SET amt = 2 WHERE id = 2")
			waits <- err
		}()
		err = tx.Apply(t.Context(), payments(t, s, [2]int64{1, 12})) // one of the two is the victim, or waits in vain
		otherErr := <-waits
		if err == nil && otherErr == nil {
			t.Error("neither failed")
		}
		if err != nil {
			if txnsink.Permanent(err) {
				t.Errorf("a deadlock: %v", err)
			}
			if err := tx.PreCommit(t.Context()); err == nil {
				t.Error("prepared after a deadlock")
			}
		}
		if err := tx.Abort(t.Context()); err != nil {
			t.Error(err)
		}
		if err := other.Rollback(); err != nil {
			t.Error(err)
		}
		if err := begun(t, s, 2, [2]int64{3, 30}).Commit(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		wantRows(t, url, "1|10", "2|20", "3|30")
	})
}

// MariaDB may answer that a transaction is decided and keep it, when its session has just ended: see decide.go.
func TestAnswerIsComparedWithTheWitness(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := fenced(t, url)
		id := prepared(t, s, 1, [2]int64{1, 10})
		for _, commit := range []bool{true, false} { // as if either had been answered
			if err := s.verify(t.Context(), id, commit); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "restart the server") {
				t.Errorf("commit %v: got %v", commit, err)
			}
		}
		if err := s.Commit(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := s.verify(t.Context(), id, true); err != nil {
			t.Error(err)
		}
		id = prepared(t, s, 2, [2]int64{2, 20})
		if err := s.Abort(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := s.verify(t.Context(), id, false); err != nil {
			t.Error(err)
		}
	})
}

// TestTransactionOfAProcessThatJustDied is decided by the next one at once, over and over.
func TestTransactionOfAProcessThatJustDied(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		for i := range 8 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				url := newDatabase(t, server)
				var want []string
				for n := int64(1); n <= 8; n++ {
					dead, err := Open(t.Context(), Config{URL: url, Pipeline: "p"})
					if err != nil {
						t.Fatal(err)
					}
					id := prepared(t, fence(t, dead, n), n, [2]int64{n, n})
					if err := dead.Close(); err != nil {
						t.Fatal(err)
					}
					next := open(t, Config{URL: url, Pipeline: "p"})
					if n%2 == 0 {
						err = next.Abort(t.Context(), id)
					} else {
						err = next.Commit(t.Context(), id)
						want = append(want, fmt.Sprintf("%d|%d", n, n))
					}
					if err != nil {
						t.Fatal(err)
					}
					wantRows(t, url, want...)
				}
			})
		}
	})
}
