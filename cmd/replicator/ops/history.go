package ops

import (
	"context"
	"time"
)

// The history is one hour of samples.
const (
	sampleEvery = 5 * time.Second
	samples     = int(time.Hour / sampleEvery)
)

// Sample is one point of the history.
type Sample struct {
	At         time.Time `json:"at"`
	Rate       float64   `json:"rate"` // committed rows a second since the sample before
	Lag        int64     `json:"lag"`
	LagSeconds float64   `json:"lag_seconds"`
}

// history is a ring of samples.
type history struct {
	ring []Sample
	next int   // where the next one goes, once the ring is full
	rows int64 // at the last sample
}

func (h *history) add(s Sample) {
	if len(h.ring) < samples {
		h.ring = append(h.ring, s)
		return
	}
	h.ring[h.next] = s
	h.next = (h.next + 1) % samples
}

// list returns the samples, oldest first.
func (h *history) list() []Sample {
	return append(append(make([]Sample, 0, len(h.ring)), h.ring[h.next:]...), h.ring[:h.next]...)
}

// last returns the newest sample.
func (h *history) last() Sample {
	if len(h.ring) == 0 {
		return Sample{}
	}
	return h.ring[(h.next+len(h.ring)-1)%len(h.ring)]
}

// sample takes one.
func (s *Server) sample(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.history
	before := s.started
	if len(h.ring) > 0 {
		before = h.last().At
	}
	passed := now.Sub(before).Seconds()
	if passed <= 0 {
		return
	}
	h.add(Sample{At: now.UTC(), Rate: float64(s.rows-h.rows) / passed, Lag: s.lagEvents(), LagSeconds: s.lagTime(now).Seconds()})
	h.rows = s.rows
}

// sampleUntil takes samples until ctx is done.
func (s *Server) sampleUntil(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.sample(now)
		}
	}
}

// History returns the last hour, oldest first.
func (s *Server) History() []Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.list()
}
