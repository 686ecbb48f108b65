package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"replicator/debezium"
)

// ErrNotMember says that the group has put a member out, because it was silent for too long, or does not know it.
var ErrNotMember = errors.New("kafka: no member of the group")

// GroupConfig says which group a process joins, and how.
type GroupConfig struct {
	Name     string        // the group's, as in group.id
	Protocol string        // what all members must have in common; the group refuses others
	Session  time.Duration // how long a member may be silent; the broker bounds it (group.min.session.timeout.ms)
	// Share divides the work among members, each with what it holds. One member does it for all.
	Share func(held map[string][]int) map[string][]int
}

// Member is one process's membership of a group that shares numbered pieces of work. It speaks the protocol of consumer groups, in which
// the broker knows nothing of what is shared, and with a type of its own: no consumer joins such a group by mistake, nor this program
// one of consumers. Its methods are called by one goroutine at a time.
type Member struct {
	config      GroupConfig
	cluster     *cluster
	coordinator int32 // anyBroker: not known
	id          string
	generation  int32
}

// protocolType is the type of our groups.
const protocolType = "replicator"

// The versions that are spoken: JoinGroup from 2 to 4 has one shape, and with 4 a member has its id before it is counted.
const (
	coordinatorVersion int16 = 1
	joinLowest         int16 = 2
	joinHighest        int16 = 4
	syncVersion        int16 = 1
	beatVersion        int16 = 1
	leaveVersion       int16 = 1
)

// Bounds of what members tell each other.
const (
	maxMembers = 10_000
	maxHeld    = 100_000
)

// Member returns a membership that begins with its first Join.
func (s *Source) Member(cfg GroupConfig) *Member {
	return &Member{config: cfg, cluster: s.connect(), coordinator: anyBroker, generation: -1}
}

// work is what a member holds, and what it is assigned.
type work struct {
	Held []int `json:"held"`
}

// Join waits for all members to join, tells them what this one holds, and returns what it is to have. While it waits the
// broker counts it as alive.
func (m *Member) Join(ctx context.Context, held []int) ([]int, error) {
	for {
		mine, again, err := m.joinOnce(ctx, held)
		if err != nil || !again {
			return mine, m.failed(err)
		}
	}
}

// joinOnce returns true if it is to be tried again at once: the member was given its id, or another one came.
func (m *Member) joinOnce(ctx context.Context, held []int) (_ []int, again bool, _ error) {
	joined, err := m.join(ctx, held)
	switch {
	case err != nil:
		return nil, false, err
	case joined.err == codeMemberIDRequired && m.id == "" && joined.member != "":
		m.id = joined.member
		return nil, true, nil
	case joined.err != codeNone:
		return nil, false, m.refused(joined.err)
	}
	m.id, m.generation = joined.member, joined.generation
	var shares map[string][]byte
	if joined.leader == m.id {
		if shares, err = m.divide(joined.members); err != nil {
			return nil, false, err
		}
	}
	code, mine, err := m.sync(ctx, shares)
	switch {
	case err != nil:
		return nil, false, err
	case code == codeRebalanceInProgress:
		return nil, true, nil
	case code != codeNone:
		return nil, false, m.refused(code)
	}
	slots, err := parseWork(mine)
	return slots, false, err
}

// divide has the work shared among the members.
func (m *Member) divide(members map[string][]byte) (map[string][]byte, error) {
	held := make(map[string][]int, len(members))
	for id, metadata := range members {
		list, err := parseWork(metadata)
		if err != nil {
			return nil, err
		}
		held[id] = list
	}
	out := make(map[string][]byte, len(members))
	for id, list := range m.config.Share(held) {
		b, err := json.Marshal(work{list})
		if err != nil {
			return nil, err
		}
		out[id] = b
	}
	return out, nil
}

func parseWork(b []byte) ([]int, error) {
	var w work
	if err := json.Unmarshal(b, &w); err != nil || len(w.Held) > maxHeld {
		return nil, &Error{Class: GroupConflict, Offset: -1, Err: err, Detail: "a member of the group tells what this version does not understand; run the same version in every process of a pipeline"}
	}
	return w.Held, nil
}

