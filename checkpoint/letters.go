package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Letters is the target's table of the records that were set aside (dead letters). The pipeline writes and deletes its rows as it
// does any other table's, in the same transactions: a record is in the table or applied, never both and never neither.
type Letters interface {
	// LetterTable is the table's name. Its columns are those of a [txnsink.Letter].
	LetterTable() schema.Name
	// LetterKeys returns the rows that letters are of, at most limit of them.
	LetterKeys(ctx context.Context, pipeline string, limit int) ([]txnsink.LetterKey, error)
	// SpreadDecisions decides to retry what is not decided of a row of which another letter is, and says whether any is decided.
	SpreadDecisions(ctx context.Context, pipeline string) (bool, error)
	// DecidedLetters returns the first limit letters that are decided, by topic, partition and offset.
	DecidedLetters(ctx context.Context, pipeline string, limit int) ([]txnsink.Letter, error)
}

// LetterTopic takes copies of the letters of a checkpoint, before the checkpoint is prepared, saved or committed: each letter is there
// at least once. A checkpoint that failed then comes again, and its letters with it; if the cause has gone meanwhile, the topic has a
// letter of a record that was applied.
type LetterTopic interface {
	Copy(ctx context.Context, pipeline string, letters []*txnsink.Letter) error
}

// What an operator decides about a letter.
const (
	RetryLetter = "retry" // apply it
	DropLetter  = "drop"  // forget it
)

// Follows is the class of a record that was set aside only because an earlier one of the same row was.
const Follows sqlgen.Class = "follows"

const (
	maxAside       = 100     // records that may be set aside, each for a cause of its own, in one checkpoint
	maxAsideRows   = 100_000 // rows whose records are set aside
	maxCause       = 4 << 10 // bytes of a cause's text
	maxRowKey      = 500     // bytes of a row's key; a longer one has its digest in place of its rest
	lettersEvery   = 2 * time.Second
	lettersAtATime = 100
)

// recordAt names a record.
type recordAt struct {
	partition debezium.Partition
	offset    int64
}

// refusals are the records that ended a run: it begins anew from the last checkpoint, and sets them aside when it comes to them.
// They outlive the runs.
type refusals map[recordAt]*refusal

type refusal struct {
	cause *sqlgen.RowError
	in    int64 // the checkpoint that the record is set aside in; 0: this run has not come to it
}

// add says whether a run that ended with err is to begin anew without the record that err is about.
func (f refusals) add(l Letters, err error) (bool, error) {
	var row *sqlgen.RowError
	if l == nil || !errors.As(err, &row) || !ofRecord(row.Class) || row.Origin.Partition.Topic == "" || row.Table == l.LetterTable() {
		return false, nil
	}
	at := recordAt{row.Origin.Partition, row.Origin.Offset}
	if f[at] != nil {
		return false, nil
	}
	if len(f) >= maxAside {
		return false, tooManyAside(err)
	}
	f[at] = &refusal{cause: row}
	return true, nil
}

func tooManyAside(err error) error {
	return permanent(fmt.Errorf("more than %d records of one checkpoint cannot be decoded or stored, so more than the records may be wrong: "+
		"look at the last of them, and at those in replicator dead-letters list: %w", maxAside, err))
}

// begin is called when a run begins, and saved when a checkpoint is complete.
func (f refusals) begin() {
	for _, r := range f {
		r.in = 0
	}
}

func (f refusals) saved(id int64) {
	for at, r := range f {
		if r.in != 0 && r.in <= id {
			delete(f, at)
		}
	}
}

// ofRecord says whether an error of this class is one record's, and not its table's or the environment's.
func ofRecord(c sqlgen.Class) bool {
	switch c {
	case sqlgen.BadRecord, sqlgen.InvalidValue, sqlgen.OutOfRange, sqlgen.TooLarge, sqlgen.Unstorable, sqlgen.NotNullViolation,
		sqlgen.UniqueViolation, sqlgen.KeyCollision, sqlgen.ForeignKey, sqlgen.CheckViolation, sqlgen.UnavailableValue, sqlgen.MissingRow:
		return true
	}
	return false
}

