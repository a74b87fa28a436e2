package admission

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

var admin = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}

func newReader() *stagetest.Reader {
	r := stagetest.NewReader()
	r.Put("namespaces",
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}})
	r.Put("serviceaccounts",
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "ns"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "quiet", Namespace: "ns"}, AutomountServiceAccountToken: new(bool)},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "puller", Namespace: "ns"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "regcred"}}},
		&corev1.ServiceAccount{
			ObjectMeta:       metav1.ObjectMeta{Name: "strict", Namespace: "ns", Annotations: map[string]string{enforceSecrets: "true"}},
			Secrets:          []corev1.ObjectReference{{Name: "listed"}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "regcred"}},
		})
	never := corev1.PreemptNever
	r.Put("priorityclasses.scheduling.k8s.io",
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "polite"}, Value: 500, PreemptionPolicy: &never})
	r.Put("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1-uid", Labels: map[string]string{corev1.LabelTopologyZone: "z", "x": "y"}}})
	r.Put("runtimeclasses.node.k8s.io",
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Overhead: &nodev1.Overhead{PodFixed: overhead("100m")},
			Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"vm": "yes"}, Tolerations: []corev1.Toleration{{Key: "vm"}}}},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}})
	return r
}

func overhead(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

func create(gr schema.GroupResource, obj objects.Object) *stage.Admission {
	return &stage.Admission{Operation: stage.Create, Object: obj, Attributes: &stage.Attributes{
		User: admin, Verb: "create", GVR: gr.WithVersion("v1"),
		Resource:  &objects.Resource{Names: objects.Names{Group: gr.Group, Version: "v1", Plural: gr.Resource}},
		Namespace: obj.GetNamespace(), Name: obj.GetName(), Warn: func(string) {},
	}}
}

func newPod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	if change != nil {
		change(p)
	}
	return p
}

// admit runs all plugins, as the verbs do.
func admit(ctx context.Context, r stage.Reader, a *stage.Admission) error {
	if a.Resource == nil {
		a.Resource = &objects.Resource{Names: objects.Names{Group: a.GVR.Group, Version: a.GVR.Version, Plural: a.GVR.Resource}}
	}
	stages := New(Config{Reader: r, Source: clock.NewSource(1), Clock: clock.Real()})
	if a.Operation == stage.Create || a.Operation == stage.Update {
		if err := stages.Mutate(ctx, a); err != nil {
			return err
		}
	}
	return stages.Validate(ctx, a)
}

func TestNamesAreThoseOfKubernetes(t *testing.T) {
	var names []string
	stages := New(Config{Reader: newReader(), Source: clock.NewSource(1), Clock: clock.Real()})
	for _, m := range stages.Mutators {
		names = append(names, m.Name())
	}
	only := []string{"PodSecurity", "PersistentVolumeClaimResize", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "PodGroupWorkloadExists", "NodeDeclaredFeatureValidator", "PodResizeValidator", "DeviceAccess"}
	for _, v := range stages.Validators {
		if !slices.Contains(names, v.Name()) && !slices.Contains(only, v.Name()) {
			t.Errorf("%s is a validator only", v.Name())
		}
	}
	want := []string{"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "Priority",
		"DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "RuntimeClass", "DefaultIngressClass",
		"PodTopologyLabels", "CertificateRequests", "DeviceTaints"} // the last two record the requester of a certificate and times, which Kubernetes does outside admission
	if !slices.Equal(names, want) {
		t.Errorf("plugins are %v", names)
	}
}

func TestPlainPod(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{{Name: "own", MountPath: tokenMountPath}}}}
	})
	if err := admit(t.Context(), newReader(), create(pods, pod)); err != nil {
		t.Fatal(err)
	}
	volume := pod.Spec.Volumes[0].Name
	if suffix, ok := strings.CutPrefix(volume, "kube-api-access-"); !ok || len(suffix) != 5 {
		t.Errorf("the volume is %s", volume)
	}
	five, none, policy, mode, expiry := int64(300), int32(0), corev1.PreemptLowerPriority, int32(420), int64(3607)
	want := corev1.PodSpec{
		InitContainers: pod.Spec.InitContainers,
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{
			{Name: volume, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
		}}},
		ServiceAccountName: "default", DeprecatedServiceAccount: "default",
		Priority: &none, PreemptionPolicy: &policy,
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &five},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &five},
		},
		Volumes: []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: &mode,
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &expiry}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
			},
		}}}},
	}
	if len(pod.Spec.InitContainers[0].VolumeMounts) != 1 || !reflect.DeepEqual(pod.Spec, want) {
		t.Errorf("the spec is %+v", pod.Spec)
	}
}

