package kafka

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// everyone gives each member what it holds, and slot 0 to the first if nobody holds it.
func everyone(held map[string][]int) map[string][]int {
	out, free := maps.Clone(held), true
	for _, list := range held {
		free = free && !slices.Contains(list, 0)
	}
	if first := slices.Min(slices.Collect(maps.Keys(held))); free {
		out[first] = append(slices.Clone(out[first]), 0)
	}
	return out
}

func newMember(t *testing.T, s *Source, change func(*GroupConfig)) *Member {
	t.Helper()
	cfg := GroupConfig{Name: "g", Protocol: "p-1", Session: 6 * time.Second, Share: everyone}
	if change != nil {
		change(&cfg)
	}
	return s.Member(cfg)
}

// joinAll has members join at once, each with what it holds, and returns what each is given.
func joinAll(t *testing.T, members []*Member, held [][]int) [][]int {
	t.Helper()
	out, errs := make([][]int, len(members)), make([]error, len(members))
	var wait sync.WaitGroup
	for i, m := range members {
		wait.Go(func() { out[i], errs[i] = m.Join(testContext(t), held[i]) })
	}
	wait.Wait()
	check(t, errors.Join(errs...))
	return out
}

// beatUntilRebalance beats until the group asks to join again.
func beatUntilRebalance(t *testing.T, m *Member) {
	t.Helper()
	ctx := testContext(t)
	for again := false; !again; {
		var err error
		again, err = m.Beat(ctx)
		check(t, err)
	}
}

func TestMembersShareWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "v1.0", "v2.8"} { // JoinGroup 2, 4 and newer
		b := startBroker(t, broker.Options{Nodes: 3, Version: version})
		a, c := newMember(t, newSource(t, b, nil), nil), newMember(t, newSource(t, b, nil), nil)
		if got := joinAll(t, []*Member{a}, [][]int{nil}); !reflect.DeepEqual(got, [][]int{{0}}) {
			t.Fatalf("%s: the only member is given %v", version, got)
		}
		if again, err := a.Beat(testContext(t)); again || err != nil {
			t.Fatalf("%s: %v, %v", version, again, err)
		}
		joined := make(chan error, 1)
		go func() {
			got, err := c.Join(testContext(t), nil)
			if err == nil && len(got) != 0 {
				err = errors.New("it is given what another holds")
			}
			joined <- err
		}()
		beatUntilRebalance(t, a)
		if got := joinAll(t, []*Member{a}, [][]int{{0}}); !reflect.DeepEqual(got, [][]int{{0}}) {
			t.Errorf("%s: a member that holds it is given %v", version, got)
		}
		check(t, <-joined)
		check(t, a.Leave(testContext(t)))
		beatUntilRebalance(t, c)
		if got := joinAll(t, []*Member{c}, [][]int{{}}); !reflect.DeepEqual(got, [][]int{{0}}) {
			t.Errorf("%s: the one that is left is given %v", version, got)
		}
		check(t, c.Leave(testContext(t)))
		check(t, c.Leave(testContext(t))) // and once more is fine
	}
}

// TestASilentMemberIsPutOut: the group goes on without it, and it learns of that.
func TestASilentMemberIsPutOut(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Configs: map[string]string{"group.min.session.timeout.ms": "100"}})
	short := func(c *GroupConfig) { c.Session = 500 * time.Millisecond }
	silent, other := newMember(t, newSource(t, b, nil), short), newMember(t, newSource(t, b, nil), short)
	joinAll(t, []*Member{silent}, [][]int{nil})
	for got := []int(nil); !slices.Equal(got, []int{0}); { // until it has what the silent one held
		got = joinAll(t, []*Member{other}, [][]int{nil})[0]
	}
	if _, err := silent.Beat(testContext(t)); !errors.Is(err, ErrNotMember) {
		t.Fatalf("got %v", err)
	}
	if err := other.Leave(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := joinAll(t, []*Member{silent}, [][]int{nil}); !reflect.DeepEqual(got, [][]int{{0}}) { // as a new one
		t.Errorf("got %v", got)
	}
}

