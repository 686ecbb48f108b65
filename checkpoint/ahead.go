package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"

	"replicator/debezium"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Ahead is what one lane had committed beyond a checkpoint's positions when it was recovered. In one-phase delivery a
// lane's transaction carries its own positions, so after a crash some lanes may be further than the last checkpoint
// that was saved, and others not. The events from the checkpoint's positions to Positions that this lane was given are
// applied; see invariant 10.
type Ahead struct {
	Workers   int // how many lanes there were, which decides the lane of a table
	Worker    int // which of them it was
	Positions debezium.Positions
}

// note is what this package leaves in a witness.
type note struct {
	Workers   int          `json:"workers,omitempty"`   // one-phase
	Positions []positionOf `json:"positions,omitempty"` // one-phase: every event before them that the lane was given is applied
	Logged    *txnsink.ID  `json:"logged,omitempty"`    // write-ahead: the transaction of the log that this one applied
}

func encodeNote(n note) ([]byte, error) {
	b, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encode a witness's note: %w", err)
	}
	return b, nil
}

// readNotes returns what the witnesses say, by worker. Without a note it is empty. Where a later run is at work, what it
// did must not be taken for what this one finds: that is ErrFenced.
func (r *run) readNotes(ctx context.Context) ([]txnsink.Note, []note, error) {
	list, err := r.Sink.Notes(ctx, r.Pipeline)
	if err != nil {
		return nil, nil, fmt.Errorf("read how far each lane is: %w", err)
	}
	notes := make([]note, len(list))
	for i, n := range list {
		if n.Epoch > r.last.Epoch {
			return nil, nil, fmt.Errorf("the witness of worker %d of pipeline %s is at epoch %d: %w", n.Worker, r.Pipeline, n.Epoch, txnsink.ErrFenced)
		}
		if n.Text == nil {
			continue
		}
		if err := json.Unmarshal(n.Text, &notes[i]); err != nil {
			return nil, nil, permanent(fmt.Errorf("the witness of worker %d of pipeline %s holds a note that this program did not write: %w", n.Worker, r.Pipeline, err))
		}
	}
	return list, notes, nil
}

// lanesAhead returns what lanes committed beyond the last saved checkpoint, with what was known of that before, and the
// highest number of a checkpoint that a lane committed so. It is called when the sink is fenced.
func (r *run) lanesAhead(ctx context.Context) (ahead []Ahead, highest int64, err error) {
	list, notes, err := r.readNotes(ctx)
	if err != nil {
		return nil, 0, err
	}
	ahead = r.last.Ahead
	for _, n := range list {
		if n.Checkpoint > 0 && r.last.ID == 0 {
			return nil, 0, permanent(fmt.Errorf("the target has committed checkpoint %d of pipeline %s, and checkpoint.store has none: "+
				"set it to the store that the pipeline had (is its disk mounted?), or give the pipeline another name to begin anew", n.Checkpoint, r.Pipeline))
		}
	}
	for i, n := range notes {
		if n.Workers == 0 || list[i].Checkpoint <= r.last.ID {
			continue
		}
		positions, err := positionsOf(n.Positions)
		if err == nil && list[i].Worker >= n.Workers {
			err = fmt.Errorf("there were %d workers", n.Workers)
		}
		if err != nil {
			return nil, 0, permanent(fmt.Errorf("the note of worker %d of pipeline %s: %w", list[i].Worker, r.Pipeline, err))
		}
		highest = max(highest, list[i].Checkpoint)
		ahead = append(ahead[:len(ahead):len(ahead)], Ahead{Workers: n.Workers, Worker: list[i].Worker, Positions: positions})
	}
	return ahead, highest, nil
}

// applied says whether e, which goes to t, was committed by its lane before the run began.
func applied(list []Ahead, t *sqlgen.Target, e *debezium.Event) bool {
	for i := range list {
		a := &list[i]
		if e.Offset < a.Positions[e.Partition].Offset && laneOf(t, a.Workers) == a.Worker {
			return true
		}
	}
	return false
}

// beyond returns the elements of list that are still ahead of positions.
func beyond(list []Ahead, positions debezium.Positions) []Ahead {
	var out []Ahead
	for _, a := range list {
		for p, at := range a.Positions {
			if at.Offset > positions[p].Offset {
				out = append(out, a)
				break
			}
		}
	}
	return out
}
