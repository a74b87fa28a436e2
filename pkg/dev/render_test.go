package dev

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/images"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestRender(t *testing.T) {
	dir := t.TempDir()
	app, site := filepath.Join(dir, "app"), filepath.Join(dir, "site")
	write(t, app, "app")
	write(t, filepath.Join(site, "index.html"), "hi")
	store, err := images.New(images.Config{Map: map[string]images.Source{"mapped": {Entrypoint: []string{app}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		manifest string
		container,
		build string // paths to look at and what they have
		files []string
	}{
		"a program": {
			manifest:  "{kind: Deployment, spec: {template: {spec: {containers: [{name: c, image: 'shop/cart:v1', args: [x]}]}}}}",
			container: "command=[APP] image=shop/cart:v1", build: "yes", files: []string{app},
		},
		"a container with a command": {
			manifest:  "{kind: Pod, spec: {containers: [{name: c, image: shop/cart, command: [sh]}]}}",
			container: "command=[sh] image=shop/cart", build: "yes", files: []string{app},
		},
		"a directory": {
			manifest:  "{kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: site}]}}}}}}",
			container: "command=[] image=dir:SITE", build: "yes", files: []string{site},
		},
		"by the config":      {manifest: "{kind: Pod, spec: {containers: [{name: c, image: mapped}]}}", container: "command=[] image=mapped", build: "yes", files: []string{app}},
		"by its command":     {manifest: "{kind: Pod, spec: {containers: [{name: c, image: x, command: [APP]}]}}", container: "command=[APP] image=x", build: "yes", files: []string{app}},
		"another tag":        {manifest: "{kind: Pod, spec: {containers: [{name: c, image: 'tagged:v2'}]}}", container: "command=[] image=tagged:v2"},
		"that tag":           {manifest: "{kind: Pod, spec: {containers: [{name: c, image: 'tagged:v1'}]}}", container: "command=[APP] image=tagged:v1", build: "yes", files: []string{app}},
		"none of ours":       {manifest: "{kind: Pod, spec: {containers: [{name: c, image: minikctl.dev/web}]}}", container: "command=[] image=minikctl.dev/web"},
		"no pod":             {manifest: "{kind: ConfigMap, data: {a: b}}", container: "none"},
		"no list containers": {manifest: "{kind: Pod, spec: {containers: 5}}", container: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Renderer{Images: map[string]string{"shop/cart": app, "site": site, "tagged:v1": app}, Resolve: store.Resolve}
			u := object(t, strings.ReplaceAll(c.manifest, "APP", app))
			if err := r.Render(u); err != nil {
				t.Fatal(err)
			}
			container := strings.NewReplacer("APP", app, "SITE", site).Replace(c.container)
			if got := containerText(u); got != container || (buildOf(u) != "") != (c.build != "") || !slices.Equal(r.Files(), c.files) {
				t.Errorf("got container %s, build %q, files %q", got, buildOf(u), r.Files())
			}
		})
	}
}

func containerText(u *unstructured.Unstructured) string {
	for _, path := range podPaths {
		list, ok, _ := unstructured.NestedSlice(u.Object, append(slices.Clone(path), "spec", "containers")...)
		if !ok {
			continue
		}
		command, _, _ := unstructured.NestedStringSlice(list[0].(map[string]any), "command")
		image, _, _ := unstructured.NestedString(list[0].(map[string]any), "image")
		return "command=[" + strings.Join(command, " ") + "] image=" + image
	}
	return "none"
}

func TestOutdated(t *testing.T) {
	dir := t.TempDir()
	app := filepath.Join(dir, "app")
	const deployment = "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: [{name: c, image: a}]}}}}"
	const pod = "{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: a}]}}"
	rendered := func(manifest, content string) *unstructured.Unstructured {
		write(t, app, content)
		u := object(t, manifest)
		if err := (&Renderer{Images: map[string]string{"a": app}}).Render(u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, c := range []struct {
		name, manifest, next string
		want                 bool
	}{
		{"the same build", pod, "1", false},
		{"another build", pod, "2", true},
		{"another build of a Deployment, which replaces its pods itself", deployment, "2", false},
	} {
		if got := Outdated(rendered(c.manifest, "1"), rendered(c.manifest, c.next)); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestRenderReportsMissingFiles(t *testing.T) {
	r := &Renderer{Images: map[string]string{"a": "/does/not/exist", "b": "/"}}
	err := r.Render(object(t, "{kind: Pod, spec: {containers: [{name: c, image: a}]}}"))
	if err == nil || !strings.Contains(err.Error(), "image a: stat /does/not/exist: no such file") {
		t.Errorf("got %v", err)
	}
	if got := r.Unused(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("unused: %q", got)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}
