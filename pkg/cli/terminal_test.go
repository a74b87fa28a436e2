package cli

import (
	"bytes"
	"testing"
)

func TestPrefixes(t *testing.T) {
	for _, c := range []struct {
		name          string
		show, colours bool
		want          string
	}{
		{"a pipe", false, false, "1\n2\n3"},
		{"a pipe with --prefix", true, false, "[pod/a/c] 1\n[pod/b/c] 2\n[pod/a/d] 3\n"},
		{"a terminal", true, true, "\x1b[36m[pod/a/c]\x1b[0m 1\n\x1b[33m[pod/b/c]\x1b[0m 2\n\x1b[36m[pod/a/d]\x1b[0m 3\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			p := newPrefixes(&b, c.show)
			p.colours = c.colours
			for _, l := range [][3]string{{"a", "c", "1\n"}, {"b", "c", "2\n"}, {"a", "d", "3"}} {
				if err := p.print(l[0], l[1], []byte(l[2])); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
