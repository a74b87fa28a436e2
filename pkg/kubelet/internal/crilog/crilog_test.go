package crilog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	line1 = "2026-01-02T03:04:05.000000001Z stdout F one\n"
	line2 = "2026-01-02T03:04:06Z stderr F two\n"
	part3 = "2026-01-02T03:04:07Z stdout P thr\n"
	line3 = "2026-01-02T03:04:07Z stdout F ee\n"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.log")
	write(t, path+".20260102-030405", line1)
	write(t, path, line2+"garbage\n"+part3+line3+"2026-01-02T03:04:08Z stdout F cut of")
	at := func(s string) time.Time {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	tests := map[string]struct {
		o    Options
		want string
	}{
		"all":                   {Options{}, "one\ntwo\nthree\n"},
		"timestamps":            {Options{Timestamps: true}, "2026-01-02T03:04:05.000000001Z one\n2026-01-02T03:04:06Z two\n2026-01-02T03:04:07Z three\n"},
		"stderr":                {Options{Stream: "stderr"}, "two\n"},
		"since":                 {Options{Since: at("2026-01-02T03:04:06Z")}, "two\nthree\n"},
		"limit":                 {Options{Limit: 6}, "one\ntw"},
		"limit in a line's end": {Options{Limit: 4}, "one\n"},
		"tail 0":                {Options{Tail: new(int64(0))}, ""},
		"tail 2":                {Options{Tail: new(int64(2))}, "ee\n"}, // the line that is cut off counts
		"tail 5":                {Options{Tail: new(int64(5))}, "two\nthree\n"},
		"tail 6":                {Options{Tail: new(int64(6))}, "one\ntwo\nthree\n"},
		"tail 100":              {Options{Tail: new(int64(100))}, "one\ntwo\nthree\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Copy(t.Context(), path, test.o, &out); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want {
				t.Errorf("got %q, want %q", out.String(), test.want)
			}
		})
	}
}

func TestCopyOfMissingLog(t *testing.T) {
	var out bytes.Buffer
	if err := Copy(t.Context(), filepath.Join(t.TempDir(), "no", "0.log"), Options{}, &out); err != nil || out.Len() > 0 {
		t.Errorf("got %q and %v, want nothing", out.String(), err)
	}
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	appendTo := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	looks := 0
	steps := []func(){
		func() { appendTo(line1[:20]) }, // the file begins, in the middle of a line
		func() { appendTo(line1[20:]) },
		func() { // it is rotated, with a last line that the reader has not seen
			appendTo(line2)
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			appendTo(part3)
		},
		func() { appendTo(line3) },
	}
	var out bytes.Buffer
	err := Copy(t.Context(), path, Options{
		Follow: true,
		More:   func() bool { return looks < len(steps) },
		Wait: func(context.Context) error {
			steps[looks]()
			looks++
			return nil
		},
	}, &out)
	if err != nil || out.String() != "one\ntwo\nthree\n" {
		t.Errorf("got %q and %v", out.String(), err)
	}
	gone := errors.New("gone")
	if err := Copy(t.Context(), path, Options{
		Follow: true, More: func() bool { return true }, Wait: func(context.Context) error { return gone },
	}, &out); !errors.Is(err, gone) {
		t.Errorf("got %v, want what Wait returned", err)
	}
}

func TestStart(t *testing.T) {
	for _, size := range []int{1, 10, block / 8, block, 3 * block} {
		text := strings.Repeat(strings.Repeat("x", 7)+"\n", size/8+1)
		lines := int64(strings.Count(text, "\n"))
		for _, want := range []int64{1, 2, lines - 1, lines, lines + 1} {
			if want < 1 {
				continue
			}
			from, found, err := start(strings.NewReader(text), want)
			if err != nil || found != min(want, lines) || from != int64(len(text))-8*min(want, lines) {
				t.Errorf("last %d of %d lines: got offset %d, %d lines, %v", want, lines, from, found, err)
			}
		}
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "2026-01-02T03:04:05Z stdout F line %d\n", i)
	}
	write(t, path, b.String())
	got, err := Tail(path, 2, 1000)
	if err != nil || got != "line 98\nline 99\n" {
		t.Errorf("got %q and %v", got, err)
	}
	if got, err = Tail(path, 80, 10); err != nil || got != "8\nline 99\n" {
		t.Errorf("got %q and %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{line1, part3, "", " ", "2026-01-02T03:04:05Z stdout F", "2026-01-02T03:04:05Z stdout F: \n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := Parse(raw)
		if err != nil {
			return
		}
		tag := "F"
		if l.Partial {
			tag = "P"
		}
		again, err := Parse(append([]byte(l.Time.Format(timeFormat)+" "+l.Stream+" "+tag+" "), l.Text...))
		if err != nil {
			t.Fatalf("%q: written again: %v", raw, err)
		}
		if !again.Time.Equal(l.Time) || again.Stream != l.Stream || !bytes.Equal(again.Text, bytes.TrimSuffix(l.Text, nil)) && !l.Partial {
			t.Errorf("%q: got %+v, then %+v", raw, l, again)
		}
	})
}
