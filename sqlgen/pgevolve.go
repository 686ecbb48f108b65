package sqlgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
)

var _ Evolver = Postgres{}

// Evolve implements Evolver. The order is: the table's name, columns' names, what goes (indexes, the key, columns),
// new columns, then each column's type, NOT NULL, default and identity, and last the key, comments, indexes and the names of enum types.
//
// Columns that trade names do so by way of a third name. When all statements for that have run, the catalog
// looks as before them: such a step is to be recorded in the transaction that makes it.
func (p Postgres) Evolve(e Evolution) Plan {
	switch {
	case e.To == nil:
		return p.dropTable(e)
	case e.Current == nil:
		return underPolicy(e, Plan{Statements: p.createTable(*e.To)})
	case e.From == nil:
		return Plan{} // whoever made the table, it is used as it is
	}
	w := newPgEvolution(e)
	w.renameTable()
	w.renameColumns()
	w.dropIndexes()
	w.dropKey()
	w.dropColumns()
	for i := range e.To.Columns {
		w.addColumn(i)
	}
	for i := range e.To.Columns {
		w.alterColumn(i)
	}
	w.addKey()
	w.comments()
	w.createIndexes()
	w.settleTypes()
	return underPolicy(e, w.plan)
}

// underPolicy makes of a plan what the policies stop and ignore leave of it. A plan without statements passes both: the
// target is as it should be, whoever saw to that.
func underPolicy(e Evolution, p Plan) Plan {
	switch {
	case e.Policy == schema.Ignore:
		for _, r := range p.Refused {
			p.Kept = append(p.Kept, Kept{r.Kind, r.Column, "schema.evolve is ignore"})
		}
		for _, s := range p.Statements {
			p.Kept = append(p.Kept, Kept{s.Kind, "", "schema.evolve is ignore"})
		}
		return Plan{Kept: p.Kept}
	case len(p.Refused) > 0:
		p.Statements = nil
	case e.Policy == schema.Stop && len(p.Statements) > 0:
		table := e.From
		if table == nil {
			table = e.To
		}
		for _, s := range p.Statements {
			p.Refused = append(p.Refused, &Refusal{Kind: s.Kind, Table: table.Name, Err: fmt.Errorf("schema.evolve is stop: alter the target yourself as in %s, or set it to evolve or lenient", s.SQL)})
		}
		p.Statements = nil
	}
	return p
}

// dropTable follows a DROP TABLE. Under lenient nothing gets lost, so the table stays.
func (p Postgres) dropTable(e Evolution) Plan {
	if e.Current == nil {
		return Plan{}
	}
	if e.Policy == schema.Lenient {
		return Plan{Kept: []Kept{{Kind: DropTable, Why: "schema.evolve is lenient: the table stays with its rows"}}}
	}
	drop := DDL{DropTable, "DROP TABLE IF EXISTS " + p.table(e.Current.Name)}
	return underPolicy(e, Plan{Statements: append([]DDL{drop}, p.dropTypes(e.Current)...)})
}

// pgEvolution plans one Evolution.
type pgEvolution struct {
	Postgres
	Evolution
	plan    Plan
	table   schema.Table      // the target's table as the statements so far leave it
	was     map[string]string // To's names of columns that are in From, and From's names of them
	indexes []schema.Index    // From's, with To's names of columns
}

func newPgEvolution(e Evolution) *pgEvolution {
	w := &pgEvolution{Evolution: e, table: *e.Current, was: map[string]string{}}
	w.table.Columns = slices.Clone(e.Current.Columns)
	w.table.PrimaryKey = slices.Clone(e.Current.PrimaryKey)
	w.table.Indexes = slices.Clone(e.Current.Indexes)
	var renames []schema.Rename
	for _, r := range e.Renames {
		from, ok := columnFold(e.From, r.From)
		to, also := columnFold(e.To, r.To)
		if ok && also && from.Name != to.Name {
			renames = append(renames, schema.Rename{From: from.Name, To: to.Name})
		}
	}
	w.Renames = renames
	for _, c := range e.To.Columns {
		if _, ok := e.From.Column(c.Name); ok && !renamedFrom(renames, c.Name) && !w.replaced(c.Name) {
			w.was[c.Name] = c.Name
		}
	}
	for _, r := range renames {
		w.was[r.To] = r.From
	}
	w.indexes = w.indexesByNewNames()
	return w
}

func (w *pgEvolution) replaced(name string) bool {
	return slices.ContainsFunc(w.Replaced, func(r string) bool { return strings.EqualFold(r, name) })
}

func renamedFrom(renames []schema.Rename, name string) bool {
	return slices.ContainsFunc(renames, func(r schema.Rename) bool { return r.From == name })
}

