package kubelet

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestPodUser(t *testing.T) {
	seen := map[int64]bool{}
	for i := range 200 {
		u := podUser(types.UID(fmt.Sprintf("3f1b0d1e-8c2a-4a55-9f6e-%012d", i)))
		if seen[u] || u < 1879048192 || u > 2147352575 { // what systemd's documentation lists as unused
			t.Errorf("pod %d has user %d", i, u)
		}
		seen[u] = true
	}
	if podUser("a") != podUser("a") {
		t.Error("the user of a pod changes")
	}
}

func TestMapsPodUsers(t *testing.T) {
	for file, want := range map[string]bool{
		"         0          0 4294967295\n":          true,
		"         0          0 1879048192\n":          false,
		"0 1000 1\n1 100000 65536\n":                  false,
		"0 1000 1\n1879048192 1879048192 134217728\n": true,
		"0 1000 1\n1879048193 1879048192 134217727\n": false,
		"": false,
	} {
		if got := mapsPodUsers([]byte(file)); got != want {
			t.Errorf("%q: got %v", file, got)
		}
	}
}
