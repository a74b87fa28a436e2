package aggregate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/openapi"
)

var things = schema.GroupVersion{Group: "example.org", Version: "v1"}

const swagger = `{"swagger":"2.0","info":{"title":"t","version":"1"},"paths":{
	"/apis/example.org/v1/things":{"get":{"parameters":[{"name":"a","in":"query","type":"string"}],"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Thing"}}}}},
	"/apis/other.org/v1/others":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Other"}}}}}},
	"definitions":{"Thing":{"type":"object","properties":{"next":{"$ref":"#/definitions/Thing"}}},"Other":{"type":"object"}}}`

func TestReadSwagger(t *testing.T) {
	v2, v3, err := readSwagger([]byte(swagger), things)
	if err != nil {
		t.Fatal(err)
	}
	if len(v2.Paths.Paths) != 1 || len(v2.Definitions) != 1 {
		t.Errorf("%d paths and %d definitions of the version", len(v2.Paths.Paths), len(v2.Definitions))
	}
	if text := string(v3); !strings.Contains(text, `"#/components/schemas/Thing"`) || strings.Contains(text, "other.org") {
		t.Errorf("as OpenAPI v3: %s", text)
	}
	for _, bad := range []string{"", "[]", `{"paths":7}`, "nothing"} {
		if _, _, err := readSwagger([]byte(bad), things); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// FuzzReadSwagger decodes arbitrary documents and merges them into the server's.
func FuzzReadSwagger(f *testing.F) {
	for _, s := range []string{swagger, "{}", `{"paths":{}}`, `{"definitions":{"A":{"$ref":"#/definitions/A"}}}`, `{"paths":{"/apis/example.org/v1/x":{"get":{"responses":{"200":{"$ref":"#/responses/r"}}}}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, body []byte) {
		v2, v3, err := readSwagger(body, things)
		if err != nil {
			return
		}
		var none *spec.Swagger
		for _, r := range []openapi.Remote{{GroupVersion: things, V2: v2, V3: v3, Hash: "1"}, {GroupVersion: things, V2: none, Link: "/l"}} {
			s := openapi.New(nil).With([]openapi.Remote{r})
			_ = s.Index()
			_, _, _ = s.Swagger() // an error is a valid result
		}
	})
}
