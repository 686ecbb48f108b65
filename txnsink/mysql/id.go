package mysql

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"

	"replicator/txnsink"
)

const (
	// gtridPrefix begins the name of each of our prepared transactions. Nothing without it is ever touched.
	gtridPrefix = "replicator:"
	// maxPart is the servers' limit on gtrid and bqual.
	maxPart = 64
	// maxPipeline is what the limit leaves for the pipeline's name.
	maxPipeline = maxPart - len(gtridPrefix)
	// probeGtrid is that of the preflight's own transaction: no pipeline's, as it lacks the prefix.
	probeGtrid = "replicator-probe"
)

var pipelineName = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)

// checkPipeline says whether a pipeline may be called name.
func checkPipeline(name string) error {
	if !pipelineName.MatchString(name) {
		return permanent("the pipeline's name %q must consist of letters, digits, '_', '.', '-' and '+': it becomes a part of prepared transactions' names", name)
	}
	if len(name) > maxPipeline {
		return permanent("the pipeline's name has %d bytes; the limit of MySQL and MariaDB on the names of prepared transactions leaves %d", len(name), maxPipeline)
	}
	return nil
}

// hash returns 8 hexadecimal digits for a text.
func hash(s string) string {
	h := fnv.New32a()
	h.Write([]byte(s)) // never fails
	return fmt.Sprintf("%08x", h.Sum32())
}

// databaseHash stands for a database in names that are the whole server's. Where a server ignores the case of names, a URL may
// spell one in several ways.
func databaseHash(database string) string { return hash(strings.ToLower(database)) }

// xid is the name of an XA transaction with format 1.
type xid struct{ gtrid, bqual string }

// xidOf returns the name of the prepared transaction in the database with that hash.
func xidOf(id txnsink.ID, database string) xid {
	return xid{gtridPrefix + id.Pipeline, fmt.Sprintf(":%d:%d:%d@%s", id.Epoch, id.Checkpoint, id.Worker, database)}
}

// String returns x as the statements take it. In hexadecimal it is right under any sql_mode and character set.
func (x xid) String() string { return fmt.Sprintf("X'%x',X'%x'", x.gtrid, x.bqual) }

// id returns what a prepared transaction's name stands for. ok is false for a name that this program does not give in the
// database with that hash.
func (x xid) id(database string) (id txnsink.ID, ok bool) {
	pipeline, ok := strings.CutPrefix(x.gtrid, gtridPrefix)
	if !ok || !pipelineName.MatchString(pipeline) {
		return txnsink.ID{}, false
	}
	numbers, _, _ := strings.Cut(x.bqual, "@")
	part := strings.Split(numbers, ":")
	if len(part) != 4 {
		return txnsink.ID{}, false
	}
	epoch, err1 := strconv.ParseInt(part[1], 10, 64)
	checkpoint, err2 := strconv.ParseInt(part[2], 10, 64)
	worker, err3 := strconv.ParseInt(part[3], 10, 32)
	id = txnsink.ID{Pipeline: pipeline, Epoch: epoch, Checkpoint: checkpoint, Worker: int(worker)}
	if err1 != nil || err2 != nil || err3 != nil || epoch < 0 || checkpoint < 0 || worker < 0 || xidOf(id, database) != x {
		return txnsink.ID{}, false
	}
	return id, true
}

// A worker has at most two sessions: of its open transaction, and of the one in doubt.
const sessionsOfAWorker = 2

// lockName is the lock of GET_LOCK that a worker's session holds, within the 64 characters that MySQL allows. Each of the worker's
// sessions has another one.
func lockName(database, pipeline string, worker, session int) string {
	return fmt.Sprintf("%s%s%s:%d:%d", gtridPrefix, database, hash(pipeline), worker, session)
}
