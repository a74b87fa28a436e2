package volume

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// library is the policy by the library that reads image references for everybody else.
func library(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	tagged, isTagged := named.(reference.Tagged)
	_, isDigested := named.(reference.Digested)
	if isTagged && tagged.Tag() == "latest" || !isTagged && !isDigested {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func FuzzPullPolicy(f *testing.F) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, s := range []string{"nginx", "nginx:latest", "nginx:1.27", "a/b", "a/b:latest", "localhost/x", "host:5000/x", "host:5000/x:1", "host.example/x:latest", "UPPER", "Host/x",
		"host/UPPER", "a//b", "a__b", "a___b", "a--b", "a..b", "a.-b", "-a", "a-", "a:", ":a", "a:-", "a:_", "a:" + strings.Repeat("t", 128), "a:" + strings.Repeat("t", 129), "x" + digest,
		"x:latest" + digest, "x@y", "[::1]:80/x", "[::1]/x", strings.Repeat("a", 64), strings.Repeat("z", 64), strings.Repeat("x", 256), " nginx", "nginx ", "", "a_b", "a/b/c/d", "docker.io/a",
		"docker.io/library/a", "index.docker.io/a:latest", "a.b.c", "1", "a:b/c", "a@", "sha256:" + strings.Repeat("0a", 32),
		strings.Repeat("x", 237), strings.Repeat("x", 238), strings.Repeat("x", 247), strings.Repeat("x", 248), "a.b/" + strings.Repeat("x", 251), "a.b/" + strings.Repeat("x", 252), "a.b/" + strings.Repeat("x", 255)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, image string) {
		if got, want := PullPolicy(image), library(image); got != want {
			t.Errorf("%q: got %s, the library says %s", image, got, want)
		}
	})
}
