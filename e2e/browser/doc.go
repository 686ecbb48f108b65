// Package browser tests the status page in a real Chromium, on a real pipeline: a PostgreSQL server, a Kafka broker and the replicator's
// binary, which is killed on the way. Its tests have the build tag browser; CHROMIUM names the program, BROWSER_SHOTS the directory for
// screenshots.
package browser
