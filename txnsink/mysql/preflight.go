package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// firstSafeXA is the first version of MySQL that loses no prepared transaction in a crash with the binary log on.
const firstSafeXA = 80030

// TwoPhase is what a server has for prepared transactions.
type TwoPhase struct {
	Prepared int      // prepared transactions of the whole server
	Warnings []string // settings by which a crash may lose what was acknowledged, each with what to do
}

// CheckTwoPhase says whether the target can prepare transactions, by its settings and by preparing one and rolling it back: a
// proxy between here and the server may send the two to different servers. An error that says what to change is one for
// which txnsink.Permanent is true.
func (s *Sink) CheckTwoPhase(ctx context.Context) (TwoPhase, error) {
	var t TwoPhase
	err := s.checkSettings(ctx, &t)
	if err == nil {
		err = s.probe(ctx)
	}
	if err == nil {
		var listed []xid
		listed, err = s.recover(ctx)
		t.Prepared = len(listed)
	}
	if err != nil {
		return t, fmt.Errorf("check two-phase commit: %w", plain(err))
	}
	return t, nil
}

func (s *Sink) checkSettings(ctx context.Context, t *TwoPhase) error {
	v, err := s.variables(ctx, "log_bin", "binlog_format", "wsrep_on", "innodb_flush_log_at_trx_commit", "sync_binlog",
		"read_only", "super_read_only", "innodb_read_only")
	if err != nil {
		return err
	}
	logged := v["log_bin"] == "ON"
	switch {
	case v["wsrep_on"] == "ON":
		return permanent("the target is a Galera cluster (wsrep_on), which knows no XA: connect to a server of its own, %s", adviceOnePhase)
	case logged && !s.facts.mariaDB && s.facts.number < firstSafeXA:
		return permanent("the server is MySQL %s with log_bin on, which loses prepared transactions in a crash: upgrade it to 8.0.30 or later, turn log_bin off, %s",
			s.facts.version, adviceOnePhase)
	case logged && v["binlog_format"] == "STATEMENT":
		return permanent("binlog_format is STATEMENT, with which the target refuses changes under READ COMMITTED: set binlog_format to ROW or MIXED")
	case v["innodb_read_only"] == "ON":
		return permanent("the target is read only (innodb_read_only): connect to the primary")
	case v["read_only"] == "ON" || v["super_read_only"] == "ON":
		t.Warnings = append(t.Warnings, "read_only is on: connect to the primary, unless the user is exempt")
	}
	if v["innodb_flush_log_at_trx_commit"] != "1" {
		t.Warnings = append(t.Warnings, "innodb_flush_log_at_trx_commit is "+v["innodb_flush_log_at_trx_commit"]+
			": a crash of the machine loses prepared transactions; set it to 1")
	}
	if logged && v["sync_binlog"] != "1" {
		t.Warnings = append(t.Warnings, "sync_binlog is "+v["sync_binlog"]+": a crash of the machine may lose prepared transactions; set it to 1")
	}
	return nil
}

// variables returns global variables; one that the server does not have is missing.
func (s *Sink) variables(ctx context.Context, names ...string) (out map[string]string, err error) {
	rows, err := s.control.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "','")+"')")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		out[strings.ToLower(name)] = value
	}
	return out, rows.Err()
}

// probe prepares a transaction that changes nothing and rolls it back, where it can be from another session. A probe that was lost
// half way leaves it behind: the next one removes it.
func (s *Sink) probe(ctx context.Context) error {
	prefix := s.database + hash(s.config.Pipeline) + ":"
	listed, err := s.recover(ctx)
	if err != nil {
		return err
	}
	for _, x := range listed {
		if x.gtrid == probeGtrid && strings.HasPrefix(x.bqual, prefix) {
			if err := s.removeProbe(ctx, x); err != nil {
				return err
			}
		}
	}
	conn, err := s.sessions.Conn(ctx)
	if err != nil {
		return err
	}
	x, err := prepareProbe(ctx, conn, prefix)
	if err == nil && !s.facts.detaches { // see decide.go: another session had better not decide it at once
		_, err = conn.ExecContext(ctx, "XA ROLLBACK "+x.String())
	}
	if closeErr := conn.Close(); err == nil {
		err = closeErr
	}
	if err == nil && s.facts.detaches {
		err = s.removeProbe(ctx, x)
	}
	if err != nil && !lost(err) {
		return permanent("XA does not work on the target: %v: is there a proxy in between? Connect to the server itself, %s", plain(err), adviceOnePhase)
	}
	return err
}

func prepareProbe(ctx context.Context, conn *sql.Conn, prefix string) (xid, error) {
	var session int64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&session); err != nil {
		return xid{}, err
	}
	x := xid{probeGtrid, fmt.Sprintf("%s%d:%d", prefix, session, time.Now().Unix())}
	for _, verb := range []string{"XA START ", "XA END ", "XA PREPARE "} {
		if _, err := conn.ExecContext(ctx, verb+x.String()); err != nil {
			return xid{}, err
		}
	}
	return x, nil
}

// removeProbe rolls a probe's transaction back, once its session has let go of it. Another process may do the same at once, and a
// server may drop it by itself, as it changed nothing.
func (s *Sink) removeProbe(ctx context.Context, x xid) error {
	tick := time.NewTicker(busyInterval)
	defer tick.Stop()
	for range busyTries {
		_, err := s.control.ExecContext(ctx, "XA ROLLBACK "+x.String())
		switch number(err) {
		case errXAUnknown, errXAState, errXARolledBack:
		default:
			return err
		}
		listed, err := s.recover(ctx)
		if err != nil || !slices.Contains(listed, x) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return errors.New("a prepared transaction stays with its closed session")
}
