package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"replicator/checkpoint"
	"replicator/checkpoint/storetest"
	"replicator/debezium"
	"replicator/txnsink"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Open {
		dir := filepath.Join(t.TempDir(), "made", "by open")
		return func(t *testing.T) checkpoint.Store { return open(t, dir) }
	})
}

func TestLog(t *testing.T) {
	t.Parallel()
	storetest.RunLog(t, func(t *testing.T) storetest.OpenLog {
		dir := t.TempDir()
		return func(t *testing.T) storetest.Log { return open(t, dir) }
	})
}

func TestDamagedPartOfTheLogIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.Acquire(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	id := txnsink.ID{Pipeline: "p", Epoch: 1, Checkpoint: 2}
	if err := s.Append(t.Context(), id, 0, []byte("statements")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "p", logFolder, partFile(id, 0))
	if err := os.Truncate(file, 90); err != nil {
		t.Fatal(err)
	}
	_, err := s.Read(t.Context(), id, 0)
	if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

// saved returns a store that holds checkpoints 1 to 3 of pipeline p, and its folder.
func saved(t *testing.T) (*Store, string) {
	dir := t.TempDir()
	s := open(t, dir)
	c, err := s.Acquire(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	for id := int64(1); id <= 3; id++ {
		c := checkpoint.Checkpoint{Pipeline: "p", Epoch: c.Epoch, ID: id, Positions: debezium.Positions{}}
		if err := s.Save(t.Context(), c, 10); err != nil {
			t.Fatal(err)
		}
	}
	return s, filepath.Join(dir, "p")
}

func TestDamageIsFoundAndNamesTheOneBefore(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(b []byte) []byte{
		"torn":          func(b []byte) []byte { return b[:len(b)/2] },
		"empty":         func([]byte) []byte { return nil },
		"bit flipped":   func(b []byte) []byte { b[len(b)-10] ^= 1; return b },
		"sum flipped":   func(b []byte) []byte { b[len(magic)] ^= 1; return b },
		"longer":        func(b []byte) []byte { return append(b, '\n') },
		"nothing of it": func([]byte) []byte { return []byte("{}\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := saved(t)
			file := filepath.Join(dir, entry{id: 3}.file())
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = s.Acquire(t.Context(), "p")
			if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "the one before, 2") {
				t.Errorf("acquire: got %v", err)
			}
			list, err := s.List(t.Context(), "p")
			if len(list) != 2 || err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("list: got %d checkpoints and %v", len(list), err)
			}
			if err := os.Rename(file, file+".damaged"); err != nil {
				t.Fatal(err)
			}
			if c, err := s.Acquire(t.Context(), "p"); err != nil || c.ID != 2 {
				t.Errorf("acquire without the damaged file: got %d, %v", c.ID, err)
			}
		})
	}
}

func TestDamagedEpochFencesEveryone(t *testing.T) {
	t.Parallel()
	s, dir := saved(t)
	if err := os.WriteFile(filepath.Join(dir, epochFile), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), epochFile) {
		t.Errorf("acquire: got %v", err)
	}
	if err := s.Save(t.Context(), checkpoint.Checkpoint{Pipeline: "p", Epoch: 1, ID: 4}, 10); err == nil {
		t.Error("saved under a damaged epoch")
	}
}

func TestUnfinishedFileIsIgnored(t *testing.T) {
	t.Parallel()
	s, dir := saved(t)
	for _, name := range []string{entry{id: 4}.file() + partialSuffix, "5.checkpoint", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.Acquire(t.Context(), "p")
	if err != nil || c.ID != 3 {
		t.Fatalf("got %d, %v", c.ID, err)
	}
	if err := s.Save(t.Context(), checkpoint.Checkpoint{Pipeline: "p", Epoch: c.Epoch, ID: 4}, 10); err != nil {
		t.Fatal(err)
	}
}

func TestPipelineNameLeavesTheDirectoryNot(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for _, name := range []string{"", ".", "..", "../p", "a/b", ".hidden", "a b", "ä"} {
		if _, err := s.Acquire(t.Context(), name); err == nil {
			t.Errorf("%q was accepted", name)
		}
		if _, err := s.Load(t.Context(), name, 1); err == nil || errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// TestFullDiskSavesNothing: the file of checkpoint 4 is written to a device that is always full.
func TestFullDiskSavesNothing(t *testing.T) {
	t.Parallel()
	s, dir := saved(t)
	fourth := checkpoint.Checkpoint{Pipeline: "p", Epoch: 1, ID: 4, Positions: debezium.Positions{}}
	for range 2 {
		if err := os.Symlink("/dev/full", filepath.Join(dir, entry{id: 4}.file()+partialSuffix)); err != nil {
			t.Fatal(err)
		}
		if err := s.Save(t.Context(), fourth, 10); !errors.Is(err, syscall.ENOSPC) || txnsink.Permanent(err) {
			t.Fatalf("save: got %v", err)
		}
		if list, err := s.List(t.Context(), "p"); err != nil || len(list) != 3 {
			t.Errorf("got %d checkpoints, %v", len(list), err)
		}
	}
	if err := s.Save(t.Context(), fourth, 10); err != nil {
		t.Errorf("save where there is room again: %v", err)
	}
}

// TestFolderThatWentAwayIsNotBegunAnew: a process whose store is gone saves nothing, and makes nothing that would be in
// the way when the store comes back.
func TestFolderThatWentAwayIsNotBegunAnew(t *testing.T) {
	t.Parallel()
	s, dir := saved(t)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	fourth := checkpoint.Checkpoint{Pipeline: "p", Epoch: 1, ID: 4, Positions: debezium.Positions{}}
	if err := s.Save(t.Context(), fourth, 10); !errors.Is(err, txnsink.ErrFenced) || !strings.Contains(err.Error(), dir) {
		t.Errorf("save: got %v", err)
	}
	part := txnsink.ID{Pipeline: "p", Epoch: 1, Checkpoint: 4}
	if err := s.Append(t.Context(), part, 0, []byte("statements")); !errors.Is(err, txnsink.ErrFenced) || !strings.Contains(err.Error(), dir) {
		t.Errorf("append: got %v", err)
	}
	if list, err := s.List(t.Context(), "p"); err != nil || list != nil {
		t.Errorf("list: got %v, %v", list, err)
	}
	if _, err := s.Load(t.Context(), "p", 1); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("load: got %v", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(t.Context(), fourth, 10); err != nil {
		t.Errorf("save when it is back: %v", err)
	}
}
