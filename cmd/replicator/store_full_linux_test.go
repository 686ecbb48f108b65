package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestStoreDiskIsFullMeanwhile fills the file system that the checkpoints are on.
func TestStoreDiskIsFullMeanwhile(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"two-phase", "one-phase", "write-ahead"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			fill, free := smallDisk(t, dir)
			storeFails(t, delivery, "file:"+dir, false, fill, free)
		})
	}
}

// smallDisk mounts a small file system on dir, and returns how it is filled and emptied. Who may not mount one gets links to a device that is
// full in the places of the next checkpoints, each of which fails once.
func smallDisk(t *testing.T, dir string) (fill, free func(t *testing.T)) {
	t.Helper()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k")
	if errors.Is(err, syscall.EPERM) {
		return func(t *testing.T) {
			t.Helper()
			folders, err := filepath.Glob(filepath.Join(dir, "*", "epoch"))
			if err != nil || len(folders) != 1 {
				t.Fatalf("the store has the pipelines %q: %v", folders, err)
			}
			for id := range 100 {
				if err := os.Symlink("/dev/full", filepath.Join(filepath.Dir(folders[0]), fmt.Sprintf("%019d.checkpoint.partial", id))); err != nil {
					t.Fatal(err)
				}
			}
		}, func(*testing.T) {}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	fill = func(t *testing.T) {
		t.Helper()
		if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a file that is larger than the disk: %v", err)
		}
	}
	free = func(t *testing.T) {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	return fill, free
}
