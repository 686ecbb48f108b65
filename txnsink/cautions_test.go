package txnsink

import (
	"slices"
	"testing"
)

func TestAStatementThatIsRefusedAgainAndAgainIsTriedEverMoreRarely(t *testing.T) {
	t.Parallel()
	var c Cautions
	var tried []int
	for i := range 20 {
		if c.worth("COPY t") {
			tried = append(tried, i)
			c.Tried("COPY t", false)
		}
	}
	if want := []int{0, 2, 5, 10, 19}; !slices.Equal(tried, want) {
		t.Errorf("got %v, want %v", tried, want)
	}
	c.Tried("COPY t", true)
	if !c.worth("COPY t") {
		t.Error("not tried after it went well")
	}
}
