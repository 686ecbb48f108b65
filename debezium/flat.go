package debezium

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A flattened row is what the transform ExtractNewRecordState leaves of an event: the row alone, with what its options
// delete.tombstone.handling.mode, add.fields and add.headers put beside the columns (Debezium's documentation, "New
// Record State Extraction"). A row is known by one of these fields or headers, by its schema's name, or by holding the
// message key's fields.

// DefaultMetaPrefix is what ExtractNewRecordState puts before the names of what add.fields and add.headers add, unless its
// options add.fields.prefix and add.headers.prefix say otherwise.
const DefaultMetaPrefix = "__"

// deletedField is in a row that delete.tombstone.handling.mode rewrites, with this name whatever the prefixes are.
const deletedField = "__deleted"

// The metadata that say what happened. An event without either is an upsert.
const (
	deletedMeta = "deleted"
	opMeta      = "op"
)

// metaNames are the names, without their prefix, that add.fields takes by a short name, from an event or its source block.
// Those with a dot in their name begin with "source_" or "transaction_".
var metaNames = func() map[string]bool {
	m := map[string]bool{opMeta: true}
	for name := range strings.FieldsSeq("version connector name ts_ms ts_us ts_ns snapshot db sequence schema table transaction " +
		"server_id gtid file pos row thread query txId lsn xmin origin origin_lsn scn commit_scn rs_id ssn redo_thread user_name " +
		"lcr_position change_lsn commit_lsn event_serial_no") {
		m[name] = true
	}
	return m
}()

// metaPrefix is what the names of metadata begin with.
type metaPrefix string

// meta returns the name without its prefix, or "" for a field or header that is none of the metadata.
func (p metaPrefix) meta(name string) string {
	if name == deletedField {
		return deletedMeta
	}
	short, ok := strings.CutPrefix(name, string(p))
	if ok && (metaNames[short] || strings.HasPrefix(short, "source_") || strings.HasPrefix(short, "transaction_")) {
		return short
	}
	return ""
}

// has says whether one of the headers is of the metadata.
func (p metaPrefix) has(headers []Header) bool {
	for i := range headers {
		if p.meta(headers[i].Key) != "" {
			return true
		}
	}
	return false
}

// flatLayout is the layout of flattened rows: fields that are no columns have Field.Meta.
type flatLayout struct {
	*layout
	metas []flatMeta
}

// flatMeta is a field that is no column.
type flatMeta struct {
	index int
	name  string // without its prefix
}

// flatten makes the layout of flattened rows with these fields.
func flatten(s *Shape, p metaPrefix) (*flatLayout, error) {
	marked := &Shape{Name: s.Name, Schemaless: s.Schemaless, Fields: append([]Field(nil), s.Fields...)}
	f := &flatLayout{}
	for i := range marked.Fields {
		if name := p.meta(marked.Fields[i].Name); name != "" {
			marked.Fields[i].Meta = true
			f.metas = append(f.metas, flatMeta{i, name})
		}
	}
	var err error
	f.layout, err = lay(marked)
	return f, err
}

// topicForm is what is known of the records of a topic.
type topicForm struct{ enveloped, flattened bool }

// flatKnown says whether a row of layout f is a flattened one. Otherwise it may be any JSON object.
func (d *Decoder) flatKnown(f *flatLayout, key Row, headers []Header) bool {
	if len(f.metas) > 0 || strings.HasSuffix(f.Name, ".Value") || d.headerMetas.has(headers) {
		return true
	}
	if !key.Sent() || len(key.Shape.Fields) == 0 {
		return false
	}
	for i := range key.Shape.Fields {
		if f.Index(key.Shape.Fields[i].Name) < 0 {
			return false
		}
	}
	return true
}

// flatRow moves c over a row that has the schema of m, and makes the event of it.
func (r *reading) flatRow(c *cursor, f *flatLayout, record *Record, e *Event) error {
	row, err := r.rowOf(c, f.layout)
	if err != nil {
		return err
	}
	if err := c.end(); err != nil {
		return err
	}
	return r.flatEvent(row, f, record, e)
}

// bareFlatRow is flatRow for a row without a schema. It reports false for an object that is not known to be a row.
func (r *reading) bareFlatRow(c *cursor, record *Record, e *Event) (bool, error) {
	row, err := r.bareRow(c, &r.recent.flatGuess)
	if err != nil {
		return false, err
	}
	f, err := r.topic.flat(r.recent.flatGuess, r.fieldMetas)
	if err != nil || !r.flatKnown(f, e.Key, record.Headers) {
		return false, err
	}
	if err := c.end(); err != nil {
		return false, err
	}
	row.Shape = f.Shape
	return true, r.flatEvent(row, f, record, e)
}

