package e2e

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestPlotIsAPicture reads what Plot writes as XML, and finds each series' line in it, scaled to the panel.
func TestPlotIsAPicture(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	err := Plot(&b, "a < b & c", []float64{0, 60, 120}, []Series{{"memory, MiB", []float64{10, 20, 5}}, {"lag, s", []float64{0, 0, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	in := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines = append(lines, e.Attr[0].Value)
		}
	}
	got, want := strings.Join(lines, "\n"), "70.0,85.0 430.0,40.0 790.0,107.5\n70.0,254.0 430.0,254.0 790.0,254.0"
	if got != want {
		t.Errorf("lines: got\n%s\nwant\n%s", got, want)
	}
}

// TestPlotRefusesSeriesThatDoNotFit would else draw values at the wrong times.
func TestPlotRefusesSeriesThatDoNotFit(t *testing.T) {
	t.Parallel()
	if err := Plot(io.Discard, "", []float64{0}, []Series{{"lag", nil}}); err == nil {
		t.Error("a series without values, at one time: got no error")
	}
}
