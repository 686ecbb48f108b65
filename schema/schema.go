package schema

import "strings"

// Kind is the family of values that a column holds.
type Kind uint8

// The kinds. Length and Scale of [Type] mean what the comment says; where it says nothing they are zero.
const (
	Unknown     Kind = iota // no witness names the type
	Bool                    //
	Int8                    // signed, 1 byte
	Int16                   // signed, 2 bytes
	Int24                   // MySQL's MEDIUMINT
	Int32                   // signed, 4 bytes
	Int64                   // signed, 8 bytes
	Uint8                   //
	Uint16                  //
	Uint24                  //
	Uint32                  //
	Uint64                  //
	Float32                 //
	Float64                 //
	Decimal                 // Length digits (0: unbounded), Scale of them after the point
	Bit                     // Length bits
	VarBit                  // at most Length bits (0: unbounded)
	Year                    //
	Date                    //
	Time                    // a signed duration, as MySQL's TIME; Scale fractional digits
	TimeOfDay               // 00:00:00 to 24:00:00; Scale fractional digits
	TimeTZ                  // time of day with an offset
	Timestamp               // wall clock without a zone; Scale fractional digits
	TimestampTZ             // an instant; Scale fractional digits
	Interval                // Scale fractional digits
	Char                    // Length characters, blank padded
	Varchar                 // at most Length characters (0: unbounded)
	Text                    //
	Bytes                   // at most Length bytes (0: unbounded)
	Enum                    // one of Values
	Set                     // any of Values
	JSON                    // text of a JSON document, kept as it is
	JSONB                   // a JSON document, normalised
	Geometry                //
	Vector                  // of Length numbers
	UUID                    //
	Other                   // only Native says what it is
	Array                   // of values of Elem
)

// Type is the type of a column. The zero Type is [Unknown].
type Type struct {
	Kind   Kind
	Length int      // meaning depends on Kind
	Scale  int      // meaning depends on Kind; -1: not known
	Values []string // labels of Enum and Set, unescaped
	Elem   *Type    // of Array
	Base   *Type    `json:",omitempty"` // of Other: what the type is a domain of; nil: it is none
	Native string   // the type's own name where it was read, as in "timestamp(3) without time zone" or "BIGINT UNSIGNED"
}

// Column is one column of a table.
type Column struct {
	Name          string
	Type          Type
	NotNull       bool
	AutoIncrement bool    // auto-increment at a source, identity or sequence at a target
	Generated     bool    // computed by the database: a target's cannot be written
	Folds         bool    // texts that differ may be equal here, as in a collation that does not tell cases apart
	Collation     string  // of a text in a target's catalog, where it is not the table's
	Default       *string // the default's text; nil: none
	OnUpdate      bool    `json:",omitempty"` // takes the time of an update that does not set it, as by MySQL's ON UPDATE CURRENT_TIMESTAMP
	Invisible     bool    `json:",omitempty"` // left out by SELECT *
	Comment       string
}

// Table is a table of a source or of a target.
type Table struct {
	Name       Name
	Columns    []Column
	PrimaryKey []string   // column names in key order; empty: no primary key
	Unique     [][]string // other unique indexes of plain columns, each in index order
	Indexes    []Index    // all but the primary key's, where they are known
	References []Name     // tables that foreign keys of this one point to, without itself
	Comment    string

	// Tied says that a target checks foreign keys from or to the table, so that its rows depend on those of other tables.
	Tied bool

	// PrimaryKeyName is the name of the constraint that is the primary key, in a target's catalog.
	PrimaryKeyName string
}

// Column returns the column called name, compared exactly.
func (t *Table) Column(name string) (*Column, bool) {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i], true
		}
	}
	return nil, false
}

// Name names a table: a database's schema (PostgreSQL) or database (MySQL), and the table in it.
// An empty Schema is the connection's default.
type Name struct{ Schema, Table string }

// String returns the name for people and logs, unquoted.
func (n Name) String() string {
	if n.Schema == "" {
		return n.Table
	}
	return n.Schema + "." + n.Table
}

// ParseName splits "schema.table" at its first dot; a name without one has an empty Schema.
func ParseName(s string) Name {
	if a, b, ok := strings.Cut(s, "."); ok {
		return Name{a, b}
	}
	return Name{Table: s}
}
