package txnsink

import (
	"errors"
	"fmt"

	"replicator/sqlgen"
)

// CountError is a statement that succeeded on another number of rows than the source's events call for.
type CountError struct{ Got, Want int64 }

func (e *CountError) Error() string {
	return fmt.Sprintf("the target has %d of the %d rows that the source changed", e.Got, e.Want)
}

// Refusal is how a database refuses rows.
type Refusal struct {
	// Try runs a statement so that its failure leaves the transaction as it was.
	Try func(s *sqlgen.Statement) error
	// Of says whether an error is one about a row.
	Of func(err error) bool
	// Row is an error as one about a row of the statement.
	Row func(i int, err error) *sqlgen.RowError
}

// Locate finds the row for which the database refused s with err, by halving: rows before it stay applied while the rest is tried, so that
// a row is refused as it was the first time. The transaction must be as it was before s, and is good for nothing afterwards.
func (r Refusal) Locate(s *sqlgen.Statement, err error) error {
	first, end := 0, max(s.Rows, 1)
	for s.Slice != nil && end-first > 1 {
		middle := first + (end-first)/2
		half := s.Slice(first, middle)
		switch tryErr := r.Try(&half); {
		case tryErr == nil:
			first = middle
		case r.Of(tryErr):
			err, end = tryErr, middle
		default:
			return tryErr
		}
	}
	if s.Slice != nil && s.Rows > 1 {
		one := s.Slice(first, first+1)
		switch tryErr := r.Try(&one); {
		case tryErr == nil:
			row := r.Row(0, err)
			row.Err = fmt.Errorf("%w; none of the statement's %d rows is refused alone, so the first is named", row.Err, s.Rows)
			return row
		case r.Of(tryErr):
			err = tryErr
		default:
			return tryErr
		}
	}
	return r.Row(first, err)
}

// Missing makes row, whose cause is a CountError, say what the target lacks.
func Missing(row *sqlgen.RowError) {
	row.Class = sqlgen.UnavailableValue
	if row.Origin.Key == "" { // a table without a key
		row.Class = sqlgen.MissingRow
	}
	row.Err = errors.New("the target has no such row as the source changed")
}

// OriginOf is where row i of a statement comes from, as far as that is known.
func OriginOf(s *sqlgen.Statement, i int) sqlgen.Origin {
	if s.Origin == nil || i >= s.Rows {
		return sqlgen.Origin{}
	}
	return s.Origin(i)
}
