package admission

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

func TestResizeBeyondNode(t *testing.T) {
	resized := func(cpu, memory string) *corev1.Pod {
		return newPod(func(p *corev1.Pod) {
			p.Generation, p.Spec.NodeName = 2, "n1"
			p.Spec.Containers[0].Resources.Requests = list("cpu", cpu, "memory", memory)
		})
	}
	for name, c := range map[string]struct {
		pod         *corev1.Pod
		subresource string
		os          string
		want        string
		cause       metav1.CauseType
	}{
		"it fits":        {resized("2", "1Gi"), "resize", "linux", "", ""},
		"it does not":    {resized("2500m", "1Gi"), "resize", "", `pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000`, "NodeCapacity"},
		"both":           {resized("3", "3Gi"), "resize", "linux", `pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; memory, requested: 3221225472, allocatable: 2147483648`, "NodeCapacity"},
		"another system": {resized("1", "1Gi"), "resize", "windows", `pods "p" is forbidden: pod resize is only supported on linux nodes, node "n1" is "windows"`, "UnsupportedPlatform"},
		"not a resize":   {resized("9", "1Gi"), "", "windows", "", ""},
		"no node yet":    {newPod(func(p *corev1.Pod) { p.Generation = 2 }), "resize", "", "", ""},
		"an unknown node": {newPod(func(p *corev1.Pod) { p.Generation, p.Spec.NodeName = 2, "n9" }), "resize", "",
			`pods "p" is forbidden: node "n9" not found`, ""},
		"nothing changes": {newPod(func(p *corev1.Pod) { p.Generation, p.Spec.NodeName = 1, "n9" }), "resize", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Allocatable: list("cpu", "2", "memory", "2Gi")}}
			if c.os != "" {
				node.Labels = map[string]string{corev1.LabelOSStable: c.os}
			}
			r.Put("nodes", node)
			err := podResize{r}.Validate(t.Context(), updatePod(c.pod, c.subresource))
			wantRefusal(t, err, c.want)
			if c.cause == "" {
				return
			}
			if cause, ok := apierrors.StatusCause(err, c.cause); !ok || cause.Message != "" {
				t.Errorf("the cause of %v is %v", err, cause)
			}
		})
	}
}

// updatePod returns an update of a pod of generation 1 without requests.
func updatePod(pod *corev1.Pod, subresource string) *stage.Admission {
	a := create(pods, pod)
	a.Operation, a.Verb, a.Subresource = stage.Update, "update", subresource
	old := newPod(func(p *corev1.Pod) {
		p.Generation, p.Spec.NodeName = 1, pod.Spec.NodeName
		p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	})
	a.Old = old
	return a
}

func wantRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestNodeDeclaredFeatures(t *testing.T) {
	whole := newPod(func(p *corev1.Pod) {
		p.Generation, p.Spec.NodeName = 2, "n1"
		p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "1")}
	})
	both := whole.DeepCopy()
	both.Spec.InitContainers[0].Resources.Requests = list("cpu", "1")
	same := whole.DeepCopy()
	same.Spec.Resources = nil
	const podLevel, initContainers = "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		sub      string
		declares []string
		want     string
	}{
		"declared":      {whole, "resize", []string{podLevel}, ""},
		"not declared":  {whole, "resize", nil, `pods "p" is forbidden: pod update requires features ` + podLevel + ` which are not available on node "n1"`},
		"one is not":    {both, "", []string{podLevel}, `pods "p" is forbidden: pod update requires features ` + initContainers + ` which are not available on node "n1"`},
		"needs nothing": {same, "resize", nil, ""},
		"a status":      {whole, "status", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader()
			r.Put("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{DeclaredFeatures: c.declares}})
			wantRefusal(t, nodeDeclaredFeatures{r}.Validate(t.Context(), updatePod(c.pod, c.sub)), c.want)
		})
	}
}

func TestEphemeralContainersWithEnforcedSecrets(t *testing.T) {
	reading := func(account, secret string) *corev1.Pod {
		return newPod(func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = account
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "e", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}},
			}}}
		})
	}
	accounts := serviceAccount{reader: newReader()}
	wantRefusal(t, accounts.Validate(t.Context(), updatePod(reading("strict", "listed"), "ephemeralcontainers")), "")
	wantRefusal(t, accounts.Validate(t.Context(), updatePod(reading("default", "x"), "ephemeralcontainers")), "")
	err := accounts.Validate(t.Context(), updatePod(reading("strict", "x"), "ephemeralcontainers"))
	wantRefusal(t, err, `ephemeral container e with envFrom referencing secret.secretName="x" is not allowed because service account strict does not reference that secret`)
	if status, ok := errors.AsType[*apierrors.StatusError](err); !ok || status.ErrStatus.Code != http.StatusInternalServerError {
		t.Errorf("it is a %T", err)
	}
}

func TestMergedTolerations(t *testing.T) {
	minute, hour := int64(60), int64(3600)
	any := corev1.Toleration{Operator: corev1.TolerationOpExists}
	key := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}
	one := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v", Effect: corev1.TaintEffectNoSchedule}
	short := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &minute}
	long := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &hour}
	other := corev1.Toleration{Key: "o", Operator: corev1.TolerationOpEqual, Value: "v"}
	unsaid := corev1.Toleration{Key: "k", Value: "v"} // without an operator
	for name, c := range map[string]struct{ all, want []corev1.Toleration }{
		"nothing":          {nil, nil},
		"equal ones":       {[]corev1.Toleration{one, other, one}, []corev1.Toleration{one, other}},
		"a wider later":    {[]corev1.Toleration{one, other, key}, []corev1.Toleration{other, key}},
		"a wider before":   {[]corev1.Toleration{key, one}, []corev1.Toleration{key}},
		"everything":       {[]corev1.Toleration{one, short, other, any}, []corev1.Toleration{any}},
		"longer":           {[]corev1.Toleration{short, long}, []corev1.Toleration{long}},
		"for good":         {[]corev1.Toleration{long, key, short}, []corev1.Toleration{key}},
		"another effect":   {[]corev1.Toleration{one, long}, []corev1.Toleration{one, long}},
		"without operator": {[]corev1.Toleration{unsaid, one}, []corev1.Toleration{unsaid}},
	} {
		t.Run(name, func(t *testing.T) {
			got := mergeTolerations(c.all)
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i].String() != c.want[i].String() {
					t.Errorf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}
