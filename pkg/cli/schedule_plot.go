package cli

import (
	"fmt"
	"io"

	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// The measures of a plot, in pixels.
const (
	plotColumns = 3
	panelWidth  = 280
	panelHeight = 220
	panelTop    = 36 // of the bars
	barsHeight  = 120
)

// plotColours are the colours of configurations, in their order.
var plotColours = []string{"#4878a8", "#d08040", "#60a060", "#a05080", "#808080", "#c0a030"}

// plotComparison draws a panel for each metric with a bar for each configuration: the mean over all seeds, with the 95 % confidence interval.
func plotComparison(w io.Writer, all [][]*whatif.Result) {
	rows := (len(whatif.Metrics) + plotColumns - 1) / plotColumns
	legend := 20 * (len(all) + 1)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n",
		plotColumns*panelWidth, rows*panelHeight+legend)
	fmt.Fprintf(w, "<title>Scheduler configurations, %d runs each</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", len(all[0]))
	for i, m := range whatif.Metrics {
		fmt.Fprintf(w, "<g transform=\"translate(%d %d)\">\n", i%plotColumns*panelWidth, i/plotColumns*panelHeight)
		plotMetric(w, all, m)
		fmt.Fprintln(w, "</g>")
	}
	for i, runs := range all {
		y := rows*panelHeight + 20*i
		fmt.Fprintf(w, "<rect x=\"20\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"38\" y=\"%d\">%s</text>\n", y, plotColour(i), y+11, escaped(runs[0].Config))
	}
	fmt.Fprintln(w, "</svg>")
}

func plotColour(config int) string { return plotColours[config%len(plotColours)] }

// plotMetric draws one panel. All bars of a panel begin at 0 and have one scale.
func plotMetric(w io.Writer, all [][]*whatif.Result, m whatif.Metric) {
	summaries, most := make([]whatif.Summary, len(all)), 0.0
	for i, runs := range all {
		summaries[i] = whatif.Summarise(runs, m)
		most = max(most, summaries[i].Mean+summaries[i].Confidence)
	}
	if most == 0 {
		most = 1
	}
	fmt.Fprintf(w, "<text x=\"20\" y=\"18\" font-weight=\"bold\">%s, %s</text>\n", escaped(m.Name), escaped(m.Unit))
	const left, right, bottom = 20, 20, panelTop + barsHeight
	step := float64(panelWidth-left-right) / float64(len(all))
	at := func(value float64) float64 { return bottom - barsHeight*value/most }
	for i, s := range summaries {
		x := left + step*float64(i)
		middle := x + step*0.4
		fmt.Fprintf(w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>%s: %.3f ± %.3f</title></rect>\n",
			x, at(s.Mean), step*0.8, bottom-at(s.Mean), plotColour(i), escaped(all[i][0].Config), s.Mean, s.Confidence)
		fmt.Fprintf(w, "<path d=\"M%.1f %.1f V%.1f\" stroke=\"black\"/>\n", middle, at(max(0, s.Mean-s.Confidence)), at(s.Mean+s.Confidence))
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.1f</text>\n", middle, bottom+16, s.Mean)
	}
	fmt.Fprintf(w, "<path d=\"M%d %d H%d\" stroke=\"black\"/>\n", left, bottom, panelWidth-right)
}