func TestPods(t *testing.T) {
	no, value, other, never, class := false, int32(1000), int32(7), corev1.PreemptNever, "vm"
	missing, plain := "missing", "plain"
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		check  func(*corev1.Pod) bool
		want   string // of the error
	}{
		"automount off": {func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &no },
			func(p *corev1.Pod) bool {
				return len(p.Spec.Volumes) == 0 && len(p.Spec.Containers[0].VolumeMounts) == 0
			}, ""},
		"automount off in the account": {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "quiet" },
			func(p *corev1.Pod) bool { return len(p.Spec.Volumes) == 0 }, ""},
		"automount on against the account": {func(p *corev1.Pod) {
			yes := true
			p.Spec.ServiceAccountName, p.Spec.AutomountServiceAccountToken = "quiet", &yes
		}, func(p *corev1.Pod) bool { return len(p.Spec.Volumes) == 1 }, ""},
		"a volume of its own": {func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-mine"}} },
			func(p *corev1.Pod) bool {
				return len(p.Spec.Volumes) == 1 && p.Spec.Containers[0].VolumeMounts[0].Name == "kube-api-access-mine"
			}, ""},
		"all containers mount something": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "x", MountPath: tokenMountPath}}
		}, func(p *corev1.Pod) bool { return len(p.Spec.Volumes) == 0 }, ""},
		"the old field": {func(p *corev1.Pod) { p.Spec.DeprecatedServiceAccount = "quiet" },
			func(p *corev1.Pod) bool { return p.Spec.ServiceAccountName == "quiet" }, ""},
		"pull secrets of the account": {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "puller" },
			func(p *corev1.Pod) bool {
				return reflect.DeepEqual(p.Spec.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "regcred"}})
			}, ""},
		"pull secrets of its own": {func(p *corev1.Pod) {
			p.Spec.ServiceAccountName, p.Spec.ImagePullSecrets = "puller", []corev1.LocalObjectReference{{Name: "own"}}
		}, func(p *corev1.Pod) bool {
			return len(p.Spec.ImagePullSecrets) == 1 && p.Spec.ImagePullSecrets[0].Name == "own"
		}, ""},
		"no such account": {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" }, nil,
			`pods "p" is forbidden: error looking up service account ns/x: serviceaccount "x" not found`},
		"a generated name": {func(p *corev1.Pod) { p.Name, p.GenerateName, p.Spec.ServiceAccountName = "", "p-", "x" }, nil,
			`pods "p-" is forbidden: error looking up service account ns/x: serviceaccount "x" not found`},
		"no name": {func(p *corev1.Pod) { p.Name, p.Spec.ServiceAccountName = "", "x" }, nil,
			`pods "Unknown" is forbidden: error looking up service account ns/x: serviceaccount "x" not found`},
		"a strict account's secret": {func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "listed"}}}}
		}, func(*corev1.Pod) bool { return true }, ""},
		"another secret": {func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}}}
		}, nil, `pods "p" is forbidden: volume with secret.secretName="x" is not allowed because service account strict does not reference that secret`},
		"another secret in the environment": {func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}}}
		}, nil, `pods "p" is forbidden: container c with envVar E referencing secret.secretName="x" is not allowed because service account strict does not reference that secret`},
		"another secret as the environment": {func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.InitContainers = []corev1.Container{{Name: "i", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}}}}
		}, nil, `pods "p" is forbidden: init container i with envFrom referencing secret.secretName="x" is not allowed because service account strict does not reference that secret`},
		"another pull secret": {func(p *corev1.Pod) {
			p.Spec.ServiceAccountName, p.Spec.ImagePullSecrets = "strict", []corev1.LocalObjectReference{{Name: "x"}}
		}, nil, `pods "p" is forbidden: imagePullSecrets[0].name="x" is not allowed because service account strict does not reference that imagePullSecret`},

		"a class": {func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" },
			func(p *corev1.Pod) bool { return *p.Spec.Priority == 1000 && p.Spec.PreemptionPolicy == nil }, ""},
		"a class that does not preempt": {func(p *corev1.Pod) { p.Spec.PriorityClassName = "polite" },
			func(p *corev1.Pod) bool {
				return *p.Spec.Priority == 500 && *p.Spec.PreemptionPolicy == corev1.PreemptNever
			}, ""},
		"a class of the system": {func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" },
			func(p *corev1.Pod) bool { return *p.Spec.Priority == 2000001000 }, ""},
		"no such class": {func(p *corev1.Pod) { p.Spec.PriorityClassName = "nope" }, nil, `pods "p" is forbidden: no PriorityClass with name nope was found`},
		"the right number": {func(p *corev1.Pod) { p.Spec.PriorityClassName, p.Spec.Priority = "high", &value },
			func(p *corev1.Pod) bool { return *p.Spec.Priority == 1000 }, ""},
		"a number": {func(p *corev1.Pod) { p.Spec.Priority = &other }, nil,
			`pods "p" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name`},
		"a policy": {func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never }, nil,
			`pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name`},

		"tolerates everything": {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} },
			func(p *corev1.Pod) bool { return len(p.Spec.Tolerations) == 1 }, ""},
		"tolerates not-ready": {func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: "NoExecute"}}
		}, func(p *corev1.Pod) bool {
			return len(p.Spec.Tolerations) == 2 && p.Spec.Tolerations[1].Key == corev1.TaintNodeUnreachable
		}, ""},
		"tolerates not-ready for scheduling only": {func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: "NoSchedule"}}
		}, func(p *corev1.Pod) bool { return len(p.Spec.Tolerations) == 3 }, ""},

		"a runtime class": {func(p *corev1.Pod) { p.Spec.RuntimeClassName = &class },
			func(p *corev1.Pod) bool {
				return p.Spec.Overhead.Cpu().String() == "100m" && p.Spec.NodeSelector["vm"] == "yes" &&
					slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "vm" })
			}, ""},
		"a plain runtime class": {func(p *corev1.Pod) { p.Spec.RuntimeClassName = &plain }, func(p *corev1.Pod) bool { return p.Spec.Overhead == nil }, ""},
		"no such runtime class": {func(p *corev1.Pod) { p.Spec.RuntimeClassName = &missing }, nil, `pods "p" is forbidden: pod rejected: RuntimeClass "missing" not found`},
		"another overhead": {func(p *corev1.Pod) { p.Spec.RuntimeClassName, p.Spec.Overhead = &class, overhead("1") }, nil,
			`pods "p" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`},
		"an overhead without a class": {func(p *corev1.Pod) { p.Spec.Overhead = overhead("1") }, nil,
			`pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`},
		"a conflicting selector": {func(p *corev1.Pod) {
			p.Spec.RuntimeClassName, p.Spec.NodeSelector = &class, map[string]string{"vm": "no"}
		}, nil,
			`pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no`},

		"made with a node": {func(p *corev1.Pod) { p.Spec.NodeName = "n1" },
			func(p *corev1.Pod) bool { return len(p.Labels) == 1 && p.Labels[corev1.LabelTopologyZone] == "z" }, ""},
		"made with a node that is not there": {func(p *corev1.Pod) { p.Spec.NodeName = "n9" }, func(p *corev1.Pod) bool { return p.Labels == nil }, ""},

		"no namespace":        {func(p *corev1.Pod) { p.Namespace = "x" }, nil, `namespaces "x" not found`},
		"an ending namespace": {func(p *corev1.Pod) { p.Namespace = "ending" }, nil, `pods "p" is forbidden: unable to create new content in namespace ending because it is being terminated`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(c.change)
			err := admit(t.Context(), newReader(), create(pods, pod))
			if c.want != "" {
				if err == nil || err.Error() != c.want {
					t.Errorf("error is %v, want %s", err, c.want)
				}
				return
			}
			if err != nil || !c.check(pod) {
				t.Errorf("%v: %+v %v", err, pod.Spec, pod.Labels)
			}
		})
	}
}

