package sqlgen

import (
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// TestUnsetValuesAreZeroOrNullWhereOnlyThatCanBe: what Protobuf leaves out is taken where the source's column, or else the target's,
// says what it was, and refused elsewhere.
func TestUnsetValuesAreZeroOrNullWhereOnlyThatCanBe(t *testing.T) {
	t.Parallel()
	integer := debezium.Value{Kind: debezium.Unset, List: &debezium.List{Values: []debezium.Value{number32(0)}}}
	list := debezium.Value{Kind: debezium.Unset, List: &debezium.List{Values: []debezium.Value{{Kind: debezium.ListValue, List: &debezium.List{}}}}}
	column := func(native string, notNull bool) schema.Column {
		return schema.Column{Name: "a", Type: PostgresType(native), NotNull: notNull}
	}
	vector := schema.Column{Name: "a", Type: schema.Type{Kind: schema.Vector}}
	const zero, empty = "\x00\x00\x00\x04\x00\x00\x00\x00", "\x00\x00\x00\x02{}"
	for name, c := range map[string]struct {
		target schema.Column
		source *schema.Column // nil: not known
		value  debezium.Value
		want   string // the encoded value, or what the error says
	}{
		"a target that takes no null":              {column("integer", true), nil, integer, zero},
		"a target that takes null":                 {column("integer", false), nil, integer, "NULL or else 0, false or empty"},
		"a source that takes no null":              {column("integer", false), &schema.Column{Name: "a", NotNull: true}, integer, zero},
		"a source that takes null, the target not": {column("integer", true), &schema.Column{Name: "a"}, integer, "value.converter.optional.for.nullables"},
		"an array that takes no null":              {column("integer[]", true), nil, list, empty},
		"an array that takes null":                 {column("integer[]", false), nil, list, "NULL or else empty"},
		"a vector":                                 {column("real[]", false), &vector, list, nullElement},
	} {
		table := itemTable("id")
		table.Columns[1] = c.target
		var config TargetConfig
		if c.source != nil {
			config.Witness = &schema.Table{Columns: []schema.Column{{Name: "id", NotNull: true}, *c.source, {Name: "b"}}}
		}
		target, err := NewTarget(Postgres{}, table, config)
		if err != nil {
			t.Fatal(err)
		}
		shape := &debezium.Shape{Schemaless: true, Fields: []debezium.Field{{Name: "id"}, {Name: "a", NoPresence: true}}}
		if zeroOf := c.value.List.Values[0]; zeroOf.Kind == debezium.ListValue {
			shape.Fields[1].Type, shape.Fields[1].Items = debezium.Array, &debezium.Field{}
		}
		row, refusal := target.encode(nil, debezium.Row{Shape: shape, Values: []debezium.Value{number32(7), c.value}})
		got := ""
		if refusal != nil {
			got = refusal.Error()
			if refusal.Class != BadRecord || refusal.Column != "a" {
				t.Errorf("%s: got %+v, want a bad record of column a", name, refusal)
			}
		} else {
			got = elements(row)[1]
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
