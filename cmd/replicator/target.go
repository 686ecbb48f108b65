package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"replicator/checkpoint"
	"replicator/txnsink"
	"replicator/txnsink/mysql"
	"replicator/txnsink/postgres"
)

// isMySQL says whether a URL is one of MySQL or MariaDB. One that is neither theirs nor Kafka's is PostgreSQL's.
func isMySQL(url string) bool {
	return strings.HasPrefix(url, "mysql://") || strings.HasPrefix(url, "mariadb://")
}

// loadTLS returns what says how to encrypt a new connection to MySQL or MariaDB; nil if target.tls is off.
func (c *targetConfig) loadTLS() (mysql.TLS, error) {
	t, err := c.TLS.load()
	if err != nil {
		return nil, fmt.Errorf("target.tls: %w", err)
	}
	return t, nil
}

// adviceSSLMode is what to do about a postgres:// URL that leaves TLS to the server.
const adviceSSLMode = "set sslmode in target.url to verify-full, or to disable if nobody else can read or write what goes between here and the server"

// openSink connects to the target.
func openSink(ctx context.Context, c *config, log *slog.Logger) (txnsink.Sink, error) {
	if isKafka(c.Target.URL) {
		s, err := openKafka(ctx, c, log)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	if isMySQL(c.Target.URL) {
		s, err := openMySQL(ctx, c, log)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := openPostgres(ctx, c, log)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// logTLS notes whether the connection to the target is encrypted, and warns where that was left to the server.
func logTLS(c *config, sink txnsink.Sink, log *slog.Logger) {
	encrypted := c.Target.TLS.On // with MySQL, MariaDB and Kafka the driver never goes on without
	if s, ok := sink.(*postgres.Sink); ok {
		encrypted = s.TLS() != ""
		if !postgres.SaysTLS(c.Target.URL) {
			log.Warn("target.url leaves it to the server whether the connection is encrypted", "pipeline", c.Pipeline, "encrypted", encrypted, "do", adviceSSLMode)
			return
		}
	}
	log.Info("connected to the target", "pipeline", c.Pipeline, "encrypted", encrypted)
}

func openPostgres(ctx context.Context, c *config, log *slog.Logger) (*postgres.Sink, error) {
	return postgres.Open(ctx, postgres.Config{URL: c.Target.URL, Pipeline: c.Pipeline, Log: log})
}

func openMySQL(ctx context.Context, c *config, log *slog.Logger) (*mysql.Sink, error) {
	t, err := c.Target.loadTLS()
	if err != nil {
		return nil, err
	}
	return mysql.Open(ctx, mysql.Config{URL: c.Target.URL, TLS: t, Pipeline: c.Pipeline, OnePhase: c.Delivery != checkpoint.TwoPhase, Log: log})
}

// mustPrepare says why the target cannot prepare transactions, if it cannot.
func mustPrepare(ctx context.Context, sink txnsink.Sink, workers int, log *slog.Logger) error {
	err := canPrepare(ctx, sink, workers, log)
	if txnsink.Permanent(err) {
		return fmt.Errorf("two_phase_unavailable: %w", err)
	}
	return err
}

func canPrepare(ctx context.Context, sink txnsink.Sink, workers int, log *slog.Logger) error {
	switch s := sink.(type) {
	case *postgres.Sink:
		two, err := s.CheckTwoPhase(ctx)
		if err != nil {
			return err
		}
		return two.Enough(workers)
	case *mysql.Sink:
		two, err := s.CheckTwoPhase(ctx)
		for _, w := range two.Warnings {
			log.Warn("the target's settings weaken two-phase commit", "setting", w)
		}
		return err
	}
	return nil
}
