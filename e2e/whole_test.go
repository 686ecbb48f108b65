//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	bankDatabase = "bank"
	bankKills    = 8 // of the replicator
	bankLooks    = 300
)

// bankSchema is money on accounts of three tables. Each transfer is one transaction, and notes in the row of pulse its number and a sum
// over all accounts in which each counts differently: no other state of the accounts has it.
const bankSchema = `CREATE DATABASE bank; USE bank; SET SESSION cte_max_recursion_depth = 10000;
CREATE TABLE checking (id INT PRIMARY KEY, balance BIGINT NOT NULL);
CREATE TABLE savings LIKE checking;
CREATE TABLE cash LIKE checking;
CREATE TABLE ledger (n BIGINT PRIMARY KEY, amount BIGINT NOT NULL);
CREATE TABLE pulse (id INT PRIMARY KEY, n BIGINT NOT NULL, weighted BIGINT NOT NULL);
INSERT INTO checking WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i, 1000 FROM n;
INSERT INTO savings SELECT 100 + id, 1000 FROM checking;
INSERT INTO cash SELECT 200 + id, 1000 FROM checking;
INSERT INTO pulse SELECT 1, 0, SUM(id * balance) FROM (SELECT * FROM checking UNION ALL SELECT * FROM savings UNION ALL SELECT * FROM cash) a;
`

// bankLook is what a reader of the target asks in one statement, which sees one state.
const bankLook = `SELECT p.n, p.weighted, (SELECT count(*) FROM ledger), (SELECT coalesce(max(n), 0) FROM ledger), a.total::bigint, a.weighted::bigint
	FROM pulse p, (SELECT sum(balance) AS total, sum(id::bigint * balance) AS weighted
		FROM (SELECT * FROM checking UNION ALL SELECT * FROM savings UNION ALL SELECT * FROM cash) b) a`

// bankState is its answer.
type bankState struct{ N, Noted, Entries, Last, Total, Weighted int64 }

// wrong says why the source was never in this state.
func (s bankState) wrong() error {
	switch {
	case s.Total != 300_000:
		return fmt.Errorf("%d is the sum of all accounts, and 300000 at the source: %+v", s.Total, s)
	case s.Weighted != s.Noted || s.Entries != s.N || s.Last != s.N:
		return fmt.Errorf("the accounts, the ledger and the number of the last transfer are of different times: %+v", s)
	}
	return nil
}

// TestReadersSeeOnlyStatesThatTheSourceHad replicates a bank twice: with the source's transactions kept whole, by a replicator that is
// killed again and again, and without. The topics have several partitions, and Connect is killed once. Readers of the one never see
// what the source did not have, and those of the other do, or this test could see nothing.
func TestReadersSeeOnlyStatesThatTheSourceHad(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 5))
	t.Logf("to use the same random moments and changes again: E2E_SEED=%d", seed)

	s := openStack(t, "whole", bankDatabase, "")
	s.connector = s.database
	s.lab(t, "mysql", "-e", bankSchema)
	c := &liveConnector{name: "plain", stack: s, options: map[string]string{
		"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1",
		"topic.creation.groups": "ordered", "topic.creation.ordered.include": s.connector + `|` + s.connector + `\.transaction`,
		"topic.creation.ordered.partitions": "1", "topic.creation.ordered.replication.factor": "1",
	}}
	s.startConnector(t, c.connectorFile(t))
	torn := *s
	torn.database, torn.pipeline = s.database+"_torn", s.pipeline+"-torn"
	s.createDatabase(t, s.database)
	s.createDatabase(t, torn.database)
	config := s.bankConfiguration(t, "preserve")
	d := s.start(t, config)
	other := torn.start(t, torn.bankConfiguration(t, "ignore"))

	changes := startBank(t, seed)
	s.awaitBank(t, d, 1)
	torn.awaitBank(t, other, 1)
	readers := [2]*reader{startReader(t, s), startReader(t, &torn)}
	for kill := range bankKills {
		if kill == bankKills/2 {
			s.lab(t, "kill", "connect")
			s.lab(t, "up", "connect")
			s.awaitBank(t, d, readers[0].last()+1)
		}
		after(t, d, time.Duration(random.IntN(2000))*time.Millisecond)
		if kill%2 == 1 {
			s.awaitPrepared(t, d, changes)
		}
		d.kill(t)
		d = s.start(t, config)
		s.awaitBank(t, d, readers[0].last()+1)
	}
	transfers := changes.wait(t)
	s.awaitBank(t, d, transfers)
	torn.awaitBank(t, other, transfers)
	d.stop(t)
	other.stop(t)
	whole, without := readers[0].wait(t), readers[1].wait(t)
	t.Logf("the source committed %d transfers; readers looked %d times at whole transactions and saw %d states, and %d times without", transfers, whole.looks, whole.states, without.looks)
	if whole.wrong != nil || whole.looks < bankLooks {
		t.Errorf("with preserve: %d looks, want %d at least; %v", whole.looks, bankLooks, whole.wrong)
	}
	if without.wrong == nil {
		t.Error("without preserve readers saw nothing that the source did not have: this test has no power")
	} else {
		t.Logf("without preserve a reader saw, for one: %v", without.wrong)
	}
	if left := s.prepared(t); len(left) > 0 {
		t.Errorf("transactions left in doubt: %q", left)
	}
}

