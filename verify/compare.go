package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"replicator/schema"
)

// Config is a comparison. Bounds that are zero have defaults.
type Config struct {
	Source, Target Side
	Postgres       bool // both are PostgreSQL
	Names          Names
	Pairs          []Pair

	Chunk    int           // rows that one statement reads, where the key allows it; 0: 10,000
	Parallel int           // statements at a time on each side; 0: 2
	Rate     int           // rows per second, of the source; 0: no bound
	Lag      time.Duration // between two looks: more than the pipeline needs to bring a change to the target
	Looks    int           // how often a row is looked at; 0: 6. At least 2
	Limit    int           // differences of one table after which it is left; 0: 1,000

	Progress func(Progress) // called by several goroutines, one at a time; may be nil
}

const (
	defaultChunk    = 10_000
	defaultParallel = 2
	defaultLooks    = 6
	defaultLimit    = 1000

	fetchRows   = 2000 // rows of one side that are in memory at a time, for one statement
	bucketRows  = 16   // rows that a bucket is meant to have
	maxDigits   = 3    // hexadecimal digits of a hash that one statement divides by
	allDigits   = 24   // digits after which rows that are still together share their address
	maxSuspects = 5000 // rows that wait for another look
)

// Compare compares tables one after another. The reports are in the order of Pairs. An error is one of reading; differences are none.
func Compare(ctx context.Context, c Config) ([]TableReport, error) {
	r := &run{Config: c, begun: time.Now(), reports: make([]TableReport, len(c.Pairs))}
	r.complete()
	for i := range r.Pairs {
		p := &r.Pairs[i]
		r.reports[i] = TableReport{Table: p.Source.Name.String(), Target: p.Target.Name.String(), Key: []string{}, Differences: []Difference{}}
		n, err := r.Source.Estimate(ctx, p.Source.Name)
		if err != nil {
			return nil, err
		}
		r.progress.Total += n
	}
	for i := range r.Pairs {
		if err := r.table(ctx, i); err != nil {
			return nil, fmt.Errorf("table %s: %w", r.Pairs[i].Source.Name, err)
		}
	}
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	return r.reports, nil
}

// run is one call of Compare.
type run struct {
	Config
	begun   time.Time
	reports []TableReport
	pace    pace

	mu       sync.Mutex // guards the rest, and reports while a table is read
	progress Progress
	suspects []suspect
	waiting  int // rows among suspects
}

func (r *run) complete() {
	set := func(p *int, otherwise int) {
		if *p <= 0 {
			*p = otherwise
		}
	}
	set(&r.Chunk, defaultChunk)
	set(&r.Parallel, defaultParallel)
	set(&r.Looks, defaultLooks)
	set(&r.Limit, defaultLimit)
	r.Looks = max(r.Looks, 2)
	if r.Progress == nil {
		r.Progress = func(Progress) {}
	}
	r.pace.rate = r.Rate
}

