package mysql

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"replicator/checkpoint"
	"replicator/txnsink"
	sink "replicator/txnsink/mysql"
)

var _ checkpoint.StatementLog = (*Store)(nil)

// pieceBytes bounds what one statement carries of a part: written as text it may be twice as long, and max_allowed_packet is
// 4 MiB at least where it was not lowered.
const pieceBytes = 1 << 20

// Append inserts a part, in a transaction of its own.
func (s *Store) Append(ctx context.Context, id txnsink.ID, part int, body []byte) error {
	const insert = `INSERT INTO replicator_log (pipeline, epoch, checkpoint, worker, part, piece, sum, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sum := sha256.Sum256(body)
	return s.transaction(ctx, func(tx *sql.Tx) error {
		for piece := 0; piece == 0 || len(body) > 0; piece++ {
			n := min(len(body), pieceBytes)
			if _, err := tx.ExecContext(ctx, insert, id.Pipeline, id.Epoch, id.Checkpoint, id.Worker, part, piece, sum[:], append([]byte{}, body[:n]...)); err != nil {
				return err
			}
			body = body[n:]
		}
		return nil
	})
}

// damage is a part that is not as it was written. Reading it again does not help.
type damage struct {
	id   txnsink.ID
	part int
}

func (d *damage) Error() string {
	return fmt.Sprintf("part %d of transaction %v in replicator_log is damaged: its checksum does not match", d.part, d.id)
}
func (d *damage) Permanent() bool { return true }

// Read selects a part.
func (s *Store) Read(ctx context.Context, id txnsink.ID, part int) ([]byte, error) {
	sum, body, err := s.pieces(ctx, id, part)
	if err != nil {
		return nil, sink.Plain(err)
	}
	if sum == nil {
		return nil, checkpoint.ErrNotFound
	}
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, &damage{id, part}
	}
	return body, nil
}

// pieces returns a part's checksum, nil if there is no such part, and its bytes.
func (s *Store) pieces(ctx context.Context, id txnsink.ID, part int) (sum, body []byte, err error) {
	const query = `SELECT sum, body FROM replicator_log
WHERE pipeline = ? AND epoch = ? AND checkpoint = ? AND worker = ? AND part = ? ORDER BY piece`
	rows, err := s.db.QueryContext(ctx, query, id.Pipeline, id.Epoch, id.Checkpoint, id.Worker, part)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	body = []byte{}
	for rows.Next() {
		var piece []byte
		if err := rows.Scan(&sum, &piece); err != nil {
			return nil, nil, err
		}
		body = append(body, piece...)
	}
	return sum, body, rows.Err()
}

// Prune deletes parts.
func (s *Store) Prune(ctx context.Context, pipeline string, epoch, cp int64) error {
	const remove = `DELETE FROM replicator_log WHERE pipeline = ? AND (epoch < ? OR epoch = ? AND checkpoint <= ?)`
	return s.transaction(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, remove, pipeline, epoch, epoch, cp)
		return err
	})
}
