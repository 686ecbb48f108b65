// Package postgres is PostgreSQL as a side of a comparison. Its sessions are read-only and in UTC.
package postgres
