package main

import (
	"context"
	"fmt"

	"replicator/cutover"
	"replicator/schema"
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
		if c.Source.Indexes, c.SourceKeys, err = t.sourceKeys(ctx, p.Source.Name); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (t *cutting) sourceKeys(ctx context.Context, name schema.Name) ([]schema.Index, []schema.ForeignKey, error) {
	var indexes []schema.Index
	var keys []schema.ForeignKey
	var err error
	switch db := t.sides.source.(type) {
	case *mysql.DB:
		if indexes, err = db.Indexes(ctx, name); err != nil {
			return nil, nil, err
		}
		keys, err = db.ForeignKeys(ctx, name)
	case *postgres.DB:
		if indexes, _, err = db.Indexes(ctx, name); err != nil {
			return nil, nil, err
		}
		keys, _, err = db.ForeignKeys(ctx, name)
	}
	return indexes, keys, err
}
