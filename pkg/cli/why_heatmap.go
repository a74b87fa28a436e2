package cli

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// heatmap is a table of what each plugin returned for each node: a row for each node, the chosen one and the best first, and a column for each
// plugin at an extension point.
type heatmap struct {
	title   string
	columns []column
	rows    []minikctl.Verdict
	skipped []string // the plugins that skipped the pod, which have no columns
}

type column struct{ point, plugin string }

func (c column) String() string { return c.point + " " + c.plugin }

func newHeatmap(title string, verdicts []minikctl.Verdict) heatmap {
	h := heatmap{title: title, rows: slices.Clone(verdicts)}
	rank := func(v minikctl.Verdict) int64 {
		switch {
		case v.Chosen:
			return math.MaxInt64
		case v.Total == nil:
			return -1
		}
		return *v.Total
	}
	slices.SortStableFunc(h.rows, func(a, b minikctl.Verdict) int { return cmp.Compare(rank(b), rank(a)) })
	for _, point := range []string{"PreFilter", "Filter", "Score"} {
		for _, v := range h.rows {
			for _, p := range v.Plugins {
				c, called := column{p.Point, p.Plugin}, p.Outcome != minikctl.Skipped
				switch {
				case p.Point != point || slices.Contains(h.columns, c) || slices.Contains(h.skipped, c.String()):
				case called:
					h.columns = append(h.columns, c)
				default:
					h.skipped = append(h.skipped, c.String())
				}
			}
		}
	}
	return h
}

// cell returns what a plugin returned for a node, and nil if the attempt did not get that far.
func (h *heatmap) cell(row int, c column) *minikctl.PluginVerdict {
	for i := range h.rows[row].Plugins {
		if p := &h.rows[row].Plugins[i]; p.Point == c.point && p.Plugin == c.plugin {
			return p
		}
	}
	return nil
}

// heat returns how good a verdict is, from 0 to 100; ok is false for a plugin that was not called.
func heat(p *minikctl.PluginVerdict) (value int64, ok bool) {
	switch {
	case p == nil:
		return 0, false
	case p.Normalised != nil:
		return min(100, max(0, *p.Normalised)), true
	case p.Outcome == minikctl.Passed:
		return 100, true
	case p.Outcome == minikctl.Rejected:
		return 0, true
	}
	return 0, false
}

// rgb returns the colour of a value: from red over yellow to green.
func rgb(value int64) (red, green, blue int64) {
	const dark, bright = 60, 200
	if value < 50 {
		return bright, dark + (bright-dark)*value/50, dark
	}
	return bright - (bright-dark)*(value-50)/50, bright, dark
}

// symbols are those of values in a terminal, from the worst to the best.
var symbols = []rune("·░▒▓█")

const rejectedSymbol = "x"

// printText writes the heat map for a terminal. The columns have numbers, which are explained below.
func (h *heatmap) printText(w io.Writer, colours bool) {
	fmt.Fprintln(w, h.title)
	width := 0
	for _, v := range h.rows {
		width = max(width, displaywidth.String(v.Node))
	}
	line := func(name, cells string) {
		fmt.Fprintln(w, strings.TrimRight(name+strings.Repeat(" ", width-displaywidth.String(name)+2)+cells, " "))
	}
	var numbers strings.Builder
	for i := range h.columns {
		fmt.Fprintf(&numbers, "%-3d", i+1)
	}
	line("", numbers.String())
	for i, v := range h.rows {
		var cells strings.Builder
		for _, c := range h.columns {
			cells.WriteString(textCell(h.cell(i, c), colours))
		}
		switch {
		case v.Chosen:
			cells.WriteString(" chosen")
		case v.Outcome == minikctl.Rejected:
			cells.WriteString(" " + v.Reason)
		}
		line(v.Node, cells.String())
	}
	fmt.Fprintln(w)
	for i, c := range h.columns {
		fmt.Fprintf(w, "%2d %s\n", i+1, c)
	}
	fmt.Fprintf(w, "%s rejected; others from the worst to the best: %s\n", rejectedSymbol, string(symbols))
	if len(h.skipped) > 0 {
		fmt.Fprintf(w, "skipped the pod: %s\n", strings.Join(h.skipped, ", "))
	}
}

// textCell returns a cell of three columns.
func textCell(p *minikctl.PluginVerdict, colours bool) string {
	value, ok := heat(p)
	if !ok {
		return "   "
	}
	symbol := string(symbols[value*int64(len(symbols)-1)/100])
	if p.Outcome == minikctl.Rejected {
		symbol = rejectedSymbol
	}
	if !colours {
		return symbol + "  "
	}
	r, g, b := rgb(value)
	return fmt.Sprintf("\x1b[48;2;%d;%d;%dm\x1b[30m%s \x1b[0m ", r, g, b, symbol)
}

// The measures of the SVG, in pixels.
const (
	cellSize   = 20
	labelWidth = 180
	headHeight = 200
)

// printSVG writes heat maps, one below the other, as one SVG image.
func printSVG(w io.Writer, maps []heatmap) {
	width, height := 0, 0
	for i := range maps {
		wide, high := maps[i].size()
		width, height = max(width, wide), height+high
	}
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n", width, height)
	fmt.Fprintln(w, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>")
	y := 0
	for i := range maps {
		fmt.Fprintf(w, "<g transform=\"translate(0 %d)\">\n", y)
		maps[i].draw(w)
		fmt.Fprintln(w, "</g>")
		_, high := maps[i].size()
		y += high
	}
	fmt.Fprintln(w, "</svg>")
}

func (h *heatmap) size() (width, height int) {
	return labelWidth + cellSize*len(h.columns) + headHeight, headHeight + cellSize*len(h.rows) + cellSize
}

// draw writes the heat map as a part of an SVG image. The title of each cell, which browsers show, has what the plugin returned.
func (h *heatmap) draw(w io.Writer) {
	fmt.Fprintf(w, "<title>%s</title>\n", escaped(h.title))
	fmt.Fprintf(w, "<text x=\"8\" y=\"18\">%s</text>\n", escaped(h.title))
	for i, c := range h.columns {
		x, y := labelWidth+cellSize*i+cellSize/2, headHeight-6
		fmt.Fprintf(w, "<text transform=\"translate(%d %d) rotate(-45)\">%s</text>\n", x, y, escaped(c.String()))
	}
	for i, v := range h.rows {
		y, weight := headHeight+cellSize*i, "normal"
		if v.Chosen {
			weight = "bold"
		}
		fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" font-weight=\"%s\">%s</text>\n", labelWidth-8, y+cellSize-6, weight, escaped(v.Node))
		for k, c := range h.columns {
			p := h.cell(i, c)
			fill := "#eeeeee"
			if value, ok := heat(p); ok {
				r, g, b := rgb(value)
				fill = fmt.Sprintf("#%02x%02x%02x", r, g, b)
			}
			fmt.Fprintf(w, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"><title>%s</title></rect>\n",
				labelWidth+cellSize*k, y, cellSize-1, cellSize-1, fill, escaped(v.Node+", "+c.String()+": "+described(p)))
		}
	}
}

// described returns a verdict in words.
func described(p *minikctl.PluginVerdict) string {
	switch {
	case p == nil:
		return minikctl.NotEvaluated
	case p.Raw != nil:
		return fmt.Sprintf("%d, normalised %d, × %d = %d", *p.Raw, *p.Normalised, p.Weight, *p.Weighted)
	case p.Reason != "":
		return p.Outcome + ": " + p.Reason
	}
	return p.Outcome
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder has no errors
	return b.String()
}
