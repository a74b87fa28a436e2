package supervisor

import (
	"slices"
	"testing"
)

func TestOverMemory(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []memoryUse
		want []bool
	}{
		{"none", nil, nil},
		{"at its limit", []memoryUse{{id: "a", limit: 10, used: 10}}, []bool{false}},
		{"above its limit", []memoryUse{{id: "a", limit: 10, used: 11}, {id: "b", limit: 10, used: 9}}, []bool{true, false}},
		{"the largest container of a pod", []memoryUse{
			{id: "a", pod: "p", podLimit: 10, used: 4}, {id: "b", pod: "p", podLimit: 10, used: 7},
		}, []bool{false, true}},
		{"equal ones", []memoryUse{{id: "b", pod: "p", podLimit: 10, used: 6}, {id: "a", pod: "p", podLimit: 10, used: 6}}, []bool{false, true}},
		{"a pod at its limit", []memoryUse{{id: "a", pod: "p", podLimit: 10, used: 5}, {id: "b", pod: "p", podLimit: 10, used: 5}}, []bool{false, false}},
		{"pods count for themselves", []memoryUse{{id: "a", pod: "p", podLimit: 10, used: 9}, {id: "b", pod: "q", podLimit: 10, used: 9}}, []bool{false, false}},
		{"a killed container leaves room for the pod", []memoryUse{
			{id: "a", pod: "p", limit: 5, podLimit: 10, used: 6}, {id: "b", pod: "p", podLimit: 10, used: 9},
		}, []bool{true, false}},
	} {
		if got := overMemory(c.all); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
