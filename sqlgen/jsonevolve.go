package sqlgen

import (
	"reflect"
	"slices"

	"replicator/schema"
)

var _ Evolver = JSON{}

// Evolve implements Evolver. There are no rows that a change could lose: what the target lacks is told in one statement.
func (d JSON) Evolve(e Evolution) Plan {
	one := func(kind DDLKind, c TableChange) Plan {
		return underPolicy(e, Plan{Statements: []DDL{{kind, c.sql()}}})
	}
	switch {
	case e.To == nil && e.Current == nil:
		return Plan{}
	case e.To == nil && e.Policy == schema.Lenient:
		return Plan{Kept: []Kept{{Kind: DropTable, Why: "schema.evolve is lenient: the table stays with its rows"}}}
	case e.To == nil:
		return one(DropTable, TableChange{Op: OpDrop, Name: e.Current.Name})
	case e.Current == nil:
		return one(CreateTable, TableChange{Op: OpCreate, Name: e.To.Name, Table: e.To})
	case e.From == nil:
		return Plan{} // whoever made the table, it is used as it is
	}
	after, kept := jsonEvolved(e)
	if reflect.DeepEqual(after, *e.Current) {
		return Plan{Kept: kept}
	}
	plan := one(jsonKind(e.Current, &after), TableChange{Op: OpAlter, Name: e.Current.Name, Table: &after, Renames: e.Renames})
	plan.Kept = append(plan.Kept, kept...)
	return plan
}

// jsonEvolved is the target's table with what differs between From and To.
func jsonEvolved(e Evolution) (schema.Table, []Kept) {
	out := *e.Current
	out.Name, out.Comment = e.To.Name, e.To.Comment
	out.Columns, out.PrimaryKey = slices.Clone(out.Columns), slices.Clone(out.PrimaryKey)
	var kept []Kept
	at := func(name string) int {
		return slices.IndexFunc(out.Columns, func(c schema.Column) bool { return c.Name == name })
	}
	// All at once: columns may trade names.
	place := make(map[string]int, len(e.From.Columns))
	for _, c := range e.From.Columns {
		place[c.Name] = at(c.Name)
	}
	var gone []int
	for _, was := range e.From.Columns {
		name := renamedColumn(e.Renames, was.Name)
		i := place[was.Name]
		to, stays := e.To.Column(name)
		if slices.ContainsFunc(e.Renames, func(r schema.Rename) bool { return r.To == name && r.From != was.Name }) {
			stays = false // another one has taken its name
		}
		switch {
		case i < 0: // it was changed before
		case stays:
			out.Columns[i].Name = name
			if slices.Contains(e.Replaced, name) || !same(was, *to) {
				out.Columns[i] = *to
			}
		case e.Policy == schema.Lenient:
			out.Columns[i].NotNull = false
			kept = append(kept, Kept{DropColumn, was.Name, "schema.evolve is lenient: a dropped column stays"})
		default:
			gone = append(gone, i)
		}
	}
	slices.Sort(gone)
	for _, i := range slices.Backward(gone) {
		out.Columns = slices.Delete(out.Columns, i, i+1)
	}
	for _, c := range e.To.Columns {
		if at(c.Name) < 0 {
			out.Columns = append(out.Columns, c)
		}
	}
	if !slices.Equal(e.From.PrimaryKey, e.To.PrimaryKey) {
		out.PrimaryKey = slices.Clone(e.To.PrimaryKey)
	}
	return out, kept
}

// same says whether two columns differ in their names only.
func same(a, b schema.Column) bool {
	a.Name = b.Name
	return reflect.DeepEqual(a, b)
}

func renamedColumn(renames []schema.Rename, name string) string {
	for _, r := range renames {
		if r.From == name {
			return r.To
		}
	}
	return name
}

// jsonKind is the most that changes between two shapes of a table, in the words of metrics.
func jsonKind(before, after *schema.Table) DDLKind {
	switch {
	case before.Name != after.Name:
		return RenameTable
	case len(after.Columns) > len(before.Columns):
		return AddColumn
	case len(after.Columns) < len(before.Columns):
		return DropColumn
	case !slices.Equal(before.PrimaryKey, after.PrimaryKey):
		return ChangeKey
	case slices.EqualFunc(before.Columns, after.Columns, func(b, a schema.Column) bool { return b.Name == a.Name }):
		return ChangeType
	}
	return RenameColumn
}