// columnFold finds a column by its name, or by the only one that differs in case alone, as Target does.
func columnFold(t *schema.Table, name string) (*schema.Column, bool) {
	if c, ok := t.Column(name); ok {
		return c, true
	}
	var found *schema.Column
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			if found != nil {
				return nil, false
			}
			found = &t.Columns[i]
		}
	}
	return found, found != nil
}

func (w *pgEvolution) do(k DDLKind, format string, args ...any) {
	w.plan.Statements = append(w.plan.Statements, DDL{k, fmt.Sprintf(format, args...)})
}

// alter adds an ALTER TABLE of the table by its name as it then is.
func (w *pgEvolution) alter(k DDLKind, format string, args ...any) {
	w.do(k, "ALTER TABLE %s %s", w.Postgres.table(w.table.Name), fmt.Sprintf(format, args...))
}

func (w *pgEvolution) refuse(k DDLKind, column, format string, args ...any) {
	w.plan.Refused = append(w.plan.Refused, &Refusal{Kind: k, Table: w.table.Name, Column: column, Err: fmt.Errorf(format, args...)})
}

func (w *pgEvolution) keep(k DDLKind, column, format string, args ...any) {
	w.plan.Kept = append(w.plan.Kept, Kept{k, column, fmt.Sprintf(format, args...)})
}

func (w *pgEvolution) lenient() bool { return w.Policy == schema.Lenient }

// renameTable moves the table to To's name where From had another, unless it is there already.
func (w *pgEvolution) renameTable() {
	from, to := w.From.Name, w.To.Name
	if from.Schema != to.Schema && to.Schema != "" && w.table.Name.Schema != to.Schema {
		w.alter(RenameTable, "SET SCHEMA %s", w.Quote(to.Schema))
		w.table.Name.Schema = to.Schema
	}
	if from.Table != to.Table && w.table.Name.Table != to.Table {
		w.alter(RenameTable, "RENAME TO %s", w.Quote(to.Table))
		w.table.Name.Table = to.Table
	}
}

// renameColumns orders renames so that each new name is free when it is taken. What a crash left under a third name goes on
// from there.
func (w *pgEvolution) renameColumns() {
	from := func(r schema.Rename) string {
		if via := w.via(r.From); w.has(via) {
			return via
		}
		return r.From
	}
	left := slices.DeleteFunc(slices.Clone(w.Renames), func(r schema.Rename) bool { return !w.has(from(r)) }) // done before
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(r schema.Rename) bool { return !w.has(r.To) })
		if i < 0 {
			left = w.breakTie(left)
			continue
		}
		r := left[i]
		left = slices.Delete(slices.Clone(left), i, i+1)
		w.renameColumn(from(r), r.To)
	}
}

// breakTie deals with renames whose old and new names are both there. Names that are traded go by way of a third name. In a
// row of renames (a to b, b to c) both names of the second are there when all is done. What remains is a column that
// the target had of its own.
func (w *pgEvolution) breakTie(left []schema.Rename) []schema.Rename {
	r := left[0]
	if next, ok := w.cycle(left); ok {
		w.renameColumn(next.From, w.via(next.From))
		return left
	}
	supplied := slices.ContainsFunc(w.Renames, func(o schema.Rename) bool { return o.To == r.From && !w.had(o.From) })
	if !supplied {
		w.refuse(RenameColumn, r.From, "it is to be called %q, and the target's table has a column of that name already: rename or drop that one", r.To)
	}
	return left[1:]
}

// had says whether the target has a column of this name before anything is done.
func (w *pgEvolution) had(name string) bool {
	_, ok := w.Current.Column(name)
	return ok
}

// cycle returns a rename that leads back to its own name.
func (w *pgEvolution) cycle(left []schema.Rename) (schema.Rename, bool) {
	for _, start := range left {
		name := start.To
		for range left {
			i := slices.IndexFunc(left, func(r schema.Rename) bool { return r.From == name })
			if i < 0 {
				break
			}
			if name = left[i].To; name == start.From {
				return start, true
			}
		}
	}
	return schema.Rename{}, false
}

// via is the name that a column has while others trade theirs with it.
func (w *pgEvolution) via(name string) string { return w.ShortName("replicator_renames_" + name) }

func (w *pgEvolution) has(name string) bool {
	_, ok := w.table.Column(name)
	return ok
}

func (w *pgEvolution) renameColumn(from, to string) {
	w.alter(RenameColumn, "RENAME COLUMN %s TO %s", w.Quote(from), w.Quote(to))
	c, _ := w.table.Column(from)
	c.Name = to
	w.table.PrimaryKey = renamed(w.table.PrimaryKey, from, to)
	for i := range w.table.Indexes {
		w.table.Indexes[i].Columns = renamed(w.table.Indexes[i].Columns, from, to)
	}
}

