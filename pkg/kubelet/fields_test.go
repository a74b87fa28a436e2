package kubelet

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "write the pages that are made from code")

func TestEveryFieldHasARow(t *testing.T) {
	for _, v := range []any{
		corev1.PodSpec{}, corev1.PodSecurityContext{}, corev1.Container{}, corev1.SecurityContext{}, corev1.ContainerPort{},
		corev1.EnvVarSource{}, corev1.ResourceRequirements{}, corev1.VolumeMount{}, corev1.Probe{}, corev1.ProbeHandler{},
		corev1.Lifecycle{}, corev1.LifecycleHandler{}, corev1.VolumeSource{}, corev1.EmptyDirVolumeSource{}, corev1.VolumeProjection{},
	} {
		typ := reflect.TypeOf(v)
		var names []string
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name == "" {
				continue // embedded: a type of its own
			}
			names = append(names, name)
			if _, ok := rowOf(typ, name); !ok {
				t.Errorf("%s.%s has no row", typ.Name(), name)
			}
		}
		for _, r := range fieldRows[typ.Name()] {
			if !slices.Contains(names, r.field) {
				t.Errorf("the row %s.%s is for no field", typ.Name(), r.field)
			}
			if r.process != honoured && r.note == "" {
				t.Errorf("the row %s.%s does not say what is different", typ.Name(), r.field)
			}
		}
	}
	for name := range fieldRows {
		if len(fieldRows[name]) == 0 {
			t.Errorf("%s has no rows", name)
		}
	}
}

func TestFieldWarnings(t *testing.T) {
	plain := corev1.PodSpec{
		DNSPolicy: corev1.DNSClusterFirst, SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
		EnableServiceLinks: new(true), RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
		Containers: []corev1.Container{{
			Name: "c", Image: "nginx", TerminationMessagePath: "/dev/termination-log", ImagePullPolicy: corev1.PullAlways,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			Resources:                corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			SecurityContext:          &corev1.SecurityContext{AllowPrivilegeEscalation: new(true)},
		}},
	}
	if got := FieldWarnings(&plain, Process); len(got) > 0 {
		t.Errorf("a plain pod: got %q", got)
	}
	odd := plain.DeepCopy()
	odd.DNSPolicy = corev1.DNSNone
	odd.Containers[0].SecurityContext.Privileged = new(true)
	odd.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}
	odd.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}}
	want := []string{
		"spec.volumes[0].nfs: ", "spec.containers[0].volumeDevices: ", "spec.containers[0].securityContext.privileged: ", "spec.dnsPolicy: ",
	}
	got := FieldWarnings(odd, Process)
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]+"not done on nodes of the process runtime: ") {
			t.Errorf("got %q, want one about %s", got[i], want[i])
		}
	}
	if got := FieldWarnings(odd, Sim); got != nil {
		t.Errorf("on a simulated node: got %q", got)
	}
}

func TestFieldsPage(t *testing.T) {
	const file = "../../docs/pod-fields.md"
	page := FieldsPage()
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page {
		t.Errorf("%s is not what go generate makes", file)
	}
}
