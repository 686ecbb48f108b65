package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"replicator/debezium"
)

// errSpillFull is the error for records that do not fit on disk.
var errSpillFull = errors.New("what waits on disk has reached its bound")

// spill keeps records on disk, in a file that is gone with the process. It belongs to one goroutine.
type spill struct {
	dir   string
	limit int64

	file  *os.File // nil: nothing was written yet
	named bool     // the file still has a name: where open files cannot be removed it is removed when it is closed
	size  int64
	live  int // extents that are not freed
	buf   []byte
}

// extent is where records are.
type extent struct {
	at   int64
	size int
	n    int // records
}

// put writes records. They are read until they are freed.
func (s *spill) put(records []debezium.Record) (extent, error) {
	s.buf = s.buf[:0]
	for i := range records {
		s.buf = appendRecord(s.buf, &records[i])
	}
	if s.size+int64(len(s.buf)) > s.limit {
		return extent{}, errSpillFull
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "replicator-transactions-*")
		if err != nil {
			return extent{}, fmt.Errorf("spill events of source transactions: %w", err)
		}
		s.file, s.named = f, os.Remove(f.Name()) != nil
	}
	if _, err := s.file.WriteAt(s.buf, s.size); err != nil {
		return extent{}, fmt.Errorf("spill events of source transactions to %s: %w", s.file.Name(), err)
	}
	e := extent{s.size, len(s.buf), len(records)}
	s.size += int64(len(s.buf))
	s.live++
	return e, nil
}

// get reads records that were put, of partition p.
func (s *spill) get(e extent, p debezium.Partition) ([]debezium.Record, error) {
	b := make([]byte, e.size)
	if _, err := s.file.ReadAt(b, e.at); err != nil {
		return nil, fmt.Errorf("read spilled events of source transactions from %s: %w", s.file.Name(), err)
	}
	out := make([]debezium.Record, e.n)
	for i := range out {
		rest, err := readRecord(b, &out[i])
		if err != nil {
			return nil, fmt.Errorf("read spilled events of source transactions from %s: %w", s.file.Name(), err)
		}
		out[i].Partition, b = p, rest
	}
	return out, nil
}

// free says that an extent is not read any more. The file is emptied when that holds for all.
func (s *spill) free() error {
	s.live--
	if s.live > 0 {
		return nil
	}
	s.size = 0
	if err := s.file.Truncate(0); err != nil {
		return fmt.Errorf("empty %s: %w", s.file.Name(), err)
	}
	return nil
}

// close removes the file.
func (s *spill) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.named {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}

func appendRecord(b []byte, r *debezium.Record) []byte {
	b = binary.AppendVarint(b, r.Offset)
	at := int64(0)
	if !r.Time.IsZero() {
		at = r.Time.UnixNano()
	}
	b = binary.AppendVarint(b, at)
	b = appendBytes(b, r.Key)
	b = appendBytes(b, r.Value)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		b = appendBytes(b, []byte(h.Key))
		b = appendBytes(b, h.Value)
	}
	return b
}

// appendBytes keeps apart what is null and what is empty.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendUvarint(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(v))+1), v...)
}

// errSpilled is the error for bytes that were not written here: the file was written to by somebody else.
var errSpilled = errors.New("its contents are not what was written")

func readRecord(b []byte, r *debezium.Record) (rest []byte, err error) {
	number := func() int64 {
		n, size := binary.Varint(b)
		if size <= 0 {
			err = errSpilled
			return 0
		}
		b = b[size:]
		return n
	}
	length := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)) {
			err = errSpilled
			return 0
		}
		b = b[size:]
		return n
	}
	data := func() []byte {
		n := length()
		if n == 0 || n-1 > uint64(len(b)) {
			if n != 0 {
				err = errSpilled
			}
			return nil
		}
		v := b[: n-1 : n-1]
		b = b[n-1:]
		return v
	}
	r.Offset = number()
	if at := number(); at != 0 {
		r.Time = time.Unix(0, at)
	}
	r.Key, r.Value = data(), data()
	for range length() {
		if err != nil {
			break
		}
		r.Headers = append(r.Headers, debezium.Header{Key: string(data()), Value: data()})
	}
	return b, err
}
