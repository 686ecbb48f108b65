package main

import (
	"context"
	"fmt"

	"replicator/txnsink/mysql"
	"replicator/txnsink/postgres"
)

// ownTables is who makes the replicator's own tables, and changes them for a later program.
type ownTables string

const (
	autoMigrate   ownTables = "auto"   // every command that needs them
	manualMigrate ownTables = "manual" // migrate up alone, as a role that may
)

// tablesVersion is how far the own tables of one place are, as --json prints it. Where the target is Kafka they are its topics, of
// which there is one version.
type tablesVersion struct {
	Current int `json:"current"` // 0: there are none
	Latest  int `json:"latest"`  // what this program needs
}

// versionError stops a command that may not bring the own tables to the version that it needs.
type versionError struct {
	tablesVersion
	url string // the place's
}

func (e *versionError) Permanent() bool { return true }

func (e *versionError) Error() string {
	own := "the replicator's own tables"
	if isKafka(e.url) {
		own = "the target's topics"
	}
	switch {
	case e.Current > e.Latest:
		return fmt.Sprintf("%s have version %d, and this program knows them up to %d: use the later program that made them", own, e.Current, e.Latest)
	case e.Current == 0:
		return fmt.Sprintf("%s are missing (this program needs version %d), and migrate is manual: %s", own, e.Latest, adviceMigrate)
	}
	return fmt.Sprintf("%s have version %d, this program needs version %d, and migrate is manual: %s", own, e.Current, e.Latest, adviceMigrate)
}

const adviceMigrate = "run `replicator migrate up --config FILE` as a role that may create and alter them"

// needOwnTables sees to the replicator's own tables in a database, or to the target's topics, before they are used: they are brought up to
// date, or with migrate: manual looked at.
func needOwnTables(ctx context.Context, c *config, url string) error {
	if c.Migrate == autoMigrate {
		return migrateUp(ctx, c, url)
	}
	v, err := lookAtVersion(ctx, c, url)
	switch {
	case err != nil || v.Current == v.Latest:
		return err
	case v.Current > v.Latest:
		return &versionError{v, url}
	}
	return &codedError{exitPreflight, &versionError{v, url}}
}

// migrateUp brings the replicator's own tables in a database up to date, or its own topic. A database of MySQL is reached as target.tls
// says, also where it is the checkpoint store's.
func migrateUp(ctx context.Context, c *config, url string) error {
	if isKafka(url) {
		return migrateKafka(ctx, c)
	}
	if !isMySQL(url) {
		return postgres.Up(ctx, url)
	}
	t, err := c.Target.loadTLS()
	if err != nil {
		return err
	}
	return mysql.Up(ctx, url, t)
}

// migrateDown brings the own tables of the target back to an earlier version.
func migrateDown(ctx context.Context, c *config, version int) error {
	if err := needsDatabase(c, "migrate down"); err != nil {
		return err
	}
	if !isMySQL(c.Target.URL) {
		return postgres.Down(ctx, c.Target.URL, version)
	}
	t, err := c.Target.loadTLS()
	if err != nil {
		return err
	}
	return mysql.Down(ctx, c.Target.URL, t, version)
}

// lookAtVersion says how far the own tables of a database are. It changes nothing.
func lookAtVersion(ctx context.Context, c *config, url string) (tablesVersion, error) {
	if isKafka(url) {
		return lookAtTopics(ctx, c)
	}
	if !isMySQL(url) {
		v, err := postgres.Status(ctx, url)
		return tablesVersion(v), err
	}
	t, err := c.Target.loadTLS()
	if err != nil {
		return tablesVersion{}, err
	}
	v, err := mysql.Status(ctx, url, t)
	return tablesVersion(v), err
}
