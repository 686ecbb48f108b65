package txnsink_test

import (
	"errors"
	"fmt"
	"testing"

	"replicator/sqlgen"
	"replicator/txnsink"
)

var (
	errRow  = errors.New("refused")
	errGone = errors.New("the connection is gone")
)

// TestLocateNamesTheFirstRowThatIsRefused refuses each row of a statement in turn, and the one after it too. Rows before it stay applied.
func TestLocateNamesTheFirstRowThatIsRefused(t *testing.T) {
	t.Parallel()
	const rows = 11
	for bad := range rows {
		applied := map[int]bool{}
		err := refusal(func(first, end int) error {
			if first <= bad && bad < end || first <= bad+1 && bad+1 < end {
				return errRow
			}
			for i := first; i < end; i++ {
				applied[i] = true
			}
			return nil
		}).Locate(statement(0, rows), errRow)
		var row *sqlgen.RowError
		if !errors.As(err, &row) || row.Origin.Offset != int64(bad) {
			t.Errorf("row %d is refused: got %v", bad, err)
		}
		for i := range rows {
			if applied[i] != (i < bad) {
				t.Errorf("row %d is refused: row %d is applied: %v", bad, i, applied[i])
			}
		}
	}
}

func TestLocateNamesTheFirstRowWhenNoneIsRefusedAlone(t *testing.T) {
	t.Parallel()
	err := refusal(func(first, end int) error {
		if end-first > 1 {
			return errRow
		}
		return nil
	}).Locate(statement(0, 8), errRow)
	const want = "offset 0: refused; none of the statement's 8 rows is refused alone, so the first is named"
	var row *sqlgen.RowError
	if !errors.As(err, &row) || fmt.Sprintf("offset %d: %v", row.Origin.Offset, row.Err) != want {
		t.Errorf("got %v", err)
	}
}

// TestLocateEndsWithAnotherError: what is no row's fault ends the search.
func TestLocateEndsWithAnotherError(t *testing.T) {
	t.Parallel()
	tries := 0
	err := refusal(func(int, int) error { tries++; return errGone }).Locate(statement(0, 8), errRow)
	if !errors.Is(err, errGone) || tries != 1 {
		t.Errorf("got %v after %d tries", err, tries)
	}
}

// TestLocateTakesAStatementThatIsNotDividedForItsFirstRow: nothing is tried.
func TestLocateTakesAStatementThatIsNotDividedForItsFirstRow(t *testing.T) {
	t.Parallel()
	whole := statement(0, 8)
	whole.Slice = nil
	err := refusal(func(int, int) error { t.Error("tried"); return nil }).Locate(whole, errRow)
	var row *sqlgen.RowError
	if !errors.As(err, &row) || row.Origin.Offset != 0 {
		t.Errorf("got %v", err)
	}
}

// statement has a row for each offset from first to end.
func statement(first, end int) *sqlgen.Statement {
	return &sqlgen.Statement{
		SQL: fmt.Sprintf("%d %d", first, end), Rows: end - first,
		Slice:  func(i, j int) sqlgen.Statement { return *statement(first+i, first+j) },
		Origin: func(i int) sqlgen.Origin { return sqlgen.Origin{Offset: int64(first + i)} },
	}
}

// refusal has a database that does as try says with the rows from first to end.
func refusal(try func(first, end int) error) txnsink.Refusal {
	return txnsink.Refusal{
		Try: func(s *sqlgen.Statement) error {
			var first, end int
			if _, err := fmt.Sscan(s.SQL, &first, &end); err != nil {
				return err
			}
			return try(first, end)
		},
		Of: func(err error) bool { return errors.Is(err, errRow) },
		Row: func(i int, err error) *sqlgen.RowError {
			return &sqlgen.RowError{Origin: sqlgen.Origin{Offset: int64(i)}, Err: err}
		},
	}
}
