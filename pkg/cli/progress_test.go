package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apply"
)

// screen returns the lines that a terminal shows after output that moves the cursor up, erases below it and ends lines.
func screen(t *testing.T, output string) []string {
	t.Helper()
	var lines []string
	for output != "" {
		if rest, ok := strings.CutPrefix(output, "\x1b["); ok {
			i := strings.IndexAny(rest, "FJ")
			if i < 0 {
				t.Fatalf("unknown sequence %q", rest)
			}
			if rest[i] == 'F' {
				up := 0
				for _, d := range rest[:i] {
					up = up*10 + int(d-'0')
				}
				if up > len(lines) {
					t.Fatalf("moved up %d of %d lines", up, len(lines))
				}
				lines = lines[:len(lines)-up]
			}
			output = rest[i+1:]
			continue
		}
		line, rest, _ := strings.Cut(output, "\n")
		lines, output = append(lines, line), rest
	}
	return lines
}

func TestProgressTree(t *testing.T) {
	const web = "deployment.apps/web"
	pods := []apply.Progress{
		{Object: web, Text: "1 of 3"},
		{Object: web, Pod: "a", Text: "Running", Waits: "the readiness probe of container c"},
		{Object: web, Pod: "b", Text: "Pending", Waits: "the scheduler"},
		{Object: web, Pod: "c", Text: "ErrImagePull: there is no image x"},
		{Object: "service/web", Text: ""},
	}
	for _, c := range []struct {
		name          string
		width, height int
		more          []apply.Progress
		want          string
	}{
		{"all", 80, 24, nil, "deployment.apps/web  1 of 3\n  pod/a  Running  waits for the readiness probe of container c\n  pod/b  Pending  waits for the scheduler\n  pod/c  ErrImagePull: there is no image x\nservice/web"},
		{"narrow", 20, 24, nil, "deployment.apps/web…\n  pod/a  Running  w…\n  pod/b  Pending  w…\n  pod/c  ErrImagePu…\nservice/web"},
		{"a pod is ready, one is gone", 80, 24, []apply.Progress{{Object: web, Pod: "a", Text: "Running, ready"}, {Object: web, Pod: "b", Text: "gone", Gone: true}},
			"deployment.apps/web  1 of 3\n  pod/a  Running, ready\n  pod/c  ErrImagePull: there is no image x\nservice/web"},
		{"low: pods that are ready are counted", 80, 5, []apply.Progress{{Object: web, Pod: "a", Text: "Running, ready"}, {Object: web, Pod: "b", Text: "Running, ready"}},
			"deployment.apps/web  1 of 3\n  pod/c  ErrImagePull: there is no image x\n  2 pods are ready or have ended\nservice/web"},
		{"a pod applied by itself", 80, 24, []apply.Progress{{Object: "pod/x", Pod: "x", Text: "Pending", Waits: "the scheduler"}},
			"deployment.apps/web  1 of 3\n  pod/a  Running  waits for the readiness probe of container c\n  pod/b  Pending  waits for the scheduler\n  pod/c  ErrImagePull: there is no image x\nservice/web\npod/x  Pending  waits for the scheduler"},
		{"lower: the end is cut", 80, 4, nil, "deployment.apps/web  1 of 3\n  pod/a  Running  waits for the readiness probe of container c\n… 3 more lines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			tree := &progressTree{w: &b, size: func() (int, int) { return c.width, c.height }}
			for _, p := range append(pods[:len(pods):len(pods)], c.more...) {
				tree.report(p)
			}
			if got := strings.Join(screen(t, b.String()), "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			tree.close()
			if got := screen(t, b.String()); len(got) < 4 || strings.HasPrefix(got[len(got)-1], "…") {
				t.Errorf("at the end: %q", got)
			}
		})
	}
}

// TestProgressTreeUnchanged: a report that changes nothing draws nothing.
func TestProgressTreeUnchanged(t *testing.T) {
	var out bytes.Buffer
	tree := &progressTree{w: &out, size: func() (int, int) { return 80, 24 }}
	tree.report(apply.Progress{Object: "pod/a", Pod: "a", Text: "Running, ready"})
	first := out.String()
	tree.report(apply.Progress{Object: "pod/a", Pod: "a", Text: "Running, ready"})
	tree.close()
	if out.String() != first || !strings.Contains(first, "pod/a  Running, ready") {
		t.Errorf("got %q after %q", out.String(), first)
	}
	tree.report(apply.Progress{Object: "pod/a", Pod: "a", Text: "Running, ready"})
	if got := screen(t, out.String()); len(got) != 2 {
		t.Errorf("a closed tree is drawn over: %q", got)
	}
}

func TestProgressLines(t *testing.T) {
	var b bytes.Buffer
	l := newProgress(&b)
	for _, p := range []apply.Progress{{Object: "pod/a", Pod: "a", Text: "Running", Waits: "x"}, {Object: "pod/a", Pod: "a", Text: "Running"}, {Object: "pod/a", Text: "done"}} {
		l.report(p)
	}
	l.close()
	if got, want := b.String(), "pod/a  Running\npod/a  done\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
