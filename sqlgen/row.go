package sqlgen

import (
	"encoding/binary"
	"math"
)

// appendLength appends the length of a value, or one of the negative lengths.
func appendLength(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(int32(n)))
}

// cut splits the first value off an encoded row: its length, its length and bytes as one element, and the rest.
// Rows are made by this package alone, so there is no error to return.
func cut(row []byte) (n int, elem, rest []byte) {
	n = int(int32(binary.BigEndian.Uint32(row)))
	end := 4 + max(n, 0)
	return n, row[:end], row[end:]
}

// maxValue bounds one encoded value; PostgreSQL takes fields of less than 1 GiB.
const maxValue = 1<<30 - 1

// closeValue writes the length of the value that was appended to dst after the 4 bytes at mark.
func closeValue(dst []byte, mark int) bool {
	n := len(dst) - mark - 4
	if n > min(maxValue, math.MaxInt32) {
		return false
	}
	binary.BigEndian.PutUint32(dst[mark:], uint32(n))
	return true
}

// mergeRow appends to dst the row older, changed by newer: what newer does not hold, older keeps.
func mergeRow(dst, older, newer []byte) []byte {
	for len(newer) > 0 {
		var n, o int
		var elem, was []byte
		n, elem, newer = cut(newer)
		o, was, older = cut(older)
		if n == UnsentLength || n == UnavailableLength && o != UnsentLength {
			elem = was
		}
		dst = append(dst, elem...)
	}
	return dst
}

// holds says whether any value of row has the length n.
func holds(row []byte, n int) bool {
	for len(row) > 0 {
		var l int
		l, _, row = cut(row)
		if l == n {
			return true
		}
	}
	return false
}
