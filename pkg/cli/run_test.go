package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestRunDeployment(t *testing.T) {
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
			d, err := deployment(cmd, slices.Concat([]string{"web"}, strings.Fields(c.args)), "nginx", 3)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(map[string]any{"labels": d.Labels, "container": d.Spec.Template.Spec.Containers[0]})
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
			if *d.Spec.Replicas != 3 || d.Name != "web" {
				t.Errorf("%d of %s", *d.Spec.Replicas, d.Name)
			}
			for key, value := range d.Labels {
				if d.Spec.Selector.MatchLabels[key] != value || d.Spec.Template.Labels[key] != value {
					t.Errorf("label %s is not on selector and template", key)
				}
			}
		})
	}
}
