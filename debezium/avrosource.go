package debezium

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// avroSource moves c over an envelope's source block.
func (r *reading) avroSource(c *avroCursor, s *avroSchema, n *avroNode, source *Source) error {
	if n.kind != avroRecord {
		return errors.New("it is no record")
	}
	null, err := c.isNull(n)
	if err != nil || null {
		return err
	}
	for i, f := range n.fields {
		set := s.sources[i]
		if set == nil {
			if err := c.skip(f); err != nil {
				return fmt.Errorf("%s: %w", n.names[i], err)
			}
			continue
		}
		v := &r.scrap
		*v = Value{}
		err := r.avroValue(c, f, v)
		if err == nil {
			err = set(source, &r.recent.source, v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.names[i], err)
		}
	}
	return nil
}

// sourceField puts the value of a field of the source block into s. Texts that rarely change are shared with last, the
// source blocks before.
type sourceField func(s, last *Source, v *Value) error

var sourceFields = map[string]sourceField{
	"connector": func(s, last *Source, v *Value) error { return shareText(&s.Connector, &last.Connector, v) },
	"name":      func(s, last *Source, v *Value) error { return shareText(&s.Name, &last.Name, v) },
	"db":        func(s, last *Source, v *Value) error { return shareText(&s.Database, &last.Database, v) },
	"schema":    func(s, last *Source, v *Value) error { return shareText(&s.Schema, &last.Schema, v) },
	"table":     func(s, last *Source, v *Value) error { return shareText(&s.Table, &last.Table, v) },
	"file":      func(s, last *Source, v *Value) error { return shareText(&s.File, &last.File, v) },
	"ts_ms":     func(s, _ *Source, v *Value) error { return setInteger(&s.TsMs, v) },
	"pos":       func(s, _ *Source, v *Value) error { return setInteger(&s.Pos, v) },
	"row": func(s, _ *Source, v *Value) error {
		var n int64
		if err := setInteger(&n, v); err != nil {
			return err
		}
		if n < math.MinInt32 || n > math.MaxInt32 {
			return errors.New("a number of more than 32 bits")
		}
		s.RowNo = int32(n)
		return nil
	},
	"snapshot": func(s, _ *Source, v *Value) (err error) {
		s.Snapshot, err = isSnapshot(v)
		return err
	},
	// What tells a position.
	"server_id":       func(s, _ *Source, v *Value) error { return setCount(&s.ServerID, v) },
	"gtid":            func(s, last *Source, v *Value) error { return setWord(&s.GTID, &last.GTID, v) },
	"lsn":             func(s, _ *Source, v *Value) error { return setCount(&s.LSN, v) },
	"sequence":        func(s, last *Source, v *Value) error { return setWord(&s.Sequence, &last.Sequence, v) },
	"txId":            func(s, last *Source, v *Value) error { return setWord(&s.TxID, &last.TxID, v) },
	"commit_lsn":      func(s, last *Source, v *Value) error { return setWord(&s.CommitLSN, &last.CommitLSN, v) },
	"change_lsn":      func(s, last *Source, v *Value) error { return setWord(&s.ChangeLSN, &last.ChangeLSN, v) },
	"event_serial_no": func(s, _ *Source, v *Value) error { return setCount(&s.Serial, v) },
	"commit_scn":      func(s, last *Source, v *Value) error { return setWord(&s.CommitSCN, &last.CommitSCN, v) },
	"scn":             func(s, last *Source, v *Value) error { return setWord(&s.SCN, &last.SCN, v) },
}

func shareText(s, last *string, v *Value) error {
	switch v.Kind {
	case Null:
		*s = ""
	case StringValue:
		if v.Text != *last {
			*last = strings.Clone(v.Text)
		}
		*s = *last
	default:
		return errors.New("it is no string")
	}
	return nil
}

func setInteger(n *int64, v *Value) error {
	if v.Kind != IntValue && v.Kind != Null {
		return errors.New("it is no integer")
	}
	*n = v.Num
	return nil
}

// setCount takes a value that is an integer and not negative.
func setCount(n *int64, v *Value) error {
	if v.Kind == IntValue && v.Num >= 0 {
		*n = v.Num
	}
	return nil
}

// setWord takes a value that is a string or a number; connectors of different ages send the one or the other. A string
// points into the record. A number's text is made once for all events that follow each other with it, such as those of a
// transaction.
func setWord(s, last *string, v *Value) error {
	switch v.Kind {
	case StringValue, NumberValue:
		*s = v.Text
	case IntValue:
		var digits [maxIntText]byte
		if b := strconv.AppendInt(digits[:0], v.Num, 10); string(b) != *last {
			*last = string(b)
		}
		*s = *last
	}
	return nil
}

const maxIntText = len("-9223372036854775808")
