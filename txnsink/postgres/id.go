package postgres

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"

	"replicator/txnsink"
)

const (
	// gidPrefix begins the name of each of our prepared transactions. Nothing without it is ever touched.
	gidPrefix = "replicator:"
	// maxGID is PostgreSQL's limit on a prepared transaction's name (GIDSIZE - 1).
	maxGID = 199
	// maxPipeline is what the limit leaves for the pipeline's name.
	maxPipeline = maxGID - len(gidPrefix) - len(":9223372036854775807:9223372036854775807:2147483647")
	// maxApplicationName is PostgreSQL's limit on application_name (NAMEDATALEN - 1); it cuts longer ones off.
	maxApplicationName = 63
)

var pipelineName = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)

// checkPipeline says whether a pipeline may be called name.
func checkPipeline(name string) error {
	if !pipelineName.MatchString(name) {
		return permanent("the pipeline's name %q must consist of letters, digits, '_', '.', '-' and '+': it becomes a part of prepared transactions' names", name)
	}
	if len(name) > maxPipeline {
		return permanent("the pipeline's name has %d bytes; PostgreSQL's limit on the names of prepared transactions leaves %d", len(name), maxPipeline)
	}
	return nil
}

// gid returns the name of the prepared transaction.
func gid(id txnsink.ID) string { return gidPrefix + id.String() }

// ParseID returns the ID that a prepared transaction's name stands for. ok is false for a name that this program does not give.
func ParseID(name string) (id txnsink.ID, ok bool) {
	rest, ok := strings.CutPrefix(name, gidPrefix)
	if !ok {
		return txnsink.ID{}, false
	}
	part := strings.Split(rest, ":")
	if len(part) != 4 || !pipelineName.MatchString(part[0]) {
		return txnsink.ID{}, false
	}
	epoch, err1 := strconv.ParseInt(part[1], 10, 64)
	checkpoint, err2 := strconv.ParseInt(part[2], 10, 64)
	worker, err3 := strconv.ParseInt(part[3], 10, 32)
	id = txnsink.ID{Pipeline: part[0], Epoch: epoch, Checkpoint: checkpoint, Worker: int(worker)}
	if err1 != nil || err2 != nil || err3 != nil || epoch < 0 || checkpoint < 0 || worker < 0 || gid(id) != name {
		return txnsink.ID{}, false
	}
	return id, true
}

// literal returns s as a string constant: the statements that take a gid take no parameters. It is right under
// standard_conforming_strings, which every session turns on.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// applicationName names the sessions of a pipeline that are not a worker's.
func applicationName(pipeline string) string {
	return shorten("replicator:", pipeline, "")
}

// workerName names the session of a worker in an epoch.
func workerName(pipeline string, epoch int64, worker int) string {
	return workerPrefix(pipeline) + fmt.Sprintf("%d:%d", epoch, worker)
}

// workerPrefix begins the names of all workers' sessions of a pipeline.
func workerPrefix(pipeline string) string {
	return shorten("replicator:", pipeline, ":") // what follows fits, see shorten
}

// epochOf returns the epoch in a worker's session name of a pipeline.
func epochOf(pipeline, name string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, workerPrefix(pipeline))
	if !ok {
		return 0, false
	}
	epoch, worker, ok := strings.Cut(rest, ":")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return 0, false
	}
	if _, err := strconv.ParseInt(worker, 10, 32); err != nil {
		return 0, false
	}
	return n, true
}

// shorten returns prefix + pipeline + suffix with room for an epoch and a worker below maxApplicationName. The end of a name that is
// too long becomes a hash of the whole.
func shorten(prefix, pipeline, suffix string) string {
	const room = len("9223372036854775807:2147483647")
	limit := maxApplicationName - room - len(prefix) - len(suffix)
	if len(pipeline) <= limit {
		return prefix + pipeline + suffix
	}
	h := fnv.New32a()
	h.Write([]byte(pipeline)) // never fails
	tail := fmt.Sprintf("~%08x", h.Sum32())
	return prefix + pipeline[:limit-len(tail)] + tail + suffix
}
