package dev

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// rig runs a loop over a directory. Its builds append a line to the file builds outside of the directory.
type rig struct {
	*testing.T
	sources, builds string
	deployed        chan string // the content of the file builds
}

func newRig(t *testing.T, script string) *rig { return newRigPrinting(t, script, false) }

// newRigPrinting returns a rig whose loop prints, if printing is set, to the file printed among the sources.
func newRigPrinting(t *testing.T, script string, printing bool) *rig {
	dir := t.TempDir()
	r := &rig{T: t, sources: filepath.Join(dir, "src"), builds: filepath.Join(dir, "builds"), deployed: make(chan string)}
	write(t, filepath.Join(r.sources, "main"), "1")
	write(t, r.builds, "")
	var out io.Writer = io.Discard
	if printing {
		f, err := os.Create(filepath.Join(r.sources, "printed"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		out = f
	}
	l := &Loop{
		Build: []string{"sh", "-c", script + "; cat $0/main >>$1", r.sources, r.builds}, Watch: []string{r.sources}, Ignore: []string{"*.log"},
		Stdout: out, Stderr: out, Clock: clock.Real(),
		Built: func() []string { return []string{filepath.Join(r.sources, "out")} },
		Deploy: func(ctx context.Context) (time.Time, error) {
			b, err := os.ReadFile(r.builds)
			select {
			case r.deployed <- string(b):
			case <-ctx.Done():
			}
			return time.Time{}, errors.Join(err, ctx.Err())
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// save replaces a file in one step.
func (r *rig) save(name, content string) {
	r.Helper()
	path := filepath.Join(r.sources, name)
	write(r.T, filepath.Join(filepath.Dir(path), ".new"), content)
	if err := os.Rename(filepath.Join(filepath.Dir(path), ".new"), path); err != nil {
		r.Fatal(err)
	}
}

// wantBuilds waits for a deployment after these builds.
func (r *rig) wantBuilds(want string) {
	r.Helper()
	select {
	case got := <-r.deployed:
		if got != want {
			r.Fatalf("deployed after the builds %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		b, _ := os.ReadFile(r.builds)
		r.Fatalf("not deployed after the builds %q", b)
	}
}

func TestLoopBuildsAtEachChange(t *testing.T) {
	r := newRig(t, "true")
	r.wantBuilds("1")
	r.save("a.log", "x")
	r.save(".hidden", "x")
	r.save("out/app", "x")
	r.save("main", "2")
	r.wantBuilds("12")
	r.save("new/directory/file", "x")
	r.wantBuilds("122")
	r.save("new/directory/file", "y")
	r.wantBuilds("1222")
	if err := os.RemoveAll(filepath.Join(r.sources, "new")); err != nil {
		t.Fatal(err)
	}
	r.wantBuilds("12222")
}

func TestLoopIgnoresWhatTheBuildWrites(t *testing.T) {
	r := newRig(t, "mkdir -p $0/out; date +%N >$0/out/app; date +%N >$0/generated")
	r.wantBuilds("11") // twice: generated might have been saved during the first build
	r.save("main", "2")
	r.wantBuilds("112")
	r.save("generated", "changed by hand")
	r.wantBuilds("11222") // it is a source again until two builds in a row have written it
}

func TestLoopIgnoresWhatItPrints(t *testing.T) {
	r := newRigPrinting(t, "echo building", true)
	r.wantBuilds("1")
	r.save("main", "2")
	r.wantBuilds("12")
}

func TestLoopBuildsAgainAfterASaveDuringTheBuild(t *testing.T) {
	r := newRig(t, `[ -s $1 ] || echo 2 >$0/main`)
	r.wantBuilds("2\n2\n")
}

func TestLoopGoesOnAfterAFailedBuild(t *testing.T) {
	r := newRig(t, `grep -q 1 $0/main || exit 1`)
	r.wantBuilds("1")
	r.save("main", "broken")
	r.save("main", "11")
	r.wantBuilds("111")
}

func TestBadPattern(t *testing.T) {
	err := (&Loop{Watch: []string{t.TempDir()}, Ignore: []string{"["}, Clock: clock.Real()}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"[": syntax error in pattern`) {
		t.Errorf("got %v", err)
	}
}
