// Package sinktest holds what every sink must do, as a test suite, and a sink that needs no server.
//
// [Run] is the conformance suite: each implementation of txnsink.Sink passes it. [Faulty] has what those of databases must do beside
// when a connection breaks, which each breaks in its own way. [Memory] is a database in memory that
// passes it too, and so stands for the real ones where the protocol is tried at every crash point: it takes no time,
// starts no goroutine, and waits for nothing (where a server would wait for a lock, Memory answers txnsink.ErrBusy).
package sinktest
