package sqlgen

import (
	"replicator/debezium"
	"replicator/schema"
)

// encoding is one field on its way into one column: what the dialects' encoders have in common.
type encoding struct {
	field   debezium.Field
	m       meaning
	table   schema.Name
	column  schema.Column
	options Options
	nul     bool // the dialect's text can hold U+0000
}
