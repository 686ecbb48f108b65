package mysqlddl

import (
	"slices"
	"strings"

	"vitess.io/vitess/go/vt/sqlparser"

	"replicator/schema"
)

// reader makes changes of a statement's tree.
type reader struct {
	database string
	changes  []schema.Change
}

func (r *reader) add(c schema.Change) { r.changes = append(r.changes, c) }

func (r *reader) name(t sqlparser.TableName) schema.Name {
	n := schema.Name{Schema: t.Qualifier.String(), Table: t.Name.String()}
	if n.Schema == "" {
		n.Schema = r.database
	}
	return n
}

// create reads CREATE TABLE. The columns are those of the structured change.
func (r *reader) create(t *sqlparser.CreateTable) {
	c := schema.Change{Kind: schema.CreateTable, Table: r.name(t.Table)}
	if t.OptLike != nil {
		c.Like = r.name(t.OptLike.LikeTable)
	}
	if t.TableSpec != nil {
		for _, col := range t.TableSpec.Columns {
			r.column(&c, col)
		}
		for _, x := range t.TableSpec.Indexes {
			r.index(&c, x)
		}
		for _, k := range t.TableSpec.Constraints {
			r.constraint(&c, k)
		}
	}
	r.add(c)
}

// alter reads ALTER TABLE, and CREATE INDEX and DROP INDEX, which the parser makes ALTER TABLE of. What it does to
// partitions and what an option says of the engine is nothing to other databases, except that rows vanish with
// a partition: Debezium sends no events for them, nor for a partition that is exchanged, and neither is followed.
func (r *reader) alter(t *sqlparser.AlterTable, kind string) {
	c := schema.Change{Kind: schema.AlterTable, Table: r.name(t.Table)}
	switch kind {
	case "create index":
		c.Kind = schema.CreateIndex
	case "drop index":
		c.Kind = schema.DropIndex
	}
	for _, o := range t.AlterOptions {
		r.option(&c, o)
	}
	if t.PartitionSpec != nil {
		c.Kind, c.Statement = schema.Ignored, "alter table partition"
	}
	r.add(c)
}

func (r *reader) option(c *schema.Change, option sqlparser.AlterOption) {
	switch o := option.(type) {
	case *sqlparser.AddColumns:
		for _, col := range o.Columns {
			c.Added = append(c.Added, col.Name.String())
			r.column(c, col)
		}
	case *sqlparser.DropColumn:
		c.Dropped = append(c.Dropped, o.Name.Name.String())
	case *sqlparser.ChangeColumn:
		rename(c, o.OldColumn, o.NewColDefinition.Name.String())
		r.column(c, o.NewColDefinition)
	case *sqlparser.ModifyColumn:
		r.column(c, o.NewColDefinition)
	case *sqlparser.RenameColumn:
		rename(c, o.OldName, o.NewName.Name.String())
	case *sqlparser.AlterColumn:
		if o.Invisible != nil {
			c.Attributes = append(c.Attributes, schema.Attributes{Column: o.Column.Name.String(), Invisible: *o.Invisible, Shown: true})
		}
	case *sqlparser.AddIndexDefinition:
		r.index(c, o.IndexDefinition)
	case *sqlparser.AddConstraintDefinition:
		r.constraint(c, o.ConstraintDefinition)
	case *sqlparser.DropKey:
		dropKey(c, o)
	case *sqlparser.RenameIndex:
		c.RenamedIndexes = append(c.RenamedIndexes, schema.Rename{From: o.OldName.String(), To: o.NewName.String()})
	case *sqlparser.RenameTableName:
		c.NewName = r.name(o.Table)
	}
}

// rename notes a column's new name. CHANGE names the column twice, mostly without renaming it; names that differ in
// case only are one to MySQL and two elsewhere.
func rename(c *schema.Change, from *sqlparser.ColName, to string) {
	if old := from.Name.String(); old != to {
		c.Renamed = append(c.Renamed, schema.Rename{From: old, To: to})
	}
}

func dropKey(c *schema.Change, o *sqlparser.DropKey) {
	name := o.Name.String()
	switch {
	case o.Type == sqlparser.PrimaryKeyType, o.Type == sqlparser.NormalKeyType && strings.EqualFold(name, "PRIMARY"):
		c.PrimaryKey = true
	case o.Type == sqlparser.NormalKeyType:
		c.DroppedIndexes = append(c.DroppedIndexes, name)
	case o.Type == sqlparser.ForeignKeyType:
		c.DroppedForeignKeys = append(c.DroppedForeignKeys, name)
	case o.Type == sqlparser.ConstraintType: // a foreign key, a unique index or a check: whichever has the name
		c.DroppedForeignKeys = append(c.DroppedForeignKeys, name)
		c.DroppedIndexes = append(c.DroppedIndexes, name)
	}
}

