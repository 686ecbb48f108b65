package checkpoint

import (
	"replicator/debezium"
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
	t := &tables{Config: Config{Tables: *c}, dialect: d}
	name := sourceTable{database, schema, table}
	var rule *Rule
	for i := range c.Rules {
		if c.Rules[i].matches(name) {
			rule = &c.Rules[i]
			break
		}
	}
	p := Place{Target: t.targetName(name, rule, &debezium.Event{Partition: debezium.Partition{Topic: topic}})}
	if rule != nil {
		p.Skip, p.Rules = rule.Skip, rule.Rows
	}
	return p
}
