package sqlgen

import (
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
)

var _ Evolver = MySQL{}

// Evolve implements Evolver. All that one step does to a table is one ALTER TABLE, which the server does whole or not at all: after a
// crash the catalog shows whether it has run. Only of columns that trade names it does not, and they are refused. Indexes for full text
// are made one by one after it.
//
// Values that do not fit a narrower type make the statement fail under the session's strict sql_mode. What the server rounds instead,
// it rounds as the source did.
func (m MySQL) Evolve(e Evolution) Plan {
	switch {
	case e.To == nil:
		return m.dropTable(e)
	case e.Current == nil:
		return underPolicy(e, Plan{Statements: []DDL{{CreateTable, m.CreateTable(*e.To)[0]}}})
	case e.From == nil:
		return Plan{} // whoever made the table, it is used as it is
	}
	w := &mysqlEvolution{MySQL: m, Evolution: e}
	w.dropIndexes()
	w.dropKey()
	w.dropColumns()
	for i := range e.To.Columns {
		w.column(i)
	}
	w.addKey()
	w.createIndexes()
	w.comment()
	name := w.renameTable()
	if len(w.clauses) > 0 {
		sql := "ALTER TABLE " + m.tableName(e.Current.Name) + " " + strings.Join(w.clauses, ", ")
		w.plan.Statements = []DDL{{w.first, sql}}
	}
	for _, clause := range w.later {
		w.plan.Statements = append(w.plan.Statements, DDL{CreateIndex, "ALTER TABLE " + m.tableName(name) + " " + clause})
	}
	return underPolicy(e, w.plan)
}

func (m MySQL) dropTable(e Evolution) Plan {
	if e.Current == nil {
		return Plan{}
	}
	if e.Policy == schema.Lenient {
		return Plan{Kept: []Kept{{Kind: DropTable, Why: "schema.evolve is lenient: the table stays with its rows"}}}
	}
	return underPolicy(e, Plan{Statements: []DDL{{DropTable, "DROP TABLE IF EXISTS " + m.tableName(e.Current.Name)}}})
}

// mysqlEvolution plans one Evolution as clauses of one statement.
type mysqlEvolution struct {
	MySQL
	Evolution
	plan    Plan
	clauses []string
	first   DDLKind        // of the first clause
	later   []string       // clauses that each need a statement of their own, after it
	indexes []schema.Index // the target's, as the clauses so far leave them
}

func (w *mysqlEvolution) do(k DDLKind, format string, args ...any) {
	if len(w.clauses) == 0 {
		w.first = k
	}
	w.clauses = append(w.clauses, fmt.Sprintf(format, args...))
}

func (w *mysqlEvolution) refuse(k DDLKind, column, format string, args ...any) {
	w.plan.Refused = append(w.plan.Refused, &Refusal{Kind: k, Table: w.Current.Name, Column: column, Err: fmt.Errorf(format, args...)})
}

func (w *mysqlEvolution) keep(k DDLKind, column, why string) {
	w.plan.Kept = append(w.plan.Kept, Kept{k, column, why})
}

func (w *mysqlEvolution) lenient() bool { return w.Policy == schema.Lenient }

func (w *mysqlEvolution) replaced(name string) bool {
	return slices.ContainsFunc(w.Replaced, func(r string) bool { return strings.EqualFold(r, name) })
}

// was is From's name of a column of To; empty: it is new.
func (w *mysqlEvolution) was(name string) string {
	for _, r := range w.Renames {
		if strings.EqualFold(r.To, name) {
			return r.From
		}
	}
	if _, ok := columnFold(w.From, name); ok && !w.renamed(name) && !w.replaced(name) {
		return name
	}
	return ""
}

// renamed says whether a column of From has another name in To.
func (w *mysqlEvolution) renamed(name string) bool {
	return slices.ContainsFunc(w.Renames, func(r schema.Rename) bool { return strings.EqualFold(r.From, name) && r.From != r.To })
}

// dropColumns drops what From has and To has not. Columns that are the target's own stay.
func (w *mysqlEvolution) dropColumns() {
	for _, c := range w.From.Columns {
		has, there := columnFold(w.Current, c.Name)
		_, stays := columnFold(w.To, c.Name)
		switch {
		case !there || w.renamed(c.Name) || stays && !w.replaced(c.Name):
		case !w.lenient():
			w.do(DropColumn, "DROP COLUMN %s", w.Quote(has.Name))
		case w.replaced(c.Name):
			w.refuse(DropColumn, has.Name, "another column was added under its name, and schema.evolve is lenient: rename this one, or set schema.evolve to evolve")
		default:
			w.keep(DropColumn, has.Name, "schema.evolve is lenient: the column stays, and takes NULL")
			if has.NotNull && !slices.Contains(w.Current.PrimaryKey, has.Name) {
				nullable := *has
				nullable.NotNull = false
				w.modify(ChangeNull, has, nullable)
			}
		}
	}
}

