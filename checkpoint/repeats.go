package checkpoint

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"replicator/debezium"
)

// Bounds of what is remembered of repeated events. Beyond them events are applied, and perhaps applied again: nothing
// is lost.
const (
	maxSeen    = 10_000 // tables in partitions
	maxDigests = 1_024  // changes at one position
	maxServers = 16     // that gave GTIDs to one table's changes
)

// The least time between a connector's last event and the first one that it sends again. A new run connects to the database
// and to Kafka; one that goes on after an error waits for 10 s first (retriable.restart.connector.wait.ms), and one that has lost
// its connection to a binlog notices that when nothing has come for 48 s (four fifths of connect.keep.alive.interval.ms).
const (
	restartTakes = 100 * time.Millisecond
	retryTakes   = 5 * time.Second // within one run
)

// Seen is how far the changes of one source table were applied in one partition, by the positions that their source gave
// them. It is a part of a checkpoint.
type Seen struct {
	Source    string `json:"source"` // the connector's topic.prefix
	Database  string `json:"database,omitempty"`
	Schema    string `json:"schema,omitempty"`
	Table     string `json:"table"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`

	debezium.LogPosition          // the last position
	Digests              []uint64 `json:"digests"`         // of the first changes there, in order
	Count                int      `json:"count"`           // of the changes there
	Cursor               int      `json:"cursor"`          // how many of these the connector has sent since it went back; Count: it has not
	Order                int64    `json:"order,omitempty"` // Event.Order of the last event there
	SentNs               int64    `json:"sent_ns,omitempty"`
	Run                  string   `json:"run,omitempty"` // Event.Run of that event

	TsMs     int64    `json:"ts_ms,omitempty"`     // the latest time of a change at the source
	ServerID int64    `json:"server_id,omitempty"` // of the last change
	Servers  []Server `json:"servers,omitempty"`
}

// Server is the highest number that one server gave in GTIDs.
type Server struct {
	ID     string `json:"id"`
	Number uint64 `json:"number"`
}

func (s *Seen) table() sourceTable { return sourceTable{s.Database, s.Schema, s.Table} }

func (s *Seen) partition() debezium.Partition {
	return debezium.Partition{Topic: s.Topic, ID: s.Partition}
}

func (s *Seen) valid() bool {
	return s.Topic != "" && s.Count >= 1 && s.Cursor >= 0 && s.Cursor <= s.Count && len(s.Digests) >= 1 && len(s.Digests) <= s.Count
}

// seenKey is what a Seen is of.
type seenKey struct {
	source    string
	table     sourceTable
	partition debezium.Partition
}

func keyOf(e *debezium.Event) seenKey { return seenKey{e.Source.Name, tableOf(e), e.Partition} }

// repeats recognises events that were applied before. Debezium is at least once: after a restart it goes on from the
// last position that it had saved, and sends again what came after. It keeps the order of its source's log, so all
// before the furthest position was sent, and of the changes at that position a digest each tells which ones. It belongs to
// the router.
type repeats struct {
	Config
	known map[seenKey]*Seen

	lastKey seenKey // most events are of the same table as the one before
	last    *Seen

	moved map[string]bool // sources whose move to another log was logged
	full  bool            // maxSeen was met and logged
}

func newRepeats(c Config, seen []Seen) *repeats {
	r := &repeats{Config: c, known: make(map[seenKey]*Seen, len(seen)), moved: map[string]bool{}}
	for i := range seen {
		s := seen[i]
		s.Digests, s.Servers = slices.Clone(s.Digests), slices.Clone(s.Servers)
		r.known[seenKey{s.Source, s.table(), s.partition()}] = &s
	}
	return r
}

// of says whether e was applied before, and remembers it if it was not. Reads of a snapshot are never repetitions,
// and have the position at which the snapshot began: they are not remembered.
func (r *repeats) of(e *debezium.Event) bool {
	if e.Source.Snapshot || e.Op == debezium.Read {
		return false
	}
	at, ok := e.Source.Position()
	if !ok {
		return false
	}
	digest := debezium.Digest(e)
	s := r.find(e)
	if s == nil {
		r.begin(e, at, digest)
		return false
	}
	switch c, ok := at.Compare(s.LogPosition); {
	case !ok && at.Log != s.Log:
		if s.ran(e) { // the server that it came from before calls its binlog otherwise
			return true
		}
		r.logMove(e)
		s.advance(e, at, digest)
	case !ok || c > 0:
		s.advance(e, at, digest)
	case c < 0:
		if !s.mayHaveSeen(e) {
			r.logMove(e)
			s.advance(e, at, digest)
			return false
		}
		s.Cursor = 0
		return true
	default:
		return s.again(e, digest)
	}
	return false
}

func (r *repeats) find(e *debezium.Event) *Seen {
	if k := keyOf(e); r.last == nil || k != r.lastKey {
		r.lastKey, r.last = k, r.known[k]
	}
	return r.last
}

func (r *repeats) begin(e *debezium.Event, at debezium.LogPosition, digest uint64) {
	if len(r.known) >= maxSeen {
		if !r.full {
			r.full = true
			r.Log.Warn("too many tables and partitions to recognise what is sent again in all of them; in the others it is applied again",
				"pipeline", r.Pipeline, "known", maxSeen, "table", tableOf(e).String(), "partition", e.Partition.String())
		}
		return
	}
	t := tableOf(e)
	s := &Seen{
		Source: e.Source.Name, Database: t.database, Schema: t.schema, Table: t.table,
		Topic: e.Partition.Topic, Partition: e.Partition.ID,
	}
	s.advance(e, at, digest)
	r.known[r.lastKey], r.last = s, s
}

