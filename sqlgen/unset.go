package sqlgen

import (
	"errors"

	"replicator/debezium"
)

var (
	errUnset = errors.New("the event has nothing for it, which was NULL or else 0, false or empty: Protobuf by Confluent's converter tells the two apart " +
		"only with its option optional.for.nullables (or wrapper.for.nullables). Set value.converter.optional.for.nullables to true at the connector; " +
		"records from before that stay as they are")
	errUnsetList = errors.New("the event has nothing for it, which was NULL or else empty: Protobuf by Confluent's converter does not tell the two apart " +
		"with any option. Let the connector write Avro or JSON, or leave the column out (tables: columns)")
)

// settled makes enc one for a field in which null and the type's zero are sent alike. Such a value is zero where the source's column,
// or if that is not known the target's, takes no NULL; elsewhere it cannot be known, and is refused.
func (t *Target) settled(f *debezium.Field, source string, c int, enc Encoder) Encoder {
	if !f.NoPresence {
		return enc
	}
	zero := t.Columns[c].NotNull
	if t.config.Witness != nil {
		if column, ok := t.config.Witness.Column(source); ok {
			zero = column.NotNull
		}
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		switch {
		case v.Kind != debezium.Unset:
			return enc(dst, v)
		case zero:
			return enc(dst, &v.List.Values[0])
		case f.Type == debezium.Array || f.Type == debezium.Map:
			return dst, &ValueError{Class: BadRecord, Err: errUnsetList}
		}
		return dst, &ValueError{Class: BadRecord, Err: errUnset}
	}
}
