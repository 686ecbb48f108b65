package sqlgen

import (
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
)

// mysqlIndexes returns the source's indexes as the target has them: under their own names, over the target's columns. An index that the
// server would refuse has a Special that says why (see createIndex).
func (m MySQL) mysqlIndexes(source, target schema.Table) []schema.Index {
	var out []schema.Index
	for _, x := range source.Indexes {
		x.Name = m.ShortName(x.Name)
		x.Columns, x.Parts = slices.Clone(x.Columns), slices.Clone(x.Parts)
		for i, name := range x.Columns {
			x.Columns[i] = m.columnName(target, name)
		}
		for i := range x.Parts {
			if p := &x.Parts[i]; p.Column != "" {
				p.Column = m.columnName(target, p.Column)
			}
		}
		if m.tooLong(x, target) {
			x.Special = "length"
		}
		out = append(out, x)
	}
	return out
}

// columnName is what the target calls a source's column.
func (m MySQL) columnName(target schema.Table, name string) string {
	if c, ok := columnFold(&target, m.ShortName(name)); ok {
		return c.Name
	}
	return m.ShortName(name)
}

// tooLong says whether InnoDB refuses an index: in utf8mb4 a character may take more bytes than in the source's character set, and a column
// may have become a TEXT, which an index has no more than a prefix of.
func (m MySQL) tooLong(x schema.Index, target schema.Table) bool {
	if x.Special != "" && x.Special != "prefix" {
		return false
	}
	bytes := 0
	for _, p := range indexParts(x) {
		c, ok := columnFold(&target, p.Column)
		if !ok {
			continue
		}
		of := mysqlRoom(c.Type)
		switch c.Type.Kind {
		case schema.Char, schema.Varchar, schema.Text:
			if p.Length > 0 {
				of = 4 * p.Length
			}
		case schema.Bytes:
			if p.Length > 0 {
				of = p.Length
			}
		case schema.JSON, schema.Geometry, schema.Vector: // of which no index is
		default:
			of = 8
		}
		bytes += of
	}
	return bytes > mysqlMaxKey
}

// indexParts are the parts of an index, of one that has columns only too.
func indexParts(x schema.Index) []schema.IndexPart {
	if len(x.Parts) > 0 {
		return x.Parts
	}
	out := make([]schema.IndexPart, len(x.Columns))
	for i, name := range x.Columns {
		out[i].Column = name
	}
	return out
}

// index writes an index as a part of CREATE TABLE, or after ADD in ALTER TABLE. It reports false for one that this server cannot have.
func (m MySQL) index(x schema.Index) (string, bool) {
	kind := "INDEX "
	switch {
	case len(x.Columns)+len(x.Parts) == 0:
		return "", false
	case x.Special == "fulltext" && (x.Parser == "" || !m.MariaDB):
		kind = "FULLTEXT INDEX "
	case x.Special == "spatial":
		kind = "SPATIAL INDEX "
	case x.Special == "expression" && (m.MariaDB || len(x.Parts) == 0), x.Special == "prefix" && len(x.Parts) == 0:
		return "", false
	case x.Special != "" && x.Special != "expression" && x.Special != "prefix":
		return "", false
	case x.Unique:
		kind = "UNIQUE INDEX "
	}
	var parts []string
	for _, p := range indexParts(x) {
		sql := "(" + p.Expression + ")"
		if p.Column != "" {
			sql = m.Quote(p.Column)
		}
		if p.Length > 0 {
			sql += fmt.Sprintf("(%d)", p.Length)
		}
		if p.Descending {
			sql += " DESC"
		}
		parts = append(parts, sql)
	}
	sql := kind + m.Quote(x.Name) + " (" + strings.Join(parts, ", ") + ")"
	if x.Parser != "" {
		sql += " WITH PARSER " + m.Quote(x.Parser)
	}
	return sql, true
}

// sameMySQLIndex says whether two indexes are one but for their names.
func sameMySQLIndex(a, b schema.Index) bool {
	return a.Unique == b.Unique && a.Special == b.Special && a.Parser == b.Parser && slices.Equal(a.Columns, b.Columns) && slices.Equal(a.Parts, b.Parts)
}

// indexFold finds an index by its name, for which case does not matter here.
func indexFold(list []schema.Index, name string) (schema.Index, bool) {
	i := slices.IndexFunc(list, func(x schema.Index) bool { return strings.EqualFold(x.Name, name) })
	if i < 0 {
		return schema.Index{}, false
	}
	return list[i], true
}

