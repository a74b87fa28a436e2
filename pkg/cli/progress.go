package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/fatih/color"
	"golang.org/x/sync/errgroup"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/minikctl/minikctl/pkg/apply"
	"github.com/minikctl/minikctl/pkg/clock"
)

// progress shows the progress of objects and their pods. It is safe for concurrent use.
type progress interface {
	report(apply.Progress)
	close()
}

// newProgress returns a live tree where w is a terminal, and lines elsewhere.
func newProgress(w io.Writer) progress {
	if !isTerminal(w) {
		return &progressLines{w: w, last: map[[2]string]string{}}
	}
	return &progressTree{w: w, colours: hasColour(w), size: func() (width, height int) {
		if s := (term.TTY{Out: w}).GetSize(); s != nil && s.Width > 0 && s.Height > 1 {
			return int(s.Width), int(s.Height)
		}
		return 80, 24
	}}
}

// waitFor waits for all objects at once, at most for limit unless that is 0, and prints their progress. It ends at the first error and at
// Ctrl-C; the objects stay. At the limit the error is about all objects that aren't ready. It returns when the last object became ready.
func waitFor(ctx context.Context, env *Env, infos []*resource.Info, limit time.Duration) (time.Time, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
		defer cancel()
	}
	clients, err := env.Factory.KubernetesClientSet()
	if err != nil {
		return time.Time{}, err
	}
	view := newProgress(env.Out)
	defer view.close()
	waiter := &apply.Waiter{Clients: clients, Clock: clock.Real(), Report: view.report}
	var wg errgroup.Group
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, len(infos))
	for i, info := range infos {
		wg.Go(func() error {
			if errs[i] = waiter.Wait(ctx, info); errs[i] != nil {
				cancel(context.Canceled) // the other waits end without an explanation
			}
			return errs[i]
		})
	}
	err = wg.Wait()
	explained := slices.DeleteFunc(errs, func(err error) bool { return err == nil || errors.Is(err, context.Canceled) })
	if len(explained) > 1 {
		err = errors.Join(explained...)
	}
	return waiter.Current(), err
}

// progressLines prints a line for each change.
type progressLines struct {
	mu   sync.Mutex
	w    io.Writer
	last map[[2]string]string // the last line by object and pod
}

func (l *progressLines) report(p apply.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, line := [2]string{p.Object, p.Pod}, p.Line()
	if l.last[key] == line {
		return
	}
	l.last[key] = line
	fmt.Fprintln(l.w, line)
}

func (l *progressLines) close() {}

// progressTree draws the objects with their pods below them, and draws them again at each change.
type progressTree struct {
	w       io.Writer
	colours bool
	size    func() (width, height int) // of the terminal

	mu      sync.Mutex
	objects []*branch
	drawn   []string // the lines that were drawn last
}

// branch is an object of a progressTree.
type branch struct {
	name, text string
	pods       []apply.Progress
}

func (t *progressTree) report(p apply.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.branch(p.Object)
	switch i := slices.IndexFunc(b.pods, func(pod apply.Progress) bool { return pod.Pod == p.Pod }); {
	case p.Pod == "":
		b.text = p.Text
	case p.Gone && i >= 0:
		b.pods = slices.Delete(b.pods, i, i+1)
	case p.Gone:
	case i >= 0:
		b.pods[i] = p
	default:
		b.pods = append(b.pods, p)
	}
	width, height := t.size()
	t.draw(t.lines(width, height-1))
}

// close draws the tree for the last time, as a whole.
func (t *progressTree) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	width, _ := t.size()
	t.draw(t.lines(width, 0))
	t.drawn = nil
}

func (t *progressTree) branch(name string) *branch {
	for _, b := range t.objects {
		if b.name == name {
			return b
		}
	}
	b := &branch{name: name}
	t.objects = append(t.objects, b)
	return b
}

// draw replaces the lines that were drawn last, unless they are the same: a report may change nothing that is shown.
func (t *progressTree) draw(lines []string) {
	if slices.Equal(lines, t.drawn) {
		return
	}
	var b strings.Builder
	if len(t.drawn) > 0 {
		fmt.Fprintf(&b, "\x1b[%dF", len(t.drawn)) // to the start of the first line
	}
	b.WriteString("\x1b[J") // erases what is below
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	t.drawn = lines
	_, _ = io.WriteString(t.w, b.String()) // a terminal that is gone ends the program by itself
}

// lines returns the tree in at most height lines, 0 for all: first without the pods that wait for nothing, then cut at the end.
func (t *progressTree) lines(width, height int) []string {
	out := t.all(width, false)
	if height == 0 || len(out) <= height {
		return out
	}
	if out = t.all(width, true); len(out) <= height {
		return out
	}
	return append(out[:height-1:height-1], fmt.Sprintf("… %d more lines", len(out)-height+1))
}

// all returns the lines of all objects and pods. fold counts the pods that wait for nothing instead of listing them.
func (t *progressTree) all(width int, fold bool) (out []string) {
	for _, b := range t.objects {
		if len(b.pods) == 1 && b.name == "pod/"+b.pods[0].Pod {
			out = append(out, t.pod(b.pods[0], "", width))
			continue
		}
		out = append(out, displaywidth.TruncateString(strings.TrimRight(b.name+"  "+b.text, " "), width, "…"))
		done := 0
		for _, p := range b.pods {
			if fold && waitsForNothing(p) {
				done++
				continue
			}
			out = append(out, t.pod(p, "  ", width))
		}
		if done > 0 {
			out = append(out, displaywidth.TruncateString(fmt.Sprintf("  %d pods are ready or have ended", done), width, "…"))
		}
	}
	return out
}

func waitsForNothing(p apply.Progress) bool { return p.Waits == "" && !hasObstacle(p) }

// hasObstacle reports whether the text has the reason why the pod does not run.
func hasObstacle(p apply.Progress) bool { return strings.Contains(p.Text, ": ") }

// pod returns the line of a pod: green when it is ready or has ended, red with an obstacle.
func (t *progressTree) pod(p apply.Progress, indent string, width int) string {
	text := indent + p.Line()
	if p.Waits != "" {
		text += "  waits for " + p.Waits
	}
	text = displaywidth.TruncateString(text, width, "…")
	c := color.New(color.FgYellow)
	switch {
	case hasObstacle(p):
		c = color.New(color.FgRed)
	case p.Waits == "":
		c = color.New(color.FgGreen)
	}
	if !t.colours {
		return text
	}
	c.EnableColor()
	return c.Sprint(text)
}