func TestGroupsRefuseWhoDoesNotFit(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	s := newSource(t, b, nil)
	joinAll(t, []*Member{newMember(t, s, nil)}, [][]int{nil})
	for want, change := range map[string]func(*GroupConfig){
		"another configuration":      func(c *GroupConfig) { c.Protocol = "p-2" },
		"membership.session_timeout": func(c *GroupConfig) { c.Name, c.Session = "h", time.Millisecond },
	} {
		_, err := newMember(t, s, change).Join(testContext(t), nil)
		var final *Error
		if !errors.As(err, &final) || final.Class != GroupConflict || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestMembersOfAnotherVersionAreRefused: what they tell is not understood.
func TestMembersOfAnotherVersionAreRefused(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	b.Intercept(kmsg.JoinGroup, func(req kmsg.Request) (kmsg.Response, error, bool) {
		res := req.ResponseKind().(*kmsg.JoinGroupResponse)
		res.Version = req.GetVersion()
		res.LeaderID, res.MemberID = "me", "me"
		res.Members = []kmsg.JoinGroupResponseMember{{MemberID: "me", ProtocolMetadata: []byte("?")}}
		return res, nil, true
	})
	_, err := newMember(t, newSource(t, b, nil), nil).Join(testContext(t), nil)
	var final *Error
	if !errors.As(err, &final) || !strings.Contains(err.Error(), "same version") {
		t.Errorf("got %v", err)
	}
}

// TestAMemberFindsTheCoordinatorAgain: the first answer names a broker that is not the coordinator any more.
func TestAMemberFindsTheCoordinatorAgain(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Nodes: 2})
	m := newMember(t, newSource(t, b, nil), nil)
	joinAll(t, []*Member{m}, [][]int{nil})
	m.coordinator = 1 - m.coordinator
	if _, err := m.Beat(testContext(t)); err == nil || !errors.Is(err, code(kerr.NotCoordinator.Code)) {
		t.Fatalf("got %v", err)
	}
	if again, err := m.Beat(testContext(t)); again || err != nil {
		t.Errorf("got %v, %v", again, err)
	}
}

func TestOnlySomePartitionsAreRead(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t1", 4, nil))
	s := newSource(t, b, func(c *Config) { c.Only = func(p debezium.Partition) bool { return p.ID%2 == 1 } })
	r := open(t, s, nil)
	want := debezium.Positions{}
	got := r.Start()
	for p := range got {
		want[debezium.Partition{Topic: "t1", ID: p.ID}] = got[p]
	}
	if _, has := got[debezium.Partition{Topic: "t1", ID: 1}]; len(got) != 2 || !has || !reflect.DeepEqual(got, want) {
		t.Errorf("reads %v", got)
	}
	check(t, b.CreateTopic("t2", 2, nil))
	check(t, b.Produce(testContext(t), record(debezium.Partition{Topic: "t2"}, "k", "v"), record(debezium.Partition{Topic: "t2", ID: 1}, "k", "v"),
		record(debezium.Partition{Topic: "t1"}, "k", "v"), record(debezium.Partition{Topic: "t1", ID: 3}, "k", "v")))
	seen := map[debezium.Partition]bool{}
	for len(seen) < 2 {
		batch, err := r.Next(testContext(t))
		check(t, err)
		if len(batch.Records) > 0 {
			seen[batch.Partition] = true
		}
	}
	if !reflect.DeepEqual(seen, map[debezium.Partition]bool{{Topic: "t1", ID: 3}: true, {Topic: "t2", ID: 1}: true}) {
		t.Errorf("records of %v", seen)
	}
	if n, err := s.Partitions(testContext(t), "t1"); n != 4 || err != nil {
		t.Errorf("the topic has %d partitions: %v", n, err)
	}
	if n, err := s.Partitions(context.Background(), "none"); n != 0 || err != nil {
		t.Errorf("a topic that is not there has %d partitions: %v", n, err)
	}
	if id, err := s.ClusterID(testContext(t)); id == "" || err != nil {
		t.Errorf("the cluster is %q: %v", id, err)
	}
}