// letters is what the router knows of the records that are set aside. It belongs to the router.
type letters struct {
	target *sqlgen.Target             // the table of letters
	lanes  []*sqlgen.Target           // by lane: each folds with its own
	rows   map[txnsink.LetterKey]bool // rows whose later records follow
	copies []*txnsink.Letter          // set aside since the last cut, for the topic
	causes int                        // records set aside since the last cut, each for a cause of its own
	looked time.Time
}

// newLetters reads which rows have records set aside; nil: none ever are.
func newLetters(ctx context.Context, c *Config) (*letters, error) {
	if c.Letters == nil {
		return nil, nil
	}
	name := c.Letters.LetterTable()
	table, err := c.Sink.Table(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read table %v of the target: %w", name, err)
	}
	if table == nil {
		return nil, permanent(fmt.Errorf("the target has no table %v, where records are set aside: run `replicator migrate up`", name))
	}
	l := &letters{rows: map[txnsink.LetterKey]bool{}}
	if l.target, err = sqlgen.NewTarget(c.Sink.Dialect(), *table, sqlgen.TargetConfig{Options: c.Tables.Options}); err != nil {
		return nil, err
	}
	for range c.Workers {
		l.lanes = append(l.lanes, l.target.Clone())
	}
	keys, err := c.Letters.LetterKeys(ctx, c.Pipeline, maxAsideRows)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		l.rows[k] = true
	}
	return l, nil
}

// cut returns the copies that the next checkpoint has for the topic.
func (l *letters) cut() []*txnsink.Letter {
	if l == nil {
		return nil
	}
	out := l.copies
	l.copies = nil
	return out
}

// forLane has the letters among a lane's items folded with the lane's own target.
func (l *letters) forLane(items []item, lane int) {
	for i := range items {
		if items[i].target == l.target {
			items[i].target = l.lanes[lane]
		}
	}
}

// letterFields are the columns of the table of letters that a pipeline writes.
var letterFields = []debezium.Field{
	{Name: "pipeline", Type: debezium.String},
	{Name: "topic", Type: debezium.String},
	{Name: "partition", Type: debezium.Int32},
	{Name: "offset", Type: debezium.Int64},
	{Name: "source", Type: debezium.String},
	{Name: "row_key", Type: debezium.String},
	{Name: "class", Type: debezium.String},
	{Name: "cause", Type: debezium.String},
	{Name: "key", Type: debezium.Bytes, Optional: true},
	{Name: "value", Type: debezium.Bytes, Optional: true},
	{Name: "headers", Type: debezium.String},
	{Name: "record_time", Type: debezium.String, Semantic: "io.debezium.time.ZonedTimestamp", Optional: true},
	{Name: "action", Type: debezium.String, Optional: true},
}

var (
	letterShape    = &debezium.Shape{Fields: letterFields}
	letterKeyShape = &debezium.Shape{Fields: letterFields[:4]}
)

// write is the event by which l is put into the table of letters, undecided.
func (l *letters) write(pipeline string, t *txnsink.Letter) item {
	at := null()
	if !t.Time.IsZero() {
		at = text(t.Time.UTC().Format(time.RFC3339Nano))
	}
	row := debezium.Row{Shape: letterShape, Values: append(letterKey(pipeline, t),
		text(t.Source), text(t.RowKey), text(t.Class), text(t.Cause), raw(t.Key), raw(t.Value), text(t.Headers), at, null())}
	return item{l.target, &debezium.Event{Op: debezium.Create, After: row, Partition: debezium.Partition{Topic: t.Topic, ID: t.Partition}, Offset: t.Offset}}
}

// remove is the event by which l leaves the table of letters.
func (l *letters) remove(pipeline string, t *txnsink.Letter) item {
	row := debezium.Row{Shape: letterKeyShape, Values: letterKey(pipeline, t)}
	return item{l.target, &debezium.Event{Op: debezium.Delete, Key: row, Before: row, Partition: debezium.Partition{Topic: t.Topic, ID: t.Partition}, Offset: t.Offset}}
}

