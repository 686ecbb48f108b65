package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// caseRegistry serves a case's schemas as Confluent's registry does, and asks for a user.
func caseRegistry(t *testing.T, c *caseFile) http.Handler {
	t.Helper()
	schemas := map[string]string{}
	for id, node := range c.Registry {
		schemas[fmt.Sprintf("/schemas/ids/%d", id)] = string(jsonBytes(t, &node))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		schema, known := schemas[r.URL.Path]
		var answer any = map[string]string{"schema": schema}
		switch {
		case user != "reader" || password != "s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		case !known:
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"error_code": 40403, "message": "Schema not found"}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	})
}

func newAvroRun(t *testing.T) *caseRun {
	t.Helper()
	c := loadCase(t, "69")
	r := newCaseRun(t, c)
	server := httptest.NewServer(caseRegistry(t, c))
	t.Cleanup(server.Close)
	r.config["source.registry.url"] = server.URL
	r.config["source.registry.username"] = "reader"
	r.config["source.registry.password"] = "s3cret"
	return r
}

// TestCaseAvro runs case 69: unions with null second, ids that change within a partition, names adjusted for Avro.
func TestCaseAvro(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"auto", "avro"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			r := newAvroRun(t)
			r.config["source.format"] = format
			records := r.records(t)
			r.produce(t, records...)
			code, stderr := r.run(t)
			if code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			if n := strings.Count(stderr, "format=avro"); format == "auto" && n != 1 {
				t.Errorf("the log says %d times what the format is, want once:\n%s", n, stderr)
			}
			r.expect(t, r.result(t, ""))
			deleted := records[0]
			deleted.value = hexBytes(t, "000000001502020000086f70656e00000016322e372e332e46696e616c14706f737467726573716c087372633188d0c491fa63000a66616c73650873686f70000c7075626c69630a636c61696d02800b0288d8f1160000026402ecd0c491fa63")
			tombstone := records[0]
			tombstone.value = nil
			r.produce(t, deleted, tombstone)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			want := r.result(t, "")
			want.Rows = want.Rows[1:]
			r.expect(t, want)
		})
	}
}

// TestAvroThatCannotBeReadStops: the error says which record, and which column; nothing of the checkpoint is committed.
func TestAvroThatCannotBeReadStops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *caseRun, value []byte) []byte
		words  []string
	}{
		"unknown id":     {func(_ *caseRun, v []byte) []byte { v[4] = 99; return v }, []string{"bad_record: table public.claim, ", "schema 99", "404 Not Found", "Schema not found", "source.registry.url"}},
		"another schema": {func(_ *caseRun, v []byte) []byte { v[4] = 22; return v }, []string{"bad_record: table public.claim, column prio, ", `after: field "prio": the number 11`}},
		"a huge length":  {func(_ *caseRun, v []byte) []byte { return append(v[:10:10], 0xfe, 0xff, 0xff, 0xff, 0x0f) }, []string{"bad_record: table public.claim, column state, ", `after: field "state": a length of 2147483647 where 0 bytes are left`}},
		"no registry":    {func(r *caseRun, v []byte) []byte { delete(r.config, "source.registry.url"); return v }, []string{"bad_record", "set source.registry.url"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newAvroRun(t)
			rec := r.records(t)[1]
			rec.value = c.change(r, rec.value)
			r.produce(t, r.records(t)[0], rec)
			code, stderr := r.run(t)
			offset := "offset 1"
			if name == "no registry" {
				offset = "offset 0" // the key of the first record
			}
			r.stopped(t, code, stderr, append(c.words, "src1.public.claim[0] "+offset)...)
			if rows := r.exec(t, "SELECT * FROM claim"); len(rows) != 0 && name == "no registry" {
				t.Errorf("%d rows are there, want none", len(rows))
			}
		})
	}
}

// TestWrongPasswordOfTheRegistryStops: trying again would not help, and the password is not shown.
func TestWrongPasswordOfTheRegistryStops(t *testing.T) {
	t.Parallel()
	r := newAvroRun(t)
	r.config["source.registry.password"] = "wr0ng"
	r.produce(t, r.records(t)...)
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "401 Unauthorized", "source.registry.username", "src1.public.claim[0] offset 0")
	if strings.Contains(stderr, "wr0ng") {
		t.Errorf("the password is shown:\n%s", stderr)
	}
}