// logMove says once for each source that its positions went back and cannot be repetitions.
func (r *repeats) logMove(e *debezium.Event) {
	if r.moved[e.Source.Name] {
		return
	}
	r.moved[e.Source.Name] = true
	r.Log.Warn("a source goes on in another log, as after a failover; what it sent before from the former one is not recognised if it sends it again",
		"pipeline", r.Pipeline, "source", e.Source.Name, "table", tableOf(e).String(), "record", e.Partition.String(), "offset", e.Offset)
}

// seen returns what is remembered, for a checkpoint.
func (r *repeats) seen() []Seen {
	out := make([]Seen, 0, len(r.known))
	for _, s := range r.known {
		c := *s
		c.Digests, c.Servers = slices.Clone(s.Digests), slices.Clone(s.Servers)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Database, b.Database), cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Table, b.Table))
	})
	if len(out) == 0 {
		return nil
	}
	return out
}

// advance makes e the first change at a new position.
func (s *Seen) advance(e *debezium.Event, at debezium.LogPosition, digest uint64) {
	if at.Log != s.Log {
		s.Log = strings.Clone(at.Log)
	}
	s.At = at.At
	if at.Txn != s.Txn {
		s.Txn = strings.Clone(at.Txn) // not to hold on to the record
	}
	s.Digests, s.Count, s.Cursor = append(s.Digests[:0], digest), 1, 1
	s.note(e)
}

// note takes in what an applied event says of its server and time.
func (s *Seen) note(e *debezium.Event) {
	s.sent(e)
	s.TsMs = max(s.TsMs, e.Source.TsMs)
	s.ServerID = e.Source.ServerID
	id, n, ok := debezium.GTIDServer(e.Source.GTID)
	if !ok {
		return
	}
	if server := s.server(id); server != nil {
		server.Number = max(server.Number, n)
	} else if len(s.Servers) < maxServers {
		s.Servers = append(s.Servers, Server{strings.Clone(id), n})
	}
}

func (s *Seen) server(id string) *Server {
	for i := range s.Servers {
		if s.Servers[i].ID == id {
			return &s.Servers[i]
		}
	}
	return nil
}

// mayHaveSeen says whether e, whose position was passed, can be a repetition. It cannot if it is later than all that was
// applied, by the source's clock or by its GTID, or if another server ran it: then the log that the positions are of is
// another one, of a server that took over or was set up anew.
func (s *Seen) mayHaveSeen(e *debezium.Event) bool {
	if e.Source.TsMs > s.TsMs {
		return false
	}
	if id, n, ok := debezium.GTIDServer(e.Source.GTID); ok && len(s.Servers) > 0 {
		server := s.server(id)
		return server != nil && n <= server.Number || server == nil && len(s.Servers) == maxServers
	}
	return e.Source.ServerID == s.ServerID
}

// ran says that the GTID of e, which is of another log, was applied.
func (s *Seen) ran(e *debezium.Event) bool {
	id, n, ok := debezium.GTIDServer(e.Source.GTID)
	if !ok || e.Source.TsMs > s.TsMs {
		return false
	}
	server := s.server(id)
	return server != nil && n < server.Number
}

// again says whether e, which is at the last position, was applied, and remembers it if it was not.
func (s *Seen) again(e *debezium.Event, digest uint64) bool {
	if s.Cursor < s.Count && s.Cursor >= len(s.Digests) { // more than are remembered
		s.Cursor++
		return true
	}
	i := s.index(digest, s.paused(e))
	if i < 0 || s.Cursor == s.Count && s.follows(e) {
		if len(s.Digests) == s.Count && s.Count < maxDigests {
			s.Digests = append(s.Digests, digest)
		}
		s.Count++
		s.Cursor = s.Count
		s.note(e)
		return false
	}
	s.Cursor = i + 1
	s.sent(e)
	return true
}

// sent notes how and when the connector sent the last event there.
func (s *Seen) sent(e *debezium.Event) { s.Order, s.SentNs, s.Run = e.Order, e.SentNs, e.Run }

// paused says whether the connector may have started again between the last event and e.
func (s *Seen) paused(e *debezium.Event) bool {
	since := time.Duration(e.SentNs - s.SentNs)
	if e.Run != "" && s.Run != "" {
		return e.Run != s.Run || since >= retryTakes
	}
	return since >= restartTakes
}

// index finds a change at the last position. A connector that repeats sends the changes there in the same order: the
// next one is likely, then, for it may have gone back once more, the first, and then those ahead and behind. After a
// pause the first comes before the next.
func (s *Seen) index(digest uint64, paused bool) int {
	next := min(s.Cursor, len(s.Digests))
	ahead := slices.Index(s.Digests[next:], digest)
	switch first := s.Digests[0] == digest; {
	case first && (paused || ahead != 0):
		return 0
	case ahead >= 0:
		return next + ahead
	}
	return slices.Index(s.Digests[:next], digest)
}

// follows says whether e, which equals a change at the same position, is one more of them, such as the second of two
// equal rows of one COPY. Where rows of a position are numbered, equal ones have other digests.
func (s *Seen) follows(e *debezium.Event) bool {
	if s.Order > 0 && e.Order > 0 {
		// A connector that restarts goes back, or begins to count anew. One that reads a transaction of a binlog from its begin again, on
		// another connection or from an offset within it, counts on.
		return e.Order > s.Order && (e.Source.File == "" || !s.paused(e))
	}
	if !e.Flat && (e.Source.File != "" || e.Source.Serial > 0) { // a flattened row need not have its number
		return false
	}
	since := time.Duration(e.SentNs - s.SentNs)
	exact := e.SentNs%int64(time.Millisecond) != 0
	return !s.paused(e) && (since > 0 || since == 0 && !exact)
}
