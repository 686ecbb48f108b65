package sqlgen

import (
	"slices"
	"strings"
	"unicode/utf8"

	"replicator/debezium"
	"replicator/schema"
)

// pgMaxLabel is how many bytes a label of an enum type can have: it is a name to PostgreSQL.
const pgMaxLabel = 63

// pgTextArray is what a SET becomes beside enum types. A SET's members are never NULL and hold no comma.
const pgTextArray = "text[]"

// labelled returns the type of column c of the table t for schema.types.enum: enum, or false where it is the type that it is anyhow: c is no
// ENUM and no SET, or an enum type cannot have its labels.
func (p Postgres) labelled(t schema.Name, c schema.Column, o Options) (schema.Type, bool) {
	if o.Enum != "enum" {
		return schema.Type{}, false
	}
	switch c.Type.Kind {
	case schema.Set:
		return PostgresType(pgTextArray), true
	case schema.Enum:
		labels, why := pgLabels(c.Type.Values)
		if why == "" {
			return schema.Type{Kind: schema.Enum, Values: labels, Native: p.table(schema.Name{Schema: t.Schema, Table: p.enumName(t.Table, c.Name)})}, true
		}
		if o.Unlabelled != nil {
			o.Unlabelled(t, c.Name, why)
		}
	}
	return schema.Type{}, false
}

// pgLabels returns labels without those that are there twice, as MySQL lets them be, or says why no enum type can have them.
func pgLabels(labels []string) (_ []string, why string) {
	if len(labels) == 0 {
		return nil, "its labels are not known"
	}
	var out []string
	for _, l := range labels {
		switch {
		case len(l) > pgMaxLabel:
			return nil, "a label is longer than the 63 bytes that PostgreSQL's have"
		case strings.Contains(l, "\x00") || !utf8.ValidString(l):
			return nil, "a label is no text that PostgreSQL can store"
		case !slices.Contains(out, l):
			out = append(out, l)
		}
	}
	return out, ""
}

// enumName is what the enum type of a column is called. Types share their names with tables, and a table "orders_status" beside a table
// "orders" with a column "status" is not rare: hence the ending.
func (p Postgres) enumName(table, column string) string {
	return p.ShortName(table + "_" + column + "_enum")
}

// owns says whether the type of the table's column c is one that is called as the replicator calls it.
func (p Postgres) owns(t *schema.Table, c *schema.Column) bool {
	return c.Type.Kind == schema.Enum && lastIdentifier(c.Type.Native) == p.enumName(t.Name.Table, c.Name)
}

// lastIdentifier is the last identifier of a name as format_type writes it, unquoted.
func lastIdentifier(native string) string {
	s, quoted := strings.CutSuffix(native, `"`)
	if !quoted {
		return native[strings.LastIndexByte(native, '.')+1:]
	}
	i := len(s)
	for i > 0 && (s[i-1] != '"' || i > 1 && s[i-2] == '"') {
		if s[i-1] == '"' { // two quotes stand for one
			i--
		}
		i--
	}
	return strings.ReplaceAll(s[i:], `""`, `"`)
}

// createType returns the statement that makes an enum type. One that is there, left by a table that somebody dropped, gets the labels that
// it lacks.
func (p Postgres) createType(t schema.Type) DDL {
	quoted := make([]string, len(t.Values))
	var adds strings.Builder
	for i, l := range t.Values {
		quoted[i] = pgLiteral(l)
		adds.WriteString(" ALTER TYPE " + t.Native + " ADD VALUE IF NOT EXISTS " + quoted[i] + ";")
	}
	return guarded(CreateType, "CREATE TYPE "+t.Native+" AS ENUM ("+strings.Join(quoted, ", ")+")", "duplicate_object OR unique_violation", adds.String())
}

// dropType drops an enum type unless something else uses it.
func (p Postgres) dropType(native string) DDL {
	return guarded(DropType, "DROP TYPE IF EXISTS "+native, "dependent_objects_still_exist", " NULL;")
}

// guarded is a statement in whose place, if it fails for a reason that is expected, others run.
func guarded(kind DDLKind, sql, when, then string) DDL {
	return DDL{kind, "DO " + pgLiteral("BEGIN "+sql+"; EXCEPTION WHEN "+when+" THEN"+then+" END")}
}

// createTypes are the statements that make the enum types of a new table's columns.
func (p Postgres) createTypes(t *schema.Table) []DDL {
	var out []DDL
	for i := range t.Columns {
		if t.Columns[i].Type.Kind == schema.Enum {
			out = append(out, p.createType(t.Columns[i].Type))
		}
	}
	return out
}

// dropTypes are the statements that drop the enum types of a dropped table's columns.
func (p Postgres) dropTypes(t *schema.Table) []DDL {
	var out []DDL
	for i := range t.Columns {
		if p.owns(t, &t.Columns[i]) {
			out = append(out, p.dropType(t.Columns[i].Type.Native))
		}
	}
	return out
}

