//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// workloadSchema is what the workload changes: rows with a key, rows that can be equal, keys that change, and one row that
// counts its transactions and so tells how far the target has come.
const workloadSchema = `SET SESSION cte_max_recursion_depth = 100000;
CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(40) NOT NULL UNIQUE, balance DECIMAL(14,2) NOT NULL, note VARCHAR(200), changed_at DATETIME(6) NOT NULL);
CREATE TABLE transfer (at DATETIME(3) NOT NULL, payer INT, payee INT, amount DECIMAL(14,2));
CREATE TABLE visit (token VARCHAR(40) PRIMARY KEY, account INT NOT NULL, pages INT NOT NULL);
CREATE TABLE pulse (id INT PRIMARY KEY, n BIGINT NOT NULL);
INSERT INTO account WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
  SELECT i, CONCAT('owner ', i), 1000, NULL, '2024-01-01' FROM n;
INSERT INTO pulse VALUES (1, 0);
`

const accounts = 2000

// client is a session of a database's own client that is fed statements. It ends at the first error.
type client struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	output  bytes.Buffer
}

// startClient starts what `lab mysql` or `lab psql` starts.
func startClient(ctx context.Context, command ...string) (*client, error) {
	c := &client{process: exec.CommandContext(ctx, "lab/lab", command...)}
	c.process.Stdout, c.process.Stderr = &c.output, &c.output
	var err error
	if c.stdin, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.process.Start()
}

// end waits until every statement has run.
func (c *client) end() error {
	if err := c.stdin.Close(); err != nil {
		return err
	}
	if err := c.process.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", c.process.Args, err, c.output.String())
	}
	return nil
}

// endedEarly is why no more could be written to the client: what it said, or else the error of writing.
func (c *client) endedEarly(err error) error {
	if said := c.process.Wait(); said != nil {
		return fmt.Errorf("%s: %w\n%s", c.process.Args, said, c.output.String())
	}
	return err
}

// load is the changes to the source during a test.
type load struct {
	stop  chan struct{} // closed to end the workload; the files are always played to their end
	files chan error    // the one error of playing the files, or nil
	ended chan error    // that of the workload
	n     int64         // transactions of the workload; valid when ended has been received
}

// startLoad plays the workload in a database, and beside it files of statements, a line at a time.
func startLoad(t *testing.T, seed uint64, database string, paths ...string) *load {
	t.Helper()
	l := &load{stop: make(chan struct{}), files: make(chan error, 1), ended: make(chan error, 1)}
	ctx := t.Context()
	go func() {
		random := rand.New(rand.NewPCG(seed, 1))
		for _, path := range paths {
			if err := playFile(ctx, random, path); err != nil {
				l.files <- err
				return
			}
		}
		l.files <- nil
	}()
	go func() { l.ended <- l.play(ctx, rand.New(rand.NewPCG(seed, 2)), database) }()
	return l
}

// played says whether the files have been played to their end.
func (l *load) played(t *testing.T) bool {
	t.Helper()
	select {
	case err := <-l.files:
		if err != nil {
			t.Fatal(err)
		}
		l.files <- nil // for the next who asks
		return true
	default:
		return false
	}
}

// running fails the test if the workload has ended before it was told to: nothing would come of waiting for its changes.
func (l *load) running(t *testing.T) {
	t.Helper()
	select {
	case err := <-l.ended:
		t.Fatalf("the source is changed no more: %v", err)
	default:
	}
}

// wait ends the workload and returns how many transactions it was.
func (l *load) wait(t *testing.T) int64 {
	t.Helper()
	if err := <-l.files; err != nil {
		t.Fatal(err)
	}
	close(l.stop)
	if err := <-l.ended; err != nil {
		t.Fatal(err)
	}
	return l.n
}

func playFile(ctx context.Context, random *rand.Rand, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c, err := startClient(ctx, "mysql")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		if _, err := io.WriteString(c.stdin, line); err != nil {
			return fmt.Errorf("%s: %w", path, c.endedEarly(err))
		}
		if err := pause(ctx, time.Duration(100+random.IntN(900))*time.Millisecond); err != nil {
			return err
		}
	}
	return c.end()
}

