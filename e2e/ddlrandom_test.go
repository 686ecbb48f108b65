//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	randomDatabase = "ddlrandom"
	randomSteps    = 80 // statements of each seed
	randomSeeds    = 2  // new ones, besides those that are kept
)

// keptSeeds failed once. They are run first.
var keptSeeds = []uint64{179152556}

// TestRandomSchemaChangesArrive plays random statements, of which many change tables, and kills the replicator between them. After each
// seed's the target equals the source, rows and shapes. The source refuses some of the statements; what it did is what counts.
func TestRandomSchemaChangesArrive(t *testing.T) {
	first := seedOf(t)
	s := openStack(t, "random", randomDatabase, "")
	s.lab(t, "mysql", "-e", "CREATE DATABASE "+randomDatabase+" CHARACTER SET utf8mb4")
	l := &liveConnector{name: "plain", options: map[string]string{
		"signal.data.collection": randomDatabase + ".none",
		// Without it the converter sends a column's default in place of NULL.
		"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.replace.null.with.default": "false",
	}}
	l.begin(t, s)
	l.awaitSnapshot(t)
	if os.Getenv("CI") == "true" && os.Getenv("E2E_SEED") == "" {
		first = 1 // a change is judged by the same statements each time; other runs look for more
	}
	seeds := keptSeeds
	for i := range randomCount(t) {
		seeds = append(seeds, first+i)
	}
	for _, seed := range seeds {
		t.Logf("to play the same statements first: E2E_SEED=%d", seed)
		l.playRandom(t, seed)
		eventually(t, 90*time.Second, fmt.Sprintf("the target equals the source after seed %d", seed), func(ctx context.Context) error {
			l.daemon.running(t)
			if err := l.differs(t); err != nil {
				return errors.Join(err, l.connectorRuns(ctx))
			}
			return nil
		})
	}
	l.daemon.stop(t)
	if planned := l.schemaCommand(t, "plan"); planned != "" {
		t.Errorf("schema plan still prints\n%s", planned)
	}
}

// randomCount is how many new seeds are played: E2E_SEEDS.
func randomCount(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("E2E_SEEDS")
	if text == "" {
		return randomSeeds
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatalf("E2E_SEEDS: %v", err)
	}
	return n
}

// playRandom plays the statements of a seed and kills the replicator meanwhile.
func (l *liveConnector) playRandom(t *testing.T, seed uint64) {
	t.Helper()
	g := newRandomSource(seed)
	ended := make(chan error, 1)
	go func() { ended <- g.play(t.Context()) }()
	random := rand.New(rand.NewPCG(seed, 7))
	kills := 0
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("seed %d: %d statements change tables, %d change rows; the replicator was killed %d times", seed, g.ddl, randomSteps-g.ddl, kills)
			return
		default:
		}
		after(t, l.daemon, time.Duration(random.IntN(1500))*time.Millisecond)
		l.daemon.kill(t)
		l.daemon = l.start(t, l.config)
		kills++
	}
}

// play feeds a client that goes on after errors.
func (g *randomSource) play(ctx context.Context) error {
	c, err := startClient(ctx, "mysql", "--force", randomDatabase)
	if err != nil {
		return err
	}
	for range randomSteps {
		if _, err := io.WriteString(c.stdin, g.statement()+";\n"); err != nil {
			return fmt.Errorf("seed %d: %w", g.seed, c.endedEarly(err))
		}
		if err := pause(ctx, time.Duration(g.IntN(100))*time.Millisecond); err != nil {
			return err
		}
	}
	if err := c.stdin.Close(); err != nil {
		return err
	}
	_ = c.process.Wait() // --force: it fails where any statement did
	return nil
}
