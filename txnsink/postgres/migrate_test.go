package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/txnsink"
)

// ownRows are what the own tables of every version hold, without what depends on when.
const ownRows = `SELECT 'pipeline ' || pipeline || ' ' || epoch FROM replicator.pipelines
UNION ALL SELECT 'checkpoint ' || id || ' ' || savepoint || ' ' || document FROM replicator.checkpoints
UNION ALL SELECT 'witness ' || worker || ' ' || epoch || ' ' || checkpoint || ' ' || written FROM replicator.witness ORDER BY 1`

// TestOwnTablesGoDownAndUpWithTheirRows: to each version and back, nothing of them is lost.
func TestOwnTablesGoDownAndUpWithTheirRows(t *testing.T) {
	t.Parallel()
	u := newDatabase(t)
	query(t, u, `INSERT INTO replicator.pipelines VALUES ('p', 7);
INSERT INTO replicator.checkpoints VALUES ('p', 11, 6, now(), true, '{"version":1}'), ('p', 12, 7, now(), false, '{"version":1}');
INSERT INTO replicator.witness VALUES ('p', 0, 7, 12, 7, now(), NULL), ('p', 1, 7, 12, 7, now(), 'in a checkpoint');
INSERT INTO replicator.schema_version VALUES ('p', 'd.t', 's', 't', '{"at":1}')`)
	latest, err := Status(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	rows, versions := query(t, u, ownRows), query(t, u, "SELECT pipeline, source, target_table, state::text FROM replicator.schema_version")
	for version := latest.Latest; version > 0; version-- {
		if err := Down(t.Context(), u, version); err != nil {
			t.Fatal(err)
		}
		if at, err := Status(t.Context(), u); err != nil || at.Current != version {
			t.Errorf("at %+v, %v; want version %d", at, err, version)
		}
		if got := query(t, u, ownRows); !slices.Equal(got, rows) {
			t.Errorf("at version %d: got %v, want %v", version, got, rows)
		}
		if err := Up(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		got := slices.Concat(query(t, u, ownRows), query(t, u, "SELECT pipeline, source, target_table, state::text FROM replicator.schema_version"))
		if want := slices.Concat(rows, versions); !slices.Equal(got, want) {
			t.Errorf("up again from version %d: got %v, want %v", version, got, want)
		}
	}
	for _, version := range []int{0, -1, latest.Latest + 1} {
		if err := Down(t.Context(), u, version); !txnsink.Permanent(err) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// TestOwnTablesDoNotGoDownWithWhatOlderOnesCannotSay: positions that are nowhere else, and records that were set aside.
func TestOwnTablesDoNotGoDownWithWhatOlderOnesCannotSay(t *testing.T) {
	t.Parallel()
	for insert, c := range map[string]struct {
		least int    // the version that they stay at
		words string // what to do
	}{
		"INSERT INTO replicator.dead_letters VALUES ('p', 't', 0, 0, 'd.t', '1', 'c', 'c', NULL, NULL, '[]')": {4, "dead-letters retry"},
		"INSERT INTO replicator.log VALUES ('p', 1, 1, 0, 0, '', '')":                                         {2, "write-ahead"},
		"INSERT INTO replicator.witness VALUES ('p', 0, 1, 1, 1, now(), 'positions')":                         {2, "one-phase"},
	} {
		t.Run(c.words, func(t *testing.T) {
			t.Parallel()
			u := newDatabase(t)
			query(t, u, insert)
			if err := Down(t.Context(), u, 1); err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %q", err, c.words)
			}
			if at, err := Status(t.Context(), u); err != nil || at.Current != c.least {
				t.Errorf("at %+v, %v; want version %d", at, err, c.least)
			}
			if err := Up(t.Context(), u); err != nil {
				t.Error(err)
			}
			table := strings.Fields(insert)[2]
			if got := query(t, u, "SELECT count(*)::text FROM "+table); fmt.Sprint(got) != "[1]" {
				t.Errorf("%s has %v rows", table, got)
			}
		})
	}
}
