package kafka

import (
	"fmt"
	"regexp"
)

// slotsOfAWorker is how many transactional ids a worker has: one of its open transaction, and one of that in doubt.
const slotsOfAWorker = 2

// The last parts of the transactional ids that are no worker's.
const (
	leaderName = "leader"
	defineName = "define"
)

var pipelineName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,200}$`)

// transactionalID names a producer. The names are the whole cluster's: the topic tells targets of one pipeline's name apart.
func transactionalID(pipeline, topic, name string) string {
	return "replicator:" + pipeline + ":" + topic + ":" + name
}

// slotName is the last part of a worker's transactional id.
func slotName(worker, slot int) string { return fmt.Sprintf("%d.%d", worker, slot) }
