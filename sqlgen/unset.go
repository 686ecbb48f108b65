package sqlgen

import (
	"errors"

	"replicator/debezium"
	"replicator/schema"
)

// unset says what a value is that the event does not have and that was null or its type's zero (debezium.Unset).
type unset uint8

const (
	unsetUnknown unset = iota // refused: it may be either
	unsetZero
	unsetNull
)

// unsetOf says it for a field of the source's column that is written to column c. Where the source's column, or if that is not known the
// target's, takes no NULL, it is zero; and a vector is never empty.
func (t *Target) unsetOf(source string, c int) unset {
	column := &t.Columns[c]
	if t.config.Witness != nil {
		if known, ok := t.config.Witness.Column(source); ok {
			column = known
		}
	}
	switch {
	case column.NotNull:
		return unsetZero
	case column.Type.Kind == schema.Vector:
		return unsetNull
	}
	return unsetUnknown
}

var (
	errUnset = errors.New("the event has nothing for it, which was NULL or else 0, false or empty: Protobuf by Confluent's converter tells the two apart " +
		"only with its option optional.for.nullables or wrapper.for.nullables; set value.converter.optional.for.nullables to true at the connector")
	errUnsetList = errors.New("the event has nothing for it, which was NULL or else empty: Protobuf by Confluent's converter does not tell the two apart " +
		"with any option; let the connector write Avro or JSON, or leave the column out (tables: columns)")
	unsetAsNull = debezium.Value{Kind: debezium.Null}
)

// settle returns the value that v stands for.
func (t *Target) settle(p *plan, c int, v *debezium.Value) (*debezium.Value, *RowError) {
	zero := &v.List.Values[0]
	switch {
	case p.unset[c] == unsetZero:
		return zero, nil
	case p.unset[c] == unsetNull:
		return &unsetAsNull, nil
	case zero.Kind == debezium.ListValue:
		return nil, t.refuse(BadRecord, t.Columns[c].Name, errUnsetList)
	}
	return nil, t.refuse(BadRecord, t.Columns[c].Name, errUnset)
}
