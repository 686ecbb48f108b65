package ops

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"replicator/checkpoint"
)

// metrics is what /metrics shows. Counters are added to as things happen; what depends on the clock is asked for when it is read.
type metrics struct {
	registry *prometheus.Registry

	events      *prometheus.CounterVec
	rows        *prometheus.CounterVec
	bytes       prometheus.Counter
	phases      *prometheus.HistogramVec
	checkpoints *prometheus.CounterVec
	restarts    *prometheus.CounterVec
	deadLetters *prometheus.CounterVec
	ddl         *prometheus.CounterVec
	whole       *prometheus.CounterVec
}

const prefix = "replicator_"

// phaseBuckets, in seconds.
var phaseBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func newMetrics(s *Server) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	gauge := func(name, help string, value func(*Server, time.Time) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return value(s, time.Now())
		})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		events:   counter("events_total", "Row events in complete checkpoints, by source table and op.", "table", "op"),
		rows:     counter("rows_applied_total", "Row changes committed to the target, by target table.", "table"),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "bytes_read_total", Help: "Bytes of records in complete checkpoints, as they were in Kafka.",
		}),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "checkpoint_seconds", Help: "Time of each phase of a checkpoint.", Buckets: phaseBuckets,
		}, []string{"phase"}),
		checkpoints: counter("checkpoints_total", "Checkpoints by result: complete or failed.", "result"),
		restarts:    counter("restarts_total", "Starts after a failure, by the part of the pipeline that failed.", "reason"),
		deadLetters: counter("dead_letters_total", "Records set aside.", "table", "reason"),
		ddl:         counter("ddl_total", "Statements that changed the target's schema.", "kind"),
		whole:       counter("source_transactions_total", "Transactions of the source, with source_transactions: preserve: applied whole, split, or sent again.", "result"),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "build_info", Help: "Always 1; the labels say which build runs.",
		ConstLabels: prometheus.Labels{"version": s.config.Version, "commit": s.config.Commit, "goversion": runtime.Version()},
	})
	info.Set(1)
	m.registry.MustRegister(m.events, m.rows, m.bytes, m.phases, m.checkpoints, m.restarts, m.deadLetters, m.ddl, m.whole, info, partitionLag{s},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("lag_seconds", "Age of the oldest event that the target lacks; 0 when it lacks none.", func(s *Server, now time.Time) float64 {
			return s.lagTime(now).Seconds()
		}),
		gauge("checkpoint_last_id", "Number of the last checkpoint.", func(s *Server, _ time.Time) float64 { return float64(s.progress.Checkpoint) }),
		gauge("checkpoint_age_seconds", "Time since a checkpoint was complete, or since the run began.", func(s *Server, now time.Time) float64 {
			return s.checkpointAge(now)
		}),
		gauge("transactions_in_doubt", "Prepared transactions that are not decided yet.", func(s *Server, _ time.Time) float64 {
			return float64(len(s.doubts))
		}),
		gauge("transaction_oldest_seconds", "Age of the oldest of them.", func(s *Server, now time.Time) float64 {
			oldest := now
			for _, d := range s.doubts {
				if d.Since.Before(oldest) {
					oldest = d.Since
				}
			}
			return now.Sub(oldest).Seconds()
		}),
	)
	m.registry.MustRegister(
		gauge("source_transaction_waiting_seconds", "Time since something came of the source's transaction that is waited for; 0: none is.", func(s *Server, now time.Time) float64 {
			if s.whole.Waiting == "" {
				return 0
			}
			return now.Sub(s.whole.Since).Seconds()
		}),
		gauge("source_transactions_waiting", "Transactions of the source that wait to be whole, or for those before them.", func(s *Server, _ time.Time) float64 {
			return float64(s.waiting())
		}),
		gauge("source_transaction_oldest_seconds", "Time since something came first of the oldest of them; 0: none waits.", func(s *Server, now time.Time) float64 {
			if s.whole.Waiting == "" {
				return 0
			}
			return now.Sub(s.whole.Began).Seconds()
		}),
		gauge("source_transactions_spilled_bytes", "Events that wait for the rest of their transaction on disk.", func(s *Server, _ time.Time) float64 {
			return float64(s.whole.Disk)
		}),
		gauge("source_transactions_buffered_bytes", "Events that wait for the rest of their transaction, in memory and on disk.", func(s *Server, _ time.Time) float64 {
			return float64(s.whole.Memory + s.whole.Disk)
		}),
	)
	for _, result := range []string{"complete", "failed"} {
		m.checkpoints.WithLabelValues(result) // zero is a fact too, and rates need it
	}
	m.kept(&checkpoint.SourceTransactions{}, &checkpoint.SourceTransactions{})
	return m
}

func (m *metrics) complete(c *checkpoint.Completed) {
	m.checkpoints.WithLabelValues("complete").Inc()
	m.bytes.Add(float64(c.Bytes))
	p := c.Phases
	for phase, took := range map[string]time.Duration{"align": p.Align, "apply": p.Apply, "prepare": p.Prepare, "save": p.Save, "commit": p.Commit} {
		m.phases.WithLabelValues(phase).Observe(took.Seconds())
	}
	for _, a := range c.Aside {
		m.deadLetters.WithLabelValues(a.Source, string(a.Class)).Add(float64(a.Records))
	}
	for _, t := range c.Tables {
		for op, n := range t.Ops {
			m.events.WithLabelValues(t.Source, op.String()).Add(float64(n))
			m.rows.WithLabelValues(t.Target).Add(float64(n))
		}
	}
}

// kept adds what became of the source's transactions since before was told.
func (m *metrics) kept(now, before *checkpoint.SourceTransactions) {
	for result, more := range map[string]int64{
		"whole": now.Whole - before.Whole, "split": now.Split - before.Split, "repeated": now.Repeated - before.Repeated,
	} {
		m.whole.WithLabelValues(result).Add(float64(max(0, more)))
	}
}

// partitionLag collects lag_events, whose partitions come and go.
type partitionLag struct{ s *Server }

var lagDesc = prometheus.NewDesc(prefix+"lag_events", "Offsets between the last complete checkpoint and the last stable offset.", []string{"topic", "partition"}, nil)

// Describe implements prometheus.Collector.
func (partitionLag) Describe(out chan<- *prometheus.Desc) { out <- lagDesc }

// Collect implements prometheus.Collector.
func (l partitionLag) Collect(out chan<- prometheus.Metric) {
	for p, lag := range l.s.lags() {
		out <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, float64(lag), p.Topic, strconv.Itoa(int(p.ID)))
	}
}
