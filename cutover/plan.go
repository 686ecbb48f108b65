package cutover

import (
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
	"replicator/sqlgen"
)

// Table is a table at both ends of a pipeline.
type Table struct {
	Source, Target schema.Table // with Indexes
	Rules          sqlgen.Rules

	SourceKeys []schema.ForeignKey // the source's, by its names
	Computed   []string            // what the source's server puts into columns by itself and no default of the target's can, for people
	Postgres   bool                // the source is PostgreSQL too: its defaults are SQL here
	TargetKeys []TargetKey
	Broken     []string // names of indexes in the target that a failed CREATE INDEX CONCURRENTLY has left
}

// TargetKey is a foreign key of a target's table.
type TargetKey struct {
	schema.ForeignKey
	Valid bool // every row was checked
}

// Step is a statement that brings the target nearer to the source. It runs outside of a transaction.
type Step struct {
	What string // for people, as in "index orders_by_customer of public.orders"
	SQL  string
}

// Left is what the source has and the target will not have.
type Left struct {
	What, Why string
	Needed    bool // the application's inserts fail without it
}

// Plan returns what is to be done, in order, and what is left out.
func Plan(tables []Table, o sqlgen.Options) ([]Step, []Left, error) {
	p := &planner{tables: tables}
	for i := range tables {
		made, err := p.made(&tables[i], o)
		if err != nil {
			return nil, nil, err
		}
		p.identities(&tables[i])
		p.defaults(&tables[i], made)
		p.indexes(&tables[i], made)
	}
	for i := range tables { // keys refer to what the indexes make unique
		p.foreignKeys(&tables[i])
	}
	return p.steps, p.left, nil
}

type planner struct {
	tables []Table
	steps  []Step
	left   []Left
	sqlgen.Postgres
}

func (p *planner) do(what, format string, args ...any) {
	p.steps = append(p.steps, Step{what, fmt.Sprintf(format, args...)})
}

func (p *planner) leave(what, format string, args ...any) {
	p.left = append(p.left, Left{What: what, Why: fmt.Sprintf(format, args...)})
}

func (p *planner) need(what, format string, args ...any) {
	p.left = append(p.left, Left{what, fmt.Sprintf(format, args...), true})
}

func (p *planner) name(n schema.Name) string {
	if n.Schema == "" {
		return p.Quote(n.Table)
	}
	return p.Quote(n.Schema) + "." + p.Quote(n.Table)
}

func (p *planner) list(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = p.Quote(n)
	}
	return strings.Join(quoted, ", ")
}

// made is the source's table as the target has it if the replicator makes it.
func (p *planner) made(t *Table, o sqlgen.Options) (schema.Table, error) {
	source := t.Source
	source.Unique, source.References = nil, nil
	arranged, err := t.Rules.Arrange(source)
	if err != nil {
		return schema.Table{}, err
	}
	return p.TargetTable(arranged, t.Target.Name, o)
}

// defaults are what the application's inserts may leave to the server. A default that the target has is somebody's choice.
func (p *planner) defaults(t *Table, made schema.Table) {
	for _, c := range t.Source.Columns {
		as, ok := p.columns(t, []string{c.Name})
		if c.Default == nil || c.AutoIncrement || c.Generated || !ok {
			continue
		}
		column, ok := t.Target.Column(as[0])
		if !ok || column.Default != nil || column.AutoIncrement || column.Generated {
			continue
		}
		sql := c.Default
		if !t.Postgres {
			sql = nil
			if m, ok := made.Column(column.Name); ok && isArray(m) == isArray(column) { // a SET's default is as its column is
				sql = m.Default
			}
		}
		what := fmt.Sprintf("default of %s.%s", t.Target.Name, column.Name)
		if sql == nil {
			p.leave(what, "what the source has (%s) means nothing here: set one by hand if the application leaves the column out", *c.Default)
			continue
		}
		p.do(what, "ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s", p.name(t.Target.Name), p.Quote(column.Name), *sql)
	}
	for _, c := range t.Computed {
		p.leave(fmt.Sprintf("%s of %s", c, t.Target.Name), "PostgreSQL has no such clause: make the like by hand (a default, a trigger) if the application relies on it")
	}
}

func isArray(c *schema.Column) bool { return strings.HasSuffix(c.Type.Native, "[]") }

// identities gives columns that count by themselves at the source a sequence. An identity column must be an integer; BIGINT
// UNSIGNED is none here, and takes its values from a sequence by default.
func (p *planner) identities(t *Table) {
	for _, c := range t.Source.Columns {
		if !c.AutoIncrement {
			continue
		}
		as, ok := p.columns(t, []string{c.Name})
		if !ok {
			continue
		}
		column, ok := t.Target.Column(as[0])
		if !ok || column.AutoIncrement {
			continue
		}
		what := fmt.Sprintf("sequence of %s.%s", t.Target.Name, column.Name)
		switch column.Type.Kind {
		case schema.Int16, schema.Int32, schema.Int64:
			if column.Default != nil || !column.NotNull {
				p.need(what, "the column has a default or may be NULL: make it an identity column by hand")
				continue
			}
			p.do(what, "ALTER TABLE %s ALTER COLUMN %s ADD GENERATED BY DEFAULT AS IDENTITY", p.name(t.Target.Name), p.Quote(column.Name))
		case schema.Decimal:
			sequence := p.name(schema.Name{Schema: t.Target.Name.Schema, Table: p.ShortName(t.Target.Name.Table + "_" + column.Name + "_seq")})
			p.do(what, "CREATE SEQUENCE IF NOT EXISTS %s OWNED BY %s.%s", sequence, p.name(t.Target.Name), p.Quote(column.Name))
			p.do(what, "ALTER TABLE %s ALTER COLUMN %s SET DEFAULT nextval('%s')", p.name(t.Target.Name), p.Quote(column.Name), strings.ReplaceAll(sequence, "'", "''"))
		default:
			p.need(what, "a column of type %s cannot count", column.Type.Native)
		}
	}
}