// table reads one table. What differs becomes suspect.
func (r *run) table(ctx context.Context, i int) error {
	p, report := &r.Pairs[i], &r.reports[i]
	if p.Target.Columns == nil {
		return r.absent(ctx, p, report)
	}
	c := r.plan(p, report)
	if c == nil {
		return nil
	}
	for _, k := range c.key {
		report.Key = append(report.Key, c.columns[k].name)
	}
	t := &table{run: r, comparison: c, report: report}
	g, ctx := errgroup.WithContext(ctx)
	spans := make(chan span)
	g.Go(func() error {
		defer close(spans)
		return t.divide(ctx, spans)
	})
	for range r.Parallel {
		g.Go(func() error {
			for s := range spans {
				if err := t.chunk(ctx, s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// plan returns nil for a table that cannot be compared, and the report says why.
func (r *run) plan(p *Pair, report *TableReport) *comparison {
	c, err := plan(*p, r.Names, r.Source, r.Target, r.Config.Postgres)
	if err != nil {
		report.Problem = err.Error()
		return nil
	}
	return c
}

// absent reports a table that the target does not have, which is as it should be while the source's has no rows.
func (r *run) absent(ctx context.Context, p *Pair, report *TableReport) error {
	rows, err := r.Source.Query(ctx, "SELECT 1 FROM "+tableName(r.Source, p.Source.Name)+" LIMIT 1")
	if err == nil && len(rows) > 0 {
		report.Problem = fmt.Sprintf("the target has no table %s, and the source's has rows", report.Target)
	}
	return err
}

// table is a table that is being read.
type table struct {
	*run
	*comparison
	report *TableReport
}

// full says whether enough differences were found.
func (t *table) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.report.More
}

// divide sends the ranges of a table, in order, until it is full.
func (t *table) divide(ctx context.Context, spans chan<- span) error {
	var low []string
	for {
		var high []string
		var err error
		if t.ordered > 0 {
			if high, err = t.nth(ctx, &t.source, low, t.Chunk); err != nil {
				return err
			}
		}
		select {
		case spans <- span{low, high}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if high == nil || t.full() {
			return nil
		}
		low = high
	}
}

// chunk compares a range.
func (t *table) chunk(ctx context.Context, s span) error {
	at := scope{span: s}
	source, target, err := both(ctx, func(ctx context.Context, v *view) (sum, error) { return t.sum(ctx, v, at) }, t.comparison)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.report.Rows += source.rows
	t.progress.Table = t.name
	t.progress.Rows += source.rows
	t.tell()
	t.mu.Unlock()
	if err := t.pace.wait(ctx, source.rows); err != nil || source == target {
		return err
	}
	return t.narrow(ctx, at, max(source.rows, target.rows))
}

// tell reports progress. mu is held.
func (r *run) tell() {
	r.progress.Suspects, r.progress.Elapsed = r.waiting, time.Since(r.begun)
	r.Progress(r.progress)
}

// both asks the two sides at once.
func both[T any](ctx context.Context, ask func(context.Context, *view) (T, error), c *comparison) (source, target T, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { source, err = ask(ctx, &c.source); return err })
	g.Go(func() (err error) { target, err = ask(ctx, &c.target); return err })
	err = g.Wait()
	return source, target, err
}

// narrow finds the rows that differ in a scope whose sums do. rows is how many it has on the side that has more.
func (t *table) narrow(ctx context.Context, at scope, rows int64) error {
	if rows <= bucketRows {
		return t.look(ctx, at)
	}
	known := 0
	if len(at.prefixes) > 0 {
		known = len(at.prefixes[0])
	}
	if known >= allDigits {
		return t.look(ctx, at)
	}
	digits := 1
	for n := rows / bucketRows / 16; n > 0 && digits < maxDigits; n /= 16 {
		digits++
	}
	source, target, err := both(ctx, func(ctx context.Context, v *view) (map[string]sum, error) {
		return t.sums(ctx, v, at, known+digits)
	}, t.comparison)
	if err != nil {
		return err
	}
	return t.buckets(ctx, at.span, differing(source, target))
}

// bucket is a part of a scope: the rows whose hashes begin with prefix.
type bucket struct {
	prefix string
	rows   int64
}

func differing(source, target map[string]sum) []bucket {
	var out []bucket
	for prefix, s := range source {
		if t := target[prefix]; s != t {
			out = append(out, bucket{prefix, max(s.rows, t.rows)})
		}
	}
	for prefix, t := range target {
		if _, seen := source[prefix]; !seen {
			out = append(out, bucket{prefix, t.rows})
		}
	}
	return out
}

// buckets looks at the rows of several buckets at a time, and divides those that have too many.
func (t *table) buckets(ctx context.Context, s span, list []bucket) error {
	at := scope{span: s}
	rows := int64(0)
	look := func() error {
		if len(at.prefixes) == 0 || t.full() {
			return nil
		}
		err := t.look(ctx, at)
		at.prefixes, rows = nil, 0
		return err
	}
	for _, b := range list {
		if b.rows > fetchRows/2 {
			if err := t.narrow(ctx, scope{s, []string{b.prefix}}, b.rows); err != nil {
				return err
			}
			continue
		}
		if rows+b.rows > fetchRows/2 {
			if err := look(); err != nil {
				return err
			}
		}
		at.prefixes = append(at.prefixes, b.prefix)
		rows += b.rows
	}
	return look()
}

// look is the first look at the rows of a scope.
func (t *table) look(ctx context.Context, at scope) error {
	found, err := t.compareRows(ctx, at)
	if err != nil || len(found) == 0 {
		return err
	}
	t.mu.Lock()
	t.suspects = append(t.suspects, suspect{table: t, scope: at, seen: time.Now(), rows: found})
	t.waiting += len(found)
	t.tell()
	many := t.waiting >= maxSuspects
	t.mu.Unlock()
	if many {
		return t.settle(ctx)
	}
	return nil
}

// pace holds a rate of rows per second.
type pace struct {
	rate int

	mu   sync.Mutex
	next time.Time
}

// wait waits until rows more may have been read.
func (p *pace) wait(ctx context.Context, rows int64) error {
	if p.rate <= 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(rows) * time.Second / time.Duration(p.rate))
	until := p.next
	p.mu.Unlock()
	return sleep(ctx, time.Until(until))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errNoTable = errors.New("there is no such table")

// Find reads a table that must be there.
func Find(ctx context.Context, s Side, name schema.Name) (schema.Table, error) {
	t, err := s.Table(ctx, name)
	if err == nil && t == nil {
		err = errNoTable
	}
	if err != nil {
		return schema.Table{}, fmt.Errorf("table %s: %w", name, err)
	}
	return *t, nil
}
