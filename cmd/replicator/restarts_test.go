package main

import (
	"context"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
)

const (
	manyRestarts = 1000
	// inDoubtEvery restarts a process dies with a transaction prepared; otherwise its pipeline starts again in the same one. It costs MariaDB a fifth
	// of a second, which it needs to let go of what another session has prepared.
	inDoubtEvery = 10
)

// TestOthersOutliveAThousandRestarts starts a pipeline again and again, every tenth time after it died with a transaction prepared. The
// next start rolls that one back and no other: what an application has prepared, a pipeline whose name begins like this one's, and a pipeline
// of the same name in another database is prepared afterwards too.
func TestOthersOutliveAThousandRestarts(t *testing.T) {
	t.Parallel()
	r := &caseRun{url: caseDatabase(t, "restarts")}
	r.exec(t, "CREATE TABLE pay (id int)")
	r.exec(t, "BEGIN; INSERT INTO pay VALUES (500); PREPARE TRANSACTION 'billing-app:42'")
	r.restartAThousandTimes(t, caseDatabase(t, "restarts_elsewhere"),
		"SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'billing-app:%' OR gid LIKE 'replicator:restarted%' ORDER BY gid")
	r.exec(t, "ROLLBACK PREPARED 'billing-app:42'")
}

// TestMySQLOthersOutliveAThousandRestarts is the same on MySQL and MariaDB.
func TestMySQLOthersOutliveAThousandRestarts(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for _, name := range []string{"restarts", "restarts_elsewhere"} {
			if err := server.CreateDatabase(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		r := &caseRun{url: server.URL("restarts")}
		r.exec(t, "CREATE TABLE pay (id int)")
		r.execMySQL(t, "XA START 'billing-app:42'", "INSERT INTO pay VALUES (500)", "XA END 'billing-app:42'", "XA PREPARE 'billing-app:42'")
		r.restartAThousandTimes(t, server.URL("restarts_elsewhere"), "XA RECOVER")
	})
}

// restartAThousandTimes starts the pipeline called restarted. The query lists what is prepared.
func (r *caseRun) restartAThousandTimes(t *testing.T, elsewhere, query string) {
	t.Helper()
	for _, o := range []struct {
		url, pipeline string
		epoch         int64
	}{{r.url, "restarted-too", 1}, {elsewhere, "restarted", 1 << 40}} {
		other := newRestarted(t, o.url, o.pipeline)
		if err := migrateUp(t.Context(), other.config, o.url); err != nil {
			t.Fatal(err)
		}
		if err := other.sink.Fence(t.Context(), o.pipeline, o.epoch, 1); err != nil {
			t.Fatal(err)
		}
		other.dieInDoubt(t, o.epoch, 1)
		other.close(t)
	}
	before := rowsText(r.exec(t, query))
	store, err := openStore(t.Context(), restartedConfig(r.url, "restarted"))
	if err != nil {
		t.Fatal(err)
	}
	p, died := newRestarted(t, r.url, "restarted"), 0
	for n := range manyRestarts {
		start := p.run(t, store)
		if start.RolledBack != died || start.Committed != 0 {
			t.Fatalf("start %d rolled back %d transactions and committed %d, want %d and none", n, start.RolledBack, start.Committed, died)
		}
		died = 0
		if n%inDoubtEvery == 0 {
			died = 1
			p.dieInDoubt(t, start.Epoch, start.Checkpoint+2) // the run's last checkpoint came after that of its start
			p.close(t)
			p = newRestarted(t, r.url, "restarted")
		}
	}
	p.close(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if after := rowsText(r.exec(t, query)); after != before {
		t.Errorf("prepared after %d restarts:\n%sand before:\n%s", manyRestarts, after, before)
	}
}

// restarted is one life of a pipeline that has nothing to read.
type restarted struct {
	config *config
	sink   txnsink.Sink
}

func restartedConfig(url, pipeline string) *config {
	return &config{Pipeline: pipeline, Delivery: checkpoint.TwoPhase, Target: targetConfig{URL: url}, Checkpoint: checkpointConfig{Store: "target"}}
}

func newRestarted(t *testing.T, url, pipeline string) *restarted {
	t.Helper()
	p := &restarted{config: restartedConfig(url, pipeline)}
	var err error
	if p.sink, err = openSink(t.Context(), p.config, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// run recovers, and ends with a last checkpoint.
func (p *restarted) run(t *testing.T, store checkpoint.Store) (start checkpoint.Recovered) {
	t.Helper()
	err := checkpoint.Run(t.Context(), checkpoint.Config{
		Pipeline: p.config.Pipeline, Delivery: checkpoint.TwoPhase, Interval: time.Second, Rows: 1, Bytes: 1, Retain: 1, Workers: 1,
		Source: nothing{}, Sink: p.sink, Store: store, Decoder: debezium.NewDecoder(debezium.DecoderConfig{}), UntilCaughtUp: true,
		Observe: func(o checkpoint.Observation) {
			if r, ok := o.(checkpoint.Recovered); ok {
				start = r
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return start
}

// dieInDoubt prepares a transaction and leaves it, as a process does that dies before it saves the checkpoint.
func (p *restarted) dieInDoubt(t *testing.T, epoch, number int64) {
	t.Helper()
	txn, err := p.sink.Begin(t.Context(), txnsink.ID{Pipeline: p.config.Pipeline, Epoch: epoch, Checkpoint: number})
	if err == nil {
		err = txn.PreCommit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p *restarted) close(t *testing.T) {
	t.Helper()
	if err := p.sink.Close(); err != nil {
		t.Fatal(err)
	}
}

// nothing is a source without topics.
type nothing struct{}

func (nothing) Open(context.Context, debezium.Positions) (checkpoint.Reader, error) {
	return nothing{}, nil
}

func (nothing) History(_ context.Context, _ string, from int64) ([]debezium.Record, int64, error) {
	return nil, from, nil
}

func (nothing) Start() debezium.Positions                                  { return debezium.Positions{} }
func (nothing) End() map[debezium.Partition]int64                          { return nil }
func (nothing) Hold(debezium.Partition, bool)                              {}
func (nothing) Close() error                                               { return nil }
func (nothing) Ends(context.Context) (map[debezium.Partition]int64, error) { return nil, nil }
func (nothing) EndOf(context.Context, string) (int64, error)               { return 0, nil }

func (nothing) Next(ctx context.Context) (debezium.Batch, error) {
	<-ctx.Done()
	return debezium.Batch{}, ctx.Err()
}
