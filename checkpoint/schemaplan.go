package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"replicator/schema"
	"replicator/sqlgen"
)

// SchemaPlan is what one table of the target lacks to be as the schema-change topic last says.
type SchemaPlan struct {
	Source     string // the source's table
	Target     schema.Name
	Statements []sqlgen.DDL
	Refused    []*sqlgen.Refusal // if there are any, there are no statements
	Kept       []sqlgen.Kept

	from  schema.Name // the target's table before; zero: there is none
	notes map[sourceTable]*tableNote
}

// PlanSchema compares the target's catalog with the schema-change topic and returns the plans of the tables that differ, in the order
// in which they are to be applied. wants says which topics of rows are the pipeline's. Of c it needs no Store.
//
// Indexes are a part of it whatever c says, and the policies stop and ignore, which are about changes that nobody asked for,
// count as evolve.
func PlanSchema(ctx context.Context, c Config, wants func(topic string) bool) ([]SchemaPlan, error) {
	if c.Tables.SchemaTopic == "" {
		return nil, permanent(errors.New("the source's tables are not known without its schema-change topic (source.schema_changes)"))
	}
	c.Tables.Indexes = true
	t, err := newTables(ctx, c, 0, nil)
	if err != nil {
		return nil, err
	}
	var plans []SchemaPlan
	for _, name := range slices.SortedFunc(maps.Keys(t.history.versions), func(a, b sourceTable) int { return cmp.Compare(a.String(), b.String()) }) {
		list := t.history.versions[name]
		last := list[len(list)-1]
		if last.moved != nil || t.entry(name).skip || !wants(t.topicOf(name)) {
			continue
		}
		p, err := t.lacking(ctx, last)
		if err != nil {
			return nil, fmt.Errorf("plan the schema of source table %v: %w", name, err)
		}
		if p != nil {
			plans = append(plans, *p)
		}
	}
	return inTurn(plans), nil
}

// ApplySchema runs plans, a transaction each. A row from before the changes is then mapped to the table as it is, as in a replay. A
// pipeline that runs meanwhile may have read the catalog before: only indexes are added under it.
func ApplySchema(ctx context.Context, c Config, plans []SchemaPlan) error {
	t, err := newTables(ctx, c, 0, nil)
	if err != nil {
		return err
	}
	for _, p := range plans {
		for _, r := range p.Refused {
			return permanent(fmt.Errorf("source table %s: %w", p.Source, r))
		}
	}
	for _, p := range plans {
		if err := t.define(ctx, nil, p.Statements, p.notes); err != nil {
			return fmt.Errorf("source table %s: %w", p.Source, err)
		}
	}
	return nil
}

// lacking plans from what the target has of v's table to v, which is the last version of it; nil: it lacks nothing.
func (t *tables) lacking(ctx context.Context, v *version) (*SchemaPlan, error) {
	base := t.base(v)
	if v.table == nil {
		return t.dropped(ctx, v, base)
	}
	rules := t.entry(v.name).rules()
	as := t.nameFor(v.name, t.topicOf(v.name))
	names := []schema.Name{as}
	e := sqlgen.Evolution{Policy: asked(t.policy(v.name)), Complete: true}
	p := &SchemaPlan{Source: v.name.String(), notes: map[sourceTable]*tableNote{
		v.name: {At: v.at, Offset: v.offset, Topic: t.topicOf(v.name), Table: v.table},
	}}
	if base != nil {
		old := t.known(base.name)
		if base.name == v.name {
			as = old.target
		} else {
			p.notes[base.name] = &tableNote{target: old.target, At: v.at, Offset: v.offset, Topic: old.Topic}
		}
		names = []schema.Name{old.target, as}
		from, err := t.arranged(t.entry(base.name).rules(), *old.Table, old.target)
		if err != nil {
			return nil, err
		}
		e.From = &from
		e.Renames, e.Replaced = t.since(base, v, old.Table)
	}
	p.notes[v.name].target, p.Target = as, as
	to, err := t.arranged(rules, *v.table, as)
	if err != nil {
		return nil, err
	}
	e.To = &to
	if e.From == nil {
		e.From = e.To // whoever made the table: what it lacks is added
	}
	if e.Source, err = arrangedSource(rules, *v.table); err != nil {
		return nil, err
	}
	if e.Current, err = t.current(ctx, names); err != nil {
		return nil, err
	}
	if e.Current != nil {
		p.from = e.Current.Name
	}
	return t.asPlan(p, e)
}