func TestSecondDefaultingChangesNothing(t *testing.T) {
	pod := newPod(nil)
	r := newReader()
	if err := admit(t.Context(), r, create(pods, pod)); err != nil {
		t.Fatal(err)
	}
	again := pod.DeepCopy()
	if err := admit(t.Context(), r, create(pods, again)); err != nil || !reflect.DeepEqual(again, pod) {
		t.Errorf("%v: %+v", err, again.Spec)
	}
}

func TestMirrorPod(t *testing.T) {
	mirror := func(change func(*corev1.Pod)) *corev1.Pod {
		return newPod(func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			change(p)
		})
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"plain":      {func(*corev1.Pod) {}, ""},
		"an account": {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" }, "a mirror pod may not reference service accounts"},
		"a secret":   {func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}} }, "a mirror pod may not reference secrets"},
		"a token": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: tokenProjection()}}}
		}, "a mirror pod may not use ServiceAccountToken volume projections"},
	} {
		pod := mirror(c.change)
		err := admit(t.Context(), newReader(), create(pods, pod))
		if c.want == "" {
			if err != nil || pod.Spec.ServiceAccountName != "" || len(pod.Spec.Volumes) != 0 {
				t.Errorf("%s: %v %+v", name, err, pod.Spec)
			}
			continue
		}
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPodWaitsForTheDefaultAccount(t *testing.T) {
	r := newReader()
	r.Delete("serviceaccounts", "ns", "default")
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	mutator := serviceAccount{r, clock.NewSource(1), clk}
	done := make(chan error)
	go func() { done <- mutator.Mutate(context.Background(), create(pods, newPod(nil))) }()
	for !clk.HasWaiters() {
		runtime.Gosched() // until the pod waits
	}
	r.Put("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "ns"}})
	clk.Step(accountWait)
	if err := <-done; err != nil {
		t.Error(err)
	}

	r.Delete("serviceaccounts", "ns", "default")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := mutator.Mutate(ctx, create(pods, newPod(nil)))
	if want := `pods "p" is forbidden: error looking up service account ns/default: serviceaccount "default" not found`; err == nil || err.Error() != want {
		t.Errorf("error is %v", err)
	}
}

func TestGlobalDefault(t *testing.T) {
	r := newReader()
	class := func(name string, value int32) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: true}
	}
	first := class("first", 10)
	if err := admit(t.Context(), r, create(priorityClasses, first)); err != nil {
		t.Fatal(err)
	}
	r.Put("priorityclasses.scheduling.k8s.io", first)
	err := admit(t.Context(), r, create(priorityClasses, class("second", 5)))
	if want := `priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass first is already marked as default. Only one default can exist`; err == nil || err.Error() != want {
		t.Errorf("error is %v", err)
	}
	update := create(priorityClasses, class("first", 10))
	update.Operation, update.Old = stage.Update, first
	if err := admit(t.Context(), r, update); err != nil {
		t.Error(err)
	}
	pod := newPod(nil)
	if err := admit(t.Context(), r, create(pods, pod)); err != nil || *pod.Spec.Priority != 10 || pod.Spec.PriorityClassName != "first" {
		t.Errorf("%v: %+v", err, pod.Spec)
	}
}

