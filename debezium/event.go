package debezium

import (
	"replicator/schema"
)

// Op is what an event says happened.
type Op byte

// The ops of Debezium's envelope, and those that this package gives to records that carry no row.
const (
	Read         Op = 'r' // a snapshot's read
	Create       Op = 'c'
	Update       Op = 'u'
	Delete       Op = 'd'
	Truncate     Op = 't'
	Message      Op = 'm' // a logical decoding message; not a row
	Tombstone    Op = 'T' // a null value: the compaction marker after a delete; not a row (of a flattened row it is a Delete)
	Heartbeat    Op = 'H' // not a row
	Transaction  Op = 'X' // BEGIN or END of a source transaction, see Event.Marker; not a row
	SchemaChange Op = 'S' // a DDL statement; see Event.Schema
)

// Row says whether the op changes rows of a table.
func (o Op) Row() bool {
	switch o {
	case Read, Create, Update, Delete, Truncate:
		return true
	}
	return false
}

func (o Op) String() string { return string(rune(o)) }

// Source is where an event came from, by the envelope's source block.
type Source struct {
	Connector string // "mysql", "postgresql", ...
	Name      string // the connector's topic.prefix
	Database  string
	Schema    string // PostgreSQL and the like; empty for MySQL
	Table     string
	Snapshot  bool   // part of an initial or incremental snapshot
	TsMs      int64  // when the source committed, milliseconds since the epoch; 0: not said
	File      string // MySQL: binlog file, position and row number in the event
	Pos       int64
	RowNo     int32

	// What only [Source.Position] and those who compare positions need. What a connector does not send is zero.
	ServerID  int64  // MySQL: of the server that ran the transaction first
	GTID      string // MySQL and MariaDB
	LSN       int64  // PostgreSQL
	Sequence  string // PostgreSQL: ["end of the last commit","LSN"]
	TxID      string // PostgreSQL and Oracle
	CommitLSN string // SQL Server
	ChangeLSN string
	Serial    int64  // SQL Server: event_serial_no, the row's number at its change_lsn
	CommitSCN string // Oracle
	SCN       string
}

// Row is one row image. A Row without a Shape was not sent.
type Row struct {
	Shape  *Shape
	Values []Value // as many as Shape.Fields, in their order
}

// Sent says whether the image was in the event.
func (r Row) Sent() bool { return r.Shape != nil }

// Event is one change, or one record that changes no row (see [Op.Row]).
type Event struct {
	Op     Op
	Key    Row // the message key; not sent for tables without one
	Before Row
	After  Row
	Source Source
	OldKey Row     // from the header __debezium.oldkey of the create half of a changed key; not sent if absent or unreadable
	NewKey Row     // from the header __debezium.newkey of the delete half
	Change *Change // for SchemaChange only
	Marker *Marker // for Transaction only

	Txn    string // the source's transaction, with provide.transaction.metadata; empty: not said
	Order  int64  // the number of the event in its source transaction, from 1, with provide.transaction.metadata; 0: not said
	SentNs int64  // when the connector handled the event, nanoseconds since the epoch; whole milliseconds before Debezium 2.6; 0: not said
	Run    string // which run of the connector sent it, from the header __debezium.context.runId of Debezium 3; empty: not said
	Flat   bool   // a flattened row: of Source it has what the connector was told to add, and SentNs is the record's time in milliseconds

	// Unsure is set for a Delete that was made of a tombstone when nothing had shown yet whether the topic's rows are
	// flattened, and a tombstone is a delete, or not, and it follows one. It may be passed over where the key is not
	// enough to find a row.
	Unsure bool

	Partition Partition
	Offset    int64
	Bytes     int // size of the record on the wire
}

// Change is one record of Debezium's schema-change topic.
type Change struct {
	DDL    string
	Tables []TableChange
}

// TableChange is one element of a schema-change record's tableChanges: the table's shape after the statement.
type TableChange struct {
	Type     string // CREATE, ALTER or DROP
	Database string
	Schema   string
	Table    string
	Shape    *schema.Table // nil for DROP; its types are the source's own
}
