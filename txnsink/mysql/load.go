package mysql

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"

	"replicator/sqlgen"
)

// load runs a LOAD DATA LOCAL under a savepoint. From a client's data the server takes what it can: it skips a row whose key it has, and
// bends a value that does not fit. So the statement stands only if it took every row and warned of nothing. Otherwise, or
// when it is refused, it is undone, and what stands instead of it is run, which tells the row that is to blame if there is one.
func (t *txn) load(ctx context.Context, s *sqlgen.Statement) error {
	if err := t.session.exec(ctx, "SAVEPOINT loaded"); err != nil {
		return err
	}
	did, err := t.session.load(ctx, s)
	if err != nil && (lost(err) || number(err) == errLockWait || number(err) == errDeadlock) {
		return err
	}
	t.session.cautions.Tried(s.SQL, did)
	if did {
		return nil
	}
	if rollbackErr := t.session.exec(ctx, "ROLLBACK TO SAVEPOINT loaded"); rollbackErr != nil {
		return errors.Join(err, rollbackErr)
	}
	for _, other := range s.Instead() {
		if err := t.apply(ctx, &other); err != nil {
			return err
		}
	}
	return nil
}

// load runs s, and says whether the server took its rows as they are. The server asks for the rows by their name, and may ask for any
// name, at any statement: the driver knows none but those of statements that are at work, nobody can guess them, and it opens no
// file.
func (c *session) load(ctx context.Context, s *sqlgen.Statement) (bool, error) {
	name := rand.Text()
	mysql.RegisterReaderHandler(name, s.Data)
	defer mysql.DeregisterReaderHandler(name)
	result, err := c.conn.ExecContext(ctx, strings.Replace(s.SQL, "?", "'Reader::"+name+"'", 1))
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	if err != nil || n != s.Want {
		return false, err
	}
	var warnings int64
	err = c.conn.QueryRowContext(ctx, "SELECT @@warning_count").Scan(&warnings)
	return err == nil && warnings == 0, err
}
