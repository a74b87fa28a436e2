package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// unit is the unit of a figure: its name, its format, and whether higher is better.
type unit struct {
	format func(float64) string
	more   bool
}

var (
	seconds = unit{format: func(v float64) string {
		return time.Duration(v * float64(time.Second)).Round(100 * time.Microsecond).String()
	}}
	rate    = unit{format: func(v float64) string { return fmt.Sprintf("%.0f/s", v) }, more: true}
	bytes   = unit{format: func(v float64) string { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }}
	cpu     = unit{format: func(v float64) string { return fmt.Sprintf("%.2f CPU-s", v) }}
	share   = unit{format: func(v float64) string { return fmt.Sprintf("%.2f %% of a core", v*100) }}
	request = unit{format: func(v float64) string { return fmt.Sprintf("%.0f µs", v*1e6) }}
)

// table collects figures by measurement and side. The zero table is empty.
type table struct {
	rows     []*row
	profiles string // the directory of profiles; "": none are made
}

type row struct {
	what    string
	unit    unit
	figures map[string][]float64 // by side
}

func (t *table) add(s side, what string, u unit, figure float64) {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.what == what })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &row{what, u, map[string][]float64{}})
	}
	t.rows[i].figures[s.name()] = append(t.rows[i].figures[s.name()], figure)
}

// print writes a line for each measurement: the median and range of each side, and how many times better the first side is
// than each other one.
func (t *table) print(out io.Writer, sides []side) {
	head := []string{"what"}
	for _, s := range sides {
		head = append(head, s.name())
	}
	for _, s := range sides[1:] {
		head = append(head, "better than "+s.name())
	}
	line := func(cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	line(slices.Repeat([]string{"---"}, len(head)))
	for _, r := range t.rows {
		cells := []string{r.what}
		for _, s := range sides {
			cells = append(cells, r.cell(s))
		}
		for _, s := range sides[1:] {
			cells = append(cells, r.ratio(sides[0], s))
		}
		line(cells)
	}
}

func (r *row) cell(s side) string {
	f := r.figures[s.name()]
	if len(f) == 0 {
		return "–"
	}
	if len(f) == 1 {
		return r.unit.format(f[0])
	}
	return fmt.Sprintf("%s (%s–%s)", r.unit.format(median(f)), r.unit.format(slices.Min(f)), r.unit.format(slices.Max(f)))
}

func (r *row) ratio(a, b side) string {
	fa, fb := r.figures[a.name()], r.figures[b.name()]
	if len(fa) == 0 || len(fb) == 0 {
		return "–"
	}
	q := median(fb) / median(fa)
	if r.unit.more {
		q = 1 / q
	}
	return fmt.Sprintf("%.2f×", q)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