// column reads what a column's definition says about keys.
func (r *reader) column(c *schema.Change, col *sqlparser.ColumnDefinition) {
	if col.Type == nil || col.Type.Options == nil {
		return
	}
	name := col.Name.String()
	a := schema.Attributes{Column: name, OnUpdate: col.Type.Options.OnUpdate != nil}
	a.Invisible = col.Type.Options.Invisible != nil && *col.Type.Options.Invisible
	if a.Invisible || a.OnUpdate || c.Kind != schema.CreateTable && !slices.Contains(c.Added, name) {
		c.Attributes = append(c.Attributes, a)
	}
	switch col.Type.Options.KeyOpt {
	case sqlparser.ColKeyPrimary, sqlparser.ColKey:
		c.PrimaryKey = true
	case sqlparser.ColKeyUnique, sqlparser.ColKeyUniqueKey:
		c.Indexes = append(c.Indexes, schema.Index{Columns: []string{name}, Unique: true})
	}
	// REFERENCES within a column's definition is a comment to MySQL before 9.0, but a foreign key to MariaDB.
	if ref := col.Type.Options.Reference; ref != nil {
		c.ForeignKeys = append(c.ForeignKeys, r.foreignKey("", []string{name}, ref))
	}
}

func (r *reader) index(c *schema.Change, x *sqlparser.IndexDefinition) {
	out := schema.Index{Name: x.Info.Name.String()}
	if out.Name == "" {
		out.Name = x.Info.ConstraintName.String()
	}
	switch x.Info.Type {
	case sqlparser.IndexTypePrimary:
		c.PrimaryKey = true
		return
	case sqlparser.IndexTypeUnique:
		out.Unique = true
	case sqlparser.IndexTypeFullText:
		out.Special, out.Parser = "fulltext", parserOf(x.Options)
	case sqlparser.IndexTypeSpatial:
		out.Special = "spatial"
	}
	plain := true
	for _, col := range x.Columns {
		part := schema.IndexPart{Column: col.Column.String(), Descending: col.Direction == sqlparser.DescOrder}
		switch {
		case col.Expression != nil:
			out.Special = "expression"
			part.Expression = sqlparser.CanonicalString(col.Expression)
		case col.Length != nil && out.Special == "":
			out.Special = "prefix"
		}
		if col.Length != nil {
			part.Length = *col.Length
		}
		if part.Column != "" {
			out.Columns = append(out.Columns, part.Column)
		}
		plain = plain && part == schema.IndexPart{Column: part.Column}
		out.Parts = append(out.Parts, part)
	}
	if plain || out.Special == "fulltext" || out.Special == "spatial" {
		out.Parts = nil
	}
	c.Indexes = append(c.Indexes, out)
}

// parserOf is what splits the texts of a full-text index into words, if it is not what the server has built in.
func parserOf(options []*sqlparser.IndexOption) string {
	for _, o := range options {
		if strings.EqualFold(o.Name, "with parser") {
			return strings.ToLower(o.String)
		}
	}
	return ""
}

func (r *reader) constraint(c *schema.Change, k *sqlparser.ConstraintDefinition) {
	f, ok := k.Details.(*sqlparser.ForeignKeyDefinition)
	if !ok {
		return // CHECK: what the source let through is not checked again
	}
	c.ForeignKeys = append(c.ForeignKeys, r.foreignKey(k.Name.String(), columns(f.Source), f.ReferenceDefinition))
}

var actions = map[sqlparser.ReferenceAction]string{
	sqlparser.Restrict: "RESTRICT", sqlparser.Cascade: "CASCADE", sqlparser.NoAction: "NO ACTION",
	sqlparser.SetNull: "SET NULL", sqlparser.SetDefault: "SET DEFAULT",
}

func (r *reader) foreignKey(name string, from []string, ref *sqlparser.ReferenceDefinition) schema.ForeignKey {
	return schema.ForeignKey{
		Name: name, Columns: from, References: r.name(ref.ReferencedTable), Referenced: columns(ref.ReferencedColumns),
		OnDelete: actions[ref.OnDelete], OnUpdate: actions[ref.OnUpdate],
	}
}

func columns(list sqlparser.Columns) []string {
	out := make([]string, 0, len(list))
	for _, c := range list {
		out = append(out, c.String())
	}
	return out
}
