package sqlgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator/debezium"
	"replicator/schema"
)

// Target is a table of the target database, ready to be written. It belongs to one goroutine.
type Target struct {
	Table   schema.Table    // from the catalog
	Columns []schema.Column // those that are written, in row order; generated ones are left out
	Key     []int           // indexes into Columns; empty: a table without a key

	dialect   Dialect
	config    TargetConfig
	canonical []func(dst, value []byte) []byte // by column; nil: the encoded bytes are canonical
	plans     map[*debezium.Shape]*plan
	soft      *softDelete // nil: deletes are not soft
}

// TargetConfig is what a Target is made from, apart from the catalog's table.
type TargetConfig struct {
	Witness *schema.Table // the source's table as a schema-change record told it; nil: not known
	Rules   Rules
	Options Options

	// Later gives the columns of Witness the names that the source has given them since; a column that is not in it is gone,
	// and its values are left out. nil: the table is as Witness says.
	Later map[string]string
	// Present is, with Later, the source's table as it is now. A column that it has and Witness has not was added since: where it
	// takes no NULL, the row got the same value in it as all that were there.
	Present *schema.Table
	// Lax leaves out what the target's table has no column for. Otherwise it is an error of class MissingColumn.
	Lax bool
}

// maxPlans bounds the shapes that one Target remembers. A source has one or two at a time; schemaless messages that
// leave fields out have more.
const maxPlans = 256

// plan says how a row of one shape becomes a row of the target: by column, the field that it is taken from.
type plan struct {
	field   []int // -1: the shape has no such field
	encoder []Encoder
	unset   []unset
	filled  [][]byte // where there is no field, what the row has in the column all the same; nil: nothing
}

// NewTarget makes a Target. Its error is a *RowError without an Origin.
func NewTarget(d Dialect, t schema.Table, c TargetConfig) (*Target, error) {
	out := &Target{Table: t, dialect: d, config: c, plans: map[*debezium.Shape]*plan{}}
	canon, _ := d.(Canonicalizer)
	for _, col := range t.Columns {
		if col.Generated {
			continue
		}
		out.Columns = append(out.Columns, col)
		var f func(dst, value []byte) []byte
		if canon != nil {
			f = canon.Canonical(col)
		}
		out.canonical = append(out.canonical, f)
	}
	if err := out.findKey(); err != nil {
		return nil, err
	}
	for i, c := range out.Columns {
		// Rows without a key are compared whole, and where only the target knows the type, by their text.
		if len(out.Key) == 0 && c.Type.Kind == schema.Other {
			out.canonical[i] = nil
		}
	}
	if c.Rules.Delete == DeleteSoft {
		if err := out.soften(); err != nil {
			return nil, err
		}
		if slices.Contains(out.Key, out.soft.column) {
			return nil, out.refuse(KeyMismatch, c.Rules.Soft, errors.New("soft_delete_column is a part of the key that rows are matched by"))
		}
	}
	return out, nil
}

// findKey finds the columns that rows are matched by: those of the rules, or else of the table's primary key.
func (t *Target) findKey() *RowError {
	rules, key := t.config.Rules, t.Table.PrimaryKey
	if len(rules.Key) > 0 {
		key = make([]string, len(rules.Key))
		for i, name := range rules.Key {
			var ok bool
			if key[i], ok = rules.named(name); !ok {
				return t.refuse(KeyMismatch, name, errKeyExcluded)
			}
		}
	}
	for _, name := range key {
		i, err := t.column(name)
		switch {
		case err != nil:
			err.Class = KeyMismatch
			return err
		case i < 0:
			return t.refuse(KeyMismatch, name, errors.New("a generated column cannot be part of the key that rows are matched by; configure another key"))
		case slices.Contains(t.Key, i):
			return t.refuse(KeyMismatch, name, errors.New("the key names this column twice"))
		}
		t.Key = append(t.Key, i)
	}
	for _, name := range rules.Exclude {
		if i, err := t.column(name); err == nil && slices.Contains(t.Key, i) && !renamedTo(rules.Rename, t.Columns[i].Name) {
			return t.refuse(KeyMismatch, name, errKeyExcluded)
		}
	}
	return nil
}

