package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// errFollows is why a record is set aside that has nothing wrong with it.
var errFollows = errors.New("an earlier record of the same row is set aside, and this one would overtake it")

// passed returns event i of j, which goes to t, or the letter that takes its place. One that cannot be in a cluster is an error.
func (r *router) passed(ctx context.Context, j *job, i int, t *sqlgen.Target) (item, error) {
	e := &j.events[i]
	if r.shared != nil {
		if err := r.mayShare(ctx, e, t); err != nil {
			return item{}, err
		}
	}
	if r.aside == nil {
		return item{t, e}, nil
	}
	if e.Op == debezium.Truncate {
		return item{t, e}, r.mayTruncate(e, t)
	}
	key := r.keyOf(e)
	cause := r.refusedHere(e.Partition, e.Offset)
	if cause == nil && key != "" && r.aside.rows[txnsink.LetterKey{Topic: e.Partition.Topic, RowKey: key}] {
		cause = &sqlgen.RowError{Class: Follows, Err: errFollows}
	}
	if cause == nil {
		return item{t, e}, nil
	}
	return r.setAside(&j.batch.Records[i], tableOf(e).String(), key, cause)
}

// keyOf names the row that e changes.
func (r *router) keyOf(e *debezium.Event) string {
	if e.Key.Sent() {
		return rowKey(e.Key)
	}
	return rowKey(imageKey(e, r.tables.entry(tableOf(e)).rules().Key))
}

// refusedHere returns why a record ended an earlier run, and notes that it is set aside in the next checkpoint.
func (r *router) refusedHere(p debezium.Partition, offset int64) *sqlgen.RowError {
	f := r.refused[recordAt{p, offset}]
	if f == nil {
		return nil
	}
	f.in = r.next
	return f.cause
}

// mayTruncate refuses to empty a table whose records are set aside: applied later, they would come back into it.
func (r *router) mayTruncate(e *debezium.Event, t *sqlgen.Target) error {
	for k := range r.aside.rows {
		if k.Topic == e.Partition.Topic {
			return &sqlgen.RowError{
				Class: sqlgen.TruncateRefused, Table: t.Table.Name, Origin: sqlgen.Origin{Partition: e.Partition, Offset: e.Offset},
				Err: errors.New("the source's table was truncated while records of it are set aside: drop them, as they were before it " +
					"(replicator dead-letters drop), and start again"),
			}
		}
	}
	return nil
}

// unread returns the letter of a record that could not be decoded, and its lane. Its key is decoded alone, as a tombstone's.
func (r *router) unread(ctx context.Context, record *debezium.Record, bad *debezium.RecordError) (int, item, error) {
	key := ""
	if record.Key != nil {
		b := debezium.Batch{Partition: record.Partition, Records: []debezium.Record{{Partition: record.Partition, Offset: record.Offset, Key: record.Key}}}
		switch events, err := r.Decoder.DecodeBatchContext(ctx, &b); {
		case err == nil:
			key = rowKey(events[0].Key)
		case errors.As(err, new(*debezium.RecordError)):
			key = digested(fmt.Sprintf("0x%x", record.Key))
		default:
			return 0, item{}, err
		}
	}
	it, err := r.setAside(record, sourceTable{bad.Source.Database, bad.Source.Schema, bad.Source.Table}.String(), key, badRow(bad))
	return laneOf(r.aside.target, len(r.lanes)), it, err
}

// badRecord is the error for a record that the decoder refused. Another failure of the decoder is its registry's, and
// may pass.
func badRecord(err error) error {
	var re *debezium.RecordError
	if !errors.As(err, &re) {
		return err
	}
	return badRow(re)
}

func badRow(re *debezium.RecordError) *sqlgen.RowError {
	return &sqlgen.RowError{
		Class: sqlgen.BadRecord, Err: re.Err,
		Table:  schema.Name{Schema: cmp.Or(re.Source.Schema, re.Source.Database), Table: re.Source.Table}, // the target's is not known
		Column: re.Column,
		Origin: sqlgen.Origin{Partition: re.Partition, Offset: re.Offset},
	}
}

// setAside returns the letter of a record. Later records of its row follow it.
func (r *router) setAside(record *debezium.Record, source, key string, cause *sqlgen.RowError) (item, error) {
	t, err := newLetter(record, source, key, cause)
	if err != nil {
		return item{}, err
	}
	r.progress.Aside++
	r.asides[refusedCount{cmp.Or(t.Source, t.Topic), cause.Class}]++
	if cause.Class != Follows {
		r.Log.Warn("setting a record aside", "pipeline", r.Pipeline, "topic", t.Topic, "partition", t.Partition, "offset", t.Offset,
			"table", t.Source, "class", t.Class, "error", t.Cause)
		if r.aside.causes++; r.aside.causes > maxAside {
			return item{}, tooManyAside(cause)
		}
	}
	if r.LetterTopic != nil {
		r.aside.copies = append(r.aside.copies, t)
	}
	r.aside.rows[txnsink.LetterKey{Topic: t.Topic, RowKey: t.RowKey}] = true
	if len(r.aside.rows) > maxAsideRows {
		return item{}, permanent(fmt.Errorf("records of more than %d rows are set aside: retry or drop some (replicator dead-letters) and start again", maxAsideRows))
	}
	return r.aside.write(r.Pipeline, t), nil
}

