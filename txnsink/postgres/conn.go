package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"replicator/sqlgen"
	"replicator/txnsink"
)

const (
	maxControls  = 4 // idle control sessions that are kept
	closeTimeout = 2 * time.Second
)

// settings is what every session begins with. Values are read and written as their binary or ISO forms whatever the role's,
// the database's or the URL's defaults are, and no timeout but lock_timeout ends a transaction that waits for
// the next batch.
const settings = `SET timezone = 'UTC';
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
SET bytea_output = 'hex';
SET extra_float_digits = 1;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET statement_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
`

// connect opens a session called name.
func (s *Sink) connect(ctx context.Context, name string) (*pgx.Conn, error) {
	c := s.pg.Copy()
	fresh, err := pgx.ParseConfig(s.config.URL) // it reads the files of certificates, which may have been renewed
	if err != nil {
		return nil, fmt.Errorf("connect to the target: %w", plain(err))
	}
	fresh.DialFunc = c.DialFunc
	c.Config = fresh.Config
	c.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, s.connectError(err)
	}
	replica, err := s.prepareConn(ctx, conn.PgConn())
	if err != nil {
		closeConn(conn)
		return nil, fmt.Errorf("set up a session on the target: %w", plain(err))
	}
	s.mu.Lock()
	s.replica, s.tls = replica, tlsVersion(conn.PgConn().Conn())
	s.mu.Unlock()
	return conn, nil
}

// tlsVersion says how a connection is encrypted; "" if it is not.
func tlsVersion(c net.Conn) string {
	if t, ok := c.(*tls.Conn); ok {
		return tls.VersionName(t.ConnectionState().Version)
	}
	return ""
}

// connectError adds what to do about an error that will come again.
func (s *Sink) connectError(err error) error {
	switch code(err) {
	case codeRefusedRole, codeRefusedPassword, codeUndefinedDatabase:
		return permanent("connect to the target: %v", plain(err))
	}
	return fmt.Errorf("connect to the target: %w", plain(err))
}

// prepareConn sets a session up. It returns whether the session fires no user's triggers.
func (s *Sink) prepareConn(ctx context.Context, c *pgconn.PgConn) (replica bool, err error) {
	sql := settings + sqlgen.OwnSchemaAside + ";\n" + fmt.Sprintf("SET lock_timeout = %d;\n", s.config.LockTimeout.Milliseconds())
	if majorVersion(c) >= 17 {
		sql += "SET transaction_timeout = 0;\n"
	}
	if err := c.Exec(ctx, sql).Close(); err != nil {
		return false, err
	}
	err = c.Exec(ctx, "SET session_replication_role = replica").Close()
	if code(err) == codePrivilege {
		return false, nil
	}
	return err == nil, err
}

// majorVersion returns the server's, or 0.
func majorVersion(c *pgconn.PgConn) int {
	v, _, _ := strings.Cut(c.ParameterStatus("server_version"), ".")
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0
	}
	return n
}

// control lends do a session that no transaction of a worker uses. do's error comes back as it is.
func (s *Sink) control(ctx context.Context, do func(*pgx.Conn) error) error {
	c, err := s.takeControl(ctx)
	if err != nil {
		return err
	}
	err = do(c)
	s.returnControl(c)
	return err
}

func (s *Sink) takeControl(ctx context.Context) (*pgx.Conn, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errors.New("the sink is closed")
	}
	if n := len(s.controls); n > 0 {
		c := s.controls[n-1]
		s.controls = s.controls[:n-1]
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	return s.connect(ctx, applicationName(s.config.Pipeline))
}

// returnControl keeps c for the next call. When c has broken, the others have probably too: the server was
// restarted. They are closed, so that trying again does not meet them one by one.
func (s *Sink) returnControl(c *pgx.Conn) {
	drop := []*pgx.Conn{c}
	s.mu.Lock()
	switch {
	case c.IsClosed():
		drop = append(drop, s.controls...)
		s.controls = nil
	case !s.closed && len(s.controls) < maxControls && c.PgConn().TxStatus() == 'I':
		s.controls = append(s.controls, c)
		drop = nil
	}
	s.mu.Unlock()
	for _, c := range drop {
		closeConn(c)
	}
}

// closeConn closes a session. Whether the server hears of it does not matter: it ends a session whose connection is
// gone, and rolls back what is open.
func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		return
	}
}

// simple runs one statement without parameters, leaving no prepared statement behind, and wants the command tag.
func simple(ctx context.Context, c *pgconn.PgConn, sql, tag string) error {
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		return err
	}
	if len(results) != 1 || results[0].CommandTag.String() != tag {
		got := "nothing"
		if len(results) > 0 {
			got = results[0].CommandTag.String()
		}
		return &tagError{want: tag, got: got}
	}
	return nil
}

// tagError is a success that is none: the server did something else than it was asked for.
type tagError struct{ want, got string }

func (e *tagError) Error() string {
	return fmt.Sprintf("the server answered %s to %s", e.got, e.want)
}

// explain says that a broken session of a worker was ended by a later epoch, if the witness says so.
func (s *Sink) explain(ctx context.Context, id txnsink.ID, err error) error {
	var epoch int64
	const query = `SELECT epoch FROM replicator.witness WHERE pipeline = $1 AND worker = $2`
	lookErr := s.control(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, query, id.Pipeline, id.Worker).Scan(&epoch)
	})
	if lookErr != nil || epoch <= id.Epoch {
		return err // that the server cannot be asked is told by err already
	}
	return fmt.Errorf("%w: epoch %d is at work (%w)", txnsink.ErrFenced, epoch, err)
}
