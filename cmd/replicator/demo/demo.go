package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"replicator/debezium/kafka/broker"
	recorded "replicator/testdata/debezium"
	"replicator/txnsink/postgres/pgserver"
	"replicator/txnsink/tether"
)

// ErrDiffers says that the target does not hold what the source held.
var ErrDiffers = errors.New("the target differs from the source")

// Config is how the demo is run. Command and Out are required.
type Config struct {
	Command []string // how the replicator is started; its arguments follow
	Env     []string // added to the child's environment
	Dir     string   // where configuration, logs and the server's files go; empty: a temporary directory that is removed
	Keep    bool     // leave database and broker running until the context ends
	Out     io.Writer
}

// What the demo does, in numbers.
const (
	pipeline     = "demo"
	copies       = 8  // of the stream, at first
	moreCopies   = 20 // at most, until there were enough kills between prepare and commit
	sliceRecords = 20 // written at once
	sliceEvery   = 200 * time.Millisecond
	kills        = 6                      // at least
	killsInDoubt = 3                      // at least, of them
	runFor       = 250 * time.Millisecond // between two kills, at least
	huntFor      = 3 * time.Second
	huntEvery    = time.Millisecond
	finishWithin = 60 * time.Second
)

// demo is one run.
type demo struct {
	Config
	begun  time.Time
	dir    string
	tether *tether.Tether // of the child, and of dir if it is temporary
	file   string         // the child's configuration
	stream stream
	source []sourceTable
	copies int // that were written, or are being written

	server *pgserver.Server
	broker *broker.Broker
	target *target
	pages  *pages

	child   *child
	starts  int
	kills   int
	inDoubt int // kills between prepare and commit
}

// Run runs the demo. It returns ErrDiffers if the target is wrong, and another error if the demo itself could not go on.
func Run(ctx context.Context, c Config) (err error) {
	d := &demo{Config: c, begun: time.Now(), dir: c.Dir}
	if d.stream, err = loadStream(recorded.Files); err != nil {
		return err
	}
	if d.source, err = loadSource(recorded.Files); err != nil {
		return err
	}
	temporary := ""
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", "replicator-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
		temporary = d.dir
	}
	if d.tether, err = tether.Hold(temporary); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.tether.Release()) }()
	// The server may run as another user, who must get to its own directory below this one.
	if err := errors.Join(os.MkdirAll(d.dir, 0o755), os.Chmod(d.dir, 0o755)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.start(ctx); err != nil {
		return err
	}
	if err := d.replicate(ctx); err != nil {
		return err
	}
	err = d.verdict(ctx)
	if d.Keep && (err == nil || errors.Is(err, ErrDiffers)) {
		if cerr := d.startChild(); cerr != nil {
			return errors.Join(err, cerr)
		}
		d.say("left running until you press Ctrl-C: status page %s, psql '%s', Kafka at %s, files in %s", d.pages.url(), d.server.URL("demo"), d.broker.Addrs()[0], d.dir)
		<-ctx.Done()
	}
	return err
}

// say prints what the demo does, with the time since its start.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.Out, "[%5.1fs] %s\n", time.Since(d.begun).Seconds(), fmt.Sprintf(format, args...))
}

// start starts database and broker and writes the child's configuration.
func (d *demo) start(ctx context.Context) (err error) {
	d.say("starting a private PostgreSQL server (the first time it may be downloaded)")
	if d.server, err = pgserver.Start(ctx, pgserver.Config{Dir: d.dir, Durable: true}); err != nil {
		return err
	}
	if err := d.server.CreateDatabase(ctx, "demo"); err != nil {
		return err
	}
	if d.target, err = openTarget(ctx, d.server.URL("demo")); err != nil {
		return err
	}
	if d.broker, err = broker.Start(broker.Options{}); err != nil {
		return err
	}
	d.say("PostgreSQL is at %s, a Kafka broker in this process at %s", d.server.URL("demo"), d.broker.Addrs()[0])
	if d.pages, err = servePages(); err != nil {
		return fmt.Errorf("serve the status page: %w", err)
	}
	d.say("the replicator's status page is at %s, and shows each kill", d.pages.url())
	text := fmt.Sprintf(`pipeline: %s
source:
  brokers: [%s]
  topics: ['%s\.%s\d+\..*']
  schema_changes: %s
target:
  url: %s
  table: '{database}_{table}'
checkpoint: {interval: 100ms}
schema: {types: {nul: strip}}
http: {listen: '127.0.0.1:0'}
log: {format: json}
`, pipeline, d.broker.Addrs()[0], connector, database, connector, d.server.URL("demo"))
	d.file = filepath.Join(d.dir, "demo.yaml")
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		return err
	}
	return d.createTopics(1, copies)
}

