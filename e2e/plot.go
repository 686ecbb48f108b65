package e2e

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Series is a quantity over the time of a run.
type Series struct {
	Name   string // with its unit
	Values []float64
}

// Plot writes a picture (SVG) of series that were sampled at the same times, in seconds: a panel for each, from zero up, above one axis
// of time.
func Plot(w io.Writer, title string, seconds []float64, all []Series) error {
	const left, width, height, gap, top = 70, 720, 90, 34, 40
	var b strings.Builder
	bottom := top + len(all)*(height+gap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", left+width+20, bottom+20)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="18" font-size="14">%s</text>`+"\n", left, escape(title))
	end := 0.0
	if len(seconds) > 0 {
		end = slices.Max(seconds)
	}
	for i, s := range all {
		if len(s.Values) != len(seconds) {
			return fmt.Errorf("plot: %s has %d values at %d times", s.Name, len(s.Values), len(seconds))
		}
		base, most := top+i*(height+gap)+height, 0.0
		var points []string
		if len(s.Values) > 0 {
			most = slices.Max(s.Values)
		}
		for j, v := range s.Values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", left+part(seconds[j], end)*width, float64(base)-part(v, most)*height))
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", left, base-height-5, escape(s.Name))
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%.4g</text><text x="%d" y="%d" text-anchor="end">0</text>`+"\n", left-6, base-height+10, most, left-6, base)
		fmt.Fprintf(&b, `<path d="M%d %dh%d" stroke="#999"/><polyline points="%s" fill="none" stroke="#1f5fa8"/>`+"\n", left, base, width, strings.Join(points, " "))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%.0f minutes</text>`+"\n</svg>\n", left, bottom, left+width, bottom, end/60)
	_, err := io.WriteString(w, b.String())
	return err
}

// part is v as a part of the whole, and nothing of a whole that is nothing.
func part(v, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return v / whole
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
