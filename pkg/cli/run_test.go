package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestRunTemplate(t *testing.T) {
	for _, c := range []struct{ name, flags, args, want, err string }{
		{"plain", "", "", `{"labels":{"run":"web"},"container":{"name":"web","image":"nginx","resources":{}}}`, ""},
		{"arguments", "", "a -b", `{"labels":{"run":"web"},"container":{"name":"web","image":"nginx","args":["a","-b"],"resources":{}}}`, ""},
		{"a command", "--command", "a -b", `{"labels":{"run":"web"},"container":{"name":"web","image":"nginx","command":["a","-b"],"resources":{}}}`, ""},
		{"labels", "--labels=a=1,b=2", "", `{"labels":{"a":"1","b":"2"},"container":{"name":"web","image":"nginx","resources":{}}}`, ""},
		{"env, port, pull policy", "--env=A=1=2 --env=B= --port=80 --image-pull-policy=Never", "",
			`{"labels":{"run":"web"},"container":{"name":"web","image":"nginx","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1=2"},{"name":"B"}],"resources":{},"imagePullPolicy":"Never"}}`, ""},
		{"a bad port", "--port=http", "", "", `invalid port "http"`},
		{"a port and more", "--port=80x", "", "", `invalid port "80x"`},
		{"a bad env", "--env=A", "", "", "invalid env: A"},
		{"a bad label", "--labels=a", "", "", "unexpected label spec: a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := rootOf("minikctl", "run")
			cmd, _, err := root.Find([]string{"run"})
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.ParseFlags(strings.Fields(c.flags)); err != nil {
				t.Fatal(err)
			}
			pods, err := template(cmd, slices.Concat([]string{"web"}, strings.Fields(c.args)), "nginx")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(map[string]any{"labels": pods.Labels, "container": pods.Spec.Containers[0]})
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if json.Unmarshal(b, &got) != nil || json.Unmarshal([]byte(c.want), &want) != nil {
				t.Fatal("no JSON")
			}
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(want)
			if string(g) != string(w) {
				t.Errorf("got  %s\nwant %s", g, w)
			}
			if pods.Name != "web" {
				t.Errorf("the name is %s", pods.Name)
			}
		})
	}
}

func TestRunGenerators(t *testing.T) {
	for _, c := range []struct {
		generator string
		replicas  bool
		want      string
	}{
		{"", false, "pod"},
		{"run-pod/v1", false, "pod"},
		{"", true, "Deployment"},
		{"deployment/v1beta1", false, "Deployment"},
		{"deployment/apps.v1beta1", true, "Deployment"},
		{"run/v1", false, "ReplicationController"},
		{"run/v1", true, "ReplicationController"},
		{"run-pod/v1", true, `generator "run-pod/v1" not found`},
		{"cron/v1", false, `generator "cron/v1" not found`},
	} {
		got := "pod"
		switch w, err := creatorOf(c.generator, c.replicas); {
		case err != nil:
			got = err.Error()
		case w != nil:
			got = w.kind
		}
		if got != c.want {
			t.Errorf("--generator=%s, replicas %t: %s, want %s", c.generator, c.replicas, got, c.want)
		}
	}
}
