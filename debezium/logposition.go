package debezium

import (
	"cmp"
	"math/bits"
	"strconv"
	"strings"
)

// LogPosition is where in its source's log a change stands. Several changes may share one, such as the rows of one binlog
// event or of one COPY: [Digest] tells these apart.
type LogPosition struct {
	Log string    `json:"log"`           // which log: positions of different logs do not compare
	At  [4]uint64 `json:"at"`            // in order
	Txn string    `json:"txn,omitempty"` // the source's transaction, where At alone does not order
}

// LogPosition.Log of sources that have one log; a binlog's is the name of its files without their number.
const (
	postgresLog  = "wal"
	sqlServerLog = "sqlserver"
	oracleLog    = "redo"
)

// Position returns where the change stands, or false where the source block does not say enough for an order:
//
//	MySQL, MariaDB  number of the binlog file, offset in it
//	PostgreSQL      end of the last commit, LSN: transactions come in the order of their commits, with LSNs that overlap
//	SQL Server      commit_lsn, change_lsn, each of 10 bytes
//	Oracle          commit_scn, scn
//
// The forms are those of Debezium's documentation of each connector, "Change event values", field source.
func (s *Source) Position() (LogPosition, bool) {
	switch s.Connector {
	case "mysql", "mariadb":
		dot := strings.LastIndexByte(s.File, '.')
		number, err := strconv.ParseUint(s.File[dot+1:], 10, 64)
		if dot <= 0 || err != nil || s.Pos <= 0 {
			return LogPosition{}, false
		}
		return LogPosition{Log: s.File[:dot], At: [4]uint64{number, uint64(s.Pos)}}, true
	case "postgresql":
		commit, lsn, ok := sequence(s.Sequence)
		if !ok {
			return LogPosition{}, false
		}
		return LogPosition{Log: postgresLog, At: [4]uint64{commit, lsn}, Txn: s.TxID}, true
	case "sqlserver":
		commitHigh, commitLow, ok := sqlServerLSN(s.CommitLSN)
		high, low, also := sqlServerLSN(s.ChangeLSN)
		return LogPosition{Log: sqlServerLog, At: [4]uint64{commitHigh, commitLow, high, low}}, ok && also
	case "oracle":
		commit, err := strconv.ParseUint(s.CommitSCN, 10, 64)
		scn, also := strconv.ParseUint(s.SCN, 10, 64)
		if err != nil || also != nil || s.TxID == "" {
			return LogPosition{}, false
		}
		return LogPosition{Log: oracleLog, At: [4]uint64{commit, scn}, Txn: s.TxID}, true
	}
	return LogPosition{}, false
}

// sequence reads PostgreSQL's ["commit","lsn"]; the first is null until the connector has seen a commit.
func sequence(s string) (commit, lsn uint64, ok bool) {
	inner, ok := strings.CutPrefix(s, "[")
	inner, also := strings.CutSuffix(inner, "]")
	first, second, both := strings.Cut(inner, ",")
	if !ok || !also || !both {
		return 0, 0, false
	}
	if first != "null" {
		if commit, ok = quotedNumber(first); !ok {
			return 0, 0, false
		}
	}
	lsn, ok = quotedNumber(second)
	return commit, lsn, ok
}

func quotedNumber(s string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.Trim(s, `" `), 10, 64)
	return n, err == nil
}

// sqlServerLSN reads 00000027:00000ac0:0002: the log file's number, the block and the record.
func sqlServerLSN(s string) (high, low uint64, ok bool) {
	if len(s) != len("00000027:00000ac0:0002") || s[8] != ':' || s[17] != ':' {
		return 0, 0, false
	}
	file, err := strconv.ParseUint(s[:8], 16, 32)
	block, err2 := strconv.ParseUint(s[9:17], 16, 32)
	record, err3 := strconv.ParseUint(s[18:], 16, 16)
	return file<<32 | block, record, err == nil && err2 == nil && err3 == nil
}

// Compare orders p and q as their source wrote them, or reports false if it cannot be known: they are of different
// logs, or of Oracle transactions that committed at one SCN, whose changes come one transaction after the other.
func (p LogPosition) Compare(q LogPosition) (int, bool) {
	switch {
	case p.Log != q.Log:
		return 0, false
	case p.Txn == "" || q.Txn == "":
	case p.Log == postgresLog && p.Txn == q.Txn:
		// After a restart a connector may know another last commit than before, but not within one transaction.
		return cmp.Compare(p.At[1], q.At[1]), true
	case p.Log == oracleLog && p.Txn != q.Txn && p.At[0] == q.At[0]:
		return 0, false
	}
	for i := range p.At {
		if c := cmp.Compare(p.At[i], q.At[i]); c != 0 {
			return c, true
		}
	}
	return 0, true
}

// GTIDServer splits a GTID into who gave it and its number, which grows there: of uuid:5, uuid:tag:5 and MariaDB's
// 0-1-5, 5 is the number. It reports false for what is no GTID.
func GTIDServer(gtid string) (server string, number uint64, ok bool) {
	at := strings.LastIndexAny(gtid, ":-")
	if at <= 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(gtid[at+1:], 10, 64)
	return gtid[:at], number, err == nil
}

// Digest is a hash of what an event changes and of its row number within its position. It is the same when the connector
// sends the event again, and in every process.
func Digest(e *Event) uint64 {
	h := digest(seed)
	h.number(uint64(e.Op))
	h.number(uint64(e.Source.RowNo))
	h.number(uint64(e.Source.Serial))
	for _, r := range []*Row{&e.Key, &e.Before, &e.After} {
		h.number(uint64(len(r.Values)))
		for i := range r.Values {
			h.value(&r.Values[i])
		}
	}
	return uint64(h)
}

// digest folds words in by multiplying to 128 bits, as wyhash does.
type digest uint64

const (
	seed    = 0xa0761d6478bd642f
	fold    = 0xe7037ed1a0b428db
	maxFold = 8 // bytes in a word
)

func (h *digest) number(n uint64) {
	high, low := bits.Mul64(uint64(*h)^n^fold, seed^n)
	*h = digest(high ^ low ^ bits.RotateLeft64(uint64(*h), 23))
}

func (h *digest) text(s string) {
	h.number(uint64(len(s)))
	for ; len(s) >= maxFold; s = s[maxFold:] {
		h.number(word(s[:maxFold]))
	}
	if s != "" {
		h.number(word(s))
	}
}

// word reads up to 8 bytes, little endian.
func word(s string) (n uint64) {
	if len(s) >= maxFold {
		return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	}
	for i := range len(s) {
		n |= uint64(s[i]) << (8 * i)
	}
	return n
}

func (h *digest) value(v *Value) {
	h.number(uint64(v.Kind))
	switch v.Kind {
	case BoolValue, IntValue:
		h.number(uint64(v.Num))
	case NumberValue, StringValue, BytesValue:
		h.text(v.Text)
	case ListValue:
		h.number(uint64(len(v.List.Values)))
		for i := range v.List.Values {
			if v.List.Names != nil {
				h.text(v.List.Names[i])
			}
			h.value(&v.List.Values[i])
		}
	}
}