// decideLetters carries out what an operator has decided about letters, at most once in lettersEvery. Nothing is in flight
// meanwhile: the letters in the target are all that there are, and what is routed next of their rows comes after them.
func (r *router) decideLetters(ctx context.Context) error {
	l := r.aside
	if l == nil || len(l.rows) == 0 || time.Since(l.looked) < lettersEvery || r.halfMoved(time.Now()) {
		return nil
	}
	l.looked = time.Now()
	if decided, err := r.Letters.SpreadDecisions(ctx, r.Pipeline); err != nil || !decided {
		return err
	}
	freed, again := map[txnsink.LetterKey]bool{}, map[txnsink.LetterKey]bool{}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if _, err := r.Letters.SpreadDecisions(ctx, r.Pipeline); err != nil { // also to those that were in flight
		return err
	}
	for {
		list, err := r.Letters.DecidedLetters(ctx, r.Pipeline, lettersAtATime)
		if err != nil {
			return err
		}
		for i := range list {
			freed[txnsink.LetterKey{Topic: list[i].Topic, RowKey: list[i].RowKey}] = true
			if err := r.decideLetter(ctx, &list[i], again); err != nil {
				return err
			}
		}
		if len(list) < lettersAtATime {
			break
		}
		if err := r.settle(ctx); err != nil {
			return err
		}
	}
	for k := range freed {
		if !again[k] {
			delete(l.rows, k)
		}
	}
	return nil
}

// settle completes a checkpoint of everything that was routed.
func (r *router) settle(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	return r.quiesce(ctx)
}

// decideLetter drops or retries one letter. again are the rows of which a letter was set aside again: the others wait for it.
func (r *router) decideLetter(ctx context.Context, t *txnsink.Letter, again map[txnsink.LetterKey]bool) error {
	key := txnsink.LetterKey{Topic: t.Topic, RowKey: t.RowKey}
	cause := r.refusedHere(debezium.Partition{Topic: t.Topic, ID: t.Partition}, t.Offset)
	switch {
	case t.Action == DropLetter:
		r.Log.Info("dropping a record that was set aside", "pipeline", r.Pipeline, "topic", t.Topic, "partition", t.Partition, "offset", t.Offset)
		return r.routeLetter(ctx, laneOf(r.aside.target, len(r.lanes)), r.aside.remove(r.Pipeline, t))
	case again[key]:
		return r.routeLetter(ctx, laneOf(r.aside.target, len(r.lanes)), r.aside.write(r.Pipeline, t))
	}
	record, err := recordOf(t)
	if err != nil {
		return err
	}
	var events []debezium.Event
	if cause == nil {
		b := debezium.Batch{Partition: record.Partition, Records: []debezium.Record{record}}
		var bad *debezium.RecordError
		if events, err = r.Decoder.DecodeBatchContext(ctx, &b); errors.As(err, &bad) {
			cause = badRow(bad)
		} else if err != nil {
			return err
		}
	}
	if cause != nil {
		again[key] = true
		it, err := r.setAside(&record, t.Source, t.RowKey, cause)
		if err != nil {
			return err
		}
		return r.routeLetter(ctx, laneOf(r.aside.target, len(r.lanes)), it)
	}
	r.Log.Info("retrying a record that was set aside", "pipeline", r.Pipeline, "topic", t.Topic, "partition", t.Partition, "offset", t.Offset)
	return r.retry(ctx, t, &events[0])
}

// retry applies the event of a letter.
func (r *router) retry(ctx context.Context, t *txnsink.Letter, e *debezium.Event) error {
	removed := r.aside.remove(r.Pipeline, t)
	lane := laneOf(r.aside.target, len(r.lanes))
	if !e.Op.Row() || r.tables.skips(e) {
		return r.routeLetter(ctx, lane, removed)
	}
	if !r.tables.ready(e) {
		n, err := r.tables.need(ctx, e)
		if err != nil {
			return err
		}
		if err := r.settle(ctx); err != nil { // also where only the table's shape is another one: rows are folded for one
			return err
		}
		if !n.none() {
			if err := r.tables.bring(ctx, n, e); err != nil {
				return locate(err, e)
			}
		}
		if err := r.tables.make(ctx, e); err != nil {
			return locate(err, e)
		}
		r.progress.DDL = r.tables.ddl
	}
	target := r.tables.entry(tableOf(e)).target
	if target == nil {
		return r.routeLetter(ctx, lane, removed)
	}
	lane, as, ok := r.place.of(target, e)
	if !ok {
		if err := r.settle(ctx); err != nil {
			return err
		}
		lane, as, _ = r.place.of(target, e)
	}
	return r.routeLetter(ctx, lane, removed, item{as, e})
}

// routeLetter sends items to a lane. They belong to no position: the checkpoint is cut for them alone.
func (r *router) routeLetter(ctx context.Context, lane int, list ...item) error {
	items := make([][]item, len(r.lanes))
	items[lane] = list
	for range list {
		r.tally()
	}
	r.dirty = true
	return r.sendItems(ctx, items, false)
}
