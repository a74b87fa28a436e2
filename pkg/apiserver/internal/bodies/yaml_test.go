package bodies_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
)

// TestNodes counts the nodes of YAML that is long enough to be counted.
func TestNodes(t *testing.T) {
	space := strings.Repeat("\n", bodies.MaxNodes)
	for data, want := range map[string]int{
		"":                                     0,
		"a: b":                                 2,
		"a:\n  b: c\n":                         4,
		"- a\n- - b\n":                         3,
		"- a: b\n  c: d\n":                     5,
		"? a\n: b\n":                           3,
		"[a, b, {c: d}]":                       5,
		"x: {a,b}":                             4,
		`{"a":"b","c":[1,2]}`:                  6,
		"a: [*b, *b]":                          4,
		"z: [{<<: *a}, {<<: *a}]":              8, // an object, its key and its alias each, and z and its list
		"# a: b, - c\nx: y # a: b\n":           2,
		"x: 'a: b\n  c: ''d: e, [' ":           2,
		"x: \"a: \\\" b\n  c: d\"":             2,
		"x: a, b [c] {d} it's - e\n":           2,
		"http://a:80/b: c":                     2,
		"x: |\n  a: b\n\n  - c\n   d: e\ny: z": 4,
		"x:\n- |-\n a: b\n- c: >+2\n    d: e\n    f: g\n  h: i\n": 2 + 2 + 2 + 2,
		"- k: |\n   a: b\n  l: |\n   c: d\n":                      5,
		"x: | # c\r\n  a: b\r\n\r\n  c: d\r\ny: z\r\n":            4,
		"x: !t |\n  a: b\ny: &z {a: b}\n":                         6,

		"# a\r- b\r- c":                   2, // each kind of the end of a line
		"# a\u0085- b\u2028- c\u2029- d":  3,
		"x: |\r  a: b\ry: z":              4,
		"[&a,&a,&b c]":                    3,
		"[a,#\"\n b, c]":                  3,
		"x: a\n \"\ny: z":                 4, // the second line is text
		"x: a\n  - \"\ny: z":              4,
		"- a\n  |\n- b":                   2,
		"- k: a\n  \"l\": \"b\n   c: d\"": 5,
		"x: [a\n \", b\n 'c, d]":          5,
		"x: [[a], b]\n\"y\": 'c: d'":      7,
		"[a]: |\n   b: c\n  d: e\n":       5, // a line that is indented less ends the block
		"x: |2\n   a: b\n  c: d\ny: z":    4,
		"\ufeffx: y":                      2,
		"\ufeff\n\ufeff\"z: [a, b, c]":    5,
		"--- |\n a: b\n...\n--- c\n- d\n": 0, // - d is text
		"%YAML 1.1 # '\n---\nx: y":        2,
	} {
		if got := bodies.Nodes([]byte(data + space)); got != want {
			t.Errorf("%q: got %d, want %d", data, got, want)
		}
	}
	if got := bodies.Nodes([]byte("a: b")); got != 0 {
		t.Errorf("a small body has %d", got)
	}
}

// FuzzNodes compares the number of nodes with what the library makes of a text: a body must not hide nodes.
func FuzzNodes(f *testing.F) {
	for _, seed := range []string{
		"x: [a\n \", b, c, d, e]", "#\r- a\r- b\r- c\r- d", "z: [&a,&a,&a,&a]", "k: a\n  - \"\nz: [a, b, c]", "x: |\r a\ry:\r- a\r- b\r- c",
		"? a\n: - b\n  - {c: d}\n", "x: >1\n  a\n b\ny: [a]", "\ufeffx: \ufeff'a'\n", "\"\\\r\n\": [a, b]\n",
	} {
		f.Add(seed)
	}
	space := strings.Repeat("\n", bodies.MaxNodes)
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if strings.Contains(text, "*") || yaml.Unmarshal([]byte(text), &value) != nil {
			return // the library expands aliases
		}
		// A key counts together with its value, and the last item of a flow collection with the bracket.
		if got, has := bodies.Nodes([]byte(text+"\n"+space)), values(value); 2*got+1 < has {
			t.Errorf("%q has %d nodes, counted as %d", text, has, got)
		}
	})
}

// values returns the number of values and keys in a decoded value.
func values(value any) int {
	n := 1
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			n += values(v)
		}
	case map[any]any:
		for k, v := range value {
			n += values(k) + values(v)
		}
	}
	return n
}

// TestCheckYAML refuses YAML of three megabytes that consists of little else than nodes, and takes text and ordinary objects.
func TestCheckYAML(t *testing.T) {
	const size = 3<<20 - 100
	for data, refused := range map[string]bool{
		"x: &a b\nz: [" + strings.Repeat("*a,", size/3) + "*a]":          true,
		"x: &a {a: b}\nz: [" + strings.Repeat("{<<: *a},", size/9) + "]": true,
		"z: {" + strings.Repeat("k: v,", size/5) + "k: v}":               true,
		strings.Repeat("- a\n", size/4):                                  true,
		"z: [a\n \"," + strings.Repeat("a,", size/2) + "a]":              true,  // the quotation mark is text
		"\xff\xfe" + strings.Repeat("-\x00 \x00a\x00\n\x00", size/8):     true,  // UTF-16
		strings.Repeat("- ", size/2):                                     false, // too deep
		strings.Repeat("[", size):                                        false,

		"data:\n  a: |\n" + strings.Repeat("    - a: [b, c]\n", size/16):                                                           false,
		"data:\n  a: \"" + strings.Repeat("a: b, ", size/6) + "\"\n":                                                               false,
		"data:\n  a: b c\n" + strings.Repeat("    a, b [c] {d}\n", size/17):                                                        false,
		"items:\n" + strings.Repeat("- name: a\n  value: a text of some more words, as long as that of many variables\n", size/81): false,
		"x: [" + strings.Repeat("123456789012, ", size/14) + "1]":                                                                  false,
		strings.Repeat("# a: b, c: d\n", size/13):                                                                                  false,
	} {
		if err := bodies.CheckYAML([]byte(data)); (err != nil) != refused {
			t.Errorf("%.40q: %v", data, err)
		}
	}
}
