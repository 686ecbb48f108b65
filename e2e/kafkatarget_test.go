//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	kafkaMinKills  = 16 // of the replicator
	kafkaMinBefore = 3  // of them after a transaction was prepared and before its checkpoint was saved
	kafkaMinAfter  = 3  // of them after the checkpoint was saved and before all its transactions were committed
	kafkaMaxKills  = 150
)

const kafkaTargetConfiguration = `pipeline: %s
source:
  brokers: [%s]
  topics: ['%s\.shop\..*']
target:
  url: kafka://%s/%s
delivery: two-phase
workers: 4
checkpoint:
  interval: 50ms
  store: file:%s
http: {listen: ''}
`

// TestKafkaTargetShowsEachChangeOnce publishes to a real broker while the replicator is killed again and again, at random and as soon as
// a transaction is prepared, and the broker once. Where each kill has struck is asked of the replicator itself: what it would do
// with the transactions in doubt. In the end a read_committed reader must have seen each change once.
func TestKafkaTargetShowsEachChangeOnce(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("to use the same random moments again: E2E_SEED=%d", seed)
	k := newKafkaTarget(t)

	k.replicator(t, "migrate", "up")
	produced := k.produce(t)
	d := k.start(t, k.config)
	kills, before, behind := 0, 0, 0
	for ; kills < kafkaMinKills || before < kafkaMinBefore || behind < kafkaMinAfter; kills++ {
		if kills == kafkaMaxKills {
			t.Fatalf("%d kills, and only %d and %d of them before and after the save of a checkpoint with transactions in doubt", kills, before, behind)
		}
		if kills == kafkaMinKills/2 {
			k.awaitWitness(t, d)
			k.lab(t, "kill", "kafka")
			k.lab(t, "up", "kafka")
			k.awaitWitness(t, d)
			t.Log("the broker was killed and came back; the replicator went on by itself")
		}
		if kills%4 == 0 {
			after(t, d, time.Duration(random.IntN(2500))*time.Millisecond)
		} else {
			k.awaitWitness(t, d)
			after(t, d, time.Duration(random.IntN(40))*time.Millisecond)
		}
		d.kill(t)
		commit, rollback := k.inDoubt(t)
		switch {
		case commit > 0:
			behind++
		case rollback > 0:
			before++
		}
		d = k.start(t, k.config)
	}
	last := produced.stop()
	t.Logf("the replicator was killed %d times: %d times before, and %d times after the save of a checkpoint with transactions in doubt; %d changes of each table", kills, before, behind, last)
	k.awaitWitness(t, d)
	d.stop(t)
	k.start(t, k.config, "--until-caught-up").wait(t, 2*time.Minute)
	if commit, rollback := k.inDoubt(t); commit+rollback > 0 {
		t.Errorf("transactions left in doubt: %d", commit+rollback)
	}
	k.expectOnce(t, last)
}

// kafkaTarget is a pipeline from two topics of the lab's broker to a third.
type kafkaTarget struct {
	*stack
	client *kgo.Client
	config string
	target string   // topic
	topics []string // of the source: of a table with a key, and of one without
}