// flat returns the layout of flattened rows that l is of rows as such.
func (t *topic) flat(l *layout, p metaPrefix) (*flatLayout, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.flats[l]; f != nil {
		return f, nil
	}
	f, err := flatten(l.Shape, p)
	if err != nil {
		return nil, err
	}
	if t.flats == nil || len(t.flats) >= maxRows {
		t.flats = map[*layout]*flatLayout{}
	}
	t.flats[l] = f
	return f, nil
}

// flatEvent makes an event of a flattened row: by its metadata, and what they do not say by its headers and topic.
func (r *reading) flatEvent(row Row, f *flatLayout, record *Record, e *Event) error {
	r.form.flattened = true
	op, err := r.flatOrigin(record, e)
	if err != nil {
		return err
	}
	for _, m := range f.metas {
		name, v := f.Fields[m.index].Name, &row.Values[m.index]
		value := v.Text
		switch v.Kind {
		case Absent, Null:
			continue
		case BoolValue, IntValue:
			r.key = strconv.AppendInt(r.key[:0], v.Num, 10)
			value = text(r.key)
		case StringValue:
		default: // such as the block of a transaction
			if m.name == opMeta || m.name == deletedMeta {
				return fmt.Errorf("field %q is no text", name)
			}
			continue
		}
		if err := r.metadata(m.name, value, &op, &e.Source); err != nil {
			return fmt.Errorf("field %q %w", name, err)
		}
	}
	switch op {
	case Truncate:
	case Delete:
		e.Before = row
	default:
		e.After = row
	}
	e.Op = op
	return nil
}

// flatOrigin begins the event of a flattened record: what its topic and headers say. A record that says no op is an
// upsert, which is what an update does.
func (r *reading) flatOrigin(record *Record, e *Event) (Op, error) {
	e.Source = r.topicSource(record)
	e.Flat = true
	if !record.Time.IsZero() {
		e.SentNs = record.Time.UnixMilli() * nanosInMilli
	}
	op := Update
	for i := range record.Headers {
		h := &record.Headers[i]
		name := r.headerMetas.meta(h.Key)
		if name == "" {
			continue
		}
		if err := r.metadata(name, headerText(h.Value), &op, &e.Source); err != nil {
			return op, fmt.Errorf("header %q %w", h.Key, err)
		}
	}
	return op, nil
}

// headerText is the text that a header holds as it is, or as the JSON converter writes it. It shares memory with the
// record.
func headerText(b []byte) string {
	const payload = `"payload":`
	if len(b) > 0 && b[0] == '{' {
		if i := bytes.LastIndex(b, []byte(payload)); i >= 0 {
			b = bytes.TrimSuffix(b[i+len(payload):], []byte("}"))
		}
	}
	if len(b) >= 2 && b[0] == '"' && b[len(b)-1] == '"' {
		b = b[1 : len(b)-1]
	}
	return text(b)
}

// metadata takes one field that is no column, by its name without the prefix. Once a row is said to be deleted it stays so:
// __deleted and __op tell the same, and either may be all that there is. value is not held on to.
func (r *reading) metadata(name, value string, op *Op, s *Source) error {
	last := &r.recent.source
	number := func(bits int) (int64, error) {
		n, err := strconv.ParseInt(value, 10, bits)
		if err != nil {
			return 0, errors.New("is no integer")
		}
		return n, nil
	}
	var err error
	var n int64
	switch strings.TrimPrefix(name, "source_") {
	case deletedMeta:
		if value == "true" || value == "1" {
			*op = Delete
		}
	case opMeta:
		switch {
		case len(value) != 1 || !strings.Contains("rcudt", value):
			return fmt.Errorf("is %.20q; known are r, c, u, d and t", value)
		case *op != Delete:
			*op = Op(value[0])
		}
	case "connector":
		s.Connector = keepText(value, &last.Connector)
	case "name":
		s.Name = keepText(value, &last.Name)
	case "db":
		s.Database = keepText(value, &last.Database)
	case "schema":
		s.Schema = keepText(value, &last.Schema)
	case "table":
		s.Table = keepText(value, &last.Table)
	case "file":
		s.File = keepText(value, &last.File)
	case "snapshot":
		s.Snapshot = value != "false" && value != "0"
	case "pos":
		s.Pos, err = number(64)
	case "row":
		n, err = number(32)
		s.RowNo = int32(n)
	case "ts_ms":
		if strings.HasPrefix(name, "source_") { // else it is when the connector sent it
			s.TsMs, err = number(64)
		}
	case "server_id":
		s.ServerID, err = number(64)
	case "lsn":
		s.LSN, err = number(64)
	case "event_serial_no":
		s.Serial, err = number(64)
	default:
		s.flatPosition(strings.TrimPrefix(name, "source_"), value, last)
	}
	return err
}

