package plug_test

import (
	"strings"
	"testing"

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

func TestFind(t *testing.T) {
	set := plug.Set[int]{What: "store", Parts: map[string]int{"badger": 1, "memory": 2}}
	if got, err := set.Find("memory"); got != 2 || err != nil {
		t.Errorf("got %d, %v; want 2", got, err)
	}
	if _, err := set.Find("etcd"); err == nil || err.Error() != `store "etcd" is not one of [badger memory]` {
		t.Errorf("got error %v", err)
	}
}