// Beat says that this member lives. It returns true if the members are to join again.
func (m *Member) Beat(ctx context.Context) (bool, error) {
	b := appendString(nil, m.config.Name)
	b = appendInt32(b, m.generation)
	b = appendString(b, m.id)
	w, err := m.ask(ctx, protocol.Heartbeat, beatVersion, b, 0)
	if err != nil {
		return false, m.failed(err)
	}
	w.int32() // throttle
	switch c := code(w.int16()); {
	case w.bad:
		return false, m.failed(errTruncated)
	case c == codeRebalanceInProgress:
		return true, nil
	case c != codeNone:
		return false, m.failed(m.refused(c))
	}
	return false, nil
}

// Leave gives up the membership, so that others need not wait for its session to time out, and closes the connections.
func (m *Member) Leave(ctx context.Context) error {
	defer m.cluster.reset()
	if m.id == "" {
		return nil
	}
	b := appendString(nil, m.config.Name)
	b = appendString(b, m.id)
	m.id, m.generation = "", -1
	w, err := m.ask(ctx, protocol.LeaveGroup, leaveVersion, b, 0)
	if err != nil {
		return err
	}
	w.int32() // throttle
	if c := code(w.int16()); c != codeNone && c != codeUnknownMember {
		return fmt.Errorf("leave group %s: %w", m.config.Name, c)
	}
	return nil
}

// failed forgets what an error shows to be out of date.
func (m *Member) failed(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, ErrNotMember):
		m.id, m.generation = "", -1
	default:
		m.coordinator = anyBroker
		m.cluster.reset()
	}
	return err
}

// refused says what a group's error code means: no member any more, a permanent error, or one that may pass.
func (m *Member) refused(c code) error {
	e := &Error{Class: GroupConflict, Offset: -1, Err: c}
	switch c {
	case codeUnknownMember, codeIllegalGeneration:
		return fmt.Errorf("%w %s: %w", ErrNotMember, m.config.Name, c)
	case codeInconsistentProtocol:
		e.Detail = fmt.Sprintf("the members of group %s have another configuration, or are another program's: give all processes of the pipeline the same settings "+
			"(stop those that have the former ones first), and every pipeline a name of its own", m.config.Name)
	case codeInvalidSession:
		e.Detail = fmt.Sprintf("the broker does not allow a session timeout of %v; set membership.session_timeout to what group.min.session.timeout.ms and group.max.session.timeout.ms of the broker allow", m.config.Session)
	case codeGroupAuthorization:
		e.Class, e.Detail = NotAuthorized, fmt.Sprintf("the broker refuses access; allow this user to READ the group %s", m.config.Name)
	case codeGroupFull:
		e.Detail = fmt.Sprintf("group %s has as many members as the broker allows (group.max.size)", m.config.Name)
	case codeInvalidGroup:
		e.Detail = fmt.Sprintf("the broker does not allow the name %q of the group", m.config.Name)
	default:
		return fmt.Errorf("group %s: %w", m.config.Name, c)
	}
	return e
}

// joinAnswer is a response to JoinGroup.
type joinAnswer struct {
	err        code
	generation int32
	leader     string
	member     string
	members    map[string][]byte // the leader is told of them
}

func (m *Member) join(ctx context.Context, held []int) (joinAnswer, error) {
	metadata, err := json.Marshal(work{held})
	if err != nil {
		return joinAnswer{}, err
	}
	session := int32(m.config.Session.Milliseconds())
	b := appendString(nil, m.config.Name)
	b = appendInt32(b, session)
	b = appendInt32(b, session) // to join again within: a member does so as soon as it hears of it
	b = appendString(b, m.id)
	b = appendString(b, protocolType)
	b = appendInt32(b, 1)
	b = appendString(b, m.config.Protocol)
	b = appendBytes(b, metadata)
	w, err := m.ask(ctx, protocol.JoinGroup, joinHighest, b, m.config.Session)
	if err != nil {
		return joinAnswer{}, err
	}
	w.int32() // throttle
	a := joinAnswer{err: code(w.int16()), generation: w.int32()}
	w.string(false) // the protocol's name
	a.leader, a.member = w.string(false), w.string(false)
	n := w.count(false, 6)
	if n > maxMembers {
		return joinAnswer{}, fmt.Errorf("group %s has %d members; at most %d are served", m.config.Name, n, maxMembers)
	}
	a.members = make(map[string][]byte, n)
	for ; n > 0 && !w.bad; n-- {
		id := w.string(false)
		a.members[id] = w.bytes(false)
	}
	if w.bad {
		return joinAnswer{}, errTruncated
	}
	return a, nil
}

