package verify

import (
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
	"replicator/sqlgen"
)

// Pair is a table of the source and what the pipeline keeps in step with it.
type Pair struct {
	Source, Target schema.Table // from the catalogs
	Rules          sqlgen.Rules
}

// Names shortens names of columns as the target's dialect does; see [sqlgen.Dialect].
type Names interface{ ShortName(string) string }

// comparison is a Pair, ready to be compared.
type comparison struct {
	name    string // of the source's table, for reports
	columns []pairColumn
	key     []int // indexes into columns; empty: no key
	ordered int   // how many columns of the key, from the first, ranges are made of
	extra   bool  // rows that only the target has are no differences
	source  view
	target  view
}

type pairColumn struct {
	name string // the source's
	form Form
}

// plan pairs the columns as the pipeline does: by the rules, and where the target has no column of just this name, by one that
// differs in case only. Columns that the target computes are left out. postgres says that both are PostgreSQL.
func plan(p Pair, names Names, source, target Side, postgres bool) (*comparison, error) {
	c := &comparison{
		name:   p.Source.Name.String(),
		extra:  p.Rules.Delete == sqlgen.DeleteIgnore || p.Rules.Truncate == sqlgen.TruncateIgnore,
		source: view{side: source, from: tableName(source, p.Source.Name)},
		target: view{side: target, from: tableName(target, p.Target.Name)},
	}
	for _, s := range p.Source.Columns {
		as, ok := targetName(&p.Rules, s.Name)
		if !ok {
			continue
		}
		t, err := find(&p.Target, names.ShortName(as))
		if err != nil {
			return nil, err
		}
		if t.Generated {
			continue
		}
		form := formOf(s.Type, t.Type, postgres)
		c.columns = append(c.columns, pairColumn{s.Name, form})
		c.source.add(s, form)
		c.target.add(*t, form)
	}
	key := p.Rules.Key
	if len(key) == 0 {
		key = p.Source.PrimaryKey
	}
	for _, name := range key {
		i := slices.IndexFunc(c.columns, func(x pairColumn) bool { return x.name == name })
		if i < 0 {
			return nil, fmt.Errorf("column %s of the key is not kept in the target; configure another key (tables: key)", name)
		}
		c.key = append(c.key, i)
		if c.ordered == len(c.key)-1 && ordered(c.source.columns[i].Type, c.target.columns[i].Type) {
			c.ordered++
		}
	}
	if len(c.columns) == 0 {
		return nil, fmt.Errorf("no column of %s is kept in the target", c.name)
	}
	if p.Rules.Delete == sqlgen.DeleteSoft {
		t, err := find(&p.Target, names.ShortName(p.Rules.Soft))
		if err != nil {
			return nil, err
		}
		c.target.where = target.Quote(t.Name) + " IS NULL"
		if families[t.Type.Kind] != instantFamily {
			c.target.where = target.Quote(t.Name) + " IS NOT TRUE"
		}
	}
	return c, nil
}

// targetName is the target's name of a column, or false if the rules leave it out.
func targetName(r *sqlgen.Rules, column string) (string, bool) {
	if slices.Contains(r.Exclude, column) {
		return "", false
	}
	if as, ok := r.Rename[column]; ok {
		return as, true
	}
	return column, true
}

func find(t *schema.Table, name string) (*schema.Column, error) {
	if c, ok := t.Column(name); ok {
		return c, nil
	}
	var found *schema.Column
	for i := range t.Columns {
		if !strings.EqualFold(t.Columns[i].Name, name) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("the target's columns %s and %s fit %s equally", found.Name, t.Columns[i].Name, name)
		}
		found = &t.Columns[i]
	}
	if found == nil {
		return nil, fmt.Errorf("the target's table %s has no column %s; add it, or leave it out by a rule (columns: exclude)", t.Name, name)
	}
	return found, nil
}

func tableName(s Side, n schema.Name) string {
	if n.Schema == "" {
		return s.Quote(n.Table)
	}
	return s.Quote(n.Schema) + "." + s.Quote(n.Table)
}