// column brings the target to To's i-th column.
func (w *mysqlEvolution) column(i int) {
	to := &w.To.Columns[i]
	was := w.was(to.Name)
	if was == "" {
		w.addColumn(i)
		return
	}
	has, there := columnFold(w.Current, was)
	if was != to.Name {
		done, other := columnFold(w.Current, to.Name)
		switch {
		case other && there && !strings.EqualFold(was, to.Name) && !w.leaves(to.Name):
			w.refuse(RenameColumn, was, "it is to be called %q, and the target's table has a column of that name already: rename or drop that one", to.Name)
			return
		case other && there && !strings.EqualFold(was, to.Name):
			w.refuse(RenameColumn, was, "it takes the name of another that is renamed too, and after a crash nothing would tell whether that was done: rename the target's columns, and start again with schema.evolve ignore for this table")
			return
		case !there:
			has, there = done, other
		}
	}
	from, ok := columnFold(w.From, was)
	switch {
	case !there && w.Complete:
		w.addColumn(i)
	case !there || has.Generated || !ok:
		// Dropped in the target by somebody, or computed there.
	case w.Complete:
		w.alterColumn(has, mysqlIncomplete(*from, has, to), to)
	default:
		w.alterColumn(has, from, to)
	}
}

// leaves says whether a column of this name is renamed or dropped in this step.
func (w *mysqlEvolution) leaves(name string) bool {
	_, had := columnFold(w.From, name)
	return had && (w.renamed(name) || w.was(name) != name)
}

// alterColumn brings a column to what To's has and From's had not. MySQL forgets of a column what is not said again.
func (w *mysqlEvolution) alterColumn(has, from, to *schema.Column) {
	next, kind := *has, RenameColumn
	changes := func(k DDLKind) {
		if kind == RenameColumn {
			kind = k
		}
	}
	if w.changesType(has, from, to) {
		next.Type = to.Type
		changes(ChangeType)
	}
	switch {
	case from.NotNull == to.NotNull || has.NotNull == to.NotNull:
	case to.NotNull && w.lenient():
		w.keep(ChangeNull, has.Name, "schema.evolve is lenient: the column goes on taking NULL")
	default:
		next.NotNull = to.NotNull
		changes(ChangeNull)
	}
	if w.changesDefault(has, from, to) {
		next.Default = to.Default
		changes(ChangeDefault)
	}
	if from.OnUpdate != to.OnUpdate && has.OnUpdate != to.OnUpdate {
		next.OnUpdate = to.OnUpdate
		changes(ChangeDefault)
	}
	if from.Invisible != to.Invisible && has.Invisible != to.Invisible {
		next.Invisible = to.Invisible
		changes(ChangeVisible)
	}
	if from.Comment != to.Comment && has.Comment == from.Comment {
		next.Comment = to.Comment
		changes(ChangeComment)
	}
	if !strings.EqualFold(from.Name, to.Name) || from.Name != to.Name && has.Name == from.Name {
		next.Name = to.Name
	}
	switch {
	case kind != RenameColumn:
		w.modify(kind, has, next)
	case next.Name != has.Name:
		w.do(RenameColumn, "RENAME COLUMN %s TO %s", w.Quote(has.Name), w.Quote(next.Name))
	}
}

// changesType says whether the type is to change: if the source's did and the column's does not hold it, or is From's and held more.
func (w *mysqlEvolution) changesType(has, from, to *schema.Column) bool {
	cur := has.Type
	if from.Type.Native == to.Type.Native || mysqlSameType(cur, to.Type) {
		return false
	}
	holds := mysqlHolds(cur, to.Type)
	switch {
	case holds && (w.lenient() || !mysqlSameType(cur, from.Type)):
		w.keep(ChangeType, has.Name, fmt.Sprintf("the column stays %s, which holds every %s", cur.Native, to.Type.Native))
		return false
	case w.lenient() && !mysqlHolds(to.Type, cur):
		w.refuse(ChangeType, has.Name, "neither %s nor %s holds all values of the other, and schema.evolve is lenient: change the column yourself, or set schema.evolve to evolve",
			cur.Native, to.Type.Native)
		return false
	}
	return true
}

