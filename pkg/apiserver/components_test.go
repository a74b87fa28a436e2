package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

func TestComponentStatuses(t *testing.T) {
	e := apiservertest.New(t, func(c *apiserver.Config) {
		c.Components = map[string]apiserver.Component{
			"scheduler":          func(context.Context) error { return nil },
			"controller-manager": func(context.Context) error { return errors.New("stuck") },
		}
	})
	const path = "/api/v1/componentstatuses"
	admin := []string{"Authorization", "Bearer " + apiservertest.AdminToken}
	resp, body := do(t, e, "GET", path, "", admin...)
	var list corev1.ComponentStatusList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, s := range list.Items {
		got += fmt.Sprintf("%s %s %s; ", s.Name, s.Conditions[0].Status, s.Conditions[0].Message)
	}
	if want := "controller-manager False stuck; etcd-0 True ok; scheduler True ok; "; got != want || list.ResourceVersion != "" {
		t.Errorf("got %s at %q, want %s", got, list.ResourceVersion, want)
	}
	if got, want := resp.Header.Get("Warning"), `299 - "v1 ComponentStatus is deprecated in v1.19+"`; got != want {
		t.Errorf("got warning %s, want %s", got, want)
	}
	for _, c := range []struct {
		method, path string
		code         int
		has          string
	}{
		{"GET", path + "/etcd-0", 200, `"metadata":{"name":"etcd-0"}`},
		{"GET", path + "/x", 404, `componentstatus \"x\" not found`},
		{"GET", path + "?fieldSelector=metadata.name%3Dscheduler", 200, `"items":[{"metadata":{"name":"scheduler"}`},
		{"GET", path + "?labelSelector=a%3Db", 200, `"items":[]`},
		{"GET", path + "?watch=1", 405, "MethodNotAllowed"},
		{"DELETE", path + "/etcd-0", 405, "MethodNotAllowed"},
	} {
		if resp, body := do(t, e, c.method, c.path, "", admin...); resp.StatusCode != c.code || !strings.Contains(body, c.has) {
			t.Errorf("%s %s: got %s %s", c.method, c.path, resp.Status, body)
		}
	}
	if resp, _ := do(t, e, "GET", path, "", "Authorization", "Bearer "+apiservertest.BobToken); resp.StatusCode != 403 {
		t.Errorf("a user without rights: got %s", resp.Status)
	}
	_, body = do(t, e, "GET", path, "", append(admin, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")...)
	if !strings.Contains(body, `"cells":["controller-manager","Unhealthy","stuck",""]`) {
		t.Errorf("got %s", body)
	}
}
