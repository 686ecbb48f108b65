package sqlgen

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator/debezium"
	"replicator/schema"
)

// Rules are what the configuration says about the rows of one table. The zero Rules apply everything as it is. Names of
// columns are the source's, exactly.
type Rules struct {
	Key      []string          // the key to match rows by; empty: the table's primary key
	Exclude  []string          // columns that are left out
	Rename   map[string]string // the target's names of columns
	Delete   DeleteRule        // "" is DeleteApply
	Soft     string            // DeleteSoft: the target's column that says that a row is deleted, or when
	Truncate TruncateRule      // "" is TruncateApply
}

// DeleteRule is what becomes of deletes. The delete that Debezium sends of a row whose key changes is none: the row
// moves whatever the rule.
type DeleteRule string

// The rules for deletes.
const (
	DeleteApply  DeleteRule = "apply"
	DeleteIgnore DeleteRule = "ignore" // the row stays
	DeleteSoft   DeleteRule = "soft"   // the row stays, and its column Rules.Soft becomes true, or the time of the delete
)

// TruncateRule is what becomes of a TRUNCATE.
type TruncateRule string

// The rules for TRUNCATE.
const (
	TruncateApply  TruncateRule = "apply"
	TruncateIgnore TruncateRule = "ignore"
	TruncateStop   TruncateRule = "stop" // it is an error of class TruncateRefused
)

// named returns the target's name of a source's column, or false if it is left out.
func (r *Rules) named(column string) (string, bool) {
	if len(r.Exclude) > 0 && slices.Contains(r.Exclude, column) {
		return "", false
	}
	if as, ok := r.Rename[column]; ok {
		return as, true
	}
	return column, true
}

// renamedTo says whether some column is called name by the rule.
func renamedTo(rename map[string]string, name string) bool {
	for _, to := range rename {
		if to == name {
			return true
		}
	}
	return false
}

// Arrange returns the source's table as the rules have it in the target: its columns and key, and the column of soft
// deletes. Its error is a *[RowError] without an Origin.
func (r *Rules) Arrange(source schema.Table) (schema.Table, error) {
	out := source
	out.Columns, out.PrimaryKey, out.Unique, out.Indexes = nil, nil, nil, r.indexes(source.Indexes)
	refuse := func(class Class, column string, err error) (schema.Table, error) {
		return schema.Table{}, &RowError{Class: class, Table: source.Name, Column: column, Err: err}
	}
	for _, c := range source.Columns {
		as, ok := r.named(c.Name)
		if !ok {
			continue
		}
		if _, taken := out.Column(as); taken {
			return refuse(AmbiguousColumn, as, fmt.Errorf("two columns of the source are called %q by the rule (columns: rename)", as))
		}
		c.Name = as
		out.Columns = append(out.Columns, c)
	}
	key := source.PrimaryKey
	if len(r.Key) > 0 {
		key = r.Key
	}
	for _, name := range key {
		as, ok := r.named(name)
		if !ok {
			return refuse(KeyMismatch, name, errKeyExcluded)
		}
		out.PrimaryKey = append(out.PrimaryKey, as)
	}
	if r.Delete == DeleteSoft {
		if _, taken := out.Column(r.Soft); taken {
			return refuse(AmbiguousColumn, r.Soft, errSoftSent)
		}
		out.Columns = append(out.Columns, schema.Column{Name: r.Soft, Type: schema.Type{Kind: schema.Bool}})
	}
	return out, nil
}

// indexes returns a source's indexes by the target's names of columns, without those that a left out column is in. Rows that
// are deleted in name only keep their values, which another row may then have: no index is unique among them.
func (r *Rules) indexes(source []schema.Index) []schema.Index {
	var out []schema.Index
	for _, x := range source {
		columns := make([]string, 0, len(x.Columns))
		for _, name := range x.Columns {
			if as, ok := r.named(name); ok {
				columns = append(columns, as)
			}
		}
		if len(columns) < len(x.Columns) {
			continue
		}
		x.Columns, x.Parts = columns, r.parts(x.Parts)
		x.Unique = x.Unique && r.Delete != DeleteSoft
		out = append(out, x)
	}
	return out
}

