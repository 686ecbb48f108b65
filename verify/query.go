package verify

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"replicator/schema"
)

// view writes the statements for one side of a comparison. The two databases share what they are made of: COUNT, SUM, LEFT,
// COALESCE and CONCAT_WS.
type view struct {
	side    Side
	from    string // the table's quoted name
	where   string // which of its rows count; empty: all
	columns []schema.Column
	texts   []string // by column: its text
	forms   []Form
}

func (v *view) add(c schema.Column, f Form) {
	v.columns = append(v.columns, c)
	v.texts = append(v.texts, v.side.Text(c, f))
	v.forms = append(v.forms, f)
}

// span is a range of keys: after low and up to high, by the columns that ranges are made of. A nil bound is none.
type span struct{ low, high []string }

// scope is what a statement looks at: the rows of a span, and of those the ones whose keys' hashes begin with one of some
// prefixes of one length.
type scope struct {
	span
	prefixes []string // none: all rows
}

// sum is what is compared of many rows: how many they are, and the sum of their hashes.
type sum struct {
	rows int64
	hash string
}

// piece is what stands for a column's value where values are compared: its text or, where texts may be long, their hash.
func (v *view) piece(i int) string {
	if v.forms[i].long() {
		return v.side.Hash(v.texts[i])
	}
	return v.texts[i]
}

// null stands for NULL among texts. It is the beginning of no text: a form that could have it is compared by hash.
const null = "'N'"

// hashOf is the hash of some columns together.
func (v *view) hashOf(columns []int) string {
	parts := make([]string, 0, len(columns)+1)
	parts = append(parts, "'|'")
	for _, i := range columns {
		parts = append(parts, "COALESCE("+v.piece(i)+","+null+")")
	}
	if len(columns) == 0 {
		return v.side.Hash("''")
	}
	return v.side.Hash("CONCAT_WS(" + strings.Join(parts, ",") + ")")
}

// address is the hash that rows are divided by: of the key, or of the whole row; only of columns in which equal values have
// equal texts.
func (c *comparison) address(v *view) string {
	columns := c.key
	if len(columns) == 0 {
		columns = every(len(c.columns))
	}
	var exact []int
	for _, i := range columns {
		if c.columns[i].form.exact() {
			exact = append(exact, i)
		}
	}
	return v.hashOf(exact)
}

