package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"replicator/checkpoint"
	"replicator/schema"
	"replicator/sqlgen"
	targetmysql "replicator/txnsink/mysql"
	targetpg "replicator/txnsink/postgres"
	"replicator/verify"
	"replicator/verify/mysql"
	"replicator/verify/postgres"
)

// sides are the databases at both ends of a pipeline, and what reads them.
type sides struct {
	source, target verify.Side
	database       string // the source's, where its tables' names have schemas; empty: names are database.table
	postgres       bool   // both are PostgreSQL
	names          sqlgen.Dialect
	closers        []func() error
}

// openSides connects to verify.source and to the target, with at most sessions sessions each.
func openSides(ctx context.Context, c *config, sessions int) (_ *sides, err error) {
	if c.Verify.Source == "" {
		return nil, usage(errors.New("verify.source is not set: the source database, as in mysql://user:${MYSQL_PASSWORD}@host:3306/"))
	}
	if err := needsDatabase(c, "verify"); err != nil {
		return nil, usage(err)
	}
	s := &sides{postgres: isPostgres(c.Verify.Source) && isPostgres(c.Target.URL), names: sqlgen.Postgres{}}
	if !isPostgres(c.Target.URL) {
		s.names = sqlgen.MySQL{}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.source, err = s.open(ctx, c, c.Verify.Source, nil, sessions); err != nil {
		return nil, fmt.Errorf("open verify.source: %w", err)
	}
	if db, ok := s.source.(*postgres.DB); ok {
		s.database = db.Database()
	}
	t, err := c.Target.loadTLS()
	if err != nil {
		return nil, err
	}
	if s.target, err = s.open(ctx, c, c.Target.URL, t, sessions); err != nil {
		return nil, fmt.Errorf("open target.url: %w", err)
	}
	return s, nil
}

func isPostgres(url string) bool { return strings.HasPrefix(url, "postgres") }

func (s *sides) open(ctx context.Context, c *config, url string, t func() (*tls.Config, error), sessions int) (verify.Side, error) {
	if isPostgres(url) {
		db, err := postgres.Open(ctx, url, sessions)
		if err != nil {
			return nil, targetpg.Plain(err)
		}
		s.closers = append(s.closers, db.Close)
		return db, nil
	}
	db, err := mysql.Open(ctx, mysql.Config{URL: url, TLS: t, Sessions: sessions, Nul: c.Schema.Types.Nul})
	if err != nil {
		return nil, targetmysql.Plain(err)
	}
	s.closers = append(s.closers, db.Close)
	return db, nil
}

func (s *sides) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// notInTopic are the characters that Debezium replaces in the names of topics.
var notInTopic = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// topicSuffix is what the name of a table's topic ends in, as Debezium calls topics.
func topicSuffix(name schema.Name) string {
	return "." + notInTopic.ReplaceAllString(name.String(), "_")
}

// replicated is what a pipeline keeps in step: tables, and the topic of each.
type replicated struct {
	pairs  []verify.Pair
	topics []string
}

// pairs finds the tables of the source that the pipeline replicates, and where to: those that have a topic, which ends in their name.
func (a *app) pairs(ctx context.Context, c *config, s *sides, wants func(string) bool) (out replicated, err error) {
	kafka, err := openSource(c, nil)
	if err != nil {
		return out, err
	}
	topics, err := kafka.Describe(ctx)
	if err != nil {
		return out, fmt.Errorf("list the topics: %w", err)
	}
	tables, err := s.source.Tables(ctx)
	if err != nil {
		return out, fmt.Errorf("list the source's tables: %w", err)
	}
	places := tablePlaces(c)
	found := map[string]bool{}
	for _, name := range tables {
		suffix := topicSuffix(name)
		for _, topic := range topics {
			if !strings.HasSuffix(topic.Name, suffix) {
				continue
			}
			found[topic.Name] = true
			place := s.place(&places, topic.Name, name)
			if place.Skip || !wants(name.String()) {
				break
			}
			p, err := s.pair(ctx, name, place)
			if err != nil {
				return out, err
			}
			out.pairs, out.topics = append(out.pairs, p), append(out.topics, topic.Name)
			break
		}
	}
	for _, topic := range topics {
		if !found[topic.Name] {
			fmt.Fprintf(a.stderr, "replicator: topic %s: no table of the source has this name, and it is left out\n", topic.Name)
		}
	}
	if len(out.pairs) == 0 {
		return out, fmt.Errorf("none of the source's %d tables has a topic that source.topics matches and is asked for", len(tables))
	}
	return out, nil
}

func tablePlaces(c *config) checkpoint.TablesConfig {
	return checkpoint.TablesConfig{Template: c.Target.Table, Rules: tableRules(c)}
}

func (s *sides) place(c *checkpoint.TablesConfig, topic string, name schema.Name) checkpoint.Place {
	if s.database != "" {
		return c.Place(s.names, topic, s.database, name.Schema, name.Table)
	}
	return c.Place(s.names, topic, name.Schema, "", name.Table)
}

// pair reads the catalogs. A target's table that is not there has a name and no columns.
func (s *sides) pair(ctx context.Context, name schema.Name, place checkpoint.Place) (verify.Pair, error) {
	source, err := verify.Find(ctx, s.source, name)
	if err != nil {
		return verify.Pair{}, err
	}
	p := verify.Pair{Source: source, Target: schema.Table{Name: place.Target}, Rules: place.Rules}
	target, err := s.target.Table(ctx, place.Target)
	if target != nil {
		p.Target = *target
	}
	return p, err
}
