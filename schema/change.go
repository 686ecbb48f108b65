package schema

import (
	"fmt"
	"slices"
	"strings"
)

// ChangeKind is what a statement does to a table.
type ChangeKind uint8

// The kinds of changes.
const (
	CreateTable   ChangeKind = iota + 1
	DropTable                // with its rows
	RenameTable              // to Change.NewName; its rows stay
	TruncateTable            // its rows go
	AlterTable               // columns, keys, indexes; also the table's name if NewName says so
	CreateIndex              // Change.Indexes
	DropIndex                // Change.DroppedIndexes
	Ignored                  // a statement without meaning in another database; Change.Statement says which
)

var changeKinds = [...]string{"", "create_table", "drop_table", "rename_table", "truncate_table", "alter_table", "create_index", "drop_index", "ignored"}

// String returns the kind in the words of metrics and logs, as in "alter_table".
func (k ChangeKind) String() string {
	if int(k) < len(changeKinds) {
		return changeKinds[k]
	}
	return fmt.Sprintf("change_kind_%d", k)
}

// Change is what one statement does to one table, in the source's words. It says what a table's shape before and after cannot
// tell: that a column was renamed and not dropped and added, and what became of its indexes. Types, defaults and keys are not
// here: the structured part of a schema-change record has them.
type Change struct {
	Kind      ChangeKind
	Statement string // of Ignored: which statement, as in "create view"
	Table     Name   // the table's name before the change; zero for an Ignored statement that names none
	NewName   Name   // the table's name after it, if that is another one
	Like      Name   // of CreateTable: the table that it copies columns and indexes from (CREATE TABLE ... LIKE)

	Renamed []Rename // columns, all at once: {a b} and {b a} trade names
	Added   []string // columns, by their names afterwards
	Dropped []string // columns, by their names before

	// Attributes are those of columns by their names afterwards. A new column without an entry has none, any other has what it had.
	Attributes []Attributes

	PrimaryKey bool // the primary key is made, dropped or replaced

	Indexes            []Index  // made; column names are those afterwards, and a Name may be empty
	DroppedIndexes     []string //
	RenamedIndexes     []Rename //
	ForeignKeys        []ForeignKey
	DroppedForeignKeys []string
}

// Rename is a column or an index that changes its name.
type Rename struct{ From, To string }

// Attributes are what only a statement's text tells of a column that it defines.
type Attributes struct {
	Column    string
	Invisible bool
	OnUpdate  bool
	Shown     bool // it says nothing but whether the column is invisible
}

// Index is an index that is not the primary key.
type Index struct {
	Name    string // empty: the database chooses; see [Change.IndexesAfter]
	Columns []string
	Unique  bool
	// Special says what other databases cannot have, or not in the same way: "expression", "prefix", "fulltext", "spatial" or
	// "vector" at a source, "partial" or an access method at a target. Columns are then those that could be told. Empty: a plain index.
	Special string

	// Parts say what Columns do not, where the index is over more than whole columns in ascending order; else there are none.
	Parts  []IndexPart `json:",omitempty"`
	Parser string      `json:",omitempty"` // of a "fulltext" one; empty: the built-in
}

// IndexPart is a column of an index, or an expression.
type IndexPart struct {
	Column     string `json:",omitempty"`
	Expression string `json:",omitempty"` // as the source's SQL, if there is no Column
	Length     int    `json:",omitempty"` // of the column's value, in characters or bytes; 0: all of it
	Descending bool   `json:",omitempty"`
}

// ForeignKey is a reference of a table to another.
type ForeignKey struct {
	Name       string // empty: the database chooses
	Columns    []string
	References Name
	Referenced []string // columns of References
	OnDelete   string   // as in "CASCADE"; empty: none was said
	OnUpdate   string
}

// IndexesAfter returns what the change makes of a table's indexes, which are not altered. Indexes without a name get
// MySQL's: the first column's, with _2, _3 ... where that is taken. Names of indexes differ by more than case.
func (c *Change) IndexesAfter(before []Index) []Index {
	if c.Kind == DropTable {
		return nil
	}
	var out []Index
	for _, x := range before {
		if containsFold(c.DroppedIndexes, x.Name) {
			continue
		}
		x.Name = renamedFold(c.RenamedIndexes, x.Name)
		var left []string
		for _, col := range x.Columns {
			// A dropped column leaves its indexes, and the last one takes the index with it.
			if !containsFold(c.Dropped, col) {
				left = append(left, renamedFold(c.Renamed, col))
			}
		}
		parts := c.partsAfter(x.Parts)
		if len(left) == 0 && len(x.Columns) > 0 && len(parts) == 0 {
			continue
		}
		x.Columns, x.Parts = left, parts
		out = append(out, x)
	}
	for _, x := range c.Indexes {
		if x.Name == "" {
			x.Name = indexName(x, out)
		}
		out = append(out, x)
	}
	return out
}

// partsAfter does to an index's parts what IndexesAfter does to its columns.
func (c *Change) partsAfter(parts []IndexPart) []IndexPart {
	var out []IndexPart
	for _, p := range parts {
		if p.Column != "" && containsFold(c.Dropped, p.Column) {
			continue
		}
		p.Column = renamedFold(c.Renamed, p.Column)
		out = append(out, p)
	}
	return out
}

// indexName is what MySQL calls an index that was given no name.
func indexName(x Index, taken []Index) string {
	first := "functional_index"
	if x.Special != "expression" && len(x.Columns) > 0 {
		first = x.Columns[0]
	}
	name := first
	for n := 2; slices.ContainsFunc(taken, func(t Index) bool { return strings.EqualFold(t.Name, name) }); n++ {
		name = fmt.Sprintf("%s_%d", first, n)
	}
	return name
}

func containsFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

func renamedFold(renames []Rename, name string) string {
	for _, r := range renames {
		if strings.EqualFold(r.From, name) {
			return r.To
		}
	}
	return name
}

// Policy is what becomes of a source's schema changes in the target (schema.evolve), with the meanings that Flink CDC gave these words.
type Policy string

// The policies.
const (
	Stop    Policy = "stop"    // any change of the schema stops the pipeline
	Evolve  Policy = "evolve"  // the target follows; what cannot be followed without loss stops the pipeline
	Lenient Policy = "lenient" // the target follows where nothing gets lost or stricter: a dropped column stays and takes NULL, a narrowed type stays wide, added columns take NULL
	Ignore  Policy = "ignore"  // the target's tables are never altered
)