// dropIndexes drops what From has and To has not, or has otherwise, and renames what has another name. Of an index over an expression the
// catalog does not tell whether it is To's already: that one is made once more.
func (w *mysqlEvolution) dropIndexes() {
	w.indexes = slices.Clone(w.Current.Indexes)
	for _, x := range w.indexesByNewNames() {
		i := slices.IndexFunc(w.indexes, func(h schema.Index) bool { return strings.EqualFold(h.Name, x.Name) })
		if i < 0 {
			continue
		}
		to, stays := indexFold(w.To.Indexes, x.Name)
		if stays && (sameMySQLIndex(x, to) || x.Special != "expression" && sameMySQLIndex(w.byNewNames(w.indexes[i]), to)) {
			continue
		}
		if as, ok := w.renamedIndex(x); ok && !stays {
			w.do(RenameIndex, "RENAME INDEX %s TO %s", w.Quote(w.indexes[i].Name), w.Quote(as))
			w.indexes[i].Name = as
			continue
		}
		w.do(DropIndex, "DROP INDEX %s", w.Quote(w.indexes[i].Name))
		w.indexes = slices.Delete(w.indexes, i, i+1)
	}
}

// renamedIndex returns the name that an index of From has in To, if neither From nor the target has one of that name.
func (w *mysqlEvolution) renamedIndex(x schema.Index) (string, bool) {
	for _, to := range w.To.Indexes {
		_, before := indexFold(w.From.Indexes, to.Name)
		_, taken := indexFold(w.indexes, to.Name)
		if !before && !taken && sameMySQLIndex(x, to) {
			return to.Name, true
		}
	}
	return "", false
}

// createIndexes makes what To has and From has not, unless the target has it, or its like under a name of its own. InnoDB makes one index
// for full text at a time: each has a statement of its own.
func (w *mysqlEvolution) createIndexes() {
	from := w.indexesByNewNames()
	for _, x := range w.To.Indexes {
		if was, ok := indexFold(from, x.Name); ok && !w.Complete && sameMySQLIndex(was, x) {
			continue
		}
		if _, ok := indexFold(w.indexes, x.Name); ok || slices.ContainsFunc(w.indexes, func(h schema.Index) bool { return w.own(h, x) }) {
			continue
		}
		if slices.ContainsFunc(from, func(was schema.Index) bool { return !w.Complete && w.tookName(was, x) }) {
			continue
		}
		sql, ok := w.index(x)
		switch {
		case !ok:
			w.keep(CreateIndex, x.Name, fmt.Sprintf("this server has no such index (%s)", x.Special))
		case x.Special == "fulltext":
			w.later = append(w.later, "ADD "+sql)
		default:
			w.do(CreateIndex, "ADD %s", sql)
		}
	}
}

// own says whether has is x under a name that is none of the source's.
func (w *mysqlEvolution) own(has, x schema.Index) bool {
	_, theirs := indexFold(w.To.Indexes, has.Name)
	return !theirs && sameMySQLIndex(w.byNewNames(has), x)
}

// tookName says whether x is From's index was under another name, which the target does not have: somebody has dropped it.
func (w *mysqlEvolution) tookName(was, x schema.Index) bool {
	_, stays := indexFold(w.To.Indexes, was.Name)
	_, before := indexFold(w.From.Indexes, x.Name)
	return !stays && !before && sameMySQLIndex(was, x)
}

// indexesByNewNames returns From's indexes with the columns' names as To has them.
func (w *mysqlEvolution) indexesByNewNames() []schema.Index {
	out := slices.Clone(w.From.Indexes)
	for i := range out {
		out[i] = w.byNewNames(out[i])
	}
	return out
}

// byNewNames returns an index with the names that its columns have in To. A dropped column's name is none.
func (w *mysqlEvolution) byNewNames(x schema.Index) schema.Index {
	x.Columns, x.Parts = slices.Clone(x.Columns), slices.Clone(x.Parts)
	for i, name := range x.Columns {
		x.Columns[i] = w.becomes(name)
	}
	for i := range x.Parts {
		if p := &x.Parts[i]; p.Column != "" {
			p.Column = w.becomes(p.Column)
		}
	}
	return x
}

// becomes is To's name of From's column; empty: it is dropped. A column of the target's own keeps its name.
func (w *mysqlEvolution) becomes(name string) string {
	for i := range w.To.Columns {
		if to := w.To.Columns[i].Name; strings.EqualFold(w.was(to), name) {
			return to
		}
	}
	if _, ok := columnFold(w.From, name); ok {
		return ""
	}
	return name
}
