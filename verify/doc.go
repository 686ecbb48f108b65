// Package verify compares the rows of a source with those of a target, without the change events in between.
//
// # How
//
// Both databases compute the same number for the same rows: each column is written as a text that both write alike (see [Form]),
// the texts of a row are hashed, and the hashes of a range of keys are counted and summed, which needs no order. A range whose
// count or sum differs is divided by a hash of the key, within the same range, until few rows are left; only those are fetched, and
// compared column by column.
//
// A text may be stricter than equality and never looser: two documents that are equal may be written differently by two
// servers. Such rows are fetched for nothing, and found equal here. So a sum that is equal settles a range, and one that differs
// only says where to look.
//
// Ranges need an order that both databases share, and that is one of integers: collations differ, even where they have the same
// name. A key that begins with a column of another type, and a table without a key, are read whole by one statement on each side.
//
// # While the pipeline runs
//
// The two sides are looked at without a common moment, so a row that was just changed differs. A row is reported only if it
// differs in two looks that are [Config.Lag] apart, and if the source's row was the same in both. One that was equal in any look is
// equal: its later changes are the pipeline's business.
//
// The sessions are read-only, at most [Config.Parallel] on each side, and read at most [Config.Rate] rows per second.
package verify