func TestPodUpdateKeepsItsPriority(t *testing.T) {
	value, policy := int32(5), corev1.PreemptNever
	old := newPod(func(p *corev1.Pod) { p.Spec.Priority, p.Spec.PreemptionPolicy = &value, &policy })
	pod := newPod(nil)
	a := create(pods, pod)
	a.Operation, a.Old = stage.Update, old
	if err := admit(t.Context(), newReader(), a); err != nil || *pod.Spec.Priority != 5 || *pod.Spec.PreemptionPolicy != policy {
		t.Errorf("%v: %+v", err, pod.Spec)
	}
	if pod.Spec.Priority == old.Spec.Priority {
		t.Error("the pods share their priority")
	}
	if len(pod.Spec.Volumes) != 0 || pod.Spec.ServiceAccountName != "" {
		t.Errorf("an update was given an account: %+v", pod.Spec)
	}
}

func TestSubresourcesAreLeftAlone(t *testing.T) {
	pod := newPod(nil)
	a := create(pods, pod)
	a.Operation, a.Subresource, a.Old = stage.Update, "status", newPod(nil)
	if err := admit(t.Context(), newReader(), a); err != nil || !reflect.DeepEqual(pod, newPod(nil)) {
		t.Errorf("%v: %+v", err, pod)
	}
}

