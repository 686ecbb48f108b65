package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"replicator/checkpoint"
	"replicator/txnsink"
)

// logFolder holds the parts of the log, beside the pipeline's checkpoints. Their names are never used twice, so nothing is locked.
const logFolder = "log"

const partFormat = "%019d-%019d-%d-%d.part" // epoch, checkpoint, worker, part

var _ checkpoint.StatementLog = (*Store)(nil)

func (s *Store) logDir(ctx context.Context, pipeline string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if !pipelineName.MatchString(pipeline) {
		return "", badName(pipeline)
	}
	return filepath.Join(s.dir, pipeline, logFolder), nil
}

func partFile(id txnsink.ID, part int) string {
	return fmt.Sprintf(partFormat, id.Epoch, id.Checkpoint, id.Worker, part)
}

// Append writes a part's file. It makes the log's folder, but not the pipeline's: see absent.
func (s *Store) Append(ctx context.Context, id txnsink.ID, part int, body []byte) error {
	dir, err := s.logDir(ctx, id.Pipeline)
	if err != nil {
		return err
	}
	switch err := os.Mkdir(dir, 0o750); {
	case errors.Is(err, fs.ErrNotExist):
		return gone(&absent{filepath.Dir(dir)})
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	return write(dir, partFile(id, part), body)
}

// Read reads a part's file.
func (s *Store) Read(ctx context.Context, id txnsink.ID, part int) ([]byte, error) {
	dir, err := s.logDir(ctx, id.Pipeline)
	if err != nil {
		return nil, err
	}
	body, err := readFile(filepath.Join(dir, partFile(id, part)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, checkpoint.ErrNotFound
	}
	return body, err
}

// Prune removes files. What it could not remove it will find again, so it is not synced.
func (s *Store) Prune(ctx context.Context, pipeline string, epoch, cp int64) error {
	dir, err := s.logDir(ctx, pipeline)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		var id txnsink.ID
		var part int
		n, err := fmt.Sscanf(f.Name(), partFormat, &id.Epoch, &id.Checkpoint, &id.Worker, &part)
		if err != nil || n != 4 || f.Name() != partFile(id, part) && f.Name() != partFile(id, part)+partialSuffix {
			continue // nothing of ours
		}
		if id.Epoch < epoch || id.Epoch == epoch && id.Checkpoint <= cp {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
