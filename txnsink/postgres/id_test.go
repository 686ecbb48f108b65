package postgres

import (
	"math"
	"strings"
	"testing"

	"replicator/txnsink"
)

func TestNamesOfPreparedTransactionsComeBack(t *testing.T) {
	t.Parallel()
	for _, id := range []txnsink.ID{
		{Pipeline: "shop", Epoch: 1, Checkpoint: 2, Worker: 3},
		{Pipeline: strings.Repeat("p", maxPipeline), Epoch: math.MaxInt64, Checkpoint: math.MaxInt64, Worker: math.MaxInt32},
		{Pipeline: "A.b_c-9"},
	} {
		if err := checkPipeline(id.Pipeline); err != nil {
			t.Error(err)
		}
		got, ok := ParseID(gid(id))
		if !ok || got != id || len(gid(id)) > maxGID {
			t.Errorf("%s: got %v, %v", gid(id), got, ok)
		}
	}
}

func TestForeignNamesAreNotParsed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "replicator:", "replicator:p:1:2", "replicator:p:1:2:3:4", "replicator::1:2:3", "Replicator:p:1:2:3", "replicator:p:01:2:3",
		"replicator:p:+1:2:3", "replicator:p:-1:2:3", "replicator:p:1:2:4294967296", "replicator:p:1:9223372036854775808:3", "replicator:p q:1:2:3",
		"replicator:p:1:2:3 ", "replicator:probe:p:77", "xreplicator:p:1:2:3",
	} {
		if id, ok := ParseID(name); ok {
			t.Errorf("%q was taken for %v", name, id)
		}
	}
}

func TestPipelineNamesAreLimited(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a:b", "a b", "a'b", "ä", "a/b", strings.Repeat("p", maxPipeline+1)} {
		if err := checkPipeline(name); err == nil || !txnsink.Permanent(err) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestWorkerSessionsTellTheirEpoch(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("p", maxPipeline)
	for _, pipeline := range []string{"p", long, long[1:]} {
		name := workerName(pipeline, math.MaxInt64, math.MaxInt32)
		if len(name) > maxApplicationName || len(applicationName(pipeline)) > maxApplicationName {
			t.Errorf("%q is cut off by the server", name)
		}
		if epoch, ok := epochOf(pipeline, name); !ok || epoch != math.MaxInt64 {
			t.Errorf("%q: got epoch %d, %v", name, epoch, ok)
		}
		for _, other := range []string{workerName(pipeline+"x", 1, 0), workerName("x"+pipeline, 1, 0), applicationName(pipeline), "replicator:p", "replicator:p:x:1"} {
			if epoch, ok := epochOf(pipeline, other); ok {
				t.Errorf("%q was taken for a session of %q in epoch %d", other, pipeline, epoch)
			}
		}
	}
}

// FuzzParseID: whatever is prepared on the server, a name is either one that this program gives, to the letter, or not ours.
func FuzzParseID(f *testing.F) {
	for _, name := range []string{"replicator:shop:1:2:0", "replicator:A.b_c-9:0:9223372036854775807:2147483647", "replicator:p:01:2:3", "replicator:probe:p:77", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, ok := ParseID(name)
		if !ok {
			return
		}
		if gid(id) != name || checkPipeline(id.Pipeline) != nil && len(name) <= maxGID && len(id.Pipeline) <= maxPipeline {
			t.Errorf("%q was taken for %v", name, id)
		}
	})
}
