package plug_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/plug"
)

type args struct {
	Names []string `json:"names"`
	Limit int      `json:"limit"`
}

func defaults() args { return args{Names: []string{"a", "b"}, Limit: 3} }

func TestArgs(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		want      args
		err       string
	}{
		{"nothing", "", defaults(), ""},
		{"one field", "limit: 5", args{[]string{"a", "b"}, 5}, ""},
		{"a list replaces the default", `{"names":["c"]}`, args{[]string{"c"}, 3}, ""},
		{"unknown field", `{"limt":5}`, args{}, `args: unknown field "limt"`},
		{"repeated field", "limit: 1\nlimit: 2", args{}, `args: yaml: unmarshal errors`},
		{"wrong type", "limit: many", args{}, "args: limit: a string is not a number in its range"},
		{"no list", "names: 3", args{}, "args: names: a number is not a list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := plug.Args([]byte(c.raw), defaults)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || got.Limit != c.want.Limit || strings.Join(got.Names, " ") != strings.Join(c.want.Names, " ") {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// TestDecodePaths checks that all errors of a document are returned.
func TestDecodePaths(t *testing.T) {
	type item struct {
		Name string          `json:"name"`
		Wait metav1.Duration `json:"wait"`
	}
	type document struct {
		Limit int             `json:"limit"`
		Items []item          `json:"items"`
		By    map[string]bool `json:"by"`
	}
	for _, c := range []struct{ name, raw, want string }{
		{"nothing wrong", "limit: 1\nitems: [{name: a}]\nby: {x: true}", ""},
		{"types and unknown fields", "limit: much\nlmit: 2\nitems: [{name: [a]}, {nme: a, wait: long}, 5]\nby: {x: 1}",
			"by: a number is not true or false\nitems.name: a array is not a string\nitems[1].wait: \"long\" is not a duration such as 90m\nitems: a number is not a mapping\nlimit: a string is not a number in its range\n" +
				"unknown field \"items[1].nme\"\nunknown field \"lmit\""},
		{"a list for a mapping", "by: [{x: true}, 1]\nlmit: 2", "by: a array is not a mapping\nunknown field \"lmit\""},
		{"repeated and unknown fields", "limit: 1\nlimit: 2\nlmit: 3", "yaml: unmarshal errors:\n  line 2: key \"limit\" already set in map\nunknown field \"lmit\""},
		{"a name that YAML reads as a boolean", "items: [{name: n}]", ""},
		{"a name that YAML reads as a boolean, and an unknown field", "items: [{name: n}]\nlmit: 2", "unknown field \"lmit\""},
		{"no YAML", "limit: [", "yaml: line 1: did not find expected node content"},
	} {
		got := ""
		if err := plug.DecodePaths([]byte(c.raw), &document{}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestFind(t *testing.T) {
	set := plug.Set[int]{What: "store", Parts: map[string]int{"badger": 1, "memory": 2}}
	if got, err := set.Find("memory"); got != 2 || err != nil {
		t.Errorf("got %d, %v; want 2", got, err)
	}
	if _, err := set.Find("etcd"); err == nil || err.Error() != `store "etcd" is not one of [badger memory]` {
		t.Errorf("got error %v", err)
	}
}
