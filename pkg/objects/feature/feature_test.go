package feature_test

import (
	"testing"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

func TestParse(t *testing.T) {
	for _, x := range []struct {
		on   map[string]bool
		want feature.Gates
		err  string
	}{
		{nil, feature.Gates{}, ""},
		{map[string]bool{"GenericWorkload": true, "GangScheduling": true, "TopologyAwareWorkloadScheduling": true}, feature.All, ""},
		{map[string]bool{"GenericWorkload": true, "GangScheduling": false}, feature.Gates{GenericWorkload: true}, ""},
		{map[string]bool{"GangScheduling": true}, feature.Gates{}, "the feature gate GangScheduling requires GenericWorkload"},
		{map[string]bool{"TopologyAwareWorkloadScheduling": true}, feature.Gates{}, "the feature gate TopologyAwareWorkloadScheduling requires GenericWorkload"},
		{map[string]bool{"Nope": true}, feature.Gates{}, `feature gate "Nope" is not one of [GangScheduling GenericWorkload TopologyAwareWorkloadScheduling]`},
	} {
		got, err := feature.Parse(x.on)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != x.want || text != x.err {
			t.Errorf("%v: got %+v, %q, want %+v, %q", x.on, got, text, x.want, x.err)
		}
	}
}
