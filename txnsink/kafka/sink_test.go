package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// items is the table of these tests.
var items = schema.Table{
	Name: schema.Name{Table: "items"}, PrimaryKey: []string{"id"},
	Columns: []schema.Column{{Name: "id", Type: schema.Type{Kind: schema.Int64}, NotNull: true}, {Name: "v", Type: schema.Type{Kind: schema.Text}}},
}

var itemShape = &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int64}, {Name: "v", Type: debezium.String, Optional: true}}}

// rowOf returns the statements that set a row.
func rowOf(t *testing.T, id int64, v string) []sqlgen.Statement {
	t.Helper()
	target, err := sqlgen.NewTarget(sqlgen.JSON{}, items, sqlgen.TargetConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b := sqlgen.NewBatch(sqlgen.JSON{})
	e := debezium.Event{Op: debezium.Create, Offset: id, After: debezium.Row{Shape: itemShape, Values: []debezium.Value{
		{Kind: debezium.IntValue, Num: id}, {Kind: debezium.StringValue, Text: v},
	}}}
	if err := b.Add(target, &e); err != nil {
		t.Fatal(err)
	}
	return b.Statements()
}

// fenced opens a sink that has fenced an epoch.
func fenced(t *testing.T, c Config, epoch int64) *Sink {
	t.Helper()
	s := open(t, c)
	if err := s.Fence(t.Context(), c.Pipeline, epoch, 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// prepare prepares a transaction of one row.
func prepare(t *testing.T, s *Sink, epoch, checkpoint int64) txnsink.ID {
	t.Helper()
	id := txnsink.ID{Pipeline: s.config.Pipeline, Epoch: epoch, Checkpoint: checkpoint}
	txn, err := s.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := txn.Apply(t.Context(), rowOf(t, checkpoint, "x")); err != nil {
		t.Fatal(err)
	}
	if err := txn.PreCommit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return id
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !holds() {
		if pause(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

// inTime has a run do something within a time-out that is short, in an epoch of its own. On a machine that is busy the brokers may be
// quicker: then it is done again in the next epoch.
func inTime(t *testing.T, b *broker.Broker, do func(txnsink.Txn) error) (*Sink, txnsink.Txn) {
	t.Helper()
	s := open(t, Config{URL: urlOf(b), Pipeline: "shop", Timeout: 2 * time.Second})
	var txn txnsink.Txn
	epoch := int64(0)
	eventually(t, "a transaction goes so far before its time is over", func() bool {
		epoch++
		err := s.Fence(t.Context(), "shop", epoch, 1)
		if err == nil {
			txn, err = s.Begin(t.Context(), txnsink.ID{Pipeline: "shop", Epoch: epoch, Checkpoint: 1})
		}
		if err == nil {
			err = txn.Apply(t.Context(), rowOf(t, 1, "x"))
		}
		if err == nil {
			err = do(txn)
		}
		if err != nil && txn != nil {
			err = errors.Join(err, txn.Abort(t.Context()))
		}
		return err == nil
	})
	return s, txn
}

func TestTransactionThatTheBrokersTimedOutIsLost(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	s, txn := inTime(t, b, func(txn txnsink.Txn) error { return txn.PreCommit(t.Context()) })
	eventually(t, "the brokers end the transaction", func() bool {
		list, err := s.Pending(t.Context(), "shop")
		return err == nil && len(list) == 0
	})
	for range 2 {
		if err := s.Commit(t.Context(), txn.ID()); !errors.Is(err, txnsink.ErrLost) || !txnsink.Permanent(err) {
			t.Errorf("commit: %v, want ErrLost", err)
		}
	}
	if rows := rowsOf(t, read(t, b, "changes"), "items", []string{"id", "v"}); len(rows) != 0 {
		t.Errorf("a reader sees %v", rows)
	}
	epoch := txn.ID().Epoch + 1
	next := fenced(t, Config{URL: urlOf(b), Pipeline: "shop"}, epoch)
	if err := next.Commit(t.Context(), prepare(t, next, epoch, 1)); err != nil {
		t.Error(err)
	}
}

// TestOpenTransactionThatTheBrokersTimedOutFails: it is not prepared as if nothing had happened.
func TestOpenTransactionThatTheBrokersTimedOutFails(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	s, open := inTime(t, b, func(open txnsink.Txn) error { return open.(*txn).slot.producer.flush(t.Context()) })
	eventually(t, "the brokers end the transaction", func() bool { return maps.Equal(stable(t, b, "changes"), ends(t, b, "changes")) })
	err := open.PreCommit(t.Context())
	if err == nil || errors.Is(err, txnsink.ErrFenced) || txnsink.Permanent(err) {
		t.Errorf("prepare after the time-out: %v", err)
	}
	if err := open.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := s.Pending(t.Context(), "shop"); err != nil || len(list) != 0 {
		t.Errorf("pending: %v, %v", list, err)
	}
}

// TestOneOfTwoFencesAtOnceWins: two runs begin at once. The later epoch's transaction can be prepared, the earlier one's cannot, whoever
// was quicker.
func TestOneOfTwoFencesAtOnceWins(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	for round := range int64(10) {
		c := Config{URL: urlOf(b), Pipeline: "shop"}
		early, late := open(t, c), open(t, c)
		epoch := 2*round + 1
		var wg sync.WaitGroup
		var earlyErr error
		wg.Go(func() { earlyErr = early.Fence(t.Context(), "shop", epoch, 1) })
		wg.Go(func() { // a run that is disturbed tries again
			for late.Fence(t.Context(), "shop", epoch+1, 1) != nil && t.Context().Err() == nil {
			}
		})
		wg.Wait()
		if earlyErr == nil {
			id := txnsink.ID{Pipeline: "shop", Epoch: epoch, Checkpoint: epoch}
			open, err := early.Begin(t.Context(), id)
			if err == nil {
				err = open.PreCommit(t.Context())
			}
			if !errors.Is(err, txnsink.ErrFenced) {
				t.Errorf("round %d: the earlier run prepared: %v", round, err)
			}
		}
		if err := late.Commit(t.Context(), prepare(t, late, epoch+1, epoch+1)); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
}

func TestFormatOfAPipelineStays(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	fenced(t, Config{URL: urlOf(b), Pipeline: "shop"}, 1)
	other := open(t, Config{URL: urlOf(b), Pipeline: "shop", SQL: true})
	if err := other.Fence(t.Context(), "shop", 2, 1); !txnsink.Permanent(err) {
		t.Errorf("fence with another format: %v", err)
	}
	fenced(t, Config{URL: urlOf(b), Pipeline: "shop"}, 2)
}

// TestProducerMadeAfterTheFenceIsRefused: a run that was fenced while it had no producer makes one, and so takes its transactional id
// from the run that has fenced it. It must prepare nothing, and the other one must be able to go on.
func TestProducerMadeAfterTheFenceIsRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	c := Config{URL: urlOf(b), Pipeline: "shop"}
	old := fenced(t, c, 1)
	young := fenced(t, c, 2)
	if _, err := old.Begin(t.Context(), txnsink.ID{Pipeline: "shop", Epoch: 1, Checkpoint: 1}); !errors.Is(err, txnsink.ErrFenced) {
		t.Errorf("begin after the fence: %v", err)
	}
	if err := young.Commit(t.Context(), prepare(t, young, 2, 1)); err != nil {
		t.Error(err)
	}
}

func TestAnswersThatAreLostAreAskedForAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	s := fenced(t, Config{URL: urlOf(b), Pipeline: "shop"}, 1)
	first := prepare(t, s, 1, 1)
	var mu sync.Mutex
	cut := 2
	b.Intercept(kmsg.EndTxn, func(kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		cut--
		return nil, errors.New("the connection breaks"), cut >= 0
	})
	if err := s.Commit(t.Context(), first); err != nil {
		t.Error(err)
	}
	second := prepare(t, s, 1, 2)
	mu.Lock()
	cut = 2
	mu.Unlock()
	if err := s.Abort(t.Context(), second); err != nil {
		t.Error(err)
	}
	if err := s.Commit(t.Context(), prepare(t, s, 1, 3)); err != nil {
		t.Error(err)
	}
	if got, want := rowsOf(t, read(t, b, "changes"), "items", []string{"id", "v"}), []string{"1|x", "3|x"}; !slices.Equal(got, want) {
		t.Errorf("a reader sees %v, want %v", got, want)
	}
}

func TestLeadersMayMove(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{Nodes: 2})
	s := fenced(t, Config{URL: urlOf(b), Pipeline: "shop"}, 1)
	for checkpoint := range int64(6) {
		id := prepare(t, s, 1, checkpoint+1)
		if err := b.MoveLeader("changes.replicator", 0, int32(checkpoint%2)); err != nil {
			t.Fatal(err)
		}
		for p := range s.topics.partitions {
			if err := b.MoveLeader("changes", p, int32(checkpoint%2)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Commit(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"1|x", "2|x", "3|x", "4|x", "5|x", "6|x"}
	if got := rowsOf(t, read(t, b, "changes"), "items", []string{"id", "v"}); !slices.Equal(got, want) {
		t.Errorf("a reader sees %v, want %v", got, want)
	}
}

func TestControlTopicThatWasMadeAnewIsNoticed(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	c := Config{URL: urlOf(b), Pipeline: "shop"}
	s := fenced(t, c, 1)
	id := prepare(t, s, 1, 1)
	if err := s.Commit(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteTopic("changes.replicator"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), id); !txnsink.Permanent(err) || errors.Is(err, txnsink.ErrLost) {
		t.Errorf("without the control topic: %v", err)
	}
	open(t, c)
	if err := s.Commit(t.Context(), id); !txnsink.Permanent(err) || errors.Is(err, txnsink.ErrLost) {
		t.Errorf("with another control topic: %v", err)
	}
}

// TestCompactionOfTheControlTopicKeepsWhatCounts: what a compaction leaves says the same.
func TestCompactionOfTheControlTopicKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	c := Config{URL: urlOf(b), Pipeline: "shop"}
	s := fenced(t, c, 1)
	last := txnsink.ID{}
	for checkpoint := range int64(5) {
		last = prepare(t, s, 1, checkpoint+1)
		if err := s.Commit(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
	doubt := prepare(t, s, 1, 6)
	b.Compact()
	other := open(t, c)
	if err := other.Commit(t.Context(), last); err != nil {
		t.Error(err)
	}
	if list, err := other.Pending(t.Context(), "shop"); err != nil || len(list) != 1 || list[0].ID != doubt {
		t.Errorf("pending: %v, %v", list, err)
	}
	if err := other.Commit(t.Context(), doubt); err != nil {
		t.Error(err)
	}
	if err := other.Fence(t.Context(), "shop", 1, 1); err != nil {
		t.Error(err)
	}
	if err := open(t, c).Fence(t.Context(), "shop", 0, 1); !errors.Is(err, txnsink.ErrFenced) {
		t.Errorf("an earlier epoch's fence: %v", err)
	}
}

func TestRowThatIsLongerThanTheTopicTakesIsNamed(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	if err := b.CreateTopic("changes", 1, map[string]string{"max.message.bytes": "20000"}); err != nil {
		t.Fatal(err)
	}
	s := fenced(t, Config{URL: urlOf(b), Pipeline: "shop"}, 1)
	open, err := s.Begin(t.Context(), txnsink.ID{Pipeline: "shop", Epoch: 1, Checkpoint: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Apply(t.Context(), rowOf(t, 1, strings.Repeat("x", 19_000))); err != nil {
		t.Errorf("a row that fits: %v", err)
	}
	err = open.Apply(t.Context(), rowOf(t, 7, strings.Repeat("x", 20_000)))
	var row *sqlgen.RowError
	if !errors.As(err, &row) || row.Class != sqlgen.TooLarge || row.Origin.Offset != 7 {
		t.Errorf("a row that does not fit: %v", err)
	}
	if err := open.Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReadersAreToldOfSchemaChanges: each partition's reader sees them at their place among the rows.
func TestReadersAreToldOfSchemaChanges(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{})
	if err := b.CreateTopic("changes", 2, nil); err != nil {
		t.Fatal(err)
	}
	s := fenced(t, Config{URL: urlOf(b), Pipeline: "shop"}, 1)
	goods := items
	goods.Name.Table = "goods"
	define := func(plan sqlgen.Plan) {
		t.Helper()
		if err := s.Define(t.Context(), txnsink.Definition{Pipeline: "shop", Epoch: 1, DDL: []string{plan.Statements[0].SQL}}); err != nil {
			t.Fatal(err)
		}
	}
	define(sqlgen.JSON{}.Evolve(sqlgen.Evolution{To: &items}))
	define(sqlgen.JSON{}.Evolve(sqlgen.Evolution{Current: &items, From: &items, To: &goods}))
	if was, err := s.Table(t.Context(), items.Name); was != nil || err != nil {
		t.Errorf("the former name: %v, %v", was, err)
	}
	define(sqlgen.JSON{}.Evolve(sqlgen.Evolution{Current: &goods, From: &goods}))
	if gone, err := s.Table(t.Context(), goods.Name); gone != nil || err != nil {
		t.Errorf("the dropped table: %v, %v", gone, err)
	}
	var want []message
	for p := range int32(2) {
		want = append(want,
			message{p, "create", "items", `{"table":"items"}`, `{"table":"items","columns":[{"name":"id","not_null":true},{"name":"v"}],"key":["id"]}`, ""},
			message{p, "alter", "items", `{"table":"items"}`, `{"table":"goods","columns":[{"name":"id","not_null":true},{"name":"v"}],"key":["id"]}`, ""},
			message{p, "drop", "goods", `{"table":"goods"}`, "", ""})
	}
	got := read(t, b, "changes")
	slices.SortStableFunc(got, func(a, b message) int { return int(a.partition - b.partition) })
	if !slices.Equal(got, want) {
		t.Errorf("readers see\n%v\nwant\n%v", got, want)
	}
}

func TestStateFollowsTheMarkers(t *testing.T) {
	t.Parallel()
	j := newJournal(nil, "control")
	fenceOf := func(epoch int64) *kgo.Record {
		return j.record(recordKey{Kind: kindFence, Pipeline: "shop"}, fence{Epoch: epoch})
	}
	within := func(producer int64, r *kgo.Record) *kgo.Record {
		r.ProducerID, r.Attrs = producer, kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true})
		return r
	}
	marker := func(producer int64, kind byte) *kgo.Record {
		return &kgo.Record{ProducerID: producer, Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true}), Key: []byte{0, 0, 0, kind}}
	}
	for i, step := range []struct {
		record *kgo.Record
		epoch  int64 // of the fence, after it
	}{
		{within(1, fenceOf(1)), 0},
		{within(2, fenceOf(2)), 0},
		{marker(1, 1), 1},
		{marker(2, 0), 1},
		{marker(2, 1), 1},
		{within(2, fenceOf(3)), 1},
		{within(1, fenceOf(4)), 1},
		{marker(2, 1), 3},
		{marker(1, 1), 4},
		{fenceOf(5), 5},
	} {
		if err := j.state.add(step.record); err != nil {
			t.Fatal(err)
		}
		if got := j.state.fences["shop"].Epoch; got != step.epoch {
			t.Errorf("after record %d: epoch %d, want %d", i, got, step.epoch)
		}
	}
	for _, r := range []*kgo.Record{{Key: []byte("?")}, {Key: []byte(`{"kind":"other"}`)}, {Key: []byte(`{"kind":"fence"}`), Value: []byte("?")}} {
		if err := j.state.add(r); err == nil {
			t.Errorf("%s was taken", r.Key)
		}
	}
}

// TestRollBackIsNotTakenForACommit: the client may roll back what it is asked to commit, and return no error. cmd/replicator's
// TestKafkaTargetDiesBetweenEachTwoSteps met it once in ten runs while eight others ran.
func TestRollBackIsNotTakenForACommit(t *testing.T) {
	t.Parallel()
	s := open(t, Config{URL: urlOf(newBroker(t, broker.Options{})), Pipeline: "p"})
	if err := s.lookAtTopic(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := s.newProducer(t.Context(), leaderName)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	send := func() {
		p.send(t.Context(), s.journal.record(recordKey{Kind: kindNote, Pipeline: "p", Source: "t"}, note{State: "x"}))
		if err := p.flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := s.write(t.Context(), p, func() {
		send()
		if err := p.end(t.Context(), false); err != nil {
			t.Error(err)
		}
	}); err == nil {
		t.Error("a transaction that was rolled back is taken for committed")
	}
	if err := s.write(t.Context(), p, send); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if found, err := s.Defined(t.Context(), "p"); err != nil || len(found) != 1 {
		t.Errorf("%d notes are committed, want 1: %v", len(found), err)
	}
}
