package e2e

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table is a table of the source, as MySQL's information_schema describes it.
type Table struct {
	Name    string
	Columns []Column
	Read    Reading // of the source's values; nil: [Column.FromMySQL]
	Written Reading // of the target's values; nil: [Column.FromPostgres]
}

// Column is a column of a Table. Type is its DATA_TYPE (bit), FullType its COLUMN_TYPE (bit(9)).
type Column struct {
	Name, Type, FullType string
	Key                  bool // part of the primary key
}

// Row is a row as its database printed it, nil for NULL, in the order of Table.Columns.
type Row []*string

// Difference is what a comparison of one table found. Rows of a table without a key have no identity: they are counted,
// equal ones together, and then Changed is always 0.
type Difference struct {
	Table          string
	Source, Target int // rows
	Lost           int // in the source and not in the target
	Repeated       int // in the target and not, or not as often, in the source
	Changed        int // the same key, another value
	Examples       []string
}

// Equal reports whether the target holds exactly the source's rows.
func (d Difference) Equal() bool { return d.Lost == 0 && d.Repeated == 0 && d.Changed == 0 }

const maxExamples = 3 // of each table

// Reading is how a column's value is read from the text that a database printed: [Column.FromMySQL] or [Column.FromPostgres].
type Reading func(Column, string) (Value, error)

// Compare compares all rows of a table with those of the target. An error is a value that cannot be read; it names the column.
func Compare(t Table, source, target []Row) (Difference, error) {
	d := Difference{Table: t.Name, Source: len(source), Target: len(target)}
	read := t.Read
	if read == nil {
		read = Column.FromMySQL
	}
	want, err := t.index(source, read)
	if err != nil {
		return d, fmt.Errorf("source: %w", err)
	}
	written := t.Written
	if written == nil {
		written = Column.FromPostgres
	}
	have, err := t.index(target, written)
	if err != nil {
		return d, fmt.Errorf("target: %w", err)
	}
	for key, rows := range want {
		for _, row := range rows {
			other := have[key]
			if i := slices.Index(other, row); i >= 0 {
				have[key] = slices.Delete(other, i, i+1)
				continue
			}
			if len(other) > 0 && t.keyed() {
				d.Changed++
				d.example("changed", t.explain(row, other[0]))
				have[key] = other[1:]
				continue
			}
			d.Lost++
			d.example("lost", row)
		}
	}
	for _, rows := range have {
		for _, row := range rows {
			d.Repeated++
			d.example("repeated", row)
		}
	}
	slices.Sort(d.Examples) // maps have no order, a report should
	return d, nil
}

func (t Table) keyed() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Key })
}

// index is the rows by key, or by all of their values where there is no key. Each value of a row's text is quoted, so that
// equal texts are equal rows.
func (t Table) index(rows []Row, read Reading) (map[string][]string, error) {
	out := make(map[string][]string, len(rows))
	for n, row := range rows {
		if len(row) != len(t.Columns) {
			return nil, fmt.Errorf("table %s has %d columns, row %d has %d", t.Name, len(t.Columns), n+1, len(row))
		}
		var all, key []string
		for i, c := range t.Columns {
			v := null
			if row[i] != nil {
				var err error
				if v, err = read(c, *row[i]); err != nil {
					return nil, fmt.Errorf("table %s, column %s, row %d: %w", t.Name, c.Name, n+1, err)
				}
			}
			text := "NULL"
			if !v.Null {
				text = strconv.Quote(v.Text)
			}
			all = append(all, text)
			if c.Key {
				key = append(key, text)
			}
		}
		if !t.keyed() {
			key = all
		}
		k := strings.Join(key, separator)
		out[k] = append(out[k], strings.Join(all, separator))
	}
	return out, nil
}

const separator = ", "

func (d *Difference) example(what, row string) {
	if len(d.Examples) < maxExamples {
		d.Examples = append(d.Examples, what+": "+short(row))
	}
}

// explain names the columns in which two rows of one key differ.
func (t Table) explain(want, have string) string {
	w, h := splitQuoted(want), splitQuoted(have)
	var out []string
	for i, c := range t.Columns {
		switch {
		case w[i] != h[i]:
			out = append(out, fmt.Sprintf("%s is %s instead of %s", c.Name, short(h[i]), short(w[i])))
		case c.Key:
			out = append(out, c.Name+" "+short(w[i]))
		}
	}
	return strings.Join(out, separator)
}

// splitQuoted undoes the joining of index: what is quoted may hold a separator, but no quote that is not escaped.
func splitQuoted(row string) []string {
	var out []string
	for row != "" {
		one, err := strconv.QuotedPrefix(row)
		if err != nil {
			one = "NULL"
		}
		out = append(out, one)
		row = strings.TrimPrefix(row[len(one):], separator)
	}
	return out
}

func short(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}

// Report writes one line a table, and the examples of those that differ.
func Report(w io.Writer, all []Difference) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var text strings.Builder
	text.WriteString("table\tsource rows\ttarget rows\tlost\trepeated\tchanged\t\n")
	sum := Difference{Table: "all"}
	line := func(d Difference) {
		fmt.Fprintf(&text, "%s\t%d\t%d\t%d\t%d\t%d\t\n", d.Table, d.Source, d.Target, d.Lost, d.Repeated, d.Changed)
	}
	for _, d := range all {
		line(d)
		sum.Source, sum.Target = sum.Source+d.Source, sum.Target+d.Target
		sum.Lost, sum.Repeated, sum.Changed = sum.Lost+d.Lost, sum.Repeated+d.Repeated, sum.Changed+d.Changed
	}
	line(sum)
	if _, err := io.WriteString(tab, text.String()); err != nil {
		return err
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, d := range all {
		for _, e := range d.Examples {
			if _, err := fmt.Fprintf(w, "%s: %s\n", d.Table, e); err != nil {
				return err
			}
		}
	}
	return nil
}
