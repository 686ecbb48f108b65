package ops

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// described is the part of OpenAPI 3.1 that openapi.json uses.
type described struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]*jsonSchema }
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct{ Schema *jsonSchema }
	}
}

type jsonSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Required   []string
	Properties map[string]*jsonSchema
	Items      *jsonSchema
	Enum       []string
}

// check returns what v has that the schema does not describe, and the other way round.
func (d *described) check(s *jsonSchema, v any, path string) (wrong []string) {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		if s = d.Components.Schemas[name]; s == nil {
			return []string{path + ": no schema " + name}
		}
	}
	kind := "null"
	switch v := v.(type) {
	case map[string]any:
		kind = "object"
		for _, name := range s.Required {
			if _, has := v[name]; !has {
				wrong = append(wrong, path+"."+name+" is missing")
			}
		}
		for name, value := range v {
			if p := s.Properties[name]; p != nil {
				wrong = append(wrong, d.check(p, value, path+"."+name)...)
			} else {
				wrong = append(wrong, path+"."+name+" is not described")
			}
		}
	case []any:
		kind = "array"
		for i, value := range v {
			wrong = append(wrong, d.check(s.Items, value, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case string:
		kind = "string"
		if s.Enum != nil && !slices.Contains(s.Enum, v) {
			wrong = append(wrong, fmt.Sprintf("%s is %q", path, v))
		}
	case bool:
		kind = "boolean"
	case json.Number:
		kind = "number"
		if !strings.ContainsAny(v.String(), ".eE") && !strings.Contains(fmt.Sprint(s.Type), "number") {
			kind = "integer"
		}
	}
	if !slices.Contains(strings.Fields(strings.Trim(fmt.Sprint(s.Type), "[]")), kind) {
		wrong = append(wrong, fmt.Sprintf("%s is %s, not %v", path, kind, s.Type))
	}
	return wrong
}

// TestAnswersAreAsOpenAPIDescribesThem asks for every path that the document has, in every state that changes the answer.
func TestAnswersAreAsOpenAPIDescribesThem(t *testing.T) {
	t.Parallel()
	fresh := New(Config{Pipeline: "p", Delivery: "two-phase"})
	_, text := request(t, fresh, "GET", "/api/openapi.json", "")
	var doc described
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	running, doubtful, waiting, whole := aPipeline(), aPipeline(), aPipeline(), New(Config{Delivery: "two-phase", Preserve: true})
	doubtful.observe(doubt())
	waiting.failed(errTest, "the target went away")
	asked := map[string]bool{}
	for name, s := range map[string]*Server{"fresh": fresh, "running": running, "in doubt": doubtful, "waiting": waiting, "whole transactions": whole} {
		for path, operations := range doc.Paths {
			for method, o := range operations {
				if path == "/api/events" || path == "/api/savepoint" {
					continue // a stream of what other paths answer; and TestSavepointNeedsTheToken
				}
				r := httptest.NewRequestWithContext(t.Context(), strings.ToUpper(method), path, nil)
				r.Header.Set("Authorization", "Bearer sesame")
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				answer, ok := o.Responses[strconv.Itoa(w.Code)]
				if !ok {
					t.Errorf("%s: %s answers %d, which is not described", name, path, w.Code)
					continue
				}
				d := json.NewDecoder(w.Body)
				d.UseNumber()
				var v any
				if err := d.Decode(&v); err != nil {
					t.Errorf("%s: %s: %v", name, path, err)
					continue
				}
				for _, wrong := range doc.check(answer.Content["application/json"].Schema, v, "") {
					t.Errorf("%s: %s%s", name, path, wrong)
				}
				asked[path] = true
			}
		}
	}
	want := []string{"/api/config", "/api/history", "/api/pause", "/api/resume", "/api/status", "/healthz", "/readyz"}
	if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
}

func TestPageLoadsNothingFromElsewhereAndHasNothingInline(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/app.js": "text/javascript; charset=utf-8", "/draw.js": "text/javascript; charset=utf-8",
		"/style.css": "text/css; charset=utf-8", "/icon.svg": "image/svg+xml", "/api/openapi.json": "application/json",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind {
			t.Errorf("%s: got %d %s, want 200 %s", path, w.Code, w.Header().Get("Content-Type"), kind)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != policy || strings.Contains(got, "unsafe") {
			t.Errorf("%s: Content-Security-Policy %q", path, got)
		}
		for _, bad := range []string{" style=\"", "<style", "onclick", "src=\"http", "href=\"http", "@import", "url("} {
			if path != "/api/openapi.json" && strings.Contains(w.Body.String(), bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
	if code, _ := request(t, s, "GET", "/debug/pprof/", ""); code != http.StatusNotFound {
		t.Errorf("profiles without http.pprof: got %d", code)
	}
	if code, _ := request(t, New(Config{Pprof: true}), "GET", "/debug/pprof/", ""); code != http.StatusOK {
		t.Errorf("profiles: got %d", code)
	}
}
