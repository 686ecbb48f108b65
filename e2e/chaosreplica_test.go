//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// replica is a replicator of a stream that others read too, and its target.
type replica struct {
	*stack // with a pipeline and a database of its own
	target faultTarget
	doubts map[string]time.Time // prepared transactions, and when each was seen first
	config string
	daemon *daemon

	metrics string // URL; empty: it has none
	samples []sample
}

// newReplica makes a database and a configuration; more is what differs. Kafka, the target and the registry are reached by wires.
func (c *chaos) newReplica(t *testing.T, name, more string) *replica {
	t.Helper()
	own := *c.stack
	own.pipeline = "chaos-" + name
	own.database += "_" + name
	r := &replica{stack: &own, target: c.server.target(t, &own), doubts: map[string]time.Time{}}
	if !strings.Contains(more, "http:") {
		address := freeAddress(t)
		r.metrics = "http://" + address + "/metrics"
		more += "http: {listen: '" + address + "'}\n"
	}
	registry := strings.Replace(own.registry, hostOf(t, own.registry), c.wire("registry").near, 1)
	r.config = writeFile(t, own.pipeline+".yaml", fmt.Appendf(nil, `pipeline: %s
source:
  brokers: [%s]
  topics: ['%s\.chaos\..*']
  schema_changes: %s
  registry: {url: '%s'}
target: {url: '%s'}
%s`, own.pipeline, c.wire("kafka").near, c.connector, c.connector, registry, r.target.url(c.wire(c.server.name).near), more))
	return r
}

// freeAddress is one that nothing listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// oldestDoubt bounds how long a transaction of a pipeline at work stays prepared.
const oldestDoubt = 30 * time.Second

// look is an error as long as the target lacks transaction n, or holds a transaction in doubt that nobody decides. It fails the test
// when the target shows what no later change makes good: a gap in the journal, or a row of it twice.
func (r *replica) look(ctx context.Context, t *testing.T, n int64) error {
	t.Helper()
	j, err := r.target.journal(ctx, n)
	if err != nil {
		return err
	}
	if j.rows != j.last || j.distinct != j.last {
		t.Fatalf("pipeline %s: the journal shows %d rows of %d transactions, and its last is %d: want all three equal\n%s", r.pipeline, j.rows, j.distinct, j.last, r.daemon.tail())
	}
	if j.pulse < n || j.last < n {
		return fmt.Errorf("the target's pulse is %d, and its journal ends with %d", j.pulse, j.last)
	}
	return r.undecided(ctx)
}

// undecided is an error if a transaction that was prepared some time ago still is.
func (r *replica) undecided(ctx context.Context) error {
	ids, err := r.target.doubt(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(r.doubts, func(id string, _ time.Time) bool { return !slices.Contains(ids, id) })
	for _, id := range ids {
		since, seen := r.doubts[id]
		if !seen {
			r.doubts[id] = time.Now()
		} else if time.Since(since) > oldestDoubt {
			return fmt.Errorf("in doubt for more than %v: %s", oldestDoubt, id)
		}
	}
	return nil
}

// untilPrepared returns as soon as a transaction is prepared, and after two seconds in any case.
func (r *replica) untilPrepared(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for {
		ids, err := r.target.doubt(ctx)
		if err != nil || len(ids) > 0 { // with an error, the server is what is down
			return
		}
	}
}

func (r *replica) equalsSource(t *testing.T) error {
	t.Helper()
	if report, err := r.target.compare(t); err != nil {
		return fmt.Errorf("%w\n%s", err, report)
	}
	return nil
}

// sample is what a process held at one time.
type sample struct {
	at         time.Time
	memory     float64 // bytes resident
	files      float64 // descriptors
	goroutines float64
	lag        float64 // seconds
	rows       float64 // applied so far
}

// sample reads /metrics.
func (r *replica) sample(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "pipeline "+r.pipeline+" shows its metrics", func(ctx context.Context) error {
		s, err := readMetrics(ctx, r.metrics)
		if err == nil {
			r.samples = append(r.samples, s)
		}
		return err
	})
}

func readMetrics(ctx context.Context, url string) (sample, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return sample{}, err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return sample{}, err
	}
	defer a.Body.Close()
	s, found := sample{at: time.Now()}, 0
	lines := bufio.NewScanner(a.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		into := map[string]*float64{
			"process_resident_memory_bytes": &s.memory, "process_open_fds": &s.files, "go_goroutines": &s.goroutines,
			"replicator_lag_seconds": &s.lag, "replicator_rows_applied_total": &s.rows,
		}[name]
		if into == nil {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return sample{}, fmt.Errorf("metric %s: %w", name, err)
		}
		*into += v
		found++
	}
	if found < 4 {
		return sample{}, errors.Join(fmt.Errorf("%s answers %s, with %d of the metrics that are looked for", url, a.Status, found), lines.Err())
	}
	return s, lines.Err()
}

// flat is an error if the last samples are above the first. Each end is a few of them: the least of the last ones counts, because a
// moment's peak is no leak.
func flat(samples []sample) error {
	const few = 5
	if len(samples) < 2*few {
		return nil // too few to tell; the longer runs do
	}
	begin, end := samples[:few], samples[len(samples)-few:]
	var problems []error
	for _, m := range []struct {
		name  string
		of    func(sample) float64
		limit func(float64) float64
	}{
		{"resident memory", func(s sample) float64 { return s.memory }, func(v float64) float64 { return 1.5*v + 32<<20 }},
		{"file descriptors", func(s sample) float64 { return s.files }, func(v float64) float64 { return v + 5 }},
		{"goroutines", func(s sample) float64 { return s.goroutines }, func(v float64) float64 { return v + 10 }},
	} {
		first, last := m.of(slices.MaxFunc(begin, byValue(m.of))), m.of(slices.MinFunc(end, byValue(m.of)))
		if last > m.limit(first) {
			problems = append(problems, fmt.Errorf("%s grew from %.0f to %.0f in %v", m.name, first, last, end[0].at.Sub(begin[0].at).Round(time.Second)))
		}
	}
	return errors.Join(problems...)
}

func byValue(of func(sample) float64) func(a, b sample) int {
	return func(a, b sample) int { return int(of(a) - of(b)) }
}

// mendConnector starts a task again that Connect has given up, as an operator would, and is an error until it runs.
func (s *stack) mendConnector(ctx context.Context) error {
	err := s.connectorRuns(ctx)
	if err == nil || !strings.Contains(err.Error(), "FAILED") {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.connect+"/connectors/"+s.connector+"/restart?includeTasks=true&onlyFailed=true", nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	return fmt.Errorf("connector %s had failed; Connect was told to start it again, and answers %s", s.connector, a.Status)
}

// hostOf is the host and port of a URL.
func hostOf(t *testing.T, url string) string {
	t.Helper()
	q, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.URL.Host
}

// postgresHost is where PostgreSQL listens.
func (s *stack) postgresHost(t *testing.T) string {
	t.Helper()
	c, err := pgx.ParseConfig(s.postgres)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}
