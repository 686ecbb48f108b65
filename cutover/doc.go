// Package cutover plans the last mile of a migration: what a target of PostgreSQL still lacks when the application's writes are to go
// to it instead of to the source.
//
// Rows that are replicated bring their own values along, and have been checked where they come from. Rows that the application
// inserts need what the source had for them: a next value for each identity column, past every one that was used; the indexes; the
// foreign keys. [Plan] compares the two catalogs and says what is missing, as statements that block no reader and no writer for long:
// indexes are made concurrently, and constraints are added unchecked and checked afterwards. A plan of a target that lacks nothing is
// empty, and so a cutover may be repeated after any failure.
package cutover