func renamed(names []string, from, to string) []string {
	out := slices.Clone(names)
	for i := range out {
		if out[i] == from {
			out[i] = to
		}
	}
	return out
}

// dropColumns drops what From has and To has not. Columns that are the target's own stay.
func (w *pgEvolution) dropColumns() {
	for _, c := range w.From.Columns {
		if _, stays := w.To.Column(c.Name); stays && !w.replaced(c.Name) || renamedFrom(w.Renames, c.Name) {
			continue
		}
		has, ok := columnFold(&w.table, c.Name)
		if !ok {
			continue
		}
		if w.lenient() && w.replaced(c.Name) {
			w.refuse(DropColumn, has.Name, "another column was added under its name, and schema.evolve is lenient: rename this one, or set schema.evolve to evolve")
			continue
		}
		if !w.lenient() {
			w.alter(DropColumn, "DROP COLUMN IF EXISTS %s", w.Quote(has.Name))
			name := has.Name
			w.table.Columns = slices.DeleteFunc(w.table.Columns, func(c schema.Column) bool { return c.Name == name })
			w.table.Indexes = slices.DeleteFunc(w.table.Indexes, func(x schema.Index) bool { return slices.Contains(x.Columns, name) })
			continue
		}
		w.keep(DropColumn, has.Name, "schema.evolve is lenient: the column stays, and takes NULL")
		w.dropNotNull(has)
	}
}

func (w *pgEvolution) dropNotNull(c *schema.Column) {
	if c.NotNull && !slices.Contains(w.table.PrimaryKey, c.Name) {
		w.alter(ChangeNull, "ALTER COLUMN %s DROP NOT NULL", w.Quote(c.Name))
		c.NotNull = false
	}
}

// keyChanges says whether the source's key is another than it was, by To's names.
func (w *pgEvolution) keyChanges() bool {
	was := make([]string, len(w.To.PrimaryKey))
	for i, name := range w.To.PrimaryKey {
		was[i] = w.was[name]
	}
	return !slices.Equal(was, w.From.PrimaryKey)
}

// dropKey drops a primary key that is to be another. One that is neither From's nor To's is the target's own.
func (w *pgEvolution) dropKey() {
	if !w.keyChanges() || slices.Equal(w.table.PrimaryKey, w.To.PrimaryKey) || len(w.table.PrimaryKey) == 0 {
		return
	}
	from := make([]string, len(w.From.PrimaryKey))
	for i, name := range w.From.PrimaryKey {
		from[i] = name
		for to, was := range w.was {
			if was == name {
				from[i] = to
			}
		}
	}
	if !slices.Equal(w.table.PrimaryKey, from) {
		w.keep(ChangeKey, "", "the target's primary key (%s) is its own choice", strings.Join(w.table.PrimaryKey, ", "))
		return
	}
	name := w.table.PrimaryKeyName
	if name == "" {
		name = w.ShortName(w.Current.Name.Table + "_pkey")
	}
	w.alter(ChangeKey, "DROP CONSTRAINT IF EXISTS %s", w.Quote(name))
	w.table.PrimaryKey = nil
}

// addKey makes To's primary key where there is none.
func (w *pgEvolution) addKey() {
	if !w.keyChanges() && !w.Complete || len(w.To.PrimaryKey) == 0 || len(w.table.PrimaryKey) > 0 {
		return
	}
	w.alter(ChangeKey, "ADD PRIMARY KEY (%s)", w.list(w.To.PrimaryKey))
	w.table.PrimaryKey = w.To.PrimaryKey
}

// comments follow where the target's are the source's.
func (w *pgEvolution) comments() {
	if w.From.Comment != w.To.Comment && w.table.Comment == w.From.Comment {
		w.do(ChangeComment, "COMMENT ON TABLE %s IS %s", w.Postgres.table(w.table.Name), pgLiteral(w.To.Comment))
	}
	for _, c := range w.To.Columns {
		var was string
		if from, ok := w.From.Column(w.was[c.Name]); ok {
			was = from.Comment
		}
		if has, ok := columnFold(&w.table, c.Name); ok && c.Comment != was && has.Comment == was {
			w.do(ChangeComment, "COMMENT ON COLUMN %s.%s IS %s", w.Postgres.table(w.table.Name), w.Quote(has.Name), pgLiteral(c.Comment))
		}
	}
}

var errNoCast = errors.New("no conversion between these types is known that keeps every value")
