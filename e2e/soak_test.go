//go:build e2e && soak

package e2e

import (
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	soakDuration = time.Hour // when SOAK_DURATION does not say
	soakRate     = 2000      // changes a second
	soakBatch    = 20        // of them in a transaction
	soakKept     = 20000
	soakSampled  = 5 * time.Second
	soakAltered  = time.Minute
	soakRestart  = 5 * time.Minute
)

const soakSchema = `CREATE DATABASE soak CHARACTER SET utf8mb4; USE soak; SET SESSION cte_max_recursion_depth = 100000;
CREATE TABLE account (id INT PRIMARY KEY, balance DECIMAL(14,2) NOT NULL, note VARCHAR(100), changed_at DATETIME(6) NOT NULL);
CREATE TABLE event (id BIGINT PRIMARY KEY, kind VARCHAR(20) NOT NULL, body VARCHAR(200));
CREATE TABLE pulse (id INT PRIMARY KEY, n BIGINT NOT NULL);
INSERT INTO account WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i, 1000, NULL, '2024-01-01' FROM n;
INSERT INTO pulse VALUES (1, 0);
`

// soakDDL is played over and over.
var soakDDL = []string{
	"ALTER TABLE account ADD COLUMN level INT NOT NULL DEFAULT 7",
	"ALTER TABLE event MODIFY body VARCHAR(300)",
	"ALTER TABLE account MODIFY level BIGINT NOT NULL DEFAULT 7",
	"ALTER TABLE account RENAME COLUMN level TO grade",
	"ALTER TABLE event ADD INDEX by_kind (kind)",
	"ALTER TABLE account DROP COLUMN grade",
	"ALTER TABLE event DROP INDEX by_kind",
}

// TestSoakStaysFlat changes the source at a steady rate for a long time, a table every minute, and restarts the replicator every five. Its
// memory, descriptors and goroutines do not grow, it keeps up, and the target equals the source. What it sampled goes to soak.csv and
// soak.svg beside the logs.
func TestSoakStaysFlat(t *testing.T) {
	duration := durationOf(t, "SOAK_DURATION", soakDuration)
	s := openStack(t, "soak", "soak", "")
	s.lab(t, "mysql", "-e", soakSchema)
	address := freeAddress(t)
	l := &liveConnector{name: "plain", options: map[string]string{"signal.data.collection": "soak.none"}, listen: address}
	l.begin(t, s)
	l.awaitSnapshot(t)

	load := startSoak(t, environment(t, "LAB_MYSQL_DSN"))
	r := &replica{stack: l.stack, metrics: "http://" + address + "/metrics"}
	l.soak(t, r, duration)
	transactions, statements := load.wait(t)
	t.Logf("%v: %d transactions of %d changes (%.0f changes a second), %d statements that changed tables, %d samples",
		duration, transactions, soakBatch, float64(transactions*soakBatch)/duration.Seconds(), statements, len(r.samples))
	saveSoak(t, s.logs, r.samples)

	l.awaitPulse(t, l.daemon, transactions)
	l.equalSource(t)
	if err := flat(r.samples); err != nil {
		t.Error(err)
	}
}

// soak samples the replicator, and restarts it: by turns as an operator does and as a crash does.
func (l *liveConnector) soak(t *testing.T, r *replica, duration time.Duration) {
	t.Helper()
	end := time.NewTimer(duration)
	defer end.Stop()
	sampled, restart := time.NewTicker(soakSampled), time.NewTicker(soakRestart)
	defer sampled.Stop()
	defer restart.Stop()
	for restarts := 0; ; {
		select {
		case <-end.C:
			t.Logf("the replicator was restarted %d times", restarts)
			return
		case <-sampled.C:
			l.daemon.running(t)
			r.sample(t)
		case <-restart.C:
			if restarts%2 == 0 {
				l.daemon.stop(t)
			} else {
				l.daemon.kill(t)
			}
			l.daemon = l.start(t, l.config)
			restarts++
		}
	}
}

// soakLoad is the changes to the source.
type soakLoad struct {
	stop         chan struct{}
	ended        chan error
	transactions int64
	statements   int
}