func (t *Target) refuse(class Class, column string, err error) *RowError {
	return &RowError{Class: class, Table: t.Table.Name, Column: column, Err: err}
}

// column finds the written column for a source's name: the same name first, then one that differs in case only if
// there is just one, then one whose name is adjusted to this one for Avro or Protobuf. It returns -1 for a generated column.
func (t *Target) column(name string) (int, *RowError) {
	short := t.dialect.ShortName(name)
	match := t.match(func(c string) bool { return c == short })
	if len(match) == 0 {
		match = t.match(func(c string) bool { return strings.EqualFold(c, short) })
	}
	if len(match) == 0 {
		match = t.match(func(c string) bool { return debezium.Adjusts(c, name) })
	}
	switch len(match) {
	case 0:
		return 0, t.refuse(MissingColumn, name, fmt.Errorf("the target's table has no column %q; add it, or let schema.evolve do so", short))
	case 1:
		return slices.IndexFunc(t.Columns, func(c schema.Column) bool { return c.Name == match[0] }), nil
	}
	return 0, t.refuse(AmbiguousColumn, name, fmt.Errorf("the columns %q of the target's table fit equally; none has exactly this name", match))
}

func (t *Target) match(fits func(string) bool) []string {
	var out []string
	for i := range t.Table.Columns {
		if fits(t.Table.Columns[i].Name) {
			out = append(out, t.Table.Columns[i].Name)
		}
	}
	return out
}

// plan returns the plan for a shape, made at its first sight.
func (t *Target) plan(s *debezium.Shape) (*plan, *RowError) {
	if p := t.plans[s]; p != nil {
		return p, nil
	}
	p := &plan{field: make([]int, len(t.Columns)), encoder: make([]Encoder, len(t.Columns)), unset: make([]unset, len(t.Columns))}
	for i := range p.field {
		p.field[i] = -1
	}
	for i := range s.Fields {
		if err := t.planField(p, s, i); err != nil {
			return nil, err
		}
	}
	t.fill(p)
	if len(t.plans) >= maxPlans {
		clear(t.plans)
	}
	t.plans[s] = p
	return p, nil
}

// planField plans the column that field i of a shape is written to, if there is one.
func (t *Target) planField(p *plan, s *debezium.Shape, i int) *RowError {
	f := &s.Fields[i]
	source, err := t.sourceName(f.Name)
	if err != nil {
		return err
	}
	c, err := t.columnOf(f, source)
	if err != nil || c < 0 {
		return err
	}
	if was := p.field[c]; was >= 0 {
		return t.refuse(AmbiguousColumn, t.Columns[c].Name, fmt.Errorf("the fields %q and %q of the event are both meant for it", s.Fields[was].Name, f.Name))
	}
	enc, refusal := t.dialect.Encoder(*f, t.witness(source), t.Table.Name, t.Columns[c], t.config.Options)
	if refusal != nil {
		return t.refused(t.Columns[c].Name, refusal)
	}
	p.field[c], p.encoder[c] = i, t.notice(f, source, c, enc)
	p.unset[c] = t.unsetOf(source, c)
	return nil
}

// columnOf returns the column that a field is written to, which is called source at the source. It returns -1 where the field is left
// out: the source has dropped the column since, the rules or a lax target leave it out, or the target computes it.
func (t *Target) columnOf(f *debezium.Field, source string) (int, *RowError) {
	later, ok := t.later(source)
	if !ok {
		return -1, nil
	}
	name, ok := t.config.Rules.named(later)
	if !ok {
		return -1, nil
	}
	c, err := t.column(name)
	if err != nil && err.Class == MissingColumn && name != f.Name && name == source {
		c, err = t.column(f.Name) // a target that was made by the events
	}
	if err != nil && err.Class == MissingColumn && (f.Meta || t.config.Lax) {
		return -1, nil
	}
	if err == nil && t.soft != nil && c == t.soft.column {
		return 0, t.refuse(AmbiguousColumn, name, errSoftSent)
	}
	return c, err
}

