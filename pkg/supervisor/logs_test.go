package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStream(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, c := range []struct {
		name   string
		writes []string
		want   []string
	}{
		{"nothing", nil, nil},
		{"lines", []string{"a\nb\n\n"}, []string{"F a", "F b", "F "}},
		{"in pieces", []string{"a", "b", "c\nd", "\n"}, []string{"F abc", "F d"}},
		{"no end", []string{"a\nb"}, []string{"F a", "P b"}},
		{"exactly full", []string{long, "\n"}, []string{"F " + long}},
		{"one more", []string{long + "y\n"}, []string{"P " + long, "F y"}},
		{"twice in pieces", []string{"z" + long, long, "\n"}, []string{"P z" + long[1:], "P x" + long[1:], "F x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			file := logFile{path: path}
			file.create()
			s := stream{name: "stdout", file: &file}
			for _, w := range c.writes {
				s.write([]byte(w))
			}
			s.end()
			file.close()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(b)) {
				_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " stdout ")
				got = append(got, rest)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	file := logFile{path: filepath.Join(dir, "log")}
	if err := os.WriteFile(filepath.Join(dir, "log2"), nil, 0o600); err != nil { // another log
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte("0123456789abcdef"), maxLogSize/16/2)
	const blocks = 15
	for range blocks {
		file.write(block)
	}
	file.close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxLogSize {
			t.Errorf("%s has %d bytes", e.Name(), info.Size())
		}
	}
	if len(names) != maxLogFiles+1 || names[0] != "log" || names[len(names)-1] != "log2" {
		t.Errorf("got %q", names)
	}
	if info, err := os.Stat(file.path); err != nil || info.Size() != maxLogSize/2 {
		t.Errorf("the current file: %v, %v", info, err)
	}
}
