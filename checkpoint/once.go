package checkpoint

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"replicator/debezium"
)

// readAhead bounds the batches that are fetched or decoded and not yet routed.
const readAhead = 8

// job is one batch on its way from the reader through a decoder to the router. The router takes jobs in the order in
// which they were read and waits for each to be done.
type job struct {
	batch  debezium.Batch
	came   time.Time
	events []debezium.Event
	from   int                           // the first of events that is still to be routed
	bad    map[int]*debezium.RecordError // records that could not be decoded, where such are set aside; their events have no op
	err    error
	done   chan struct{}
}

// once recovers, runs until stop, success or failure, and waits for everything that it started. The end of ctx is the
// stop. Recovery ends with it at once, as it may anywhere; what runs then is not cancelled by it, because a last checkpoint
// may take the time that it needs.
func (r *run) once(ctx context.Context) (err error) {
	reader, err := r.recover(ctx)
	if err != nil {
		return in(PartRecovery, err)
	}
	defer func() {
		if cerr := reader.Close(); err == nil && cerr != nil {
			r.Log.Warn("closing the source", "error", cerr)
		}
	}()
	tables, err := newTables(ctx, r.Config, r.last.Epoch, r.widen)
	if err != nil {
		return in(PartRecovery, err)
	}

	lanes := make([]*lane, r.Workers)
	for i := range lanes {
		lanes[i] = newLane(r, i)
	}
	ends, err := endsAfter(ctx, reader, r.Tables.SchemaTopic)
	if err != nil {
		return in(PartSource, err)
	}
	cuts := make(chan *barrier)
	saved := make(chan Checkpoint)
	letters, err := newLetters(ctx, &r.Config)
	if err != nil {
		return err
	}
	router := newRouter(r, tables, letters, lanes, reader, ends, cuts, saved)

	r.running = true
	outer := ctx
	group, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	for _, l := range lanes {
		group.Go(func() error { return in(PartFold, l.fold(ctx)) })
		group.Go(func() error { return in(PartTarget, l.apply(ctx)) })
	}
	ordered := make(chan *job, readAhead)
	decode := make(chan *job)
	group.Go(func() error { return in(PartSource, read(ctx, reader, decode, ordered)) })
	group.Go(func() error { return r.watchEnds(ctx, reader) })
	for range min(runtime.GOMAXPROCS(0), readAhead) {
		group.Go(func() error { return in(PartDecode, decodeAll(ctx, r.Decoder, letters != nil, decode)) })
	}
	group.Go(func() error { return in(PartCheckpoint, (&committer{r}).loop(ctx, cuts, saved)) })
	group.Go(func() error { return in(PartRoute, router.loop(ctx, ordered)) })
	err = group.Wait()
	if errors.Is(err, errDone) {
		return nil
	}
	router.abandon(outer)
	r.settled = tables.settles(outer, err)
	return err
}

// endsAfter returns where the partitions end. Where there are schema changes it is as of after these were read: the rows that come
// before them are before these ends.
func endsAfter(ctx context.Context, reader Reader, schemaTopic string) (map[debezium.Partition]int64, error) {
	if schemaTopic == "" {
		return reader.End(), nil
	}
	return reader.Ends(ctx)
}

// read passes batches on in order, each to a decoder and to the router.
func read(ctx context.Context, reader Reader, decode, ordered chan<- *job) error {
	for {
		b, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		j := &job{batch: b, came: time.Now(), done: make(chan struct{})}
		if err := send(ctx, ordered, j); err != nil {
			return err
		}
		if err := send(ctx, decode, j); err != nil {
			return err
		}
	}
}

func decodeAll(ctx context.Context, d *debezium.Decoder, pass bool, jobs <-chan *job) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case j := <-jobs:
			j.events, j.err = d.DecodeBatchContext(ctx, &j.batch)
			if pass {
				j.passBad(ctx, d)
			}
			close(j.done)
		}
	}
}

// passBad decodes what comes after records that cannot be decoded.
func (j *job) passBad(ctx context.Context, d *debezium.Decoder) {
	var bad *debezium.RecordError
	for errors.As(j.err, &bad) {
		if j.bad == nil {
			j.bad = map[int]*debezium.RecordError{}
		}
		n := len(j.events)
		j.bad[n] = bad
		j.events = append(j.events, debezium.Event{Partition: bad.Partition, Offset: bad.Offset})
		rest := j.batch
		rest.Records = rest.Records[n+1:]
		var more []debezium.Event
		more, j.err = d.DecodeBatchContext(ctx, &rest)
		j.events = append(j.events, more...)
	}
}

// send sends v unless the run ends first.
func send[T any](ctx context.Context, c chan<- T, v T) error {
	select {
	case c <- v:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