// createTopics creates the topics of the copies from first to last.
func (d *demo) createTopics(first, last int) error {
	if first == 1 {
		if err := d.broker.CreateTopic(connector, 1, nil); err != nil {
			return fmt.Errorf("create topic %s: %w", connector, err)
		}
	}
	for n := first; n <= last; n++ {
		_, rows := d.stream.nth(n)
		for _, name := range topics(rows) {
			if err := d.broker.CreateTopic(name, 1, nil); err != nil {
				return fmt.Errorf("create topic %s: %w", name, err)
			}
		}
	}
	d.copies = last
	return nil
}

// stop ends everything that start started.
func (d *demo) stop() error {
	ctx := context.Background()
	var errs []error
	if d.child != nil {
		errs = append(errs, d.child.kill())
	}
	if d.pages != nil {
		errs = append(errs, d.pages.stop())
	}
	if d.broker != nil {
		d.broker.Close()
	}
	if d.target != nil {
		errs = append(errs, d.target.close(ctx))
	}
	if d.server != nil {
		errs = append(errs, d.server.Stop())
	}
	return errors.Join(errs...)
}

// replicate writes the stream, kills the replicator on the way, and lets it catch up.
func (d *demo) replicate(ctx context.Context) error {
	n := len(d.stream.schemas) + len(d.stream.rows)
	d.say("writing %d copies of a recorded Debezium stream of %d events and %d tables, while the replicator runs and is killed", copies, n, len(d.source))
	if err := d.startChild(); err != nil {
		return err
	}
	if err := d.killWhile(ctx, 1, copies); err != nil {
		return err
	}
	for more := 0; d.kills < kills || d.inDoubt < killsInDoubt; more++ {
		if more == moreCopies {
			return fmt.Errorf("only %d of %d kills came between prepare and commit, at least %d should have: is this machine very busy? Run it again", d.inDoubt, d.kills, killsInDoubt)
		}
		next := d.copies + 1
		d.say("not enough kills between prepare and commit yet (%d of %d): writing copy %d", d.inDoubt, killsInDoubt, next)
		if err := d.createTopics(next, next); err != nil {
			return err
		}
		if err := d.killNow(ctx); err != nil { // the new child finds the new topics at once
			return err
		}
		if err := d.killWhile(ctx, next, next); err != nil {
			return err
		}
	}
	if err := d.child.kill(); err != nil {
		return err
	}
	d.say("%d kills, %d of them between prepare and commit; now the replicator may finish", d.kills, d.inDoubt)
	ctx, cancel := context.WithTimeout(ctx, finishWithin)
	defer cancel()
	if err := d.startChild("--until-caught-up"); err != nil {
		return err
	}
	if err := d.child.wait(ctx); err != nil {
		return err
	}
	d.say("the replicator has caught up and ended by itself")
	return nil
}

// killWhile kills the replicator again and again while the copies from first to last are written.
func (d *demo) killWhile(ctx context.Context, first, last int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	written := make(chan error, 1)
	go func() { written <- d.produce(ctx, first, last) }()
	for {
		select {
		case err := <-written:
			return err
		default:
		}
		err := d.child.alive(ctx, runFor)
		switch {
		case err != nil:
		case d.kills%3 == 2:
			err = d.killLater(ctx)
		default:
			err = d.hunt(ctx)
		}
		if err != nil {
			cancel()
			return errors.Join(err, <-written)
		}
	}
}

