//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	minKills   = 16 // of the replicator
	minInDoubt = 3  // of them with a transaction prepared and not decided
	maxKills   = 60 // when the moment between prepare and commit is missed that often, something else is wrong
)

// TestCrashesLoseAndRepeatNothing kills the replicator again and again while the source changes, each second time as soon as
// a transaction is prepared; kills PostgreSQL and the broker once each, which the replicator has to survive; and then
// compares every table with the source.
func TestCrashesLoseAndRepeatNothing(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("to use the same random moments and changes again: E2E_SEED=%d", seed)

	s := openStack(t, "e2e", "shop", "plain")
	s.createDatabase(t, s.database)
	s.mysqlFile(t, "lab/source/01-schema.sql")
	s.lab(t, "mysql", s.source, "-e", workloadSchema)
	s.startConnector(t, "lab/connectors/plain.json")
	config := s.writeConfiguration(t)

	changes := startLoad(t, seed, s.source, "lab/source/02-changes.sql")
	d := s.start(t, config)
	kills, inDoubt := 0, 0
	for ; kills < minKills || inDoubt < minInDoubt; kills++ {
		if kills == maxKills {
			t.Fatalf("%d kills, and only %d of them left a transaction in doubt; want %d", kills, inDoubt, minInDoubt)
		}
		switch kills {
		case minKills / 3:
			s.crashServer(t, d, "postgres")
		case 2 * minKills / 3:
			s.awaitSnapshot(t)
			s.crashServer(t, d, "kafka")
		}
		if kills%2 == 0 {
			after(t, d, time.Duration(random.IntN(2500))*time.Millisecond)
		} else {
			after(t, d, time.Duration(200+random.IntN(1000))*time.Millisecond)
			s.awaitPrepared(t, d, changes)
		}
		d.kill(t)
		if len(s.prepared(t)) > 0 {
			inDoubt++
		}
		d = s.start(t, config)
	}
	transactions := changes.wait(t)
	t.Logf("the replicator was killed %d times, %d of them with a transaction in doubt; the source committed %d transactions", kills, inDoubt, transactions)

	s.awaitPulse(t, d, transactions)
	eventually(t, time.Minute, "the target equals the source", func(context.Context) error {
		d.running(t)
		if report, err := s.compare(t); err != nil {
			return fmt.Errorf("%w\n%s", err, report)
		}
		return nil
	})
	d.stop(t)
	// What the topics still hold must change nothing.
	s.start(t, config, "--until-caught-up").wait(t, time.Minute)
	report, err := s.compare(t)
	t.Logf("source and target, value by value:\n%s", report)
	if err != nil {
		t.Error(err)
	}
	if left := s.prepared(t); len(left) > 0 {
		t.Errorf("transactions left in doubt: got %q, want none", left)
	}
}

// crashServer kills a server under a replicator that is at work, starts it again, and waits for changes made after that.
func (s *stack) crashServer(t *testing.T, d *daemon, name string) {
	t.Helper()
	s.awaitPulse(t, d, s.sourcePulse(t)+1)
	s.lab(t, "kill", name)
	s.lab(t, "up", name)
	s.awaitPulse(t, d, s.sourcePulse(t)+1)
	t.Logf("%s was killed and came back; the replicator went on by itself", name)
}

// sourcePulse is how many transactions of the workload the source has committed.
func (s *stack) sourcePulse(t *testing.T) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s.mysqlRows(t, "SELECT n FROM pulse")[0][0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitPulse waits until the target has the workload's transaction n.
func (s *stack) awaitPulse(t *testing.T, d *daemon, n int64) {
	t.Helper()
	eventually(t, 3*time.Minute, fmt.Sprintf("transaction %d of the source arrives", n), func(ctx context.Context) error {
		d.running(t)
		c, err := s.target(ctx)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		got, err := collect[int64](ctx, c, "SELECT n FROM public.pulse")
		if err != nil {
			return err
		}
		if len(got) != 1 || got[0] < n {
			return errors.Join(fmt.Errorf("the target's pulse is %d", got), s.connectorRuns(ctx), errors.New(d.tail()))
		}
		return nil
	})
}

const preparedQuery = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"

// prepared is the target's prepared transactions.
func (s *stack) prepared(t *testing.T) []string {
	t.Helper()
	var out []string
	s.onTarget(t, s.databaseURL(s.database), func(ctx context.Context, c *pgx.Conn) error {
		var err error
		out, err = collect[string](ctx, c, preparedQuery)
		return err
	})
	return out
}

// awaitPrepared returns as soon as a transaction is seen prepared.
func (s *stack) awaitPrepared(t *testing.T, d *daemon, changes *load) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := s.target(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for {
		d.running(t)
		changes.running(t)
		ids, err := collect[string](ctx, c, preparedQuery)
		if err != nil {
			t.Fatalf("no transaction is prepared: %v\n%s", err, d.tail())
		}
		if len(ids) > 0 {
			return
		}
	}
}

// compare compares all tables. Its error is a difference, or something that cannot be read yet.
func (s *stack) compare(t *testing.T) (string, error) {
	t.Helper()
	return s.compareWith(t, s.tables(t), func(table Table) []Row { return s.sourceRows(t, table) })
}

// compareWith is compare for these tables and the source's rows of them.
func (s *stack) compareWith(t *testing.T, tables []Table, source func(Table) []Row) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := s.target(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	return compareTables(tables, source, func(table Table) ([]Row, error) { return s.postgresRows(ctx, c, table) })
}

// compareTables compares these tables' rows in the source and in a target. Its error is a difference, or something that cannot be read yet.
func compareTables(tables []Table, source func(Table) []Row, target func(Table) ([]Row, error)) (string, error) {
	var all []Difference
	var problems []error
	for _, table := range tables {
		rows, err := target(table)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		d, err := Compare(table, source(table), rows)
		if err != nil {
			problems = append(problems, err)
		}
		if !d.Equal() {
			problems = append(problems, fmt.Errorf("table %s differs: %d rows lost, %d repeated, %d changed", d.Table, d.Lost, d.Repeated, d.Changed))
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		problems = append(problems, errors.New("nothing was compared"))
	}
	var report strings.Builder
	if err := Report(&report, all); err != nil {
		problems = append(problems, err)
	}
	return report.String(), errors.Join(problems...)
}

// after lets a running replicator run for a while.
func after(t *testing.T, d *daemon, pause time.Duration) {
	t.Helper()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ended:
		d.running(t)
	}
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	v := os.Getenv("E2E_SEED")
	if v == "" {
		return rand.Uint64() % 1e9
	}
	seed, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("E2E_SEED: %v", err)
	}
	return seed
}
