package main

import (
	"os"
	"strings"
	"testing"
)

// TestUpToDate verifies that the committed page is the generated one.
func TestUpToDate(t *testing.T) {
	var all [][]byte
	for _, source := range sources {
		src, err := os.ReadFile("../../" + source)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, src)
	}
	want, err := page(all...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + target)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/config.md is out of date: run go generate ./pkg/daemon")
	}
}

func TestPage(t *testing.T) {
	got, err := page([]byte("package p\n// C is\n// it.\ntype C struct {\n// A is one | two.\nA []int `json:\"a,omitempty\"`\n// B is not in the file.\nB string `json:\"-\"`\nx int\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\n## C\n\nC is it.\n\n| Setting | Type | Description |\n|---|---|---|\n| `a` | list of number | One \\| two. |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant it to end with\n%s", got, want)
	}
	if _, err := page([]byte("package p\ntype C struct {\nA int `json:\"a\"`\n}\n")); err == nil || err.Error() != "C.a has no comment" {
		t.Errorf("a field without a comment: %v", err)
	}
}
