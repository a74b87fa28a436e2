package apiserver_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// frame is an encoded watch event.
type frame struct {
	Type   string
	Object struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Code              int
		Message           string
		ColumnDefinitions []metav1.TableColumnDefinition
		Rows              []metav1.TableRow
	}
}

// stream starts a watch and returns a function that reads its next event.
func stream(t *testing.T, e *apiservertest.Env, path, accept string) func() frame {
	t.Helper()
	hc, err := rest.HTTPClientFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(testContext(t), http.MethodGet, e.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	lines := bufio.NewReader(resp.Body)
	return func() (f frame) {
		t.Helper()
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
}

func TestWatchForms(t *testing.T) {
	e := apiservertest.New(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	do(t, e, "POST", maps, `{"metadata":{"name":"a"}}`)
	do(t, e, "POST", maps, `{"metadata":{"name":"b"}}`)

	t.Run("path of one object", func(t *testing.T) {
		next := stream(t, e, "/api/v1/watch/namespaces/default/configmaps/b", "")
		if f := next(); f.Type != "ADDED" || f.Object.Name != "b" || f.Object.Kind != "ConfigMap" {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("table", func(t *testing.T) {
		next := stream(t, e, maps+"?watch=1", "application/json;as=Table;v=v1;g=meta.k8s.io")
		for i, name := range []string{"a", "b"} {
			f := next()
			if f.Type != "ADDED" || f.Object.Kind != "Table" || len(f.Object.Rows) != 1 || f.Object.Rows[0].Cells[0] != name {
				t.Errorf("got %+v, want the row of %s", f, name)
			}
			if got := len(f.Object.ColumnDefinitions) > 0; got != (i == 0) {
				t.Errorf("event %d has column definitions: %v", i, got)
			}
		}
	})
	t.Run("metadata", func(t *testing.T) {
		next := stream(t, e, maps+"?watch=1", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
		if f := next(); f.Object.Kind != "PartialObjectMetadata" || f.Object.APIVersion != "meta.k8s.io/v1" || f.Object.Name != "a" {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("watch-list", func(t *testing.T) {
		next := stream(t, e, maps+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "")
		next()
		next()
		f := next()
		if f.Type != "BOOKMARK" || f.Object.Kind != "ConfigMap" || f.Object.Annotations[metav1.InitialEventsAnnotationKey] != "true" || f.Object.ResourceVersion == "" {
			t.Errorf("got %+v, want the bookmark that ends the initial events", f)
		}
	})
	t.Run("older version", func(t *testing.T) {
		do(t, e, "POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
		next := stream(t, e, "/apis/apps/v1beta1/deployments?watch=1", "")
		if f := next(); f.Type != "ADDED" || f.Object.APIVersion != "apps/v1beta1" || f.Object.Name != "d" {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("virtual", func(t *testing.T) {
		next := stream(t, e, "/apis/minikctl.dev/v1/traces?watch=1", "")
		first := next()
		rev, err := strconv.Atoi(first.Object.Name)
		if err != nil || first.Type != "ADDED" || first.Object.Kind != "Trace" || rev == 0 {
			t.Errorf("got %+v", first)
		}
		next = stream(t, e, "/apis/minikctl.dev/v1/traces?watch=1&resourceVersion="+first.Object.ResourceVersion, "")
		if f := next(); f.Object.Name == first.Object.Name {
			t.Errorf("a watch after %s begins with it", first.Object.ResourceVersion)
		}
	})
}

// TestAgesInWatchedTables: a row of a watch has the object's age at the event, not at the begin of the watch.
func TestAgesInWatchedTables(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	e := apiservertest.New(t, func(c *apiserver.Config) { c.Clock = clk })
	const maps = "/api/v1/namespaces/default/configmaps"
	next := stream(t, e, maps+"?watch=1", "application/json;as=Table;v=v1;g=meta.k8s.io")
	clk.Step(10 * time.Minute)
	do(t, e, "POST", maps, `{"metadata":{"name":"a"}}`)
	if cells := next().Object.Rows[0].Cells; cells[2] != "0s" {
		t.Errorf("got the row %v of a new object, want the age 0s", cells)
	}
	clk.Step(time.Minute)
	do(t, e, "DELETE", maps+"/a", "")
	if cells := next().Object.Rows[0].Cells; cells[2] != "60s" {
		t.Errorf("got the row %v of a deleted object, want the age 60s", cells)
	}
}
