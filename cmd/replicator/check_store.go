package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"replicator/checkpoint"
)

const (
	lastCheckpointTimeout = 10 * time.Second
	diskWanted            = 100 << 20 // bytes free for the file store
)

// lastCheckpoint returns the pipeline's last checkpoint; nil: there is none, or the store cannot be read, which checkStore and
// checkTarget tell. It makes nothing: a directory that is not there stays so.
func lastCheckpoint(ctx context.Context, c *config) *checkpoint.Checkpoint {
	if dir, isFile := strings.CutPrefix(c.Checkpoint.Store, "file:"); isFile {
		if _, err := os.Stat(dir); err != nil {
			return nil
		}
	}
	ctx, cancel := within(ctx, lastCheckpointTimeout)
	defer cancel()
	s, err := openStore(ctx, c)
	if err != nil {
		return nil
	}
	list, err := s.List(ctx, c.Pipeline)
	if err := errors.Join(err, s.Close()); err != nil || len(list) == 0 {
		return nil
	}
	return &list[len(list)-1]
}

// checkStore looks at the directory of a file store, or connects to a database; the store in the target is checked with
// the target.
func checkStore(ctx context.Context, c *config, f *findings) {
	if ownStore(c) {
		checkStoreDatabase(ctx, c, f)
		return
	}
	dir, isFile := strings.CutPrefix(c.Checkpoint.Store, "file:")
	if !isFile {
		f.ok("store", "checkpoints are kept in the target")
		return
	}
	at, err := nearestDir(dir)
	if err == nil {
		err = tryWrite(at)
	}
	if err != nil {
		f.fail("store/unwritable", "make the directory writable for this user", "checkpoints cannot be written: %v", err)
		return
	}
	checkStoreDisk(dir, at, diskWanted, f)
}

func checkStoreDisk(dir, at string, want uint64, f *findings) {
	switch free, err := diskFree(at); {
	case err != nil: // this system does not tell
		f.ok("store", "checkpoints are written to %s", dir)
	case free < want:
		f.warn("store/disk", "free some", "%d MiB are free on the disk of %s", free>>20, dir)
	default:
		f.ok("store", "checkpoints are written to %s, %d MiB free", dir, free>>20)
	}
}

func checkStoreDatabase(ctx context.Context, c *config, f *findings) {
	ctx, cancel := within(ctx, checkTargetTimeout)
	defer cancel()
	s, err := openStore(ctx, c)
	if err != nil {
		f.fail("store/unreachable", unlessSaid(err, "see to checkpoint.store and its server"), "%s", reason(err))
		return
	}
	_, err = s.List(ctx, c.Pipeline)
	if err := errors.Join(err, s.Close()); err != nil && c.Migrate == autoMigrate {
		f.warn("store/unread", "run creates the own tables there if they are missing", "%s", reason(err))
		return
	}
	f.ok("store", "checkpoints are kept in a database of their own")
	checkOwnVersion(ctx, c, storeURL(c), f)
}

// nearestDir returns dir, or the directory in which its missing part will be made.
func nearestDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			return dir, nil
		case err == nil:
			return "", errors.New(dir + " is no directory")
		case !errors.Is(err, os.ErrNotExist) || filepath.Dir(dir) == dir:
			return "", err
		}
		dir = filepath.Dir(dir)
	}
}

// tryWrite makes a file in dir and removes it.
func tryWrite(dir string) error {
	t, err := os.CreateTemp(dir, ".replicator-check-")
	if err != nil {
		return err
	}
	_, err = t.WriteString("check")
	return errors.Join(err, t.Close(), os.Remove(t.Name()))
}