func startSoak(t *testing.T, dsn string) *soakLoad {
	t.Helper()
	db, err := sql.Open("mysql", dsn+"soak?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	l := &soakLoad{stop: make(chan struct{}), ended: make(chan error, 1)}
	go func() { l.ended <- errors.Join(l.play(t.Context(), db), db.Close()) }()
	return l
}

func (l *soakLoad) wait(t *testing.T) (transactions int64, statements int) {
	t.Helper()
	close(l.stop)
	if err := <-l.ended; err != nil {
		t.Fatal(err)
	}
	return l.transactions, l.statements
}

// play sends what is due at each tick: a slow source gets more at once.
func (l *soakLoad) play(ctx context.Context, db *sql.DB) error {
	begun := time.Now()
	next, alter := time.NewTicker(10*time.Millisecond), time.NewTicker(soakAltered)
	defer next.Stop()
	defer alter.Stop()
	for {
		select {
		case <-l.stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-alter.C:
			if _, err := db.ExecContext(ctx, soakDDL[l.statements%len(soakDDL)]); err != nil {
				return err
			}
			l.statements++
		case <-next.C:
		}
		due := int64(time.Since(begun).Seconds() * soakRate / soakBatch)
		for l.transactions < due {
			l.transactions++
			if _, err := db.ExecContext(ctx, soakTransaction(l.transactions)); err != nil {
				return err
			}
			select {
			case <-l.stop:
				return nil
			default:
			}
		}
	}
}

// soakTransaction is transaction n: rows are updated, inserted and, when there are enough, deleted, and the pulse counts.
func soakTransaction(n int64) string {
	const updated, inserted = 11, 4
	first := n * 7919 % (20000 - updated)
	var rows []string
	for i := range int64(inserted) {
		rows = append(rows, fmt.Sprintf("(%d, 'kind %d', 'body of event %d')", n*inserted+i, i, n*inserted+i))
	}
	return fmt.Sprintf(`START TRANSACTION; UPDATE account SET balance = balance + 1, note = 'transaction %d', changed_at = NOW(6) WHERE id > %d AND id <= %d;
		INSERT INTO event (id, kind, body) VALUES %s; DELETE FROM event WHERE id >= %d AND id < %d; UPDATE pulse SET n = %d; COMMIT`,
		n, first, first+updated, strings.Join(rows, ", "), (n-soakKept)*inserted, (n-soakKept+1)*inserted, n)
}

// saveSoak writes the samples as a table and as a picture.
func saveSoak(t *testing.T, dir string, samples []sample) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "soak.csv"))
	if err != nil {
		t.Fatal(err)
	}
	table := csv.NewWriter(f)
	lines := [][]string{{"seconds", "memory_mib", "goroutines", "lag_seconds", "descriptors", "rows_applied_per_second"}}
	var seconds []float64
	series := []Series{{Name: "resident memory, MiB"}, {Name: "goroutines"}, {Name: "lag, seconds"}, {Name: "file descriptors"}, {Name: "rows applied a second"}}
	for i, s := range samples {
		rate := 0.0
		if i > 0 && s.rows >= samples[i-1].rows { // a new process counts from 0
			rate = (s.rows - samples[i-1].rows) / s.at.Sub(samples[i-1].at).Seconds()
		}
		at := s.at.Sub(samples[0].at).Seconds()
		seconds = append(seconds, at)
		line := []string{fmt.Sprintf("%.0f", at)}
		for j, v := range []float64{s.memory / (1 << 20), s.goroutines, s.lag, s.files, rate} {
			series[j].Values = append(series[j].Values, v)
			line = append(line, fmt.Sprintf("%.1f", v))
		}
		lines = append(lines, line)
	}
	if err := errors.Join(table.WriteAll(lines), f.Close()); err != nil {
		t.Fatal(err)
	}
	picture, err := os.Create(filepath.Join(dir, "soak.svg"))
	if err != nil {
		t.Fatal(err)
	}
	title := fmt.Sprintf("%d changes a second, a change of a table every %v, a restart every %v", soakRate, soakAltered, soakRestart)
	if err := errors.Join(Plot(picture, title, seconds, series), picture.Close()); err != nil {
		t.Fatal(err)
	}
}