// fill notes what rows that are older than a column have in it. The whole rows that tables without a key are searched for do not: what
// is there now may be another value.
func (t *Target) fill(p *plan) {
	p.filled = make([][]byte, len(t.Columns))
	implier, ok := t.dialect.(Implier)
	if t.config.Present == nil || len(t.Key) == 0 || !ok {
		return
	}
	for i := range t.config.Present.Columns {
		source := &t.config.Present.Columns[i]
		name, ok := t.config.Rules.named(source.Name)
		if !ok {
			continue
		}
		c, err := t.column(name)
		if err != nil || c < 0 || p.field[c] >= 0 {
			continue
		}
		if to := &t.Columns[c]; to.NotNull && to.Default == nil && !to.AutoIncrement {
			p.filled[c] = implier.Implicit(source.Type, to.Type)
		}
	}
}

// refused makes an encoder's error one of the row.
func (t *Target) refused(column string, err error) *RowError {
	var v *ValueError
	if errors.As(err, &v) {
		return t.refuse(v.Class, column, v.Err)
	}
	return t.refuse(InvalidValue, column, err)
}

// sourceName is the name at the source of what a field is called. Where the source's table is known, an adjusted name is
// undone by it: a column of the target that happens to fit is none of the source's.
func (t *Target) sourceName(field string) (string, *RowError) {
	w := t.config.Witness
	if w == nil {
		return field, nil
	}
	if _, ok := w.Column(field); ok {
		return field, nil
	}
	name := field
	for i := range w.Columns {
		switch c := w.Columns[i].Name; {
		case !debezium.Adjusts(c, field):
		case name != field:
			return "", t.refuse(AmbiguousColumn, field, fmt.Errorf("the source's columns %q and %q are both called so in the event", name, c))
		default:
			name = c
		}
	}
	return name, nil
}

// later is the present name at the source of what the witness calls column, or false if the source has dropped it.
func (t *Target) later(column string) (string, bool) {
	if t.config.Later == nil {
		return column, true
	}
	name, ok := t.config.Later[column]
	return name, ok
}

func (t *Target) witness(field string) schema.Type {
	if t.config.Witness == nil {
		return schema.Type{}
	}
	if c, ok := t.config.Witness.Column(field); ok {
		return c.Type
	}
	return schema.Type{}
}