func (m *Member) sync(ctx context.Context, shares map[string][]byte) (code, []byte, error) {
	b := appendString(nil, m.config.Name)
	b = appendInt32(b, m.generation)
	b = appendString(b, m.id)
	b = appendInt32(b, int32(len(shares)))
	for id, share := range shares {
		b = appendString(b, id)
		b = appendBytes(b, share)
	}
	w, err := m.ask(ctx, protocol.SyncGroup, syncVersion, b, m.config.Session)
	if err != nil {
		return 0, nil, err
	}
	w.int32() // throttle
	c, mine := code(w.int16()), w.bytes(false)
	if w.bad {
		return 0, nil, errTruncated
	}
	return c, mine, nil
}

// ask asks the group's coordinator, which may take so long to answer.
func (m *Member) ask(ctx context.Context, key protocol.ApiKey, version int16, body []byte, wait time.Duration) (*wire, error) {
	if m.coordinator == anyBroker {
		if err := m.find(ctx); err != nil {
			return nil, err
		}
	}
	lowest := version
	if key == protocol.JoinGroup {
		lowest = joinLowest
	}
	spoken, err := m.cluster.version(ctx, m.coordinator, key, lowest)
	if err != nil {
		return nil, err
	}
	answer, err := m.cluster.roundTrip(ctx, &call{broker: m.coordinator, key: key, version: min(version, spoken), body: body}, wait)
	if err != nil {
		return nil, err
	}
	return &wire{b: answer}, nil
}

// find asks any broker which one coordinates the group.
func (m *Member) find(ctx context.Context) error {
	if _, err := m.cluster.metadata(ctx); err != nil { // the addresses of all brokers
		return err
	}
	b := appendString(nil, m.config.Name)
	b = append(b, 0) // the key is a group's
	if _, err := m.cluster.version(ctx, anyBroker, protocol.FindCoordinator, coordinatorVersion); err != nil {
		return err
	}
	answer, err := m.cluster.roundTrip(ctx, &call{broker: anyBroker, key: protocol.FindCoordinator, version: coordinatorVersion, body: b}, 0)
	if err != nil {
		return err
	}
	w := wire{b: answer}
	w.int32() // throttle
	c := code(w.int16())
	w.string(false) // a text about the error
	id := w.int32()
	host := w.string(false)
	port := w.int32()
	switch {
	case w.bad:
		return errTruncated
	case c != codeNone:
		return m.refused(c)
	}
	if id < 0 {
		return fmt.Errorf("group %s has no coordinator at the moment (%s)", m.config.Name, net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
	m.coordinator = id
	return nil
}

// ClusterID returns what identifies the Kafka cluster; empty: it does not say.
func (s *Source) ClusterID(ctx context.Context) (string, error) {
	m, err := s.look(ctx)
	return m.id, err
}

// Partitions returns how many partitions a topic has; 0: there is no such topic.
func (s *Source) Partitions(ctx context.Context, topic string) (int, error) {
	m, err := s.look(ctx)
	for _, t := range m.topics {
		if t.name == topic {
			return len(t.partitions), err
		}
	}
	return 0, err
}

func (s *Source) look(ctx context.Context) (m metadata, err error) {
	c := s.connect()
	defer c.reset()
	err = c.attempts(ctx, s.cfg.GiveUp, func() (err error) {
		m, err = c.metadata(ctx)
		return err
	})
	return m, err
}

// only leaves of m the partitions that this source reads.
func (s *Source) only(m metadata) metadata {
	if s.cfg.Only == nil {
		return m
	}
	for i := range m.topics {
		t := &m.topics[i]
		kept := t.partitions[:0]
		for _, p := range t.partitions {
			if s.cfg.Only(debezium.Partition{Topic: t.name, ID: p.id}) {
				kept = append(kept, p)
			}
		}
		t.partitions = kept
	}
	return m
}