func (l *load) play(ctx context.Context, random *rand.Rand, database string) error {
	c, err := startClient(ctx, "mysql", database)
	if err != nil {
		return err
	}
	next := time.NewTicker(5 * time.Millisecond)
	defer next.Stop()
	for {
		select {
		case <-l.stop:
			return c.end()
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		}
		l.n++
		statements := append(change(random, l.n), fmt.Sprintf("UPDATE pulse SET n = %d", l.n))
		if _, err := fmt.Fprintf(c.stdin, "START TRANSACTION; %s; COMMIT;\n", strings.Join(statements, "; ")); err != nil {
			return fmt.Errorf("workload: %w", c.endedEarly(err))
		}
	}
}

// change is the statements of random transaction number n.
func change(random *rand.Rand, n int64) []string {
	a, b := 1+random.IntN(accounts), 1+random.IntN(accounts)
	switch chance := random.IntN(100); {
	case chance < 50: // money moves, and the log has no key
		amount := fmt.Sprintf("%d.%02d", random.IntN(50), random.IntN(100))
		return []string{
			fmt.Sprintf("UPDATE account SET balance = balance - %s, changed_at = NOW(6) WHERE id = %d", amount, a),
			fmt.Sprintf("UPDATE account SET balance = balance + %s, changed_at = NOW(6) WHERE id = %d", amount, b),
			fmt.Sprintf("INSERT INTO transfer VALUES (NOW(3), %d, %d, %s)", a, b, amount),
		}
	case chance < 65: // rows that equal each other come, change and go one at a time
		return [][]string{
			{"INSERT INTO transfer VALUES ('2024-01-01', 1, 2, 3), ('2024-01-01', 1, 2, 3), ('2024-01-01', NULL, 2, NULL)"},
			{"DELETE FROM transfer WHERE at = '2024-01-01' AND payee = 2 LIMIT 1"},
			{"UPDATE transfer SET amount = 4 WHERE at = '2024-01-01' AND payer = 1 AND amount = 3 LIMIT 1"},
		}[random.IntN(3)]
	case chance < 85: // few keys, so that they are inserted, deleted and renamed over and over
		x, y := random.IntN(50), 50+random.IntN(50)
		return [][]string{
			{fmt.Sprintf("INSERT INTO visit VALUES ('token %d', %d, 1) ON DUPLICATE KEY UPDATE pages = pages + 1", x, a)},
			{fmt.Sprintf("DELETE FROM visit WHERE token = 'token %d'", y), fmt.Sprintf("UPDATE visit SET token = 'token %d' WHERE token = 'token %d'", y, x)},
			{fmt.Sprintf("DELETE FROM visit WHERE token = 'token %d'", x), fmt.Sprintf("INSERT INTO visit VALUES ('token %d', %d, 0)", x, b)},
		}[random.IntN(3)]
	case chance < 92 && a != b: // a unique value changes hands
		return []string{
			fmt.Sprintf("SET @a = (SELECT owner FROM account WHERE id = %d), @b = (SELECT owner FROM account WHERE id = %d)", a, b),
			fmt.Sprintf("UPDATE account SET owner = 'nobody' WHERE id = %d", a),
			fmt.Sprintf("UPDATE account SET owner = @a WHERE id = %d", b),
			fmt.Sprintf("UPDATE account SET owner = @b WHERE id = %d", a),
		}
	case chance < 98: // deleted and made again in one transaction
		return []string{
			fmt.Sprintf("DELETE FROM account WHERE id = %d", a),
			fmt.Sprintf("INSERT INTO account (id, owner, balance, note, changed_at) VALUES (%d, 'again %d', 1, 'π \\\\ \\'quoted\\'', NOW(6))", a, n),
		}
	default: // a transaction of many rows
		return []string{fmt.Sprintf("UPDATE account SET note = '%d', changed_at = NOW(6) WHERE id %% 7 = %d", random.IntN(1000), random.IntN(7))}
	}
}

// pause returns early, with an error, when the test ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
