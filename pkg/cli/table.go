package cli

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"k8s.io/kubectl/pkg/util/term"
)

// newTable returns a table without lines, like kubectl's.
func newTable(w io.Writer, header ...string) *tablewriter.Table {
	t := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Settings: tw.Settings{
				Lines:      tw.LinesNone,
				Separators: tw.SeparatorsNone,
			},
		})),
		tablewriter.WithConfig(tablewriter.Config{
			Header: tw.CellConfig{Alignment: tw.CellAlignment{Global: tw.AlignLeft}, Formatting: tw.CellFormatting{AutoFormat: tw.Off}, Padding: tw.CellPadding{Global: tw.Padding{Right: "  "}}},
			Row:    tw.CellConfig{Alignment: tw.CellAlignment{Global: tw.AlignLeft}, Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone}, Padding: tw.CellPadding{Global: tw.Padding{Right: "  "}}},
		}),
	)
	t.Header(header)
	return t
}

// gap is the space between two columns.
const gap = 2

// widthOf returns the width of the terminal that w is, 0 for anything else.
func widthOf(w io.Writer) int {
	if size := (term.TTY{Out: w}).GetSize(); size != nil {
		return int(size.Width)
	}
	return 0
}

// minText is the least width of a wrapped column.
const minText = 16

// fit wraps the last columns of a table with these headers, so that no row is wider than width: first the last column; if
// that becomes narrower than minText, also the column before it. A width of 0 leaves the rows as they are.
func fit(rows [][]string, headers []string, width int) [][]string {
	last := len(headers) - 1
	widths := make([]int, len(headers))
	for _, row := range append(rows, headers) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	free := width
	for _, n := range widths[:last-1] {
		free -= n + gap
	}
	free -= 2 * gap // of the last two columns
	if width == 0 || widths[last-1]+widths[last] <= free {
		return rows
	}
	before := min(widths[last-1], max(minText, free/3, free-widths[last]))
	text := max(minText, free-before)
	var out [][]string
	for _, row := range rows {
		a, b := wrap(row[last-1], before), wrap(row[last], text)
		for i := range max(len(a), len(b)) {
			next := make([]string, len(row))
			if i == 0 {
				copy(next, row)
			}
			next[last-1], next[last] = at(a, i), at(b, i)
			out = append(out, next)
		}
	}
	return out
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// wrap breaks text into lines of at most width characters: after spaces, slashes and hyphens where possible.
func wrap(text string, width int) []string {
	var out []string
	line := []rune(text)
	for len(line) > width {
		end := width
		if line[end] != ' ' {
			if i := strings.LastIndexAny(string(line[:width]), " /-"); i > 0 {
				end = utf8.RuneCountInString(string(line[:width])[:i]) + 1
			}
		}
		out = append(out, strings.TrimRight(string(line[:end]), " "))
		line = []rune(strings.TrimLeft(string(line[end:]), " "))
	}
	return append(out, string(line))
}
