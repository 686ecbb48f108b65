package sqlgen

import (
	"slices"

	"replicator/schema"
)

// pgMaxIndexed is about how many bytes the values of an index's row can have (a third of a page). An index over longer values
// refuses rows.
const pgMaxIndexed = 2700

// pgIndexes returns the source's indexes as PostgreSQL can have them. Names of indexes are unique within a schema here and
// within a table at MySQL, so the table's name comes first.
func (p Postgres) pgIndexes(source schema.Table, target schema.Table) []schema.Index {
	var out []schema.Index
	for _, x := range source.Indexes {
		x.Name = p.ShortName(target.Name.Table + "_" + x.Name)
		columns := make([]string, len(x.Columns))
		bytes := 0
		for i, name := range x.Columns {
			columns[i] = p.ShortName(name)
			if c, ok := columnFold(&target, columns[i]); ok {
				columns[i] = c.Name
				if c.Type.Kind == schema.Varchar {
					bytes += 4 * c.Type.Length
				}
			}
		}
		x.Columns = columns
		if bytes > pgMaxIndexed && x.Special == "" {
			x.Special = "length"
		}
		out = append(out, x)
	}
	return out
}

// createIndex returns the statement that makes an index, or false for one that PostgreSQL cannot have. A unique one is checked
// at once, as the source's is: rows that trade values get along with it (see [Exchange]), while a deferred check is left
// out altogether in sessions that fire no triggers.
func (p Postgres) createIndex(table schema.Name, x schema.Index) (DDL, bool) {
	switch {
	case x.Special != "" || len(x.Columns) == 0:
		return DDL{}, false
	}
	create := "CREATE INDEX"
	if x.Unique {
		create = "CREATE UNIQUE INDEX"
	}
	return DDL{CreateIndex, create + " IF NOT EXISTS " + p.Quote(x.Name) + " ON " + p.table(table) + " (" + p.list(x.Columns) + ")"}, true
}

func indexNamed(list []schema.Index, name string) (schema.Index, bool) {
	i := slices.IndexFunc(list, func(x schema.Index) bool { return x.Name == name })
	if i < 0 {
		return schema.Index{}, false
	}
	return list[i], true
}

func sameIndex(a, b schema.Index) bool {
	return a.Unique == b.Unique && a.Special == b.Special && slices.Equal(a.Columns, b.Columns)
}

// dropIndexes drops what From has and To has not, or has otherwise. It comes before columns are dropped, which takes
// their indexes along here, and leaves them with fewer columns at MySQL. An index whose table or itself was renamed goes on
// under its new name.
func (w *pgEvolution) dropIndexes() {
	for _, x := range w.indexes {
		has, ok := indexNamed(w.table.Indexes, x.Name)
		if !ok {
			continue
		}
		if to, stays := indexNamed(w.To.Indexes, x.Name); stays && (sameIndex(x, to) || sameIndex(has, to)) {
			continue
		}
		name := w.Postgres.table(schema.Name{Schema: w.table.Name.Schema, Table: x.Name})
		i := slices.IndexFunc(w.table.Indexes, func(h schema.Index) bool { return h.Name == x.Name })
		if to, ok := w.renamedIndex(x); ok {
			w.do(RenameIndex, "ALTER INDEX IF EXISTS %s RENAME TO %s", name, w.Quote(to))
			w.table.Indexes[i].Name = to
			continue
		}
		if has.Unique {
			w.alter(DropIndex, "DROP CONSTRAINT IF EXISTS %s", w.Quote(x.Name))
		}
		w.do(DropIndex, "DROP INDEX IF EXISTS %s", name)
		w.table.Indexes = slices.Delete(w.table.Indexes, i, i+1)
	}
}

// renamedIndex returns the name that an index has in To, if it is none of From's and the target's.
func (w *pgEvolution) renamedIndex(x schema.Index) (string, bool) {
	for _, to := range w.To.Indexes {
		_, before := indexNamed(w.indexes, to.Name)
		_, taken := indexNamed(w.table.Indexes, to.Name)
		if !before && !taken && sameIndex(x, to) {
			return to.Name, true
		}
	}
	return "", false
}

// createIndexes makes what To has and From has not, unless the target has its like under whatever name.
func (w *pgEvolution) createIndexes() {
	for _, x := range w.To.Indexes {
		like := func(h schema.Index) bool { return sameIndex(h, x) }
		if slices.ContainsFunc(w.indexes, like) && !w.Complete || slices.ContainsFunc(w.table.Indexes, like) {
			continue
		}
		s, ok := w.createIndex(w.table.Name, x)
		if !ok {
			w.keep(CreateIndex, x.Name, "PostgreSQL has no such index (%s)", x.Special)
			continue
		}
		w.plan.Statements = append(w.plan.Statements, s)
	}
}

// indexesByNewNames returns From's indexes with the columns' names as To has them. A dropped column's name is none.
func (w *pgEvolution) indexesByNewNames() []schema.Index {
	names := map[string]string{}
	for to, was := range w.was {
		names[was] = to
	}
	out := slices.Clone(w.From.Indexes)
	for i := range out {
		out[i].Columns = make([]string, len(out[i].Columns))
		for j, name := range w.From.Indexes[i].Columns {
			out[i].Columns[j] = names[name]
		}
	}
	return out
}
