package checkpoint

import (
	"maps"
	"slices"
	"strings"

	"replicator/debezium"
	"replicator/schema"
)

// reading takes one record of the schema-change topic in. Its statement's text and its structured part say of some tables
// both; the text comes first, and the shapes are those of the structured part.
type reading struct {
	*history
	event  *debezium.Event
	at     debezium.LogPosition
	shapes map[sourceTable]*schema.Table
	done   map[sourceTable]bool // tables of which the text spoke
}

// append adds a version of the table called name. was is what it continues, nil if it begins.
func (r *reading) append(name sourceTable, table *schema.Table, was *version) *version {
	v := &version{name: name, nth: len(r.all), at: r.at, offset: r.event.Offset, ddl: r.event.Change.DDL, table: table, was: was}
	if was != nil && table != nil {
		was.next = v
	}
	r.versions[name] = append(r.versions[name], v)
	r.all = append(r.all, v)
	return v
}

// live returns the last version of a table that there is; nil: there is no such table.
func (r *reading) live(name sourceTable) *version {
	list := r.versions[name]
	if len(list) == 0 || list[len(list)-1].table == nil {
		return nil
	}
	return list[len(list)-1]
}

// drop notes that there is no table of this name any more.
func (r *reading) drop(name sourceTable) *version {
	was := r.live(name)
	if was == nil {
		return nil
	}
	return r.append(name, nil, was)
}

// structured takes in what only the structured part says of a table. What a snapshot drops it makes again at once: it
// describes what there is.
func (r *reading) structured(name sourceTable, shape *schema.Table) {
	switch {
	case shape != nil:
		was := r.live(name)
		t := *shape
		if was != nil {
			t.Indexes = was.table.Indexes
			t.Columns = attributed(&schema.Change{}, t.Columns, was.table)
		}
		r.append(name, &t, was)
	case !r.event.Source.Snapshot:
		r.drop(name)
	}
}

func sourceTableOf(n schema.Name) sourceTable { return sourceTable{database: n.Schema, table: n.Table} }

// change takes in one statement on one table.
func (r *reading) change(c *schema.Change) {
	if c.Kind == schema.Ignored {
		return
	}
	name := sourceTableOf(c.Table)
	if c.Kind == schema.DropTable {
		if !r.event.Source.Snapshot {
			r.drop(name)
			r.done[name] = true
		}
		return
	}
	was := r.live(name)
	if c.Kind == schema.TruncateTable {
		if was != nil {
			r.append(name, was.table, was).emptied = true
		}
		return
	}
	to := name
	if c.NewName.Table != "" {
		to = sourceTableOf(c.NewName)
	}
	table := r.shaped(c, to, was)
	if table == nil {
		return // a table that the connector does not capture
	}
	v := r.append(to, table, was)
	r.done[name], r.done[to] = true, true
	if to != name && was != nil {
		gone := r.append(name, nil, nil)
		gone.moved = v
		r.join(name, to)
	}
	v.renames, v.dropped = renamesOf(c, was), map[string]bool{}
	for _, col := range c.Dropped {
		v.dropped[exact(was, col)] = true
	}
}

// shaped is the table after c. Only at the end of a record is a shape known that several changes make.
func (r *reading) shaped(c *schema.Change, to sourceTable, was *version) *schema.Table {
	var t schema.Table
	switch shape := r.shapes[to]; {
	case shape != nil:
		t = *shape
	case was != nil:
		t = *was.table
		t.Name.Table = to.table
	default:
		return nil
	}
	base := was
	if was == nil || c.Kind == schema.CreateTable {
		base = r.live(sourceTableOf(c.Like))
	}
	var before schema.Table
	if base != nil {
		before = *base.table
	}
	t.Indexes = indexesAfter(c, before.Indexes, was, &t)
	t.Columns = attributed(c, t.Columns, &before)
	return &t
}

// attributed are columns as they are after c, with what only statements tell of them: those of the table was, and this one.
func attributed(c *schema.Change, columns []schema.Column, was *schema.Table) []schema.Column {
	out := slices.Clone(columns)
	for i := range out {
		col := &out[i]
		col.Invisible, col.OnUpdate = false, false
		name := col.Name
		for _, r := range c.Renamed {
			if strings.EqualFold(r.To, name) {
				name = r.From
			}
		}
		if old := exactColumn(was, name); old != nil && !slices.Contains(c.Added, col.Name) {
			col.Invisible, col.OnUpdate = old.Invisible, old.OnUpdate
		}
		for _, a := range c.Attributes {
			if strings.EqualFold(a.Column, col.Name) {
				col.Invisible, col.OnUpdate = a.Invisible, a.OnUpdate || a.Shown && col.OnUpdate
			}
		}
	}
	return out
}

// indexesAfter are the indexes that the table after c has. A column that c drops and adds anew stays in its indexes, in which it counts
// as far as it did before: where it has become longer they are over its first characters.
func indexesAfter(c *schema.Change, before []schema.Index, was *version, after *schema.Table) []schema.Index {
	if was == nil || len(c.Dropped) == 0 {
		return c.IndexesAfter(before)
	}
	longer, kept := map[string]bool{}, *c // by name: the columns that c replaces
	kept.Dropped = nil
	for _, name := range c.Dropped {
		old, now := exactColumn(was.table, name), exactColumn(after, name)
		if old == nil || now == nil || slices.ContainsFunc(c.Renamed, func(r schema.Rename) bool { return strings.EqualFold(r.To, name) }) {
			kept.Dropped = append(kept.Dropped, name)
			continue
		}
		longer[old.Name] = now.Type.Length > old.Type.Length || now.Type.Kind == schema.Text
	}
	marked := slices.Clone(before)
	for i := range marked {
		if marked[i].Special == "" && slices.ContainsFunc(marked[i].Columns, func(name string) bool {
			old := exactColumn(was.table, name)
			return old != nil && longer[old.Name]
		}) {
			marked[i].Special = "prefix"
		}
	}
	return kept.IndexesAfter(marked)
}

// renamesOf are the columns that c renames, of those that there are.
func renamesOf(c *schema.Change, was *version) []schema.Rename {
	var out []schema.Rename
	for _, r := range c.Renamed {
		if from := exact(was, r.From); from != "" && from != r.To {
			out = append(out, schema.Rename{From: from, To: r.To})
		}
	}
	return out
}

// exact is the name of the column that a statement calls name, for which case does not matter; empty: there is none.
func exact(v *version, name string) string {
	if v == nil {
		return ""
	}
	if c := exactColumn(v.table, name); c != nil {
		return c.Name
	}
	return ""
}

// exactColumn is that column of a table; nil: there is none.
func exactColumn(t *schema.Table, name string) *schema.Column {
	for i := range t.Columns {
		if c := &t.Columns[i]; strings.EqualFold(c.Name, name) {
			return c
		}
	}
	return nil
}

// follow returns what the columns in names, by their names long ago, are called from v on.
func (v *version) follow(names map[string]string) map[string]string {
	names = maps.Clone(names)
	for old, name := range names {
		if i := slices.IndexFunc(v.renames, func(r schema.Rename) bool { return r.From == name }); i >= 0 {
			names[old] = v.renames[i].To
		} else if _, ok := v.table.Column(name); !ok || v.dropped[name] {
			delete(names, old)
		}
	}
	return names
}