// addLabels gives the column's enum type, whoever made it, the labels that the source has added, where the source has them among others.
// Labels that the source has no more stay: rows may hold them, and PostgreSQL drops none.
func (w *pgEvolution) addLabels(has *schema.Column, from, to schema.Type) {
	labels := slices.Clone(has.Type.Values)
	for i, l := range to.Values {
		if slices.Contains(labels, l) || slices.Contains(from.Values, l) && !w.Complete {
			continue
		}
		place, at := "", 0
		if before := lastOf(to.Values[:i], labels); before >= 0 {
			place, at = " AFTER "+pgLiteral(labels[before]), before+1
		} else if len(labels) > 0 {
			place = " BEFORE " + pgLiteral(labels[0])
		}
		w.do(AddLabel, "ALTER TYPE %s ADD VALUE IF NOT EXISTS %s%s", has.Type.Native, pgLiteral(l), place)
		labels = slices.Insert(labels, at, l)
	}
	has.Type.Values = labels
	gone := func(l string) bool { return !slices.Contains(to.Values, l) && slices.Contains(labels, l) }
	if slices.ContainsFunc(from.Values, gone) {
		w.keep(ChangeType, has.Name, "the enum type keeps the labels that the source has no more: PostgreSQL drops none")
	}
}

// lastOf returns where the last of names that labels have is among labels, or -1.
func lastOf(names, labels []string) int {
	for _, name := range slices.Backward(names) {
		if i := slices.Index(labels, name); i >= 0 {
			return i
		}
	}
	return -1
}

// settleTypes ends the enum types that columns had and have no more, and lets those of columns or tables that were renamed go by their
// names: a new column under the old name has a type of its own then. The catalog tells which are there; a name that is taken stays.
func (w *pgEvolution) settleTypes() {
	for i := range w.Current.Columns {
		was := &w.Current.Columns[i]
		if !w.owns(w.Current, was) {
			continue
		}
		has := slices.IndexFunc(w.table.Columns, func(c schema.Column) bool { return c.Type.Native == was.Type.Native })
		if has < 0 {
			w.plan.Statements = append(w.plan.Statements, w.dropType(was.Type.Native))
			continue
		}
		if name := w.enumName(w.table.Name.Table, w.table.Columns[has].Name); name != lastIdentifier(was.Type.Native) {
			w.plan.Statements = append(w.plan.Statements,
				guarded(RenameType, "ALTER TYPE "+was.Type.Native+" RENAME TO "+w.Quote(name), "duplicate_object", " NULL;"))
		}
	}
}

// label encodes for an enum type. The server would refuse what is no label too, and could not say which column it is.
func (e *pgEncoder) label() Encoder {
	write := e.appender(&e.m)
	if write == nil {
		return nil
	}
	labels := make(map[string]bool, len(e.column.Type.Values))
	for _, l := range e.column.Type.Values {
		labels[l] = true
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		from := len(dst)
		dst, err := write(dst, v)
		if err == nil && !labels[string(dst[from:])] {
			return dst, e.noLabel(len(dst) == from)
		}
		return dst, err
	}
}

// noLabel is the error of a value that is none of the labels. Outside of strict mode MySQL stores an empty text, which is before the first label,
// in place of such a value: that is a value of every ENUM, and out of the type's range only.
func (e *pgEncoder) noLabel(empty bool) error {
	const format = "%s is none of the labels of the enum type %s: add it (ALTER TYPE %[2]s ADD VALUE ...), or change the row at the source"
	if empty && e.m.sense == senseEnum {
		return outOfRange(format, "the empty text, which MySQL has in place of a value that was no label,", e.column.Type.Native)
	}
	return invalid(format, "the value", e.column.Type.Native)
}

// members encodes a SET, or a label that was a SET's, for an array.
func (e *pgEncoder) members() Encoder {
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind != debezium.StringValue {
			return dst, wrongKind()
		}
		text, err := e.appendClean(nil, v.Text)
		return appendMembers(dst, string(text)), err
	}
}

// appendMembers writes the members of a SET as array_out writes a text[]: its text is compared, and so are defaults.
func appendMembers(dst []byte, set string) []byte {
	if set == "" {
		return append(dst, "{}"...)
	}
	mark := byte('{')
	for member := range strings.SplitSeq(set, ",") {
		dst = append(dst, mark)
		mark = ','
		if member == "" || strings.EqualFold(member, "NULL") || strings.ContainsAny(member, "\"\\{} \t\n\v\f\r") {
			dst = appendQuoted(dst, member)
		} else {
			dst = append(dst, member...)
		}
	}
	return append(dst, '}')
}

func isArray(t schema.Type) bool { return strings.HasSuffix(t.Native, "[]") }

func isTextArray(t schema.Type) bool { return t.Native == pgTextArray }
