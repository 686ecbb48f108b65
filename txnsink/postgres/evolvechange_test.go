package postgres

import (
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
)

var evolvingTypes = []schema.Type{
	{Kind: schema.Int8, Length: 1},
	{Kind: schema.Int16},
	{Kind: schema.Int32},
	{Kind: schema.Int64},
	{Kind: schema.Uint64},
	{Kind: schema.Decimal, Length: 12, Scale: 2},
	{Kind: schema.Decimal, Length: 18, Scale: 4},
	{Kind: schema.Float32},
	{Kind: schema.Float64},
	{Kind: schema.Varchar, Length: 10},
	{Kind: schema.Varchar, Length: 20},
	{Kind: schema.Text},
	{Kind: schema.Bit, Length: 1},
	{Kind: schema.Bit, Length: 9},
	{Kind: schema.Enum, Values: []string{"a", "b"}},
	{Kind: schema.Date},
	{Kind: schema.Timestamp},
	{Kind: schema.Timestamp, Scale: 3},
	{Kind: schema.JSON},
}

// labelledTypes are those that schema.types.enum is about, and those that they turn into.
var labelledTypes = []schema.Type{
	{Kind: schema.Enum, Values: []string{"a", "b"}},
	{Kind: schema.Enum, Values: []string{"new", "a", "it's \\", "b", `"c"`}},
	{Kind: schema.Enum, Values: []string{"b", "0", "1", "2"}},
	{Kind: schema.Set, Values: []string{"a", "b", "a b"}},
	{Kind: schema.Varchar, Length: 10},
	{Kind: schema.Text},
}

var evolvingDefaults = map[schema.Kind]string{
	schema.Int16: "-5", schema.Int32: "7", schema.Int64: "0", schema.Decimal: "-1.50", schema.Float64: "1e10", schema.Varchar: `it's \`, schema.Enum: "b", schema.Set: "a,a b",
	schema.Date: "2024-02-29", schema.Timestamp: "CURRENT_TIMESTAMP", schema.Bit: "b'1'",
}

func (e *evolving) name() string {
	e.next++
	return fmt.Sprintf("C%d", e.next)
}

func (e *evolving) randomType(c *schema.Column) {
	c.Type = evolvingTypes[e.IntN(len(evolvingTypes))]
	if e.options.Enum == "enum" && e.IntN(3) > 0 {
		c.Type = labelledTypes[e.IntN(len(labelledTypes))]
	}
	c.Default, c.AutoIncrement = nil, false
	if text, ok := evolvingDefaults[c.Type.Kind]; ok && e.IntN(2) == 0 {
		c.Default = &text
	}
}

func (e *evolving) addColumn() {
	c := schema.Column{Name: e.name(), NotNull: e.IntN(2) == 0, Comment: []string{"", "it's"}[e.IntN(2)]}
	e.randomType(&c)
	e.source.Columns = slices.Insert(slices.Clone(e.source.Columns), e.IntN(len(e.source.Columns)+1), c)
}

// change alters the source's table in up to three ways at once, as one ALTER TABLE can, and returns the columns that were renamed.
func (e *evolving) change() []schema.Rename {
	s := &e.source
	s.Columns, s.Indexes = slices.Clone(s.Columns), slices.Clone(s.Indexes)
	names := map[string]string{} // present names and those before
	for _, c := range s.Columns {
		names[c.Name] = c.Name
	}
	for range 1 + e.IntN(3) {
		e.changeOnce(names)
	}
	var out []schema.Rename
	for _, c := range s.Columns {
		if was := names[c.Name]; was != "" && was != c.Name {
			out = append(out, schema.Rename{From: was, To: c.Name})
		}
	}
	return out
}

func (e *evolving) changeOnce(names map[string]string) {
	s := &e.source
	c := &s.Columns[e.IntN(len(s.Columns))]
	inKey := slices.Contains(s.PrimaryKey, c.Name)
	switch e.IntN(13) {
	case 0:
		e.addColumn()
	case 1:
		e.dropColumn(c.Name)
	case 2:
		was := names[c.Name]
		delete(names, c.Name)
		to := e.name()
		names[to] = was
		e.rename(map[string]string{c.Name: to})
	case 3: // trade names
		other := s.Columns[e.IntN(len(s.Columns))].Name
		name := c.Name
		names[name], names[other] = names[other], names[name]
		e.rename(map[string]string{name: other, other: name})
	case 4, 5:
		e.randomType(c)
		if inKey {
			*c = schema.Column{Name: c.Name, Type: schema.Type{Kind: schema.Int64}, NotNull: true, AutoIncrement: c.AutoIncrement, Comment: c.Comment}
		}
	case 6:
		c.NotNull = c.NotNull != true || inKey || c.AutoIncrement
	case 7:
		text, ok := evolvingDefaults[c.Type.Kind]
		if c.Default != nil || !ok || c.AutoIncrement {
			c.Default = nil
		} else {
			c.Default = &text
		}
	case 8:
		c.Comment = fmt.Sprint("comment ", e.IntN(10))
		s.Comment = fmt.Sprint(`it's \ `, e.IntN(3))
	case 9: // another key
		if c.Type.Kind == schema.JSON {
			return
		}
		c.NotNull = true
		s.PrimaryKey = [][]string{{c.Name}, nil, {c.Name}}[e.IntN(3)]
	case 10:
		e.changeIndex(c)
	case 11:
		c.AutoIncrement = !c.AutoIncrement && c.NotNull && slices.Contains([]schema.Kind{schema.Int16, schema.Int32, schema.Int64}, c.Type.Kind)
		if c.AutoIncrement {
			c.Default = nil
		}
	case 12:
		s.Name.Table = strings.Split(s.Name.Table, "/")[0] + "/" + e.name()
	}
}