func every(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// condition is the WHERE clause of a scope.
func (c *comparison) condition(v *view, s scope) string {
	var parts []string
	if v.where != "" {
		parts = append(parts, v.where)
	}
	if s.low != nil {
		parts = append(parts, c.bound(v, s.low, ">", ">"))
	}
	if s.high != nil {
		parts = append(parts, c.bound(v, s.high, "<", "<="))
	}
	if len(s.prefixes) > 0 {
		parts = append(parts, fmt.Sprintf("LEFT(%s,%d) IN ('%s')", c.address(v), len(s.prefixes[0]), strings.Join(s.prefixes, "','")))
	}
	if len(parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(parts, " AND ")
}

// bound compares the key with at, a column at a time: MySQL does not use an index for a comparison of rows. What the first column
// must be in any case comes first, for the index's sake.
func (c *comparison) bound(v *view, at []string, past, last string) string {
	var either []string
	equal := ""
	for n, value := range at {
		column := v.side.Quote(v.columns[c.key[n]].Name)
		op := past
		if n == len(at)-1 {
			op = last
		}
		either = append(either, equal+column+" "+op+" "+value)
		equal += column + " = " + value + " AND "
	}
	first := v.side.Quote(v.columns[c.key[0]].Name)
	if len(at) == 1 {
		return either[0]
	}
	return first + " " + past + "= " + at[0] + " AND (" + strings.Join(either, " OR ") + ")"
}

func (c *comparison) sum(ctx context.Context, v *view, s scope) (sum, error) {
	hash := v.hashOf(every(len(c.columns)))
	rows, err := v.query(ctx, "SELECT COUNT(*), COALESCE(SUM("+v.side.Number(hash)+"),0) FROM "+v.from+c.condition(v, s))
	if err != nil {
		return sum{}, err
	}
	if len(rows) != 1 {
		return sum{}, fmt.Errorf("a sum of %s has %d rows", v.from, len(rows))
	}
	return readSum(rows[0])
}

func readSum(row []*string) (sum, error) {
	if len(row) < 2 || row[0] == nil || row[1] == nil {
		return sum{}, errors.New("a sum has no value")
	}
	n, err := strconv.ParseInt(*row[0], 10, 64)
	return sum{n, *row[1]}, err
}

// sums divides a scope's rows by the first digits of their hashes.
func (c *comparison) sums(ctx context.Context, v *view, s scope, digits int) (map[string]sum, error) {
	hash := v.hashOf(every(len(c.columns)))
	group := fmt.Sprintf("LEFT(%s,%d)", c.address(v), digits)
	rows, err := v.query(ctx, "SELECT COUNT(*), SUM("+v.side.Number(hash)+"), "+group+" FROM "+v.from+c.condition(v, s)+" GROUP BY "+group)
	if err != nil {
		return nil, err
	}
	out := make(map[string]sum, len(rows))
	for _, row := range rows {
		if len(row) != 3 || row[2] == nil {
			return nil, errors.New("a group has no hash")
		}
		if out[*row[2]], err = readSum(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// integer is what a bound may be: it is written into statements.
var integer = regexp.MustCompile(`^-?[0-9]{1,40}$`)

// bounds returns the key of the n-th row after low; nil: there are fewer.
func (c *comparison) nth(ctx context.Context, v *view, low []string, n int) ([]string, error) {
	names := make([]string, c.ordered)
	for i := range names {
		names[i] = v.side.Quote(v.columns[c.key[i]].Name)
	}
	list := strings.Join(names, ", ")
	rows, err := v.query(ctx, fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT 1 OFFSET %d", list, v.from, c.condition(v, scope{span: span{low: low}}), list, n-1))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	key := make([]string, c.ordered)
	for i, value := range rows[0] {
		if value == nil || !integer.MatchString(*value) {
			return nil, fmt.Errorf("column %s of the key of %s has a value that is no integer", names[i], v.from)
		}
		key[i] = *value
	}
	return key, nil
}

// row is a row as it was fetched: the texts of its key, then what stands for each column; how often it is there.
type row struct {
	key    []string
	values []*string
	count  int64
}

// rows fetches a scope's rows, most of them at most. Rows without a key that are written alike come as one.
func (c *comparison) rows(ctx context.Context, v *view, s scope, most int) ([]row, error) {
	var list []string
	for _, i := range c.key {
		list = append(list, v.texts[i])
	}
	for i, col := range c.columns {
		if col.form.exact() {
			list = append(list, v.piece(i))
		} else {
			list = append(list, v.texts[i])
		}
	}
	count, group := "1", ""
	if len(c.key) == 0 {
		count = "COUNT(*)"
		places := make([]string, len(list))
		for i := range places {
			places[i] = strconv.Itoa(i + 1)
		}
		group = " GROUP BY " + strings.Join(places, ", ")
	}
	found, err := v.query(ctx, fmt.Sprintf("SELECT %s, %s FROM %s%s%s LIMIT %d", strings.Join(list, ", "), count, v.from, c.condition(v, s), group, most+1))
	if err != nil {
		return nil, err
	}
	if len(found) > most {
		return nil, fmt.Errorf("more than %d rows of %s cannot be told apart by their keys", most, v.from)
	}
	out := make([]row, len(found))
	for i, f := range found {
		r := row{values: f[len(c.key) : len(f)-1]}
		for _, k := range f[:len(c.key)] {
			r.key = append(r.key, text(k))
		}
		if r.count, err = strconv.ParseInt(text(f[len(f)-1]), 10, 64); err != nil {
			return nil, err
		}
		out[i] = r
	}
	return out, nil
}

func text(s *string) string {
	if s == nil {
		return "NULL"
	}
	return *s
}

func (v *view) query(ctx context.Context, sql string) ([][]*string, error) {
	rows, err := v.side.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", v.from, err)
	}
	return rows, nil
}
