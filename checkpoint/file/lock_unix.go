//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	lockInterval = 5 * time.Millisecond
	lockTries    = 2000 // who holds the lock writes a file or two
)

// lock takes the lock that the file stands for, and returns how to give it back. Each call opens the file itself, so it
// excludes other goroutines as well as other processes.
func lock(ctx context.Context, name string) (unlock func() error, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	for range lockTries {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f.Close, nil // closing gives the lock back
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-tick.C:
		}
	}
	return nil, errors.Join(fmt.Errorf("lock %s: another process has held it for %v", name, lockTries*lockInterval), f.Close())
}
