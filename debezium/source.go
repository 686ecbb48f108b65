package debezium

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// sourcePart is a field of the source block that is read.
type sourcePart uint8

const (
	otherPart sourcePart = iota // moved over
	connectorPart
	namePart
	databasePart
	schemaPart
	tablePart
	filePart
	timePart
	posPart
	rowPart
	snapshotPart
	// What tells a position.
	serverPart
	gtidPart
	lsnPart
	sequencePart
	txPart
	commitLSNPart
	changeLSNPart
	serialPart
	commitSCNPart
	scnPart
)

var sourceParts = map[string]sourcePart{
	"connector": connectorPart, "name": namePart, "db": databasePart, "schema": schemaPart, "table": tablePart, "file": filePart,
	"ts_ms": timePart, "pos": posPart, "row": rowPart, "snapshot": snapshotPart, "server_id": serverPart, "gtid": gtidPart, "lsn": lsnPart,
	"sequence": sequencePart, "txId": txPart, "commit_lsn": commitLSNPart, "change_lsn": changeLSNPart, "event_serial_no": serialPart,
	"commit_scn": commitSCNPart, "scn": scnPart,
}

// source moves c over an envelope's source block.
func (r *reading) source(c *cursor, s *Source) error {
	empty, err := c.open('{', '}')
	for i, more := 0, !empty; more; i++ {
		name, part, err := member(r, c, &r.recent.sources, i, sourceParts)
		if err != nil {
			return err
		}
		if err = r.sourceMember(c, part, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if more, err = c.more('}'); err != nil {
			return err
		}
	}
	return err
}

// sourceMember moves c over a member's value. Texts that rarely change are shared with the source blocks before: an
// Event then does not hold on to its record by them.
func (r *reading) sourceMember(c *cursor, part sourcePart, s *Source) error {
	last := &r.recent.quoted
	switch part {
	case otherPart:
		return c.skip(0)
	case connectorPart:
		return r.shared(c, &s.Connector, &last.Connector)
	case namePart:
		return r.shared(c, &s.Name, &last.Name)
	case databasePart:
		return r.shared(c, &s.Database, &last.Database)
	case schemaPart:
		return r.shared(c, &s.Schema, &last.Schema)
	case tablePart:
		return r.shared(c, &s.Table, &last.Table)
	case filePart:
		return r.shared(c, &s.File, &last.File)
	case timePart:
		return integer(c, &s.TsMs)
	case posPart:
		return integer(c, &s.Pos)
	case rowPart:
		var n int64
		if err := integer(c, &n); err != nil {
			return err
		}
		if n < math.MinInt32 || n > math.MaxInt32 {
			return c.fail("a number of more than 32 bits")
		}
		s.RowNo = int32(n)
		return nil
	case snapshotPart:
		return r.snapshot(c, &s.Snapshot)
	}
	return r.positionMember(c, part, s)
}

// positionMember is sourceMember for what tells a position. These texts differ from event to event and point into the
// record.
func (r *reading) positionMember(c *cursor, part sourcePart, s *Source) (err error) {
	switch part {
	case serverPart:
		s.ServerID, err = r.count(c)
	case gtidPart:
		err = r.word(c, &s.GTID)
	case lsnPart:
		s.LSN, err = r.count(c)
	case sequencePart:
		err = r.word(c, &s.Sequence)
	case txPart:
		err = r.word(c, &s.TxID)
	case commitLSNPart:
		err = r.word(c, &s.CommitLSN)
	case changeLSNPart:
		err = r.word(c, &s.ChangeLSN)
	case serialPart:
		s.Serial, err = r.count(c)
	case commitSCNPart:
		err = r.word(c, &s.CommitSCN)
	case scnPart:
		err = r.word(c, &s.SCN)
	}
	return err
}

// word moves c over a value and takes it if it is a string or a number; connectors of different ages send the one or the
// other.
func (r *reading) word(c *cursor, s *string) (err error) {
	switch b := c.peek(); {
	case b == '"':
		*s, err = r.string(c)
		return err
	case b == '-' || b >= '0' && b <= '9':
		at := c.at
		_, _, err = c.number()
		*s = text(c.data[at:c.at])
		return err
	}
	return c.skip(0)
}

// shared moves c over a string or null, and makes s the same string as last if they are equal, and last s if not. last is
// the JSON of a text that needs no escapes, or else empty.
func (r *reading) shared(c *cursor, s, last *string) error {
	if *last == "" || !c.has(*last) {
		if c.has("null") {
			*s = ""
			return nil
		}
		v, err := r.string(c)
		if err != nil {
			return err
		}
		if *last = verbatim(v); *last == "" {
			*s = strings.Clone(v)
			return nil
		}
	}
	*s = (*last)[1 : len(*last)-1]
	return nil
}

// named says whether a database can have something that is called name: none lets NUL be in it.
func named(name string) bool { return strings.IndexByte(name, 0) < 0 }

var errName = errors.New("a table or a column with NUL in its name: no database has such, and the record is not one of Debezium's")

// integer moves c over an integer or null, which is 0.
func integer(c *cursor, n *int64) (err error) {
	if c.has("null") {
		*n = 0
		return nil
	}
	v, ok, err := c.number()
	if err == nil && !ok {
		err = c.fail("a number that is no 64-bit integer")
	}
	*n = v
	return err
}

// snapshot moves c over the value of source.snapshot: a text since Debezium 1.5, a boolean before.
func (r *reading) snapshot(c *cursor, is *bool) error {
	var v Value
	if err := r.value(c, &v, 0); err != nil {
		return err
	}
	var err error
	if *is, err = isSnapshot(&v); err != nil {
		return c.fail(err.Error())
	}
	return nil
}

func isSnapshot(v *Value) (bool, error) {
	switch v.Kind {
	case StringValue:
		return v.Text != "false", nil
	case BoolValue:
		return v.Num == 1, nil
	case Null:
		return false, nil
	}
	return false, errors.New("neither a text nor a boolean")
}
