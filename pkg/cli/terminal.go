package cli

import (
	"io"
	"os"

	"github.com/fatih/color"
	"k8s.io/kubectl/pkg/util/term"
)

// isTerminal reports whether w is a terminal that can move its cursor.
func isTerminal(w io.Writer) bool {
	return term.TTY{Out: w}.IsTerminalOut() && os.Getenv("TERM") != "dumb"
}

// hasColour reports whether output to w has colours: see https://no-color.org.
func hasColour(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }

// palette has the colours of pods, in the order in which they appear.
var palette = []color.Attribute{
	color.FgCyan, color.FgYellow, color.FgGreen, color.FgMagenta, color.FgBlue, color.FgRed,
	color.FgHiCyan, color.FgHiYellow, color.FgHiGreen, color.FgHiMagenta, color.FgHiBlue, color.FgHiRed,
}

// prefixes writes lines of logs with their pod and container in front.
type prefixes struct {
	w       io.Writer
	show    bool
	colours bool
	pods    map[string]*color.Color
}

// newPrefixes returns prefixes for w: always on a terminal, elsewhere if show is set.
func newPrefixes(w io.Writer, show bool) *prefixes {
	return &prefixes{w: w, show: show || isTerminal(w), colours: hasColour(w), pods: map[string]*color.Color{}}
}

func (p *prefixes) print(pod, container string, line []byte) error {
	if p.show {
		line = append([]byte(p.of(pod).Sprint("[pod/"+pod+"/"+container+"]")+" "), line...)
		if line[len(line)-1] != '\n' {
			line = append(line, '\n') // the next line has a prefix of its own
		}
	}
	_, err := p.w.Write(line)
	return err
}

// of returns the colour of a pod.
func (p *prefixes) of(pod string) *color.Color {
	c, ok := p.pods[pod]
	if !ok {
		c = color.New(palette[len(p.pods)%len(palette)])
		if p.colours {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		p.pods[pod] = c
	}
	return c
}