// dropped plans the end of a table that the source has no more.
func (t *tables) dropped(ctx context.Context, v, base *version) (*SchemaPlan, error) {
	if base == nil {
		return nil, nil
	}
	old := t.known(base.name)
	current, err := t.current(ctx, []schema.Name{old.target})
	if err != nil || current == nil {
		return nil, err
	}
	p := &SchemaPlan{Source: v.name.String(), Target: old.target, from: current.Name, notes: map[sourceTable]*tableNote{
		base.name: {target: old.target, At: v.at, Offset: v.offset, Topic: old.Topic},
	}}
	return t.asPlan(p, sqlgen.Evolution{Current: current, Policy: asked(t.policy(v.name))})
}

// asPlan asks the dialect; nil: there is nothing to do.
func (t *tables) asPlan(p *SchemaPlan, e sqlgen.Evolution) (*SchemaPlan, error) {
	evolver, ok := t.dialect.(sqlgen.Evolver)
	if !ok {
		return nil, permanent(errors.New("schema changes of this kind of target are not served"))
	}
	plan := evolver.Evolve(e)
	p.Statements, p.Refused, p.Kept = plan.Statements, plan.Refused, plan.Kept
	if len(p.Statements) == 0 && len(p.Refused) == 0 {
		return nil, nil
	}
	return p, nil
}

// asked is the policy for what somebody asks for.
func asked(p schema.Policy) schema.Policy {
	if p == schema.Stop || p == schema.Ignore {
		return schema.Evolve
	}
	return p
}

// base returns the version that leads to v and that the target has; nil: it has none of them.
func (t *tables) base(v *version) *version {
	if v.table == nil {
		list := t.history.versions[v.name]
		if len(list) < 2 {
			return nil
		}
		v = list[len(list)-2]
	}
	for ; v != nil; v = v.was {
		if v.table != nil && t.noted(v.name) == v {
			return v
		}
	}
	return nil
}

// since returns the columns of table, which is at base, that have other names at v, and those whose names other columns have there.
func (t *tables) since(base, v *version, table *schema.Table) (renames []schema.Rename, replaced []string) {
	names := map[string]string{}
	for i := range table.Columns {
		names[table.Columns[i].Name] = table.Columns[i].Name
	}
	for u := base; u != v; {
		u = u.next
		names = u.follow(names)
	}
	rules := t.entry(v.name).rules()
	gone := &version{table: v.table, dropped: map[string]bool{}}
	for i := range table.Columns {
		old := table.Columns[i].Name
		now, stays := names[old]
		switch {
		case !stays:
			gone.dropped[old] = true
		case now != old:
			gone.renames = append(gone.renames, schema.Rename{From: old, To: now})
		}
	}
	return t.arrangedRenames(rules, gone.renames), t.arrangedReplaced(rules, gone)
}

// inTurn orders plans so that a table is renamed when its new name is free. Tables that trade names only the pipeline itself can
// bring to theirs, in the order in which the source did it.
func inTurn(plans []SchemaPlan) []SchemaPlan {
	var out []SchemaPlan
	for len(plans) > 0 {
		i := slices.IndexFunc(plans, func(p SchemaPlan) bool {
			return !slices.ContainsFunc(plans, func(o SchemaPlan) bool { return o.from == p.Target && o.Source != p.Source })
		})
		if i < 0 {
			for _, p := range plans {
				p.Statements = nil
				traded := errors.New("tables have traded their names since: run the pipeline until it has caught up")
				p.Refused = append(p.Refused, &sqlgen.Refusal{Kind: sqlgen.RenameTable, Table: p.Target, Err: traded})
				out = append(out, p)
			}
			return out
		}
		out = append(out, plans[i])
		plans = slices.Delete(plans, i, i+1)
	}
	return out
}
