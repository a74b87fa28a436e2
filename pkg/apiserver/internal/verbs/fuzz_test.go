package verbs

import (
	"encoding/base64"
	"strings"
	"testing"
)

// FuzzContinue decodes arbitrary continue tokens. A token that decodes encodes to the same position.
func FuzzContinue(f *testing.F) {
	for _, token := range []string{`{"v":"meta.k8s.io/v1","rv":7,"start":"default/a\u0000"}`, `{"v":"meta.k8s.io/v1","rv":-1,"start":"/../x"}`, `{"v":"v0"}`, `[]`, ""} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(token)))
	}
	f.Add("not base64!")
	f.Fuzz(func(t *testing.T, token string) {
		start, version, err := decodeContinue(token)
		if err != nil {
			return
		}
		if start == "" || version == 0 || strings.HasPrefix(start, "/") || strings.Contains("/"+start+"/", "/../") {
			t.Errorf("%q is %q at %d", token, start, version)
		}
		again, same, err := decodeContinue(encodeContinue(start, version))
		if err != nil || again != start || same != version {
			t.Errorf("%q at %d: %q at %d, %v", start, version, again, same, err)
		}
	})
}