func (s *stack) bankConfiguration(t *testing.T, transactions string) string {
	t.Helper()
	return writeFile(t, s.pipeline+".yaml", fmt.Appendf(nil, `pipeline: %s
source:
  brokers: [%s]
  topics: ['%s\.bank\..*']
  schema_changes: %s
  transactions: %s.transaction
target:
  url: %s
source_transactions: %s
checkpoint: {interval: 100ms, rows: 50}
http: {listen: ''}
`, s.pipeline, s.broker, s.connector, s.connector, s.connector, s.databaseURL(s.database), transactions))
}

// awaitBank waits until the target has transfer n.
func (s *stack) awaitBank(t *testing.T, d *daemon, n int64) {
	t.Helper()
	eventually(t, 5*time.Minute, fmt.Sprintf("transfer %d arrives in %s", n, s.database), func(ctx context.Context) error {
		d.running(t)
		c, err := s.target(ctx)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		got, err := collect[int64](ctx, c, "SELECT n FROM pulse")
		if err == nil && (len(got) != 1 || got[0] < n) {
			err = fmt.Errorf("the target's pulse is %d\n%s", got, d.tail())
		}
		return err
	})
}

// startBank makes transfers until it is waited for.
func startBank(t *testing.T, seed uint64) *load {
	t.Helper()
	l := &load{stop: make(chan struct{}), files: make(chan error, 1), ended: make(chan error, 1)}
	l.files <- nil // there are none
	ctx := t.Context()
	go func() { l.ended <- l.transfers(ctx, rand.New(rand.NewPCG(seed, 6))) }()
	return l
}

func (l *load) transfers(ctx context.Context, random *rand.Rand) error {
	c, err := startClient(ctx, "mysql")
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c.stdin, "USE bank;\n"); err != nil {
		return err
	}
	next := time.NewTicker(10 * time.Millisecond)
	defer next.Stop()
	tables := []string{"checking", "savings", "cash"}
	for {
		select {
		case <-l.stop:
			return c.end()
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		}
		l.n++
		text, amount := "START TRANSACTION; ", 1+random.IntN(90)
		for _, sign := range []string{"-", "+"} {
			table := random.IntN(len(tables))
			id := 100*table + 1 + random.IntN(100)
			text += fmt.Sprintf("UPDATE %s SET balance = balance %s %d WHERE id = %d; UPDATE pulse SET weighted = weighted %s %d; ",
				tables[table], sign, amount, id, sign, amount*id)
		}
		text += fmt.Sprintf("INSERT INTO ledger VALUES (%d, %d); UPDATE pulse SET n = %d; COMMIT;\n", l.n, amount, l.n)
		if _, err := io.WriteString(c.stdin, text); err != nil {
			return fmt.Errorf("transfers: %w", c.endedEarly(err))
		}
	}
}

// reader looks at a target again and again.
type reader struct {
	stop  chan struct{}
	ended chan looked
	at    chan int64 // the last transfer that was seen
}

// looked is what it saw.
type looked struct {
	looks, states int
	wrong         error // the first state that the source did not have
	err           error
}

func startReader(t *testing.T, s *stack) *reader {
	t.Helper()
	r := &reader{stop: make(chan struct{}), ended: make(chan looked, 1), at: make(chan int64, 1)}
	r.at <- 0
	ctx := t.Context()
	go func() { r.ended <- r.look(ctx, s) }()
	return r
}

func (r *reader) last() int64 {
	n := <-r.at
	r.at <- n
	return n
}

func (r *reader) wait(t *testing.T) looked {
	t.Helper()
	close(r.stop)
	l := <-r.ended
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l
}

func (r *reader) look(ctx context.Context, s *stack) (l looked) {
	c, err := s.target(ctx)
	if err != nil {
		return looked{err: err}
	}
	defer c.Close(ctx)
	next := time.NewTicker(3 * time.Millisecond)
	defer next.Stop()
	for {
		select {
		case <-r.stop:
			return l
		case <-next.C:
		}
		rows, err := c.Query(ctx, bankLook)
		if err != nil {
			return looked{err: err}
		}
		now, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[bankState])
		if err != nil {
			return looked{err: err}
		}
		l.looks++
		before := <-r.at
		r.at <- now.N
		if now.N != before {
			l.states++
		}
		wrong := now.wrong()
		if wrong == nil && now.N < before {
			wrong = fmt.Errorf("transfer %d was there, and then only %d", before, now.N)
		}
		if l.wrong == nil {
			l.wrong = wrong
		}
	}
}
