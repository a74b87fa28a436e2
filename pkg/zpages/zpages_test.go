package zpages

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// TestPages compares the pages with those of kube-apiserver v1.36.3, which separates names and values of text by a random character.
func TestPages(t *testing.T) {
	const refused = `{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {},
  "status": "Failure",
  "message": "only the following media types are accepted: application/json, application/yaml, text/plain",
  "reason": "NotAcceptable",
  "code": 406
}
`
	const statusText = `
apiserver statusz
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.

Started: Sat Jan  1 00:00:00 UTC 2000
Up: 1 hr 02 min 03 sec
Go version: GO
Binary version: 1.36.3
Emulation version: 1.36
Paths: /livez /metrics /statusz
`
	const statusJSON = `{
  "kind": "Statusz",
  "apiVersion": "config.k8s.io/v1beta1",
  "metadata": {
    "name": "apiserver"
  },
  "startTime": "2000-01-01T00:00:00Z",
  "uptimeSeconds": 3723,
  "goVersion": "GO",
  "binaryVersion": "1.36.3",
  "emulationVersion": "1.36",
  "paths": [
    "/livez",
    "/metrics",
    "/statusz"
  ]
}
`
	const statusYAML = `apiVersion: config.k8s.io/v1alpha1
binaryVersion: 1.36.3
emulationVersion: "1.36"
goVersion: GO
kind: Statusz
metadata:
  name: apiserver
paths:
- /livez
- /metrics
- /statusz
startTime: "2000-01-01T00:00:00Z"
uptimeSeconds: 3723
`
	const flagsText = `
apiserver flagz
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.
a=1
b=
`
	const flagsJSON = `{
  "kind": "Flagz",
  "apiVersion": "config.k8s.io/v1beta1",
  "metadata": {
    "name": "apiserver"
  },
  "flags": {
    "a": "1",
    "b": ""
  }
}
`
	const text = "text/plain; charset=utf-8"
	synctest.Test(t, func(t *testing.T) {
		c := New("apiserver", clock.Real(), map[string]string{"b": "", "a": "1"}, []string{"/metrics/slis", "/metrics", "/statusz", "/livez/ping", "/apis/apps", "/openapi/v2", "/"})
		time.Sleep(time.Hour + 2*time.Minute + 3*time.Second + time.Second/2) // of synctest's fake clock: it takes no time
		for _, tt := range []struct {
			name, path, accept string
			code               int
			media, warning     string
			body               string
		}{
			{"no form", "/statusz", "", 200, text, "", statusText},
			{"any form", "/statusz", "*/*", 200, text, "", statusText},
			{"text", "/statusz", "text/plain", 200, text, "", statusText},
			{"text as an object", "/statusz", "text/plain;v=v1beta1;g=config.k8s.io;as=Statusz", 406, "application/json", "", refused},
			{"JSON", "/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", 200, "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", "", statusJSON},
			{"JSON of no kind", "/statusz", "application/json", 406, "application/json", "", refused},
			{"another kind", "/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", 406, "application/json", "", refused},
			{"an unknown version", "/statusz", "application/json;v=v1beta2;g=config.k8s.io;as=Statusz", 406, "application/json", "", refused},
			{"HTML", "/statusz", "text/html", 406, "application/json", "", refused},
			{"the second choice", "/statusz", "application/json, text/plain;q=0.5", 200, text, "", statusText},
			{"an old version", "/statusz", "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz", 200, "application/yaml;g=config.k8s.io;v=v1alpha1;as=Statusz",
				`299 - "This version of the statusz endpoint is deprecated. Please use a newer version."`, statusYAML},
			{"flags", "/flagz", "text/plain", 200, text, "", flagsText},
			{"flags as JSON", "/flagz", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", 200, "application/json;g=config.k8s.io;v=v1beta1;as=Flagz", "", flagsJSON},
		} {
			r, w := httptest.NewRequest("GET", tt.path, nil), httptest.NewRecorder()
			r.Header.Set("Accept", tt.accept)
			if tt.path == "/flagz" {
				c.Flagz(w, r)
			} else {
				c.Statusz(w, r)
			}
			body := strings.ReplaceAll(w.Body.String(), runtime.Version(), "GO")
			if w.Code != tt.code || body != tt.body || w.Header().Get("Content-Type") != tt.media || w.Header().Get("Warning") != tt.warning {
				t.Errorf("%s: %d %v\n%s", tt.name, w.Code, w.Header(), body)
			}
		}
	})
}