// produce writes copies in slices.
func (d *demo) produce(ctx context.Context, first, last int) error {
	tick := time.NewTicker(sliceEvery)
	defer tick.Stop()
	for n := first; n <= last; n++ {
		schemas, rows := d.stream.nth(n)
		if err := d.broker.Produce(ctx, schemas...); err != nil {
			return err
		}
		for len(rows) > 0 {
			slice := rows[:min(sliceRecords, len(rows))]
			rows = rows[len(slice):]
			if err := d.broker.Produce(ctx, slice...); err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func (d *demo) startChild(flags ...string) (err error) {
	d.starts++
	log := filepath.Join(d.dir, fmt.Sprintf("replicator-%d.log", d.starts))
	d.child, err = startChild(d.Command, d.Env, append([]string{"run", "--config", d.file}, flags...), log, d.tether)
	d.pages.show(d.child)
	return err
}

// restart starts the replicator again after a kill and says what was in doubt and became of it.
func (d *demo) restart(ctx context.Context, why string, doubt []string) error {
	d.kills++
	if err := d.startChild(); err != nil {
		return err
	}
	if len(doubt) == 0 {
		d.say("kill %d %s", d.kills, why)
		return nil
	}
	d.inDoubt++
	fate, err := d.fate(ctx)
	if err != nil {
		return err
	}
	d.say("kill %d between prepare and commit: %s was prepared; %s", d.kills, strings.Join(doubt, ", "), fate)
	return nil
}

// fate waits until the new replicator has decided what its predecessor left.
func (d *demo) fate(ctx context.Context) (string, error) {
	for range 1000 {
		switch {
		case d.child.said("committed a transaction in doubt"):
			return "its checkpoint was saved: the next start committed it", nil
		case d.child.said("rolled back a transaction in doubt"):
			return "its checkpoint was not saved: the next start rolled it back and read again", nil
		}
		if err := d.child.alive(ctx, 10*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("the next start does not decide it; its log %s ends with:\n%s", d.child.log, d.child.tail(10))
}

// hunt kills the replicator when the target lists one of its transactions as prepared, every second time when it does
// so twice, so that some kills come after the checkpoint was saved. If none was seen in time, or it was committed before the
// signal arrived, the kill is one at random.
func (d *demo) hunt(ctx context.Context) error {
	deadline := time.Now().Add(huntFor)
	seen, want := 0, 1+d.inDoubt%2
	for time.Now().Before(deadline) {
		before, err := d.target.inDoubt(ctx)
		if err != nil {
			return err
		}
		if len(before) > 0 {
			seen++
		}
		if seen < want {
			if err := d.child.alive(ctx, huntEvery); err != nil {
				return err
			}
			continue
		}
		if err := d.child.kill(); err != nil {
			return err
		}
		after, err := d.settled(ctx)
		if err != nil {
			return err
		}
		return d.restart(ctx, "as a transaction was being committed", after)
	}
	return d.killNow(ctx)
}

// killLater kills the replicator at a random moment.
func (d *demo) killLater(ctx context.Context) error {
	if err := d.child.alive(ctx, rand.N(runFor)); err != nil {
		return err
	}
	return d.killNow(ctx)
}

func (d *demo) killNow(ctx context.Context) error {
	if err := d.child.kill(); err != nil {
		return err
	}
	after, err := d.settled(ctx)
	if err != nil {
		return err
	}
	return d.restart(ctx, "at a random moment", after)
}

// settled returns the prepared transactions that the dead process left, when its sessions are gone: what it had sent
// before it died may still be carried out until then.
func (d *demo) settled(ctx context.Context) ([]string, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		r, err := d.target.query(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'replicator%'")
		if err != nil {
			return nil, err
		}
		if string(r.Rows[0][0]) == "0" {
			return d.target.inDoubt(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, errors.New("the killed replicator's database sessions do not end")
}

// verdict compares every table and prints the result.
func (d *demo) verdict(ctx context.Context) error {
	d.say("comparing every row with what MySQL held, value by value")
	total := tally{table: "total"}
	w := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "table\trows expected\trows found\tlost\trepeated\t")
	var examples []string
	for _, t := range d.source {
		sum := tally{table: t.name}
		for n := 1; n <= d.copies; n++ {
			rows, types, err := d.target.rows(ctx, copyName(n)+"_"+t.name)
			if err != nil {
				return err
			}
			sum.compare(t, rows, types)
		}
		writeTally(w, sum)
		total.expected, total.found = total.expected+sum.expected, total.found+sum.found
		total.lost, total.repeated = total.lost+sum.lost, total.repeated+sum.repeated
		for _, e := range sum.examples {
			examples = append(examples, t.name+": "+e)
		}
	}
	writeTally(w, total)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, e := range examples {
		fmt.Fprintln(d.Out, e)
	}
	doubt, err := d.target.inDoubt(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "\n%d rows expected, %d rows found, lost %d, repeated %d, in doubt %d; %d kills with SIGKILL, %d of them between prepare and commit\n",
		total.expected, total.found, total.lost, total.repeated, len(doubt), d.kills, d.inDoubt)
	if !total.right() || len(doubt) > 0 {
		return ErrDiffers
	}
	return nil
}

func writeTally(w io.Writer, t tally) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t\n", t.table, t.expected, t.found, t.lost, t.repeated)
}
