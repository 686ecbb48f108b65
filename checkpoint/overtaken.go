package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
	"replicator/txnsink"
)

// Overtaken returns the tables that c would write to and that the pipeline of the checkpoint from has written beyond it. A pipeline that begins
// there applies rows to them that they hold already. It asks c's target only; of c it needs the Sink and Tables.
func Overtaken(ctx context.Context, c Config, from Checkpoint) ([]schema.Name, error) {
	notes, err := c.Sink.Notes(ctx, from.Pipeline)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(notes, func(n txnsink.Note) bool { return n.Checkpoint > from.ID }) {
		return nil, nil
	}
	list, err := c.Sink.Defined(ctx, from.Pipeline)
	if err != nil {
		return nil, err
	}
	t := &tables{Config: c, dialect: c.Sink.Dialect(), entries: map[sourceTable]*entry{}}
	var out []schema.Name
	for _, d := range list {
		var n tableNote
		if err := json.Unmarshal([]byte(d.State), &n); err != nil {
			return nil, permanent(fmt.Errorf("what the target remembers of table %s of pipeline %s (schema_version) cannot be read: %w", d.Source, from.Pipeline, err))
		}
		name := parseSourceTable(d.Source)
		if n.Table == nil || t.entry(name).skip {
			continue
		}
		written, err := t.inCatalog(ctx, d.Target)
		if err != nil {
			return nil, err
		}
		to, err := t.inCatalog(ctx, t.nameFor(name, n.Topic))
		if err != nil {
			return nil, err
		}
		if written != nil && to != nil && *written == *to {
			out = append(out, *to)
		}
	}
	return out, nil
}

// inCatalog returns a table's whole name; nil: it is not there.
func (t *tables) inCatalog(ctx context.Context, name schema.Name) (*schema.Name, error) {
	table, err := t.Sink.Table(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read table %v of the target: %w", name, err)
	}
	if table == nil {
		return nil, nil
	}
	return &table.Name, nil
}

// parseSourceTable reads what sourceTable.String wrote.
func parseSourceTable(s string) sourceTable {
	database, rest, ok := strings.Cut(s, ".")
	if !ok {
		return sourceTable{table: s}
	}
	n := schema.ParseName(rest)
	return sourceTable{database: database, schema: n.Schema, table: n.Table}
}