func newKafkaTarget(t *testing.T) *kafkaTarget {
	t.Helper()
	name := fmt.Sprintf("kt%d", time.Now().Unix())
	k := &kafkaTarget{stack: openStack(t, name, "", ""), target: name + "-changes", topics: []string{name + ".shop.items", name + ".shop.log"}}
	k.config = writeFile(t, name+".yaml", fmt.Appendf(nil, kafkaTargetConfiguration, name, k.broker, name, k.broker, k.target, t.TempDir()))
	var err error
	if k.client, err = kgo.NewClient(kgo.SeedBrokers(k.broker), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.client.Close)
	created, err := kadm.NewClient(k.client).CreateTopics(t.Context(), 3, 1, nil, append(k.topics, k.target)...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// production produces until it is stopped.
type production struct {
	cancel  context.CancelFunc
	wait    sync.WaitGroup
	changes int // of each table; read it when wait has returned
}

func (p *production) stop() int {
	p.cancel()
	p.wait.Wait()
	return p.changes
}

const changeValue = `{"before":null,"after":{"id":%d},"source":{"connector":"mysql","name":"p","db":"shop","table":"%s","snapshot":"false","file":"binlog.1","pos":%d,"row":0},"op":"c"}`

// produce creates rows of both tables, each once. What the broker does not answer for is tried again by the client, without repetition.
func (k *kafkaTarget) produce(t *testing.T) *production {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &production{cancel: cancel}
	t.Cleanup(func() { p.stop() })
	p.wait.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var records []*kgo.Record
			for range 20 {
				p.changes++
				for i, table := range []string{"items", "log"} {
					r := &kgo.Record{Topic: k.topics[i], Partition: int32(p.changes % 3), Value: fmt.Appendf(nil, changeValue, p.changes, table, 2*p.changes+i)}
					if table == "items" {
						r.Key = fmt.Appendf(nil, `{"id":%d}`, p.changes)
					}
					records = append(records, r)
				}
			}
			if err := k.client.ProduceSync(context.WithoutCancel(t.Context()), records...).FirstErr(); err != nil {
				t.Errorf("produce: %v", err)
				return
			}
		}
	})
	return p
}

// awaitWitness returns as soon as a running replicator has prepared a transaction.
func (k *kafkaTarget) awaitWitness(t *testing.T, d *daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(k.broker), kgo.ConsumeTopics(k.target+".replicator"), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		d.running(t)
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("no transaction is prepared\n%s", d.tail())
		}
		for _, r := range fetches.Records() {
			if bytes.Contains(r.Key, []byte(`"witness"`)) {
				return
			}
		}
	}
}

// replicator runs a command on the pipeline.
func (k *kafkaTarget) replicator(t *testing.T, args ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), k.binary, append(args, "--config", k.config)...)
	var problems bytes.Buffer
	c.Stderr = &problems
	out, err := c.Output()
	if err != nil {
		t.Fatalf("replicator %v: %v\n%s", args, err, problems.String())
	}
	return out
}

// inDoubt counts the transactions that recovery would commit and roll back.
func (k *kafkaTarget) inDoubt(t *testing.T) (commit, rollback int) {
	t.Helper()
	out := k.replicator(t, "transactions", "list", "--json")
	var list []struct {
		Recovery string `json:"recovery"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("transactions list: %v: %s", err, out)
	}
	for _, x := range list {
		if x.Recovery == "commit" {
			commit++
		} else {
			rollback++
		}
	}
	return commit, rollback
}

// expectOnce reads what was published, and wants each change once.
func (k *kafkaTarget) expectOnce(t *testing.T, last int) {
	t.Helper()
	ends := map[int32]int64{}
	list, err := kadm.NewClient(k.client).ListEndOffsets(t.Context(), k.target)
	if err == nil {
		err = list.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	list.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	c, err := kgo.NewClient(kgo.SeedBrokers(k.broker), kgo.ConsumeTopics(k.target), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	seen := map[string][]int{"items": make([]int, last+1), "log": make([]int, last+1)}
	for len(ends) > 0 {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the topic cannot be read to its end: something is in doubt in partitions %v", ends)
		}
		for _, r := range fetches.Records() {
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
			if r.Attrs.IsControl() || len(r.Headers) < 2 || string(r.Headers[0].Value) == "create" {
				continue
			}
			var row struct {
				ID int `json:"id"`
			}
			if err := json.Unmarshal(r.Value, &row); err != nil || row.ID > last {
				t.Fatalf("a message that nobody asked for: %s %s: %v", r.Key, r.Value, err)
			}
			seen[string(r.Headers[1].Value)][row.ID]++
		}
	}
	for table, counts := range seen {
		for id := 1; id <= last; id++ {
			if counts[id] != 1 {
				t.Errorf("table %s: a reader has seen change %d %d times", table, id, counts[id])
			}
		}
	}
}
