// Package migrations holds the definitions of the replicator's own tables, a folder for each kind of database, in
// golang-migrate's layout. The sinks apply them.
package migrations

import "embed"

// Files holds the folders postgres and mysql.
//
//go:embed postgres/*.sql mysql/*.sql
var Files embed.FS
