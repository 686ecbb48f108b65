//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const connectKills = 2

// TestWhatEachConnectorSendsAgainIsAppliedOnce replicates the same changes through every connector of lab/connectors at
// once, each into a database of its own, and kills Kafka Connect under them: each connector then sends again what it had
// sent since it last stored how far it was. Rows without a key are where a change that is applied twice shows.
func TestWhatEachConnectorSendsAgainIsAppliedOnce(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 3))
	t.Logf("to use the same random moments and changes again: E2E_SEED=%d", seed)

	s := openStack(t, "live", liveDatabase, "")
	s.makeLiveTables(t)
	live := []*liveConnector{
		{name: "plain"},
		{name: "bare"},
		{name: "loose"},
		// A flattened update has no values from before, and without a key they are what a row is found by.
		{name: "flat", skip: "draft"},
		{name: "avro"},
		{name: "avroh"},
		{name: "pg", postgres: true},
	}
	for _, l := range live {
		l.begin(t, s)
	}
	changes := startLiveLoad(t, seed)
	for _, l := range live {
		l.awaitSnapshot(t)
	}
	for range connectKills {
		n := changes.done.Load()
		for _, l := range live {
			l.awaitPulse(t, l.daemon, n)
		}
		after(t, live[0].daemon, time.Duration(random.IntN(1000))*time.Millisecond)
		s.lab(t, "kill", "connect")
		killed, down := changes.done.Load(), time.Now()
		s.lab(t, "up", "connect")
		back := time.Since(down)
		n = changes.done.Load() + 1
		for _, l := range live {
			l.awaitPulse(t, l.daemon, n)
		}
		t.Logf("Connect was killed after transaction %d; it answered again after %v, and all connectors had gone on after %v", killed, back.Round(time.Second), time.Since(down).Round(time.Second))
	}
	n := changes.wait(t)
	t.Logf("Connect was killed %d times; the source committed %d transactions", connectKills, n)

	// What the sources hold now stays.
	tables := s.tables(t)
	fromMySQL, fromPostgres := map[string][]Row{}, map[string][]Row{}
	for _, table := range tables {
		fromMySQL[table.Name] = s.sourceRows(t, table)
		fromPostgres[table.Name] = s.livePostgresRows(t, table)
	}
	again := 0
	for _, l := range live {
		rows := fromMySQL
		if l.postgres {
			rows = fromPostgres
		}
		l.awaitPulse(t, l.daemon, n)
		l.compareTables(t, tables, rows)
		again += l.sentAgain(t, len(rows["audit_log"]))
	}
	if again == 0 {
		t.Error("no connector sent anything again: the test has shown nothing")
	}
}

// compareTables compares what the connector's changes came to with the source's rows.
func (l *liveConnector) compareTables(t *testing.T, tables []Table, rows map[string][]Row) {
	t.Helper()
	tables = slices.DeleteFunc(slices.Clone(tables), func(table Table) bool { return table.Name == l.skip })
	if l.postgres {
		for i := range tables {
			tables[i].Read = Column.FromPostgres
		}
	}
	compare := func(context.Context) error {
		report, err := l.compareWith(t, tables, func(table Table) []Row { return rows[table.Name] })
		if err != nil {
			return fmt.Errorf("%w\n%s", err, report)
		}
		return nil
	}
	eventually(t, time.Minute, "the target of connector "+l.connector+" equals the source", compare)
	l.daemon.stop(t)
	// What the topics still hold must change nothing.
	l.start(t, l.config, "--until-caught-up").wait(t, time.Minute)
	if err := compare(t.Context()); err != nil {
		t.Errorf("connector %s, after the rest of its topics: %v", l.connector, err)
	}
}

// sentAgain is how many rows of audit_log the connector sent more than once. They are only ever inserted, so that the
// topic would else hold as many records as the source has rows.
func (l *liveConnector) sentAgain(t *testing.T, rows int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sent, err := l.records(ctx, "audit_log")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("connector %s: audit_log has %d rows in the source, as in the target, and %d records in Kafka: %d were sent again", l.connector, rows, sent, sent-rows)
	return sent - rows
}

// records is how many records with a value a table's topic holds.
func (l *liveConnector) records(ctx context.Context, table string) (int, error) {
	topic := l.connector + "." + l.schema() + "." + table
	c, err := kgo.NewClient(kgo.SeedBrokers(l.broker), kgo.ConsumeTopics(topic))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	left := map[int32]int64{}
	for _, o := range ends.Offsets()[topic] {
		if o.At > 0 {
			left[o.Partition] = o.At
		}
	}
	n := 0
	for len(left) > 0 {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			return 0, fmt.Errorf("topic %s: %w", topic, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if r.Value != nil {
				n++
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return n, nil
}
