package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"replicator/debezium"
	"replicator/txnsink"
)

// encodingVersion is the version of the JSON that Marshal writes. It changes when an older program would
// misunderstand it.
const encodingVersion = 1

// document is a checkpoint as JSON. Positions are a list: a map's keys could only be texts.
type document struct {
	Version   int          `json:"version"`
	Pipeline  string       `json:"pipeline"`
	Epoch     int64        `json:"epoch"`
	ID        int64        `json:"id"`
	Created   time.Time    `json:"created"`
	Rows      int64        `json:"rows"`
	Savepoint bool         `json:"savepoint,omitempty"`
	Positions []positionOf `json:"positions"`
	Txns      []txnsink.ID `json:"transactions,omitempty"`
	Parts     []int        `json:"parts,omitempty"`
	Ahead     []aheadOf    `json:"ahead,omitempty"`
	Seen      []Seen       `json:"seen,omitempty"`
	Founding  *Founding    `json:"founding,omitempty"`
}

type positionOf struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	debezium.Position
}

type aheadOf struct {
	Workers   int          `json:"workers"`
	Worker    int          `json:"worker"`
	Positions []positionOf `json:"positions"`
}

// listOf returns positions by topic and partition.
func listOf(positions debezium.Positions) []positionOf {
	out := make([]positionOf, 0, len(positions))
	for p, pos := range positions {
		out = append(out, positionOf{p.Topic, p.ID, pos})
	}
	slices.SortFunc(out, func(a, b positionOf) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// positionsOf refuses a position that cannot be.
func positionsOf(list []positionOf) (debezium.Positions, error) {
	out := make(debezium.Positions, len(list))
	for _, p := range list {
		at := debezium.Partition{Topic: p.Topic, ID: p.Partition}
		if _, twice := out[at]; twice || p.Topic == "" || p.Partition < 0 || p.Offset < 0 {
			return nil, fmt.Errorf("position %d of %v cannot be, or is there twice", p.Offset, at)
		}
		out[at] = p.Position
	}
	return out, nil
}

// Marshal returns c as JSON, for stores and for export. Equal checkpoints have equal JSON.
func Marshal(c Checkpoint) ([]byte, error) {
	d := document{
		Version: encodingVersion, Pipeline: c.Pipeline, Epoch: c.Epoch, ID: c.ID, Created: c.Created.UTC(),
		Rows: c.Rows, Savepoint: c.Savepoint, Positions: listOf(c.Positions), Txns: c.Txns, Parts: c.Parts, Seen: c.Seen, Founding: c.Founding,
	}
	for _, a := range c.Ahead {
		d.Ahead = append(d.Ahead, aheadOf{a.Workers, a.Worker, listOf(a.Positions)})
	}
	return json.Marshal(d)
}

// Unmarshal reads what Marshal wrote. What it accepts it understood: another version, an unknown member and a position that
// cannot be are errors, which come again.
func Unmarshal(b []byte) (Checkpoint, error) {
	c, err := unmarshal(b)
	if err != nil {
		return Checkpoint{}, permanent(err)
	}
	return c, nil
}

func unmarshal(b []byte) (Checkpoint, error) {
	var d document
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return Checkpoint{}, fmt.Errorf("decode checkpoint: %w", err)
	}
	if version.Version != encodingVersion {
		return Checkpoint{}, fmt.Errorf("decode checkpoint: its encoding is version %d, this program reads version %d: use the program that wrote it, or a later one", version.Version, encodingVersion)
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Checkpoint{}, fmt.Errorf("decode checkpoint: %w", err)
	}
	if d.Pipeline == "" || d.Epoch < 0 || d.ID < 0 || d.Rows < 0 {
		return Checkpoint{}, fmt.Errorf("decode checkpoint: pipeline %q, epoch %d, id %d and rows %d cannot be", d.Pipeline, d.Epoch, d.ID, d.Rows)
	}
	c := Checkpoint{
		Pipeline: d.Pipeline, Epoch: d.Epoch, ID: d.ID, Created: d.Created.UTC(), Rows: d.Rows, Savepoint: d.Savepoint,
		Txns: d.Txns, Parts: d.Parts, Seen: d.Seen, Founding: d.Founding,
	}
	var err error
	if c.Positions, err = positionsOf(d.Positions); err != nil {
		return Checkpoint{}, fmt.Errorf("decode checkpoint %d: %w", d.ID, err)
	}
	for _, a := range d.Ahead {
		positions, err := positionsOf(a.Positions)
		if err != nil {
			return Checkpoint{}, fmt.Errorf("decode checkpoint %d: lane %d: %w", d.ID, a.Worker, err)
		}
		if a.Worker < 0 || a.Worker >= a.Workers {
			return Checkpoint{}, fmt.Errorf("decode checkpoint %d: lane %d of %d cannot be", d.ID, a.Worker, a.Workers)
		}
		c.Ahead = append(c.Ahead, Ahead{a.Workers, a.Worker, positions})
	}
	if c.Parts != nil && (len(c.Parts) != len(c.Txns) || slices.ContainsFunc(c.Parts, func(n int) bool { return n < 1 })) {
		return Checkpoint{}, fmt.Errorf("decode checkpoint %d: %d transactions have parts %v", d.ID, len(c.Txns), c.Parts)
	}
	if f := c.Founding; f != nil && f.Slots < 1 {
		return Checkpoint{}, fmt.Errorf("decode checkpoint %d: a cluster of %d slots cannot be", d.ID, f.Slots)
	}
	for i := range c.Seen {
		if s := &c.Seen[i]; !s.valid() {
			return Checkpoint{}, fmt.Errorf("decode checkpoint %d: what was seen of table %v in %v cannot be", d.ID, s.table(), s.partition())
		}
	}
	return c, nil
}
