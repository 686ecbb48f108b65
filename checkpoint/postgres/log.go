package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"replicator/checkpoint"
	"replicator/txnsink"
)

var _ checkpoint.StatementLog = (*Store)(nil)

// Append inserts a part, in a transaction of its own.
func (s *Store) Append(ctx context.Context, id txnsink.ID, part int, body []byte) error {
	const insert = `INSERT INTO replicator.log (pipeline, epoch, checkpoint, worker, part, sum, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	sum := sha256.Sum256(body)
	return s.transaction(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert, id.Pipeline, id.Epoch, id.Checkpoint, id.Worker, part, sum[:], body)
		return err
	})
}

// damage is a part that is not as it was written. Reading it again does not help.
type damage struct {
	id   txnsink.ID
	part int
}

func (d *damage) Error() string {
	return fmt.Sprintf("part %d of transaction %v in replicator.log is damaged: its checksum does not match", d.part, d.id)
}
func (d *damage) Permanent() bool { return true }

// Read selects a part.
func (s *Store) Read(ctx context.Context, id txnsink.ID, part int) ([]byte, error) {
	const query = `SELECT sum, body FROM replicator.log WHERE pipeline = $1 AND epoch = $2 AND checkpoint = $3 AND worker = $4 AND part = $5`
	var sum, body []byte
	err := s.transaction(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, query, id.Pipeline, id.Epoch, id.Checkpoint, id.Worker, part).Scan(&sum, &body)
		if errors.Is(err, pgx.ErrNoRows) {
			return checkpoint.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, &damage{id, part}
	}
	return body, nil
}

// Prune deletes parts.
func (s *Store) Prune(ctx context.Context, pipeline string, epoch, cp int64) error {
	const remove = `DELETE FROM replicator.log WHERE pipeline = $1 AND (epoch < $2 OR epoch = $2 AND checkpoint <= $3)`
	return s.transaction(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, remove, pipeline, epoch, cp)
		return err
	})
}