func letterKey(pipeline string, t *txnsink.Letter) []debezium.Value {
	return []debezium.Value{
		text(pipeline), text(t.Topic),
		{Kind: debezium.IntValue, Num: int64(t.Partition)},
		{Kind: debezium.IntValue, Num: t.Offset},
	}
}

func text(s string) debezium.Value { return debezium.Value{Kind: debezium.StringValue, Text: s} }
func null() debezium.Value         { return debezium.Value{Kind: debezium.Null} }

func raw(b []byte) debezium.Value {
	if b == nil {
		return null()
	}
	return debezium.Value{Kind: debezium.BytesValue, Text: string(b)}
}

// newLetter is the letter of a record.
func newLetter(record *debezium.Record, source, rowKey string, cause *sqlgen.RowError) (*txnsink.Letter, error) {
	headers := record.Headers
	if headers == nil {
		headers = []debezium.Header{}
	}
	list, err := json.Marshal(headers)
	if err != nil {
		return nil, fmt.Errorf("set record %v offset %d aside: its headers: %w", record.Partition, record.Offset, err)
	}
	what := plainText(cause.Err.Error())
	if cause.Column != "" {
		what = plainText("column "+cause.Column+": ") + what
	}
	return &txnsink.Letter{
		Topic: record.Partition.Topic, Partition: record.Partition.ID, Offset: record.Offset, Source: plainText(source), RowKey: rowKey,
		Class: string(cause.Class), Cause: what, Key: record.Key, Value: record.Value, Headers: string(list), Time: record.Time,
	}, nil
}

// recordOf is the record that a letter holds.
func recordOf(t *txnsink.Letter) (debezium.Record, error) {
	r := debezium.Record{
		Partition: debezium.Partition{Topic: t.Topic, ID: t.Partition}, Offset: t.Offset, Time: t.Time, Key: t.Key, Value: t.Value,
	}
	if err := json.Unmarshal([]byte(t.Headers), &r.Headers); err != nil {
		return r, permanent(fmt.Errorf("the headers of record %v offset %d, which was set aside, are not what this program wrote: %w", r.Partition, r.Offset, err))
	}
	return r, nil
}

// plainText makes text of a bounded length that any database takes.
func plainText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
	return strings.ToValidUTF8(s[:min(len(s), maxCause)], "")
}

// rowKey names the row that a record changes, for people and to know it again; empty: it has no key.
func rowKey(key debezium.Row) string {
	if !key.Sent() {
		return ""
	}
	parts := make([]string, len(key.Values))
	for i, v := range key.Values {
		parts[i] = plainText(key.Shape.Fields[i].Name) + "=" + keyText(v)
	}
	return digested(strings.Join(parts, ", "))
}

func keyText(v debezium.Value) string {
	switch v.Kind {
	case debezium.BoolValue, debezium.IntValue:
		return strconv.FormatInt(v.Num, 10)
	case debezium.NumberValue:
		return v.Text
	case debezium.StringValue:
		return strconv.QuoteToASCII(v.Text)
	case debezium.BytesValue:
		return fmt.Sprintf("0x%x", v.Text)
	case debezium.ListValue:
		parts := make([]string, len(v.List.Values))
		for i, e := range v.List.Values {
			parts[i] = keyText(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return "null"
}

func digested(key string) string {
	if len(key) <= maxRowKey {
		return key
	}
	return fmt.Sprintf("%s… sha256 %x", strings.ToValidUTF8(key[:maxRowKey], ""), sha256.Sum256([]byte(key)))
}

// imageKey is the key of an event without one, by the columns that a rule names.
func imageKey(e *debezium.Event, columns []string) debezium.Row {
	image := e.After
	if !image.Sent() {
		image = e.Before
	}
	if !image.Sent() || len(columns) == 0 {
		return debezium.Row{}
	}
	key := debezium.Row{Shape: &debezium.Shape{}}
	for _, c := range columns {
		i := slices.IndexFunc(image.Shape.Fields, func(f debezium.Field) bool { return strings.EqualFold(f.Name, c) })
		if i < 0 || i >= len(image.Values) {
			return debezium.Row{}
		}
		key.Shape.Fields = append(key.Shape.Fields, image.Shape.Fields[i])
		key.Values = append(key.Values, image.Values[i])
	}
	return key
}
