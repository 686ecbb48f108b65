package checkpoint

import (
	"context"
	"errors"
	"slices"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// maxAlong bounds the tables that one definition makes: PostgreSQL holds a few locks for each until it ends, of 6,400 by default.
const maxAlong = 100

// defineAlong defines the table called name, and if it is made, other new tables with it, of which the schema-change topic tells and rows
// are there to be read: a definition costs the target as much as many tables do. Whichever of them is in the way, each is then defined
// alone, and the one that cannot be is told by its first row.
func (t *tables) defineAlong(ctx context.Context, of *txnsink.Planned, name sourceTable, ddl []sqlgen.DDL, n *tableNote) error {
	alone := map[sourceTable]*tableNote{name: n}
	if of.Table != nil || t.coming == nil {
		return t.define(ctx, of, ddl, alone)
	}
	more, notes, err := t.along(ctx, name, n.target)
	if err != nil {
		return err
	}
	if len(notes) == 0 {
		return t.define(ctx, of, ddl, alone)
	}
	notes[name] = n
	err = t.define(ctx, of, slices.Concat(ddl, more), notes)
	if err == nil {
		delete(notes, name) // the caller says it
		for other, n := range notes {
			t.Log.Info("made a table", "pipeline", t.Pipeline, "source", other.String(), "target", n.target.String())
		}
		return nil
	}
	if ctx.Err() != nil || errors.Is(err, txnsink.ErrFenced) {
		return err
	}
	t.Log.Debug("making several tables at once; each is made alone from now on", "tables", len(notes), "error", err)
	t.coming = nil
	return t.define(ctx, of, ddl, alone)
}

// along plans other tables that are to be made: those of which the topic has one version and one name, so that their first rows would make
// them as this does. What is not as simple, such as a table that was renamed, waits for its first row.
func (t *tables) along(ctx context.Context, name sourceTable, target schema.Name) ([]sqlgen.DDL, map[sourceTable]*tableNote, error) {
	var ddl []sqlgen.DDL
	notes, taken := map[sourceTable]*tableNote{}, map[schema.Name]bool{target: true}
	var coming map[string]bool
	for _, v := range t.history.all {
		if len(notes) == maxAlong {
			break
		}
		only := v.table != nil && v.was == nil && len(t.history.versions[v.name]) == 1 && len(t.history.names(v.name)) == 1
		if !only || v.name == name || t.known(v.name) != nil || t.entry(v.name).skip {
			continue
		}
		if coming == nil {
			coming = t.coming()
		}
		topic := t.topicOf(v.name)
		as := t.nameFor(v.name, topic)
		if !coming[topic] || taken[as] {
			continue
		}
		taken[as] = true
		switch there, err := t.Sink.Table(ctx, as); {
		case err != nil && ctx.Err() != nil:
			return nil, nil, err
		case err != nil || there != nil:
			continue
		}
		made, err := t.create(v.name, as, *v.table, t.entry(v.name).rules())
		if err != nil {
			continue // which its first row says
		}
		ddl = append(ddl, made...)
		notes[v.name] = &tableNote{target: as, At: v.at, Offset: v.offset, Topic: topic, Table: v.table}
	}
	return ddl, notes, nil
}