// columns are the target's names of columns of the source; false if one is left out.
func (p *planner) columns(t *Table, names []string) ([]string, bool) {
	arranged, err := t.Rules.Arrange(schema.Table{Name: t.Source.Name, Columns: t.Source.Columns})
	if err != nil {
		return nil, false
	}
	kept := slices.DeleteFunc(slices.Clone(t.Source.Columns), func(c schema.Column) bool { return slices.Contains(t.Rules.Exclude, c.Name) })
	var out []string
	for _, n := range names {
		i := slices.IndexFunc(kept, func(c schema.Column) bool { return c.Name == n })
		if i < 0 {
			return nil, false
		}
		as := p.ShortName(arranged.Columns[i].Name)
		has := slices.IndexFunc(t.Target.Columns, func(c schema.Column) bool { return c.Name == as })
		if has < 0 {
			has = slices.IndexFunc(t.Target.Columns, func(c schema.Column) bool { return strings.EqualFold(c.Name, as) })
		}
		if has < 0 {
			return nil, false
		}
		out = append(out, t.Target.Columns[has].Name)
	}
	return out, true
}

// indexes makes the source's indexes. What a failed attempt has left is dropped first: it serves no query and slows every write.
func (p *planner) indexes(t *Table, made schema.Table) {
	for _, name := range t.Broken {
		p.do("index "+name, "DROP INDEX CONCURRENTLY IF EXISTS %s", p.name(schema.Name{Schema: t.Target.Name.Schema, Table: name}))
	}
	for _, x := range made.Indexes {
		what := fmt.Sprintf("index %s of %s", x.Name, t.Target.Name)
		if p.covered(t, x) {
			continue
		}
		if x.Special != "" || len(x.Columns) == 0 {
			p.leave(what, "PostgreSQL has no such index (%s): make the like by hand if a query needs it", x.Special)
			continue
		}
		unique := ""
		if x.Unique {
			unique = "UNIQUE "
		}
		p.do(what, "CREATE %sINDEX CONCURRENTLY IF NOT EXISTS %s ON %s (%s)", unique, p.Quote(x.Name), p.name(t.Target.Name), p.list(x.Columns))
	}
}

// covered says whether the target's table has an index that does what x does, or its primary key does.
func (p *planner) covered(t *Table, x schema.Index) bool {
	if slices.Equal(t.Target.PrimaryKey, x.Columns) {
		return true
	}
	return slices.ContainsFunc(t.Target.Indexes, func(h schema.Index) bool {
		return h.Special == x.Special && slices.Equal(h.Columns, x.Columns) && (h.Unique || !x.Unique)
	})
}

// foreignKeys adds the source's foreign keys without a look at the rows, and then has the rows checked, which does not keep
// writers out.
func (p *planner) foreignKeys(t *Table) {
	for _, k := range t.SourceKeys {
		what := fmt.Sprintf("foreign key %s of %s", k.Name, t.Target.Name)
		as, why := p.translate(t, k)
		if why != "" {
			p.leave(what, "%s", why)
			continue
		}
		add := true
		for _, h := range t.TargetKeys {
			if slices.Equal(h.Columns, as.Columns) && h.References == as.References && slices.Equal(h.Referenced, as.Referenced) {
				as.Name, add = h.Name, false
				if h.Valid {
					as.Name = ""
				}
			}
		}
		if as.Name == "" {
			continue
		}
		if add {
			p.do(what, "ALTER TABLE %s ADD CONSTRAINT %s FOREIGN KEY (%s) REFERENCES %s (%s)%s NOT VALID",
				p.name(t.Target.Name), p.Quote(as.Name), p.list(as.Columns), p.name(as.References), p.list(as.Referenced), actions(k))
		}
		p.do(what, "ALTER TABLE %s VALIDATE CONSTRAINT %s", p.name(t.Target.Name), p.Quote(as.Name))
	}
}

// translate writes a foreign key with the target's names, or says why there is none.
func (p *planner) translate(t *Table, k schema.ForeignKey) (schema.ForeignKey, string) {
	i := slices.IndexFunc(p.tables, func(o Table) bool { return o.Source.Name == k.References })
	if i < 0 {
		return k, fmt.Sprintf("table %s, which it refers to, is not replicated", k.References)
	}
	if t.Rules.Delete == sqlgen.DeleteIgnore || p.tables[i].Rules.Delete == sqlgen.DeleteSoft {
		return k, "a rule keeps rows that the source has deleted"
	}
	columns, ok := p.columns(t, k.Columns)
	referenced, alsoOK := p.columns(&p.tables[i], k.Referenced)
	if !ok || !alsoOK {
		return k, "a rule leaves out one of its columns"
	}
	k.Name, k.Columns, k.References, k.Referenced = p.ShortName(k.Name), columns, p.tables[i].Target.Name, referenced
	return k, ""
}

// actions are what deletes and updates of the other table do; RESTRICT is MySQL's NO ACTION too.
func actions(k schema.ForeignKey) string {
	out := ""
	for _, a := range []struct{ on, do string }{{" ON DELETE ", k.OnDelete}, {" ON UPDATE ", k.OnUpdate}} {
		switch do := strings.ToUpper(a.do); do {
		case "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT":
			out += a.on + do
		}
	}
	return out
}