// flatPosition takes a text that tells a position.
func (s *Source) flatPosition(name, value string, last *Source) {
	switch name {
	case "gtid":
		s.GTID = keepText(value, &last.GTID)
	case "sequence":
		s.Sequence = keepText(value, &last.Sequence)
	case "txId":
		s.TxID = keepText(value, &last.TxID)
	case "commit_lsn":
		s.CommitLSN = keepText(value, &last.CommitLSN)
	case "change_lsn":
		s.ChangeLSN = keepText(value, &last.ChangeLSN)
	case "commit_scn":
		s.CommitSCN = keepText(value, &last.CommitSCN)
	case "scn":
		s.SCN = keepText(value, &last.SCN)
	}
}

// keepText returns value as a string that does not hold on to the record, the same one as last if they are equal.
func keepText(value string, last *string) string {
	if value != *last {
		*last = strings.Clone(value)
	}
	return *last
}

// The headers by which Debezium 3 names the connector of a record.
const (
	connectorHeader = "__debezium.context.connectorName"
	prefixHeader    = "__debezium.context.connectorLogicalName"
)

// topicSource is the source that the name of a record's topic tells: prefix.database.table, prefix.schema.table or
// prefix.database.schema.table. A prefix with dots is known by its header only.
func (r *reading) topicSource(record *Record) Source {
	s := Source{}
	last := &r.recent.source
	for i := range record.Headers {
		switch h := &record.Headers[i]; h.Key {
		case connectorHeader:
			s.Connector = keepText(headerText(h.Value), &last.Connector)
		case prefixHeader:
			s.Name = keepText(headerText(h.Value), &last.Name)
		}
	}
	name := record.Partition.Topic
	if rest, ok := strings.CutPrefix(name, s.Name+"."); ok && s.Name != "" {
		name = rest
	} else if _, rest, ok := strings.Cut(name, "."); ok {
		name = rest
	}
	first, rest, ok := strings.Cut(name, ".")
	if !ok {
		s.Table = name
		return s
	}
	switch s.Connector {
	case "mysql", "mariadb":
		s.Database, s.Table = first, rest // a table's name may have dots
		return s
	case "postgresql", "oracle", "db2":
		s.Schema, s.Table = first, rest
		return s
	}
	parts := strings.Split(name, ".")
	n := len(parts)
	s.Table = parts[n-1]
	if n == 2 {
		s.Database = first
	} else {
		s.Database, s.Schema = parts[n-3], parts[n-2]
	}
	return s
}

var errTombstoneKey = errors.New("a null value deletes a flattened row by its key, and the key is null: " +
	"the source's table has no key, so have the connector send deletes as rows (delete.tombstone.handling.mode: rewrite)")

// tombstone decides what a null value means. In a topic of envelopes it follows a delete and says nothing; in one of
// flattened rows it is the delete itself, but for one that follows a row which says that it is deleted.
func (r *reading) tombstone(record *Record, before []Event, previous *Record, e *Event) error {
	e.Op = Tombstone
	sure := r.form.flattened || r.headerMetas.has(record.Headers)
	switch {
	case sure && !e.Key.Sent():
		return errTombstoneKey
	case !sure && (r.form.enveloped || !e.Key.Sent()):
		return nil
	case len(before) > 0 && before[len(before)-1].Op == Delete && bytes.Equal(previous.Key, record.Key):
		return nil
	}
	_, err := r.flatOrigin(record, e)
	e.Op, e.Unsure = Delete, !sure
	return err
}

// settle decides about the tombstones that came before any record that tells what the topic holds.
func (f topicForm) settle(events []Event) {
	if !f.enveloped && !f.flattened {
		return
	}
	for i := range events {
		if e := &events[i]; e.Unsure {
			e.Unsure = false
			if f.enveloped && !f.flattened {
				e.Op, e.Source = Tombstone, Source{}
			}
		}
	}
}