// encode appends the row r to dst in the target's layout.
func (t *Target) encode(dst []byte, r debezium.Row) ([]byte, *RowError) {
	p, err := t.plan(r.Shape)
	if err != nil {
		return dst, err
	}
	for c, f := range p.field {
		if t.soft != nil && c == t.soft.column {
			dst = append(dst, t.soft.live...)
			continue
		}
		if f < 0 && p.filled[c] != nil {
			dst = append(appendLength(dst, len(p.filled[c])), p.filled[c]...)
			continue
		}
		if f < 0 || f >= len(r.Values) {
			dst = appendLength(dst, UnsentLength)
			continue
		}
		v := &r.Values[f]
		if v.Kind == debezium.Unset {
			if v, err = t.settle(p, c, v); err != nil {
				return dst, err
			}
		}
		if dst, err = t.encodeValue(dst, c, p.encoder[c], v); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (t *Target) encodeValue(dst []byte, c int, enc Encoder, v *debezium.Value) ([]byte, *RowError) {
	switch v.Kind {
	case debezium.Absent:
		return appendLength(dst, UnsentLength), nil
	case debezium.Null:
		return appendLength(dst, NullLength), nil
	case debezium.Unavailable:
		return appendLength(dst, UnavailableLength), nil
	}
	mark := len(dst)
	dst, err := enc(append(dst, 0, 0, 0, 0), v)
	if err != nil {
		return dst, t.refused(t.Columns[c].Name, err)
	}
	if !closeValue(dst, mark) {
		return dst, t.refuse(TooLarge, t.Columns[c].Name, fmt.Errorf("the value has more than %d bytes", maxValue))
	}
	return dst, nil
}

// encodeKey appends the canonical key of r to dst, in Key order. It reports false if r lacks a key column, or has no
// value for it; err is for values that are wrong.
func (t *Target) encodeKey(dst []byte, r debezium.Row) (out []byte, ok bool, err *RowError) {
	if !r.Sent() {
		return dst, false, nil
	}
	p, err := t.plan(r.Shape)
	if err != nil {
		return dst, false, err
	}
	for _, c := range t.Key {
		f := p.field[c]
		if f < 0 || f >= len(r.Values) {
			return dst, false, nil
		}
		v := &r.Values[f]
		if v.Kind == debezium.Unset {
			if v, err = t.settle(p, c, v); err != nil {
				return dst, false, err
			}
		}
		if v.Kind <= debezium.Unavailable {
			return dst, false, nil
		}
		mark := len(dst)
		if dst, err = t.encodeValue(dst, c, p.encoder[c], v); err != nil {
			return dst, false, err
		}
		dst = t.canonicalize(dst, mark, c)
	}
	return dst, true, nil
}

// finds says whether key alone finds a row of the table.
func (t *Target) finds(key debezium.Row) bool {
	_, ok, err := t.encodeKey(nil, key)
	return ok && err == nil && len(t.Key) > 0
}

// canonicalize replaces the value of column c that begins at mark, the last of dst, by its canonical form.
func (t *Target) canonicalize(dst []byte, mark, c int) []byte {
	f := t.canonical[c]
	if f == nil || len(dst) == mark+4 {
		return dst
	}
	end := len(dst)
	dst = f(dst, dst[mark+4:end])
	n := copy(dst[mark+4:], dst[end:])
	dst = dst[:mark+4+n]
	closeValue(dst, mark)
	return dst
}

// canonicalRow appends row to dst with every value in its canonical form: the image that rows without a key are
// compared by.
func (t *Target) canonicalRow(dst, row []byte) []byte {
	for c := 0; len(row) > 0; c++ {
		var elem []byte
		_, elem, row = cut(row)
		mark := len(dst)
		dst = t.canonicalize(append(dst, elem...), mark, c)
	}
	return dst
}

// rowKey appends the canonical key of an encoded row to dst.
func (t *Target) rowKey(dst, row []byte) (out []byte, ok bool) {
	for _, c := range t.Key {
		rest := row
		var n int
		var elem []byte
		for i := 0; i <= c; i++ {
			n, elem, rest = cut(rest)
		}
		if n < 0 {
			return dst, false
		}
		mark := len(dst)
		dst = t.canonicalize(append(dst, elem...), mark, c)
	}
	return dst, true
}

// Trades says whether a unique index other than the key's can be in the way of rows that trade its values.
func (t *Target) Trades() bool {
	if key := t.Table.PrimaryKey; len(key) > 0 && !t.isKey(key) {
		return true
	}
	for _, columns := range t.Table.Unique {
		if !t.isKey(columns) {
			return true
		}
	}
	for _, x := range t.Table.Indexes {
		if x.Unique && (x.Special != "" || !t.isKey(x.Columns)) {
			return true
		}
	}
	return false
}

// isKey says whether an index is on just the key's columns.
func (t *Target) isKey(index []string) bool {
	if len(index) != len(t.Key) {
		return false
	}
	for _, c := range t.Key {
		if !slices.Contains(index, t.Columns[c].Name) {
			return false
		}
	}
	return true
}