// parts returns an index's parts by the target's names of columns. Those in an expression's text would not be: where a rule has other
// names than the source, of an index over an expression nothing is left but that it is one.
func (r *Rules) parts(source []schema.IndexPart) []schema.IndexPart {
	var out []schema.IndexPart
	for _, p := range source {
		if p.Expression != "" && len(r.Rename)+len(r.Exclude) > 0 {
			return nil
		}
		if p.Column != "" {
			p.Column, _ = r.named(p.Column)
		}
		out = append(out, p)
	}
	return out
}

var (
	errKeyExcluded = errors.New("the rule leaves out a column of the key that rows are matched by; configure another key (key), or do not exclude it (columns: exclude)")
	errSoftSent    = errors.New("the source has a column of this name too; soft_delete_column must be one that only the target has")
)

// softDelete writes the column that soft deletes set.
type softDelete struct {
	column int // index into Target.Columns
	live   []byte
	clock  bool // it holds a time
	encode Encoder
}

// softField is how a time is given to the dialect: both kinds of columns take a count from an instant.
var (
	softFlag    = debezium.Field{Type: debezium.Boolean}
	softTime    = debezium.Field{Type: debezium.Int64, Semantic: "io.debezium.time.Timestamp"}
	softInstant = debezium.Field{Type: debezium.String, Semantic: "io.debezium.time.ZonedTimestamp"}
)

// soften finds the column of soft deletes.
func (t *Target) soften() *RowError {
	name := t.config.Rules.Soft
	i, err := t.column(name)
	if err != nil {
		return err
	}
	if i < 0 {
		return t.refuse(UnsupportedType, name, errors.New("soft_delete_column is generated and cannot be written"))
	}
	s := &softDelete{column: i, clock: true}
	var f debezium.Field
	switch t.Columns[i].Type.Kind {
	case schema.Bool:
		f, s.clock = softFlag, false
	case schema.Timestamp:
		f = softTime
	case schema.TimestampTZ:
		f = softInstant
	default:
		return t.refuse(UnsupportedType, name, fmt.Errorf("soft_delete_column must be a boolean or a timestamp, not %s", t.Columns[i].Type.Native))
	}
	enc, e := t.dialect.Encoder(f, schema.Type{}, t.Table.Name, t.Columns[i], t.config.Options)
	if e != nil {
		return t.refused(name, e)
	}
	s.encode = enc
	if s.clock {
		s.live = appendLength(nil, NullLength)
	} else if s.live, err = t.encodeValue(nil, i, enc, &debezium.Value{Kind: debezium.BoolValue}); err != nil {
		return err
	}
	t.soft = s
	return nil
}

// dead appends the value of a row that e deletes. A time is the source's, so that it is the same when e is applied again.
func (t *Target) dead(dst []byte, e *debezium.Event) ([]byte, *RowError) {
	s := t.soft
	v := debezium.Value{Kind: debezium.BoolValue, Num: 1}
	if s.clock {
		ms := e.Source.TsMs
		if ms == 0 {
			ms = time.Duration(e.SentNs).Milliseconds()
		}
		if ms == 0 {
			return dst, t.refuse(BadRecord, t.Columns[s.column].Name, errors.New("the delete does not say when it happened: source.ts_ms is missing"))
		}
		v = debezium.Value{Kind: debezium.IntValue, Num: ms}
		if t.Columns[s.column].Type.Kind == schema.TimestampTZ {
			v = debezium.Value{Kind: debezium.StringValue, Text: time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)}
		}
	}
	return t.encodeValue(dst, s.column, s.encode, &v)
}

// bury appends row to dst as deleted by e: with the column of soft deletes set. Without a row it is the key alone, by
// which the stored row is found; key is not looked at otherwise.
func (t *Target) bury(dst []byte, row, key []byte, e *debezium.Event) ([]byte, *RowError) {
	var err *RowError
	known := row != nil
	for c := range t.Columns {
		elem := appendLength(nil, UnsentLength)
		if row != nil {
			_, elem, row = cut(row)
		}
		if i := slices.Index(t.Key, c); i >= 0 && !known {
			rest := key
			for range i + 1 {
				_, elem, rest = cut(rest)
			}
		}
		if c == t.soft.column {
			if dst, err = t.dead(dst, e); err != nil {
				return dst, err
			}
			continue
		}
		dst = append(dst, elem...)
	}
	return dst, nil
}
