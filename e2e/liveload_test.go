//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// liveDatabase is the source's name, in MySQL and in PostgreSQL.
const liveDatabase = "live"

// liveSchema makes tables that both sources understand, and whose values every connector's options keep. audit_log and
// draft have no key; rows of the former are only inserted, so that its topic holds a record for each.
const liveSchema = `
CREATE TABLE audit_log (at DATE NOT NULL, actor VARCHAR(40), action VARCHAR(40));
CREATE TABLE draft (slot INT NOT NULL, body VARCHAR(200));
CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(40) NOT NULL, balance DECIMAL(14,2) NOT NULL);
CREATE TABLE visit (token VARCHAR(40) PRIMARY KEY, pages INT NOT NULL);
CREATE TABLE pulse (id INT PRIMARY KEY, n BIGINT NOT NULL);
INSERT INTO audit_log VALUES ('2024-01-01', 'ada', 'login'), ('2024-01-01', 'ada', 'login'), ('2024-01-02', NULL, NULL);
INSERT INTO draft VALUES (0, 'before the snapshot'), (0, 'before the snapshot');
INSERT INTO account VALUES (0, 'Ada', 1000), (1, 'Bö', 1000), (2, 'Сай', 1000), (3, 'Di', 1000);
INSERT INTO pulse VALUES (1, 0);
`

// liveIdentity has PostgreSQL send whole rows of the tables without a key.
const liveIdentity = `ALTER TABLE audit_log REPLICA IDENTITY FULL; ALTER TABLE draft REPLICA IDENTITY FULL;`

// liveLoad is the same changes to both sources.
type liveLoad struct {
	stop  chan struct{} // closed to end it
	ended chan error    // its one error, or nil
	done  atomic.Int64  // transactions that both sources have been given
}

// startLiveLoad plays changes until wait.
func startLiveLoad(t *testing.T, seed uint64) *liveLoad {
	t.Helper()
	l := &liveLoad{stop: make(chan struct{}), ended: make(chan error, 1)}
	go func() { l.ended <- l.play(t.Context(), rand.New(rand.NewPCG(seed, 4))) }()
	return l
}

// wait ends the load and returns how many transactions it was.
func (l *liveLoad) wait(t *testing.T) int64 {
	t.Helper()
	close(l.stop)
	if err := <-l.ended; err != nil {
		t.Fatal(err)
	}
	return l.done.Load()
}

func (l *liveLoad) play(ctx context.Context, random *rand.Rand) error {
	var clients []*client
	for _, command := range [][]string{{"mysql", liveDatabase}, {"psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", liveDatabase}} {
		c, err := startClient(ctx, command...)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	next := time.NewTicker(50 * time.Millisecond)
	defer next.Stop()
	for n := int64(1); ; n++ {
		select {
		case <-l.stop:
			for _, c := range clients {
				if err := c.end(); err != nil {
					return err
				}
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		}
		statements := strings.Join(append(liveChange(random), fmt.Sprintf("UPDATE pulse SET n = %d", n)), "; ")
		for _, c := range clients {
			if _, err := fmt.Fprintf(c.stdin, "START TRANSACTION; %s; COMMIT;\n", statements); err != nil {
				return fmt.Errorf("load: %w", c.endedEarly(err))
			}
		}
		l.done.Store(n)
	}
}

// liveChange is the statements of a random transaction, in SQL that both sources take.
func liveChange(random *rand.Rand) []string {
	out := []string{auditRows(random)}
	slot, token := random.IntN(10), random.IntN(20)
	switch random.IntN(6) {
	case 0: // rows that equal each other come, change and go together: they stand at one position, or nearly
		out = append(out, fmt.Sprintf("INSERT INTO draft VALUES (%[1]d, 'new'), (%[1]d, 'new'), (%[1]d, NULL)", slot))
	case 1:
		out = append(out, fmt.Sprintf("UPDATE draft SET body = 'state %d' WHERE slot = %d", random.IntN(3), slot))
	case 2:
		out = append(out, fmt.Sprintf("DELETE FROM draft WHERE slot = %d", slot))
	case 3:
		amount := fmt.Sprintf("%d.%02d", random.IntN(50), random.IntN(100))
		out = append(out,
			fmt.Sprintf("UPDATE account SET balance = balance - %s WHERE id = %d", amount, random.IntN(4)),
			fmt.Sprintf("UPDATE account SET balance = balance + %s WHERE id = %d", amount, random.IntN(4)))
	case 4:
		out = append(out,
			fmt.Sprintf("DELETE FROM visit WHERE token = 'token %d'", token),
			fmt.Sprintf("INSERT INTO visit VALUES ('token %d', %d)", token, random.IntN(100)))
	case 5: // a key changes
		out = append(out,
			fmt.Sprintf("DELETE FROM visit WHERE token = 'token %d'", token+1),
			fmt.Sprintf("UPDATE visit SET token = 'token %d' WHERE token = 'token %d'", token+1, token))
	}
	return out
}

// auditRows inserts one to three rows, many of which equal each other or earlier ones.
func auditRows(random *rand.Rand) string {
	var rows []string
	actors, actions := []string{"'ada'", "'bo'", "NULL"}, []string{"'login'", "'buy'", "'logout'"}
	for range 1 + random.IntN(3) {
		rows = append(rows, fmt.Sprintf("('2024-01-%02d', %s, %s)", 1+random.IntN(3), actors[random.IntN(3)], actions[random.IntN(3)]))
	}
	return "INSERT INTO audit_log VALUES " + strings.Join(rows, ", ")
}