// modify gives a column a new definition. A default that it keeps is said again as the catalog has it.
func (w *mysqlEvolution) modify(k DDLKind, has *schema.Column, next schema.Column) {
	if next.Default != nil && next.Default == has.Default {
		text, ok := w.storedDefault(*has.Default)
		if !ok {
			w.refuse(k, has.Name, "its default %s would have to be said again, and it is not known how: change the column yourself", *has.Default)
			return
		}
		next.Default = &text
	}
	if !mysqlCollated(next.Type) {
		next.Collation = ""
	}
	next.OnUpdate = next.OnUpdate && mysqlClock(next.Type)
	w.do(k, "CHANGE COLUMN %s %s", w.Quote(has.Name), w.definition(&next))
}

// addColumn adds To's i-th column where the target lacks it. The rows that are there get its default, or else the zero of its type, as they
// did at the source.
func (w *mysqlEvolution) addColumn(i int) {
	to := w.To.Columns[i]
	if has, ok := columnFold(w.Current, to.Name); ok && (w.lenient() || !w.replaced(has.Name)) {
		return
	}
	if to.NotNull && w.lenient() && !slices.Contains(w.To.PrimaryKey, to.Name) {
		w.keep(ChangeNull, to.Name, "schema.evolve is lenient: an added column takes NULL")
		to.NotNull = false
	}
	w.do(AddColumn, "ADD COLUMN %s%s", w.definition(&to), w.place(i))
}

// place says where To's i-th column is added: before the first that follows it at the source and is in the target as it is. At the end
// of the table nothing needs to be said.
func (w *mysqlEvolution) place(i int) string {
	stays := func(c schema.Column) bool {
		_, has := columnFold(w.Current, c.Name)
		return has && w.was(c.Name) == c.Name
	}
	if !slices.ContainsFunc(w.To.Columns[i+1:], stays) {
		return ""
	}
	if i == 0 {
		return " FIRST"
	}
	before := w.To.Columns[i-1]
	if has, ok := columnFold(w.Current, before.Name); ok && stays(before) {
		return " AFTER " + w.Quote(has.Name)
	}
	if w.was(before.Name) == "" && !slices.ContainsFunc(w.Current.Columns, func(c schema.Column) bool { return strings.EqualFold(c.Name, before.Name) }) {
		return " AFTER " + w.Quote(before.Name) // which is added before it
	}
	return ""
}

// keyChanges says whether the source's key is another than it was, by From's names.
func (w *mysqlEvolution) keyChanges() bool {
	was := make([]string, len(w.To.PrimaryKey))
	for i, name := range w.To.PrimaryKey {
		was[i] = w.was(name)
	}
	return !slices.Equal(was, w.From.PrimaryKey) && !slices.Equal(w.Current.PrimaryKey, w.To.PrimaryKey)
}

// dropKey drops a primary key that is to be another. One that is not From's is the target's own.
func (w *mysqlEvolution) dropKey() {
	switch has := w.Current.PrimaryKey; {
	case len(has) == 0 || !w.keyChanges():
	case slices.Equal(has, w.From.PrimaryKey):
		w.do(ChangeKey, "DROP PRIMARY KEY")
	default:
		w.keep(ChangeKey, "", fmt.Sprintf("the target's primary key (%s) is its own choice", strings.Join(has, ", ")))
	}
}

// addKey makes To's primary key where there is none, or where From's goes.
func (w *mysqlEvolution) addKey() {
	has := w.Current.PrimaryKey
	changes := w.keyChanges() && (len(has) == 0 || slices.Equal(has, w.From.PrimaryKey)) || w.Complete && len(has) == 0
	if changes && len(w.To.PrimaryKey) > 0 {
		w.do(ChangeKey, "ADD PRIMARY KEY (%s)", w.list(w.To.PrimaryKey))
	}
}

// comment follows the table's where the target's is the source's.
func (w *mysqlEvolution) comment() {
	if w.From.Comment != w.To.Comment && w.Current.Comment == w.From.Comment || w.Complete && w.Current.Comment == "" && w.To.Comment != "" {
		w.do(ChangeComment, "COMMENT = %s", mysqlComment(w.To.Comment, mysqlTableComment))
	}
}

// renameTable moves the table to To's name where From had another, unless it is there already. It returns the name that it has then.
func (w *mysqlEvolution) renameTable() schema.Name {
	to := w.To.Name
	if to.Schema == "" {
		to.Schema = w.Current.Name.Schema
	}
	if w.From.Name == w.To.Name || w.Current.Name == to {
		return w.Current.Name
	}
	w.do(RenameTable, "RENAME TO %s", w.tableName(to))
	return to
}
