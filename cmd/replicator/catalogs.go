package main

import (
	"context"
	"fmt"

	"replicator/cutover"
	"replicator/verify"
	"replicator/verify/mysql"
	"replicator/verify/postgres"
)

// catalogs reads the tables of both ends anew, with their indexes and foreign keys. A table that the target does not have yet
// has no rows, and is left out.
func (t *cutting) catalogs(ctx context.Context, pairs []verify.Pair) ([]cutover.Table, error) {
	target, ok := t.sides.target.(*postgres.DB)
	if !ok {
		return nil, fmt.Errorf("the target is a %T, and a cutover needs PostgreSQL", t.sides.target)
	}
	var out []cutover.Table
	for _, p := range pairs {
		if p.Target.Columns == nil {
			continue
		}
		fresh, err := verify.Find(ctx, target, p.Target.Name)
		if err != nil {
			return nil, err
		}
		c := cutover.Table{Source: p.Source, Target: fresh, Rules: p.Rules}
		if c.Target.Indexes, c.Broken, err = target.Indexes(ctx, fresh.Name); err != nil {
			return nil, err
		}
		keys, checked, err := target.ForeignKeys(ctx, fresh.Name)
		if err != nil {
			return nil, err
		}
		for i := range keys {
			c.TargetKeys = append(c.TargetKeys, cutover.TargetKey{ForeignKey: keys[i], Valid: checked[i]})
		}
		if err := t.ofSource(ctx, &c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// ofSource reads what only a cutover asks of a source's table.
func (t *cutting) ofSource(ctx context.Context, c *cutover.Table) (err error) {
	name := c.Source.Name
	switch db := t.sides.source.(type) {
	case *mysql.DB:
		if c.Source.Indexes, err = db.Indexes(ctx, name); err != nil {
			return err
		}
		if c.Computed, err = db.Computed(ctx, name); err != nil {
			return err
		}
		c.SourceKeys, err = db.ForeignKeys(ctx, name)
	case *postgres.DB:
		c.Postgres = true
		if c.Source.Indexes, _, err = db.Indexes(ctx, name); err != nil {
			return err
		}
		c.SourceKeys, _, err = db.ForeignKeys(ctx, name)
	}
	return err
}