func TestBindingCopiesNodeLabels(t *testing.T) {
	bind := func(target corev1.ObjectReference) *corev1.Binding {
		b := &corev1.Binding{Target: target}
		a := &stage.Admission{Operation: stage.Create, Sub: b, Attributes: &stage.Attributes{
			User: admin, GVR: pods.WithVersion("v1"), Subresource: "binding", Namespace: "ns", Name: "p",
		}}
		if err := admit(t.Context(), newReader(), a); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if got := bind(corev1.ObjectReference{Kind: "Node", Name: "n1"}).Labels; len(got) != 1 || got[corev1.LabelTopologyZone] != "z" {
		t.Errorf("labels are %v", got)
	}
	if got := bind(corev1.ObjectReference{Name: "n9"}).Labels; got != nil {
		t.Errorf("labels are %v", got)
	}
}

func TestNamespaceLifecycle(t *testing.T) {
	remove := func(gr schema.GroupResource, namespace, name string) *stage.Admission {
		return &stage.Admission{Operation: stage.Delete, Attributes: &stage.Attributes{
			User: admin, Verb: "delete", GVR: gr.WithVersion("v1"), Namespace: namespace, Name: name,
		}}
	}
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		err := admit(t.Context(), newReader(), remove(namespaces, name, name))
		if want := `namespaces "` + name + `" is forbidden: this namespace may not be deleted`; err == nil || err.Error() != want {
			t.Errorf("error is %v", err)
		}
	}
	for _, a := range []*stage.Admission{
		remove(namespaces, "kube-node-lease", "kube-node-lease"), remove(namespaces, "ns", "ns"), remove(pods, "default", "default"), remove(pods, "gone", "p"),
		create(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}),
		create(schema.GroupResource{Resource: "nodes"}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}),
		create(accessReviews, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "gone"}}),
	} {
		if err := admit(t.Context(), newReader(), a); err != nil {
			t.Errorf("%s %s %s: %v", a.Operation, a.GVR, a.Name, err)
		}
	}

	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ending", Name: "c"}}
	configs := schema.GroupResource{Resource: "configmaps"}
	err := admit(t.Context(), newReader(), create(configs, config))
	status := new(apierrors.StatusError)
	if !errors.As(err, &status) || len(status.ErrStatus.Details.Causes) != 1 {
		t.Fatalf("error is %v", err)
	}
	want := metav1.StatusCause{Type: "NamespaceTerminating", Message: "namespace ending is being terminated", Field: "metadata.namespace"}
	if got := status.ErrStatus.Details.Causes[0]; got != want || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("cause is %+v", got)
	}
	a := create(configs, config)
	a.Operation, a.Old = stage.Update, config
	if err := admit(t.Context(), newReader(), a); err != nil {
		t.Errorf("an update in an ending namespace: %v", err)
	}
	a.Namespace = "gone"
	if err := admit(t.Context(), newReader(), a); !apierrors.IsNotFound(err) {
		t.Errorf("an update in no namespace: %v", err)
	}
}

func TestForbiddenKeepsStatusErrors(t *testing.T) {
	a := create(pods, newPod(nil))
	gone := apierrors.NewNotFound(pods, "x")
	if got := Forbidden(a, gone); got != error(gone) { //nolint:errorlint // the same one
		t.Errorf("%v", got)
	}
	if got := Forbidden(a, errors.New("no")); got.Error() != `pods "p" is forbidden: no` {
		t.Errorf("%v", got)
	}
}

func BenchmarkPod(b *testing.B) {
	r := newReader()
	stages := New(Config{Reader: r, Source: clock.NewSource(1), Clock: clock.Real()})
	b.ReportAllocs()
	for b.Loop() {
		a := create(pods, newPod(nil))
		if err := stages.Mutate(b.Context(), a); err != nil {
			b.Fatal(err)
		}
		if err := stages.Validate(b.Context(), a); err != nil {
			b.Fatal(err)
		}
	}
}
