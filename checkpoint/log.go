package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"replicator/sqlgen"
	"replicator/txnsink"
)

// StatementLog keeps the statements of checkpoints in write-ahead delivery, in parts. It is safe for concurrent use. Every
// StatementLog passes storetest.RunLog.
type StatementLog interface {
	// Append keeps a part, durably, of a pipeline that was acquired from the store. A transaction's parts are numbered from 0, and none
	// is appended twice.
	Append(ctx context.Context, id txnsink.ID, part int, body []byte) error
	// Read returns a part as it was appended, or ErrNotFound. A part that is damaged is an error that names it, and for
	// which txnsink.Permanent is true.
	Read(ctx context.Context, id txnsink.ID, part int) ([]byte, error)
	// Prune removes the pipeline's parts of epochs before epoch, and those of epoch up to a checkpoint.
	Prune(ctx context.Context, pipeline string, epoch, checkpoint int64) error
}

// Bounds of the log. A part is read into memory as a whole; a transaction's parts wait on a disk for their checkpoint.
const (
	logPart    = 16 << 20
	logLeast   = 1 << 30 // what a transaction may take where Config.Bytes is small: a single row may be large
	logPerByte = 4       // of Config.Bytes: a statement may be longer than the event that it comes from
)

// loggedTxn is a transaction that goes to the log. What Append has answered is durable, and what no saved checkpoint
// lists is as if it had never been: so there is nothing to do in the end.
type loggedTxn struct {
	*run
	id    txnsink.ID
	parts int
	bytes int64
}

func (t *loggedTxn) ID() txnsink.ID { return t.id }

func (t *loggedTxn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	batch = sqlgen.Certain(batch)
	for len(batch) > 0 {
		n := partOf(batch)
		if n < len(batch) {
			keepWhole(batch, n)
		}
		body, err := sqlgen.AppendStatements(nil, batch[:n])
		if err != nil {
			return permanent(fmt.Errorf("write transaction %v to the log: %w", t.id, err))
		}
		t.bytes += int64(len(body))
		if limit := max(logLeast, logPerByte*t.Bytes); t.bytes > limit {
			return permanent(fmt.Errorf("the log of transaction %v would take more than %d bytes: lower checkpoint.rows, or raise checkpoint.bytes", t.id, limit))
		}
		if err := t.WriteAhead.Append(ctx, t.id, t.parts, body); err != nil {
			return fmt.Errorf("write part %d of transaction %v to the log in checkpoint.store: %w", t.parts, t.id, err)
		}
		t.parts++
		batch = batch[n:]
	}
	return nil
}

// keepWhole forgets the exchange of a table whose statements are in two parts: run in place of those of one part, it
// would not know what the other has done.
func keepWhole(batch []sqlgen.Statement, n int) {
	cut := batch[n].Exchange
	if cut == nil || batch[n-1].Exchange != cut {
		return
	}
	for i := range batch {
		if batch[i].Exchange == cut {
			batch[i].Exchange = nil
		}
	}
}

// partOf returns how many of the first statements make a part: at least one.
func partOf(batch []sqlgen.Statement) int {
	size := 0
	for i := range batch {
		size += len(batch[i].SQL)
		for _, a := range batch[i].Args {
			switch a := a.(type) {
			case sqlgen.Array:
				size += len(a.Data)
			case []byte:
				size += len(a)
			case string:
				size += len(a)
			}
		}
		if size > logPart && i > 0 {
			return i
		}
	}
	return len(batch)
}

func (t *loggedTxn) PreCommit(context.Context) error { return nil }

func (t *loggedTxn) Commit(context.Context, []byte) error {
	return errors.New("a transaction of the log is committed by its checkpoint")
}

func (t *loggedTxn) Abort(context.Context) error { return nil }

// applyLogged brings the transactions of the last checkpoint from the log to the target. recovering: they may be there already, as
// their witness then says.
func (r *run) applyLogged(ctx context.Context, recovering bool) error {
	done := map[txnsink.ID]bool{}
	if recovering {
		list, notes, err := r.readNotes(ctx)
		if err != nil {
			return err
		}
		for i, n := range list {
			for _, id := range r.last.Txns { // a worker's commits have rising checkpoints
				later := n.Checkpoint > id.Checkpoint && n.Worker == id.Worker
				done[id] = done[id] || later || notes[i].Logged != nil && *notes[i].Logged == id
			}
		}
	}
	for i, id := range r.last.Txns {
		if done[id] {
			continue
		}
		if err := r.applyParts(ctx, id, r.last.Parts[i]); err != nil {
			return err
		}
		if recovering {
			r.Log.Info("applied a transaction of the log: its checkpoint was saved", "transaction", id.String())
		}
	}
	return nil
}

// applyParts applies one transaction of the log, in this run's epoch whichever wrote it.
func (r *run) applyParts(ctx context.Context, id txnsink.ID, parts int) (err error) {
	as := id
	as.Epoch = r.last.Epoch
	txn, err := r.Sink.Begin(ctx, as)
	if err != nil {
		return fmt.Errorf("apply transaction %v of the log: %w", id, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, abort(ctx, txn))
		}
	}()
	for part := range parts {
		statements, err := r.readPart(ctx, id, part)
		if err != nil {
			return err
		}
		if err := txn.Apply(ctx, statements); err != nil {
			return fmt.Errorf("apply transaction %v of the log: %w", id, err)
		}
	}
	text, err := encodeNote(note{Logged: &id})
	if err != nil {
		return err
	}
	if err := txn.Commit(ctx, text); err != nil {
		return fmt.Errorf("commit transaction %v of the log: %w", id, err)
	}
	return nil
}

func (r *run) readPart(ctx context.Context, id txnsink.ID, part int) ([]sqlgen.Statement, error) {
	body, err := r.WriteAhead.Read(ctx, id, part)
	if errors.Is(err, ErrNotFound) {
		// A later run may have applied and removed it.
		if _, _, err = r.readNotes(ctx); err == nil {
			err = lost(id, fmt.Errorf("part %d is not in the log: %w", part, txnsink.ErrLost))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read transaction %v of the log in checkpoint.store: %w", id, err)
	}
	statements, err := sqlgen.DecodeStatements(body)
	if err != nil {
		return nil, permanent(fmt.Errorf("read part %d of transaction %v of the log in checkpoint.store: %w", part, id, err))
	}
	return statements, nil
}
