package main

import (
	"slices"
	"strings"
	"time"

	"replicator/debezium"
	"replicator/schema"
)

// sampleFindings collects what the records show, by finding.
type sampleFindings struct{ where map[string][]string }

func newSampleFindings() *sampleFindings { return &sampleFindings{map[string][]string{}} }

// note adds where something was found, once.
func (s *sampleFindings) note(name, where string) {
	if !slices.Contains(s.where[name], where) {
		s.where[name] = append(s.where[name], where)
	}
}

// options looks at one event for what the connector was told to do, and what that costs.
func (s *sampleFindings) options(c *config, e *debezium.Event, t *knownTable, now time.Time) {
	if e.Source.TsMs > 0 && time.UnixMilli(e.Source.TsMs).After(now.Add(clockSlack)) {
		s.note("clocks/future", t.source)
	}
	if e.Flat {
		s.note("connector/flattened", t.source)
	} else if _, ok := e.Source.Position(); !ok && c.Source.Deduplicate {
		s.note("connector/position", t.source)
	}
	if c.Transactions == preserveTransactions && e.Txn == "" && e.Op.Row() && e.Op != debezium.Read && e.Op != debezium.Truncate {
		s.note("transactions/unnamed", t.source)
	}
	keyless := len(t.shape.PrimaryKey) == 0 && len(t.rows.Key) == 0
	if keyless && !e.Before.Sent() && (e.Op == debezium.Update || e.Op == debezium.Delete) {
		s.note("connector/before", t.source)
	}
	image := e.After.Shape
	if image == nil || t.before(e) {
		return
	}
	if image.Schemaless && c.Source.SchemaChanges == "" {
		s.note("connector/schemaless", t.source)
	}
	for i := range t.shape.Columns {
		s.column(image, &t.shape.Columns[i], t)
	}
}

// column compares a column with the field that it is sent as.
func (s *sampleFindings) column(image *debezium.Shape, col *schema.Column, t *knownTable) {
	if slices.Contains(t.rows.Exclude, col.Name) || col.Generated {
		return
	}
	where := t.source + "." + col.Name
	i := slices.IndexFunc(image.Fields, func(f debezium.Field) bool {
		return f.Name == col.Name || debezium.Adjusts(col.Name, f.Name)
	})
	if i < 0 {
		s.note("connector/columns", where)
		return
	}
	f := &image.Fields[i]
	if f.NoPresence && !col.NotNull && col.Type.Kind != schema.Vector {
		s.note("connector/nulls", where)
	}
	want := col.Type
	if own := f.SourceType(); want.Kind == schema.Float64 || want.Kind == schema.Unknown {
		want = own
	}
	switch {
	case want.Kind == schema.Decimal && (f.Type == debezium.Float64 || f.Type == debezium.Float32):
		s.note("connector/decimal", where)
	case (want.Kind == schema.Time || want.Kind == schema.TimeOfDay || want.Kind == schema.Timestamp) && want.Scale > 3 && millis(f.Semantic):
		s.note("connector/time", where)
	}
}

// millis says whether values of this kind are cut to milliseconds.
func millis(semantic string) bool {
	return semantic == "org.apache.kafka.connect.data.Time" || semantic == "org.apache.kafka.connect.data.Timestamp"
}

// report tells what was noted.
func (s *sampleFindings) report(f *findings) {
	tell := func(name, level, do, message string) {
		if where := s.where[name]; len(where) > 0 {
			f.add(level, name, do, strings.ReplaceAll(message, "{}", few(where, 10)))
		}
	}
	fail := func(name, do, message string) { tell(name, levelError, do, message) }
	warn := func(name, do, message string) { tell(name, levelWarning, do, message) }
	fail("partitions/keyless", "give the topic one partition, or its records a key (the connector's message.key.columns)",
		"records without a key are spread over partitions, which are read in no order: {}")
	fail("partitions/key", "let message.key.columns name columns of the key alone, or give the topic one partition",
		"the partition of a record does not follow from its row's key, so that changes of one row may be read in another order: {}")
	warn("partitions/moved", "a topic that got partitions later is in order again when the records from before are gone; a partitioner must go by the key alone",
		"a key is found in more than one partition, so that changes of one row may be read in another order: {}")
	warn("messages/large", "raise the topic's max.message.bytes, the broker's, and the connector's producer.override.max.request.size, before the connector stops at a record",
		"records are nearly as large as the topic takes: {}")
	warn("connector/flattened", "leave out the transform ExtractNewRecordState",
		"records are rows without an envelope: the rows' former values are unknown, and deletes are seen by tombstones or __deleted only: {}")
	fail("transactions/unnamed", "set provide.transaction.metadata to true on the connector, and leave out the transform ExtractNewRecordState; or source_transactions: ignore",
		"records do not say which transaction of the source they are of, as flattened ones never do, and source_transactions: preserve needs it: {}")
	warn("connector/position", "", "records do not say where in the source's log they stand, so that what a restarted connector sends again is applied again: {}")
	fail("connector/before", "set REPLICA IDENTITY FULL (PostgreSQL) or binlog_row_image FULL (MySQL) for the tables, or give them a key (tables: key)",
		"changes of tables without a key come without the rows' former values, and cannot find their rows: {}")
	warn("connector/nulls", "set value.converter.optional.for.nullables to true on the connector; arrays and maps need Avro or JSON",
		"Protobuf records do not tell NULL from 0, false or empty, and such a row will be refused: {}")
	warn("connector/schemaless", "set source.schema_changes, or the converters' schemas.enable to true (JSON)",
		"records have no schema and there is no schema-change topic: types are taken from the target's tables alone: {}")
	warn("connector/columns", "see to column.include.list, column.exclude.list, binlog_row_image and include.unknown.datatypes; a column that is not wanted can be excluded here (tables: columns)",
		"records lack columns of their tables: {}")
	warn("connector/decimal", "set decimal.handling.mode to precise or string", "decimals come as binary fractions, of which 15 digits are right: {}")
	warn("connector/time", "set time.precision.mode to adaptive or adaptive_time_microseconds", "times are cut to milliseconds: {}")
	warn("clocks/future", "see to the clocks (NTP) of this machine and of the source; lag_seconds is wrong by the difference", "records were committed later than it is by this machine's clock: {}")
}
