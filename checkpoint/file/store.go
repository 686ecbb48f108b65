// Package file keeps checkpoints in a directory of this machine.
//
// Each pipeline has a folder of its own with a file for each checkpoint, a file epoch, and a file lock that every change
// is made under (flock, which the system releases when a process dies; over NFS it must be supported by the server). A file
// is written under another name, synced, renamed and its folder synced: it is there as a whole or not at all. Its
// first line is a checksum of the rest, so that damage done later is found, by the file's name.
package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"replicator/checkpoint"
	"replicator/txnsink"
)

const (
	magic         = "replicator sha256 " // begins the first line of each file, the checksum in hex follows
	plainSuffix   = ".checkpoint"
	keptSuffix    = ".savepoint" // pruning keeps these
	epochFile     = "epoch"
	lockFile      = "lock"
	partialSuffix = ".partial" // of a file that is being written
)

// Store is a checkpoint.Store on a directory. It is safe for concurrent use, also by several processes.
type Store struct{ dir string }

var _ checkpoint.Store = (*Store)(nil)

// Open returns the store in dir, which is made if it is missing.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	return &Store{dir}, nil
}

// Close does nothing: the store holds nothing between calls.
func (s *Store) Close() error { return nil }

var pipelineName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*$`)

func badName(pipeline string) error {
	return fmt.Errorf("the pipeline's name %q must consist of letters, digits, '_', '-' and, but for the first, '.': it becomes a folder", pipeline)
}

// locked runs do in the pipeline's folder under its lock.
func (s *Store) locked(ctx context.Context, pipeline string, do func(dir string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !pipelineName.MatchString(pipeline) {
		return badName(pipeline)
	}
	dir := filepath.Join(s.dir, pipeline)
	unlock, err := lock(ctx, filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &absent{dir}
	}
	if err != nil {
		return err
	}
	err = do(dir)
	return errors.Join(err, unlock())
}

// absent is a folder that is not there. Only Acquire makes it: one that has gone is not begun anew by whoever used it.
type absent struct{ dir string }

func (a *absent) Error() string { return a.dir + " is not there" }

func isAbsent(err error) bool {
	var a *absent
	return errors.As(err, &a)
}

// gone says of an absent folder that was there what became of it. Who has it now, if anybody, goes on in place of this process.
func gone(err error) error {
	return fmt.Errorf("%w any more: was it moved, or is its disk not mounted? %w", err, txnsink.ErrFenced)
}

// makeDir makes the pipeline's folder, if it may be called so.
func (s *Store) makeDir(pipeline string) error {
	if !pipelineName.MatchString(pipeline) {
		return badName(pipeline)
	}
	return os.MkdirAll(filepath.Join(s.dir, pipeline), 0o750)
}

// Acquire takes the next epoch.
func (s *Store) Acquire(ctx context.Context, pipeline string) (checkpoint.Checkpoint, error) {
	c := checkpoint.Checkpoint{Pipeline: pipeline}
	if err := s.makeDir(pipeline); err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("acquire pipeline %s: %w", pipeline, err)
	}
	err := s.locked(ctx, pipeline, func(dir string) error {
		names, err := list(dir)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			if c, err = read(dir, names[len(names)-1]); err != nil {
				return insteadOf(err, names)
			}
		}
		epoch, err := readEpoch(dir)
		if err != nil {
			return err
		}
		c.Epoch = max(epoch, c.Epoch) + 1
		return write(dir, epochFile, []byte(strconv.FormatInt(c.Epoch, 10)+"\n"))
	})
	if err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("acquire pipeline %s: %w", pipeline, err)
	}
	return c, nil
}

// Save writes c's file. The epoch is compared under the lock that Acquire raises it under.
func (s *Store) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	err := s.locked(ctx, c.Pipeline, func(dir string) error {
		epoch, err := readEpoch(dir)
		if err != nil {
			return err
		}
		if epoch != c.Epoch {
			return fmt.Errorf("epoch %d has followed epoch %d: %w", epoch, c.Epoch, txnsink.ErrFenced)
		}
		names, err := list(dir)
		if err != nil {
			return err
		}
		if n := len(names); n > 0 && names[n-1].id >= c.ID {
			return fmt.Errorf("checkpoint %d is not after the last one, %d", c.ID, names[n-1].id)
		}
		b, err := checkpoint.Marshal(c)
		if err != nil {
			return err
		}
		name := entry{c.ID, c.Savepoint}
		if err := write(dir, name.file(), append(b, '\n')); err != nil {
			return err
		}
		return prune(dir, append(names, name), retain)
	})
	if isAbsent(err) {
		err = gone(err)
	}
	if err != nil {
		return fmt.Errorf("save checkpoint %d of pipeline %s: %w", c.ID, c.Pipeline, err)
	}
	return nil
}

// List reads all checkpoints. Next to an error, which names what is damaged, it returns what is not.
func (s *Store) List(ctx context.Context, pipeline string) ([]checkpoint.Checkpoint, error) {
	var out []checkpoint.Checkpoint
	err := s.locked(ctx, pipeline, func(dir string) error {
		names, err := list(dir)
		if err != nil {
			return err
		}
		var damaged []error
		for _, name := range names {
			c, err := read(dir, name)
			if err != nil {
				damaged = append(damaged, err)
				continue
			}
			out = append(out, c)
		}
		return errors.Join(damaged...)
	})
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return out, fmt.Errorf("list checkpoints of pipeline %s: %w", pipeline, err)
	}
	return out, nil
}

// Load reads one checkpoint.
func (s *Store) Load(ctx context.Context, pipeline string, id int64) (checkpoint.Checkpoint, error) {
	var c checkpoint.Checkpoint
	err := s.locked(ctx, pipeline, func(dir string) error {
		names, err := list(dir)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(names, func(e entry) bool { return e.id == id })
		if i < 0 {
			return checkpoint.ErrNotFound
		}
		c, err = read(dir, names[i])
		return err
	})
	if isAbsent(err) {
		err = checkpoint.ErrNotFound
	}
	if err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("load checkpoint %d of pipeline %s: %w", id, pipeline, err)
	}
	return c, nil
}

// Forget removes one checkpoint's file.
func (s *Store) Forget(ctx context.Context, pipeline string, id int64) error {
	err := s.locked(ctx, pipeline, func(dir string) error {
		names, err := list(dir)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(names, func(e entry) bool { return e.id == id })
		switch i {
		case -1:
			return checkpoint.ErrNotFound
		case len(names) - 1:
			return checkpoint.ErrLast(id)
		}
		return os.Remove(filepath.Join(dir, names[i].file()))
	})
	if isAbsent(err) {
		err = checkpoint.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove checkpoint %d of pipeline %s: %w", id, pipeline, err)
	}
	return nil
}

// entry is a checkpoint's file by its name.
type entry struct {
	id        int64
	savepoint bool
}

func (e entry) file() string {
	if e.savepoint {
		return fmt.Sprintf("%019d%s", e.id, keptSuffix)
	}
	return fmt.Sprintf("%019d%s", e.id, plainSuffix)
}

// list returns the folder's checkpoints by number.
func list(dir string) ([]entry, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, f := range files {
		for _, suffix := range []string{plainSuffix, keptSuffix} {
			digits, ok := strings.CutSuffix(f.Name(), suffix)
			id, err := strconv.ParseInt(digits, 10, 64)
			if e := (entry{id, suffix == keptSuffix}); ok && err == nil && e.file() == f.Name() {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return int(max(-1, min(1, a.id-b.id))) })
	return out, nil
}

// prune removes all but the last retain checkpoints that are no savepoints. What it could not remove it will find
// again, so it is not synced.
func prune(dir string, names []entry, retain int) error {
	for _, e := range slices.Backward(names) {
		if e.savepoint {
			continue
		}
		if retain--; retain < 0 {
			if err := os.Remove(filepath.Join(dir, e.file())); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads a checkpoint's file.
func read(dir string, e entry) (checkpoint.Checkpoint, error) {
	b, err := readFile(filepath.Join(dir, e.file()))
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	c, err := checkpoint.Unmarshal(b)
	if err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("%s: %w", filepath.Join(dir, e.file()), err)
	}
	if c.ID != e.id || c.Pipeline != filepath.Base(dir) {
		return checkpoint.Checkpoint{}, &damage{filepath.Join(dir, e.file()), fmt.Sprintf("it holds checkpoint %d of pipeline %s", c.ID, c.Pipeline)}
	}
	return c, nil
}

// damage is a file that is not as it was written. Reading it again does not help.
type damage struct{ file, what string }

func (d *damage) Error() string   { return fmt.Sprintf("%s is damaged: %s", d.file, d.what) }
func (d *damage) Permanent() bool { return true }

// insteadOf adds to the damage of the last checkpoint what the operator can do.
func insteadOf(err error, names []entry) error {
	var d *damage
	if !errors.As(err, &d) {
		return err
	}
	if len(names) < 2 {
		return fmt.Errorf("%w; there is no earlier one: restore it from a backup, or move it away to begin anew", err)
	}
	return fmt.Errorf("%w; restore it from a backup, or move it away to go on from the one before, %d: "+
		"what the target holds already is then applied again", err, names[len(names)-2].id)
}

// readEpoch returns the pipeline's epoch; 0 where it has none yet.
func readEpoch(dir string) (int64, error) {
	name := filepath.Join(dir, epochFile)
	b, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	epoch, err := strconv.ParseInt(string(bytes.TrimSuffix(b, []byte("\n"))), 10, 64)
	if err != nil || epoch < 1 {
		return 0, &damage{name, "it holds no epoch"}
	}
	return epoch, nil
}

// readFile returns what a file holds after its checksum.
func readFile(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	line, rest, ok := bytes.Cut(b, []byte("\n"))
	sum, found := bytes.CutPrefix(line, []byte(magic))
	if !ok || !found {
		return nil, &damage{name, "it does not begin with a checksum"}
	}
	if got := sha256.Sum256(rest); hex.EncodeToString(got[:]) != string(sum) {
		return nil, &damage{name, "its checksum does not match"}
	}
	return rest, nil
}

// write makes a file, durable and as a whole.
func write(dir, name string, body []byte) error {
	sum := sha256.Sum256(body)
	content := append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...)
	partial := filepath.Join(dir, name+partialSuffix)
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(partial)) // where the disk is full it must not stay so for this
	}
	if err := os.Rename(partial, filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
