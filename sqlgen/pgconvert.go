package sqlgen

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"replicator/schema"
)

// pgDigits are the decimal digits of the integers that a type holds.
var pgDigits = map[schema.Kind]int{schema.Int16: 5, schema.Int32: 10, schema.Int64: 19}

// pgHolds says whether a column of type t holds every value of type v, after a conversion that changes none.
func pgHolds(t, v schema.Type) bool {
	if t.Native == v.Native {
		return true
	}
	switch t.Kind {
	case schema.Int16:
		return v.Kind == schema.Bool
	case schema.Int32, schema.Int64:
		return v.Kind == schema.Bool || pgDigits[v.Kind] > 0 && pgDigits[v.Kind] <= pgDigits[t.Kind]
	case schema.Decimal:
		if n := pgDigits[v.Kind]; n > 0 {
			return t.Length == 0 || t.Length-t.Scale >= n
		}
		return v.Kind == schema.Decimal && (t.Length == 0 || v.Length > 0 && t.Scale >= v.Scale && t.Length-t.Scale >= v.Length-v.Scale)
	case schema.Float64:
		return v.Kind == schema.Float32 || v.Kind == schema.Int16 || v.Kind == schema.Int32
	case schema.Float32:
		return v.Kind == schema.Int16
	case schema.Text:
		// The text of numbers with a fixed scale is the same in both databases; that of dates and doubles is not.
		return t.Native == "text" && (v.Kind == schema.Varchar || v.Kind == schema.Enum || isTextArray(v) || pgDigits[v.Kind] > 0 || v.Kind == schema.Decimal && v.Length > 0)
	case schema.Enum:
		return v.Kind == schema.Enum && !slices.ContainsFunc(v.Values, func(l string) bool { return !slices.Contains(t.Values, l) })
	case schema.Other: // a SET's members
		return isTextArray(t) && (v.Kind == schema.Enum || v.Kind == schema.Varchar || v.Kind == schema.Text)
	case schema.Varchar:
		switch {
		case isTextArray(v):
			return true // the conversion fails if a text is too long, and so did the source's
		case v.Kind == schema.Enum:
			return !slices.ContainsFunc(v.Values, func(l string) bool { return t.Length > 0 && utf8.RuneCountInString(l) > t.Length })
		}
		n := pgDigits[v.Kind]
		return v.Kind == schema.Varchar && v.Length > 0 && (t.Length == 0 || t.Length >= v.Length) || n > 0 && (t.Length == 0 || t.Length > n)
	case schema.Timestamp:
		return v.Kind == schema.Date || v.Kind == schema.Timestamp && t.Scale >= v.Scale
	case schema.TimestampTZ, schema.TimeOfDay, schema.Interval:
		return t.Kind == v.Kind && t.Scale >= v.Scale && !strings.Contains(t.Native+v.Native, " to ")
	case schema.Bit:
		return v.Kind == schema.Bool || v.Kind == schema.Bit && t.Length >= v.Length
	}
	return false
}

// pgNarrows says whether values of type v can become values of t where each of them fits, which has to be checked.
func pgNarrows(t, v schema.Type) bool {
	number := func(k schema.Kind) bool {
		return pgDigits[k] > 0 || k == schema.Decimal || k == schema.Float32 || k == schema.Float64
	}
	text := func(k schema.Kind) bool { return k == schema.Varchar || k == schema.Text }
	switch {
	case v.Kind != schema.Bit && pgHolds(v, t): // the way back
		return t.Native != v.Native
	case number(t.Kind) && number(v.Kind):
		return true
	case text(t.Kind) && (text(v.Kind) || v.Kind == schema.Enum || number(v.Kind) && v.Kind != schema.Float32 && v.Kind != schema.Float64):
		return true
	case t.Kind == schema.Enum:
		return text(v.Kind) || isTextArray(v)
	case text(v.Kind):
		return pgDigits[t.Kind] > 0 || t.Kind == schema.JSONB || t.Kind == schema.JSON
	}
	return t.Kind == schema.JSON && v.Kind == schema.JSONB || t.Kind == schema.JSONB && v.Kind == schema.JSON
}

// pgCast returns the expression that makes a value of type t of column, whose type is v.
func pgCast(t, v schema.Type, column string) string {
	switch {
	case t.Kind == schema.Bit && v.Kind == schema.Bool:
		return "lpad(" + column + "::integer::text, " + strconv.Itoa(t.Length) + ", '0')::" + t.Native
	case t.Kind == schema.Bit: // PostgreSQL adds bits at the right end, MySQL at the left
		return "lpad(" + column + "::text, " + strconv.Itoa(t.Length) + ", '0')::" + t.Native
	case v.Kind == schema.Bool:
		return column + "::integer::" + t.Native
	case t.Kind == schema.Bool:
		return column + "::integer::boolean"
	case t.Kind == schema.JSON && v.Kind == schema.JSONB, t.Kind == schema.JSONB && v.Kind == schema.JSON:
		return column + "::text::" + t.Native
	case isTextArray(t):
		return "string_to_array(" + column + "::text, ',')"
	case isTextArray(v) && t.Kind == schema.Varchar: // an explicit cast would cut longer texts off
		return joined(column)
	case isTextArray(v):
		return joined(column) + "::" + t.Native
	}
	return column + "::" + t.Native
}

// joined is the text of a SET whose members are in an array.
func joined(column string) string { return "array_to_string(" + column + ", ',')" }

// pgLossy returns the condition that a value of column, of type v, is not the same after it was made one of type t and back. A
// document is the same if it is one at all, which the cast itself sees to.
func pgLossy(t, v schema.Type, column string) string {
	back := v.Native
	switch t.Kind {
	case schema.JSON, schema.JSONB:
		return ""
	case schema.Enum: // the cast of another text fails
		text := column + "::text"
		if isTextArray(v) {
			text = joined(column)
		}
		labels := make([]string, len(t.Values))
		for i, l := range t.Values {
			labels[i] = pgLiteral(l)
		}
		return text + " <> ALL (ARRAY[" + strings.Join(labels, ", ") + "])"
	case schema.Bool:
		back = "integer::" + back
	}
	return column + " IS DISTINCT FROM (" + pgCast(t, v, column) + ")::" + back
}
