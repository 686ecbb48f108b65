package checkpoint

import "replicator/debezium"

// end says that partition p is read up to an offset and no further.
func (r *router) end(p debezium.Partition, offset int64) {
	r.limits[p] = offset
	r.ends[p] = min(r.ends[p], offset)
}

// limit cuts off what a batch holds beyond the end of the run.
func (r *router) limit(j *job) {
	b := &j.batch
	at, ends := r.limits[b.Partition]
	if !ends && !r.UntilTime.IsZero() {
		until := r.UntilTime.UnixMilli()
		for i := range j.events {
			if e := &j.events[i]; e.Op.Row() && e.Source.TsMs > until {
				at, ends = e.Offset, true
				r.end(b.Partition, at)
				break
			}
		}
	}
	if !ends && r.Until != nil {
		at, ends = r.positions[b.Partition].Offset, true // a partition that is newer than Until
	}
	if !ends || b.Next <= at {
		return
	}
	n := 0
	for n < len(j.events) && j.events[n].Offset < at {
		n++
	}
	j.events = j.events[:n]
	b.Next = at
}

// answer tells those who asked for a savepoint that it is complete.
func (r *router) answer(c Checkpoint) {
	for _, to := range r.promised {
		select {
		case to <- c:
		default: // nobody waits for it
		}
	}
	r.promised = nil
}
