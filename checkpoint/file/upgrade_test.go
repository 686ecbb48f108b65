package file

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

// firstVersion is what testdata/v1 holds, in the order that it was saved.
func firstVersion() []checkpoint.Checkpoint {
	var out []checkpoint.Checkpoint
	for i := int64(1); i <= 2; i++ {
		out = append(out, checkpoint.Checkpoint{
			Pipeline: "shop", Epoch: i, ID: i, Rows: 10 * i, Savepoint: i == 1, Created: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
			Positions: debezium.Positions{{Topic: "p.shop.pay"}: {Offset: 5 * i}, {Topic: "p.shop.pay", ID: 1}: {Offset: 7 * i}},
			Txns:      []txnsink.ID{{Pipeline: "shop", Epoch: i, Checkpoint: i, Worker: 0}, {Pipeline: "shop", Epoch: i, Checkpoint: i, Worker: 1}},
		})
	}
	return out
}

// openFirstVersion opens a copy of testdata/v1.
func openFirstVersion(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "v1"))); err != nil {
		t.Fatal(err)
	}
	return open(t, dir), filepath.Join(dir, "shop")
}

// TestFilesOfTheFirstVersionAreRead: files of checkpoints outlive the programs that wrote them.
func TestFilesOfTheFirstVersionAreRead(t *testing.T) {
	t.Parallel()
	s, _ := openFirstVersion(t)
	want := firstVersion()
	list, err := s.List(t.Context(), "shop")
	if err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v, %v\nwant %+v", list, err, want)
	}
	last := want[1]
	last.Epoch = 3
	if got, err := s.Acquire(t.Context(), "shop"); err != nil || !reflect.DeepEqual(got, last) {
		t.Errorf("acquired %+v, %v\nwant %+v", got, err, last)
	}
}

// TestFilesAreWrittenAsInTheFirstVersion: when this fails, a program of that version cannot read what this one writes. Give what is
// written another version then, and keep testdata/v1.
func TestFilesAreWrittenAsInTheFirstVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	for _, c := range firstVersion() {
		if _, err := s.Acquire(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		if err := s.Save(t.Context(), c, 10); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "v1", "shop", "*"))
	if err != nil || len(files) != 3 {
		t.Fatalf("testdata has %v, %v", files, err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "shop", filepath.Base(file)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %s, %v\nwant %s", file, got, err, want)
		}
	}
}

// TestFilesOfALaterVersionAreRefused, and not taken for damaged ones.
func TestFilesOfALaterVersionAreRefused(t *testing.T) {
	t.Parallel()
	s, dir := openFirstVersion(t)
	body := []byte(`{"version":2,"pipeline":"shop","epoch":2,"id":3,"new":"thing"}` + "\n")
	file := filepath.Join(dir, entry{id: 3}.file())
	if err := os.WriteFile(file, fmt.Appendf(nil, "%s%x\n%s", magic, sha256.Sum256(body), body), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Acquire(t.Context(), "shop")
	if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "version 2, this program reads version 1") {
		t.Errorf("got %v", err)
	}
}
