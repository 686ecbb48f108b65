// Package mysql is MySQL or MariaDB as a side of a comparison. Its sessions are read-only and in UTC.
package mysql
