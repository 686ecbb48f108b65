package ops

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Bounds of /api/events.
const (
	maxStreams  = 32
	streamEvery = time.Second
	streamWrite = 10 * time.Second // that a reader may take for one event
)

// stream sends the history, then the status again and again and each new sample. It is the format of the HTML standard's section 9.2.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		s.reply(w, http.StatusServiceUnavailable, failed{fmt.Sprintf("%d pages are open already", maxStreams)})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	send := func(name string, v any) error {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text); err != nil {
			return err
		}
		return control.Flush()
	}
	sent := s.History()
	err := send("history", sent)
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for err == nil {
		if err = send("status", s.Status()); err != nil {
			break
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		sample := s.history.last()
		s.mu.Unlock()
		if len(sent) == 0 && !sample.At.IsZero() || len(sent) > 0 && sample.At.After(sent[len(sent)-1].At) {
			sent = []Sample{sample}
			err = send("sample", sample)
		}
	}
	s.config.Log.Debug("a reader of /api/events is gone", "error", err)
}
