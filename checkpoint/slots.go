package checkpoint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"replicator/debezium"
)

// SlotOf returns the slot, of so many, that a partition belongs to. It never changes for as long as a cluster lasts. Successive
// partitions of a topic are in successive slots, and topics begin at different ones.
func SlotOf(p debezium.Partition, slots int) int {
	h := uint32(2166136261) // FNV-1a
	for _, c := range []byte(p.Topic) {
		h = (h ^ uint32(c)) * 16777619
	}
	return int((uint64(h) + uint64(uint32(p.ID))) % uint64(slots))
}

// slotName is the pipeline that a slot of a cluster is. A configured name has no '+'. The founding's number is in it because what
// an earlier cluster of the pipeline has left is not this one's.
func slotName(founding *Checkpoint, slot int) string {
	return fmt.Sprintf("%s+%d.%d", founding.Pipeline, founding.ID, slot)
}

// Share divides slots 0..slots-1 among members, each with those that it holds. Everyone keeps what it holds up to its share, and only
// what nobody holds is given away: a slot that is to move is left to nobody until its holder has let go of it.
func Share(slots int, held map[string][]int) map[string][]int {
	if len(held) == 0 {
		return nil
	}
	taken := make([]bool, slots)
	kept := make(map[string][]int, len(held))
	for _, member := range slices.Sorted(maps.Keys(held)) {
		kept[member] = []int{}
		for _, s := range slices.Sorted(slices.Values(held[member])) {
			if s >= 0 && s < slots && !taken[s] {
				taken[s] = true
				kept[member] = append(kept[member], s)
			}
		}
	}
	members := slices.SortedFunc(maps.Keys(held), func(a, b string) int { // those that hold more get what cannot be divided
		return cmp.Or(cmp.Compare(len(kept[b]), len(kept[a])), cmp.Compare(a, b))
	})
	share := make(map[string]int, len(members))
	for i, member := range members {
		share[member] = slots / len(members)
		if i < slots%len(members) {
			share[member]++
		}
		kept[member] = spaced(kept[member], share[member])
	}
	for s := range slots {
		if taken[s] {
			continue
		}
		least := slices.MinFunc(members, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(kept[a])-share[a], len(kept[b])-share[b]), cmp.Compare(a, b))
		})
		kept[least] = append(kept[least], s)
	}
	for _, list := range kept {
		slices.Sort(list)
	}
	return kept
}

// spaced returns at most n of list, evenly spaced: neighbouring slots have partitions of the same topics.
func spaced(list []int, n int) []int {
	if len(list) <= n {
		return list
	}
	out := make([]int, n)
	for i := range out {
		out[i] = list[i*len(list)/n]
	}
	return out
}
