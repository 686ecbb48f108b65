package debezium

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// source moves c over an envelope's source block.
func (r *reading) source(c *cursor, s *Source) error {
	empty, err := c.open('{', '}')
	for i, more := 0, !empty; more && err == nil; i++ {
		var name string
		if name, err = r.member(c, &r.recent.sources, i); err != nil {
			return err
		}
		if err = r.sourceMember(c, name, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		more, err = c.more('}')
	}
	return err
}

// sourceMember moves c over a member's value. Texts that rarely change are shared with the source blocks before: an
// Event then does not hold on to its record by them.
func (r *reading) sourceMember(c *cursor, name string, s *Source) error {
	last := &r.recent.source
	switch name {
	case "connector":
		return r.shared(c, &s.Connector, &last.Connector)
	case "name":
		return r.shared(c, &s.Name, &last.Name)
	case "db":
		return r.shared(c, &s.Database, &last.Database)
	case "schema":
		return r.shared(c, &s.Schema, &last.Schema)
	case "table":
		return r.shared(c, &s.Table, &last.Table)
	case "file":
		return r.shared(c, &s.File, &last.File)
	case "ts_ms":
		return integer(c, &s.TsMs)
	case "pos":
		return integer(c, &s.Pos)
	case "row":
		var n int64
		if err := integer(c, &n); err != nil {
			return err
		}
		if n < math.MinInt32 || n > math.MaxInt32 {
			return c.fail("a number of more than 32 bits")
		}
		s.RowNo = int32(n)
		return nil
	case "snapshot":
		return r.snapshot(c, &s.Snapshot)
	}
	return r.positionMember(c, name, s)
}

// positionMember is sourceMember for what tells a position. These texts differ from event to event and point into the
// record.
func (r *reading) positionMember(c *cursor, name string, s *Source) error {
	var err error
	switch name {
	case "server_id":
		s.ServerID, err = r.count(c)
		return err
	case "gtid":
		return r.word(c, &s.GTID)
	case "lsn":
		s.LSN, err = r.count(c)
		return err
	case "sequence":
		return r.word(c, &s.Sequence)
	case "txId":
		return r.word(c, &s.TxID)
	case "commit_lsn":
		return r.word(c, &s.CommitLSN)
	case "change_lsn":
		return r.word(c, &s.ChangeLSN)
	case "event_serial_no":
		s.Serial, err = r.count(c)
		return err
	case "commit_scn":
		return r.word(c, &s.CommitSCN)
	case "scn":
		return r.word(c, &s.SCN)
	}
	return c.skip(0)
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

// shared moves c over a string or null, and makes s the same string as last if they are equal, and last s if not.
func (r *reading) shared(c *cursor, s, last *string) error {
	if c.has("null") {
		*s = ""
		return nil
	}
	v, err := r.string(c)
	if err != nil {
		return err
	}
	if v != *last {
		*last = strings.Clone(v)
	}
	*s = *last
	return nil
}

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
