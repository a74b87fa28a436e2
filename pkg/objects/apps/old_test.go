package apps

import (
	"math"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects"
)

const oldManifest = `
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx
        env: [{name: A, value: b}]
        ports: [{containerPort: 80}]
`

// current converts a manifest of an old version to the stored version, as the server does.
func current(t *testing.T, v objects.Version[*appsv1.Deployment], manifest string) *appsv1.Deployment {
	t.Helper()
	in := v.New()
	if err := yaml.UnmarshalStrict([]byte(manifest), in); err != nil {
		t.Fatal(err)
	}
	if v.Default != nil {
		v.Default(in)
	}
	d, err := v.To(in)
	if err != nil {
		t.Fatal(err)
	}
	defaultDeployment(d)
	prepareDeployment(d, nil)
	return d
}

func TestOldDeployments(t *testing.T) {
	quarter := intstr.FromString("25%")
	one := intstr.FromInt32(1)
	want := map[string]struct {
		surge             intstr.IntOrString
		history, deadline int32
		deprecated        string
	}{
		"apps/v1beta1":       {quarter, 2, 600, "apps/v1beta1 Deployment is deprecated in v1.8+, unavailable in v1.16+; use apps/v1 Deployment"},
		"extensions/v1beta1": {one, math.MaxInt32, math.MaxInt32, "extensions/v1beta1 Deployment is deprecated in v1.8+, unavailable in v1.16+; use apps/v1 Deployment"},
	}
	for _, v := range oldDeployments {
		w, ok := want[v.Group+"/"+v.Version]
		if !ok {
			continue
		}
		d := current(t, v, oldManifest)
		if errs := validateDeployment(d, nil); len(errs) > 0 {
			t.Fatalf("%s/%s: %v", v.Group, v.Version, errs.ToAggregate())
		}
		s := d.Spec
		if v.Deprecated != w.deprecated {
			t.Errorf("%s/%s: got %q", v.Group, v.Version, v.Deprecated)
		}
		if s.Selector.MatchLabels["app"] != "web" || d.Labels["app"] != "web" || *s.Replicas != 2 {
			t.Errorf("%s/%s: got selector %v, labels %v, %d replicas", v.Group, v.Version, s.Selector, d.Labels, *s.Replicas)
		}
		if *s.Strategy.RollingUpdate.MaxSurge != w.surge || *s.Strategy.RollingUpdate.MaxUnavailable != w.surge ||
			*s.RevisionHistoryLimit != w.history || *s.ProgressDeadlineSeconds != w.deadline {
			t.Errorf("%s/%s: got %+v, history %d, deadline %d", v.Group, v.Version, s.Strategy.RollingUpdate, *s.RevisionHistoryLimit, *s.ProgressDeadlineSeconds)
		}
		if c := s.Template.Spec.Containers[0]; c.ImagePullPolicy != "Always" || c.Env[0].Value != "b" || c.Ports[0].Protocol != "TCP" {
			t.Errorf("%s/%s: got container %+v", v.Group, v.Version, c)
		}
	}
}

// TestDeploymentV1beta2NeedsSelector checks that v1beta2 has no default selector.
func TestDeploymentV1beta2NeedsSelector(t *testing.T) {
	d := current(t, oldDeployments[1], oldManifest)
	errs := validateDeployment(d, nil)
	if len(errs) == 0 || errs[0].Field != "spec.selector" {
		t.Errorf("got %v", errs)
	}
}

func TestRollbackTo(t *testing.T) {
	for _, i := range []int{0, 2} {
		v := oldDeployments[i]
		d := current(t, v, oldManifest+"  rollbackTo: {revision: 7}\n")
		if got := d.Annotations[appsv1.DeprecatedRollbackTo]; got != "7" {
			t.Errorf("%s: got annotation %q", v.Group, got)
		}
		back, err := v.From(d)
		if err != nil {
			t.Fatal(err)
		}
		b, err := yaml.Marshal(back)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct{ RollbackTo struct{ Revision int64 } }
		}
		if err := yaml.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if got.Spec.RollbackTo.Revision != 7 || got.Metadata.Annotations[appsv1.DeprecatedRollbackTo] != "" {
			t.Errorf("%s: got %+v", v.Group, got)
		}
	}
}

func TestDeploymentGeneration(t *testing.T) {
	old := current(t, oldDeployments[0], oldManifest)
	old.Generation, old.ResourceVersion = 4, "1"
	tests := []struct {
		name   string
		change func(d *appsv1.Deployment)
		want   int64
	}{
		{"nothing", func(*appsv1.Deployment) {}, 4},
		{"label", func(d *appsv1.Deployment) { d.Labels = map[string]string{"x": "y"} }, 4},
		{"annotation", func(d *appsv1.Deployment) { d.Annotations = map[string]string{"x": "y"} }, 5},
		{"replicas", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) }, 5},
		{"status", func(d *appsv1.Deployment) { d.Status.Replicas = 9 }, 4},
	}
	for _, tt := range tests {
		d := old.DeepCopy()
		tt.change(d)
		prepareDeployment(d, old)
		if d.Generation != tt.want || d.Status.Replicas != 0 {
			t.Errorf("%s: got generation %d, want %d; status %+v", tt.name, d.Generation, tt.want, d.Status)
		}
	}
}

func TestDeploymentRules(t *testing.T) {
	base := current(t, oldDeployments[0], oldManifest)
	base.ResourceVersion = "1"
	percent := func(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }
	tests := []struct {
		name   string
		change func(d *appsv1.Deployment)
		want   string
	}{
		{"selector", func(d *appsv1.Deployment) { d.Spec.Selector.MatchLabels = nil },
			"spec.selector: Invalid value: {}: empty selector is invalid for deployment, spec.selector: Invalid value: {}: field is immutable"},
		{"deadline", func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 600 },
			"spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"},
		{"percentage", func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate.MaxUnavailable = percent("101%") },
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`},
		{"not a percentage", func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate.MaxSurge = percent("x") },
			`spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`},
		{"zero percent", func(d *appsv1.Deployment) {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: percent("0%"), MaxSurge: percent("0%")}
		}, `spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when ` + "`maxSurge` is 0"},
	}
	for _, tt := range tests {
		d := base.DeepCopy()
		tt.change(d)
		err := validateDeployment(d, base).ToAggregate()
		if err == nil {
			t.Errorf("%s: got no error", tt.name)
			continue
		}
		got := err.Error()
		if got != tt.want && got != "["+tt.want+"]" {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
