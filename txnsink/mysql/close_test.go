package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// brokenConnector makes connections that answer as the driver's do when they are closed: whether the network has noticed by then that a server
// is gone is up to the kernel.
type brokenConnector struct {
	driver.Connector
	closed error
}

type brokenConn struct {
	driver.Conn
	closed error
}

func (c brokenConnector) Connect(context.Context) (driver.Conn, error) {
	return brokenConn{closed: c.closed}, nil
}

func (c brokenConn) Close() error { return c.closed }

func TestClosingABrokenIdleSessionIsNoFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		closed error
		fails  bool
	}{
		{nil, false},
		{errors.New("bad connection"), false}, // the driver's own, not exported
		{mysql.ErrInvalidConn, false},
		{&mysql.MySQLError{Number: errLockWait, Message: "Lock wait timeout exceeded"}, true},
	} {
		db := sql.OpenDB(brokenConnector{closed: c.closed})
		if err := db.PingContext(t.Context()); err != nil { // one is idle now
			t.Fatal(err)
		}
		if err := CloseDB(db); (err != nil) != c.fails {
			t.Errorf("closed with %v: %v", c.closed, err)
		}
	}
}
