// Package migrations holds the definitions of the replicator's own tables, a folder for each kind of database in
// golang-migrate's layout, and applies them. What a database needs for that is its sink's: a driver of golang-migrate's on one
// connection.
package migrations

import "embed"

// files holds the folders postgres and mysql.
//
//go:embed postgres/*.sql mysql/*.sql
var files embed.FS
