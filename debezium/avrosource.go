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
		part := s.sources[i]
		if part == otherPart {
			if err := c.skip(f); err != nil {
				return fmt.Errorf("%s: %w", n.names[i], err)
			}
			continue
		}
		v := &r.scrap
		*v = Value{}
		err := r.avroValue(c, f, v)
		if err == nil {
			err = source.set(part, &r.recent.source, v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.names[i], err)
		}
	}
	return nil
}

// set puts the value of a field of the source block into s. Texts that rarely change are shared with last, the source
// blocks before.
func (s *Source) set(part sourcePart, last *Source, v *Value) error {
	switch part {
	case connectorPart:
		return shareText(&s.Connector, &last.Connector, v)
	case namePart:
		return shareText(&s.Name, &last.Name, v)
	case databasePart:
		return shareText(&s.Database, &last.Database, v)
	case schemaPart:
		return shareText(&s.Schema, &last.Schema, v)
	case tablePart:
		return shareText(&s.Table, &last.Table, v)
	case filePart:
		return shareText(&s.File, &last.File, v)
	case timePart:
		return setInteger(&s.TsMs, v)
	case posPart:
		return setInteger(&s.Pos, v)
	case rowPart:
		var n int64
		if err := setInteger(&n, v); err != nil {
			return err
		}
		if n < math.MinInt32 || n > math.MaxInt32 {
			return errors.New("a number of more than 32 bits")
		}
		s.RowNo = int32(n)
		return nil
	case snapshotPart:
		var err error
		s.Snapshot, err = isSnapshot(v)
		return err
	}
	s.setPosition(part, last, v)
	return nil
}

// setPosition is set for what tells a position. What is of another type is passed over.
func (s *Source) setPosition(part sourcePart, last *Source, v *Value) {
	switch part {
	case serverPart:
		setCount(&s.ServerID, v)
	case gtidPart:
		setWord(&s.GTID, &last.GTID, v)
	case lsnPart:
		setCount(&s.LSN, v)
	case sequencePart:
		setWord(&s.Sequence, &last.Sequence, v)
	case txPart:
		setWord(&s.TxID, &last.TxID, v)
	case commitLSNPart:
		setWord(&s.CommitLSN, &last.CommitLSN, v)
	case changeLSNPart:
		setWord(&s.ChangeLSN, &last.ChangeLSN, v)
	case serialPart:
		setCount(&s.Serial, v)
	case commitSCNPart:
		setWord(&s.CommitSCN, &last.CommitSCN, v)
	case scnPart:
		setWord(&s.SCN, &last.SCN, v)
	}
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
func setCount(n *int64, v *Value) {
	if v.Kind == IntValue && v.Num >= 0 {
		*n = v.Num
	}
}

// setWord takes a value that is a string or a number; connectors of different ages send the one or the other. A string
// points into the record. A number's text is made once for all events that follow each other with it, such as those of a
// transaction.
func setWord(s, last *string, v *Value) {
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
}

const maxIntText = len("-9223372036854775808")