// changeIndex drops the index of c or makes one.
func (e *evolving) changeIndex(c *schema.Column) {
	s := &e.source
	if i := slices.IndexFunc(s.Indexes, func(x schema.Index) bool { return slices.Contains(x.Columns, c.Name) }); i >= 0 {
		s.Indexes = slices.Delete(s.Indexes, i, i+1)
		return
	}
	x := schema.Index{Name: e.name(), Columns: []string{c.Name}, Unique: e.IntN(3) == 0}
	if other := s.Columns[e.IntN(len(s.Columns))].Name; other != c.Name {
		x.Columns = append(x.Columns, other)
	}
	if c.Type.Kind == schema.JSON {
		x.Special = "expression"
	}
	s.Indexes = append(s.Indexes, x)
}

// dropColumn drops a column as MySQL does: from its indexes too.
func (e *evolving) dropColumn(name string) {
	s := &e.source
	if len(s.Columns) == 1 || slices.Contains(s.PrimaryKey, name) {
		return
	}
	s.Columns = slices.DeleteFunc(s.Columns, func(c schema.Column) bool { return c.Name == name })
	drop := schema.Change{Kind: schema.AlterTable, Dropped: []string{name}}
	s.Indexes = drop.IndexesAfter(s.Indexes)
}

func (e *evolving) rename(as map[string]string) {
	s := &e.source
	var renames []schema.Rename
	for i := range s.Columns {
		if to, ok := as[s.Columns[i].Name]; ok {
			renames = append(renames, schema.Rename{From: s.Columns[i].Name, To: to})
			s.Columns[i].Name = to
		}
	}
	s.PrimaryKey = slices.Clone(s.PrimaryKey)
	for i, name := range s.PrimaryKey {
		if to, ok := as[name]; ok {
			s.PrimaryKey[i] = to
		}
	}
	alter := schema.Change{Kind: schema.AlterTable, Renamed: renames}
	s.Indexes = alter.IndexesAfter(s.Indexes)
}
