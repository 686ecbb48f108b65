package checkpoint

import (
	"log/slog"

	"replicator/schema"
	"replicator/sqlgen"
)

// Place is where the rows of one table of the source go.
type Place struct {
	Skip   bool // a rule leaves the table out
	Rules  sqlgen.Rules
	Target schema.Name
}

// Place finds the rule and fills in the template for a table of the source whose events are in topic, as the pipeline does. schema is
// empty where the source has none.
func (c *TablesConfig) Place(d sqlgen.Dialect, topic, database, schema, table string) Place {
	t := &tables{Config: Config{Tables: *c, Log: slog.New(slog.DiscardHandler)}, dialect: d, entries: map[sourceTable]*entry{}}
	name := sourceTable{database, schema, table}
	en := t.entry(name)
	p := Place{Skip: en.skip, Target: t.nameFor(name, topic)}
	if en.rule != nil {
		p.Rules = en.rule.Rows
	}
	return p
}
