package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// The measures of a plot, in pixels.
const (
	plotColumns = 3
	panelWidth  = 280
	panelHeight = 220
	panelTop    = 36 // of the bars or lines
	barsHeight  = 120
	panelMargin = 20
	panelBottom = panelTop + barsHeight
)

// plotColours are the colours of configurations, in their order.
var plotColours = []string{"#4878a8", "#d08040", "#60a060", "#a05080", "#808080", "#c0a030"}

func plotColour(config int) string { return plotColours[config%len(plotColours)] }

// panel draws a part of a plot.
type panel func(w io.Writer)

// plotComparison draws a panel for each metric with a bar for each configuration: the mean over all seeds, with the 95 % confidence interval.
func plotComparison(w io.Writer, all [][]*whatif.Result) {
	var panels []panel
	for _, m := range whatif.MetricsOf(all) {
		panels = append(panels, func(w io.Writer) { plotMetric(w, all, m) })
	}
	plot(w, fmt.Sprintf("Scheduler configurations, %d runs each", len(all[0])), all, panels)
}

// plotReplay draws a panel for each figure over time with a line for each run, and one for each metric that is about the whole run.
func plotReplay(w io.Writer, all [][]*whatif.Result) {
	var panels []panel
	over := map[string]bool{"placed": true}
	for _, c := range series(all) {
		over[c.name] = true
		panels = append(panels, func(w io.Writer) { plotSeries(w, all, c) })
	}
	for _, m := range whatif.MetricsOf(all) {
		if !over[m.Name] {
			panels = append(panels, func(w io.Writer) { plotMetric(w, all, m) })
		}
	}
	plot(w, "Replay", all, panels)
}

// plot draws panels, and a legend of the configurations.
func plot(w io.Writer, title string, all [][]*whatif.Result, panels []panel) {
	rows := (len(panels) + plotColumns - 1) / plotColumns
	legend := 20 * (len(all) + 1)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n",
		plotColumns*panelWidth, rows*panelHeight+legend)
	fmt.Fprintf(w, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", escaped(title))
	for i, draw := range panels {
		fmt.Fprintf(w, "<g transform=\"translate(%d %d)\">\n", i%plotColumns*panelWidth, i/plotColumns*panelHeight)
		draw(w)
		fmt.Fprintln(w, "</g>")
	}
	for i, runs := range all {
		y := rows*panelHeight + 20*i
		fmt.Fprintf(w, "<rect x=\"20\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"38\" y=\"%d\">%s</text>\n", y, plotColour(i), y+11, escaped(runs[0].Label()))
	}
	fmt.Fprintln(w, "</svg>")
}

// plotAxis writes the title of a panel and its horizontal axis.
func plotAxis(w io.Writer, name, unit string) {
	fmt.Fprintf(w, "<text x=\"%d\" y=\"18\" font-weight=\"bold\">%s, %s</text>\n", panelMargin, escaped(name), escaped(unit))
	fmt.Fprintf(w, "<path d=\"M%d %d H%d\" stroke=\"black\"/>\n", panelMargin, panelBottom, panelWidth-panelMargin)
}

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
	step := float64(panelWidth-2*panelMargin) / float64(len(all))
	at := func(value float64) float64 { return panelBottom - barsHeight*value/most }
	for i, s := range summaries {
		x := panelMargin + step*float64(i)
		middle := x + step*0.4
		fmt.Fprintf(w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>%s: %.3f ± %.3f</title></rect>\n",
			x, at(s.Mean), step*0.8, panelBottom-at(s.Mean), plotColour(i), escaped(all[i][0].Label()), s.Mean, s.Confidence)
		fmt.Fprintf(w, "<path d=\"M%.1f %.1f V%.1f\" stroke=\"black\"/>\n", middle, at(max(0, s.Mean-s.Confidence)), at(s.Mean+s.Confidence))
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f</text>\n", middle, panelBottom+16, m.Decimals(), s.Mean)
	}
	plotAxis(w, m.Name, m.Unit)
}

// plotSeries draws a line for each run: a value is that since the sample before. All lines of a panel have one scale, from 0 on.
func plotSeries(w io.Writer, all [][]*whatif.Result, c seriesColumn) {
	most, end := 0.0, 0.0
	for _, runs := range all {
		for _, r := range runs {
			for i := range r.Samples {
				most, end = max(most, c.of(&r.Samples[i])), max(end, r.Samples[i].Time)
			}
		}
	}
	scale, width := most, float64(panelWidth-2*panelMargin)
	if scale == 0 {
		scale = 1
	}
	for i, runs := range all {
		for _, r := range runs {
			var line strings.Builder
			for k := range r.Samples {
				y := panelBottom - barsHeight*c.of(&r.Samples[k])/scale
				if k == 0 {
					fmt.Fprintf(&line, "M%d %.1f", panelMargin, y)
				} else {
					fmt.Fprintf(&line, "V%.1f", y)
				}
				fmt.Fprintf(&line, "H%.1f", panelMargin+width*r.Samples[k].Time/max(end, 1e-9))
			}
			fmt.Fprintf(w, "<path d=\"%s\" stroke=\"%s\" fill=\"none\"><title>%s, seed %d</title></path>\n", line.String(), plotColour(i), escaped(r.Label()), r.Seed)
		}
	}
	fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\">at most %.1f</text>\n", panelMargin, panelBottom+16, most)
	fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", panelWidth-panelMargin, panelBottom+16, time.Duration(end*float64(time.Second)).Round(time.Millisecond))
	plotAxis(w, c.name, c.unit)
}
