package kubelet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TestHonouredPodFields is TestHonouredFields for the fields that a pod has for all of its containers, and for its volumes.
func TestHonouredPodFields(t *testing.T) {
	r := newRig(t, func(c *HostConfig, _ *Config) { c.ClusterDNS = netip.MustParseAddr("127.9.128.10") })
	in := func(kind client.Target) client.Target { kind.Namespace = "default"; return kind }
	r.create(in(client.Target{Resource: client.ServiceAccounts}), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}})
	for name, data := range map[string]map[string]string{"cm": {"key": "value"}, "kube-root-ca.crt": {"ca.crt": "none"}} {
		r.create(in(client.Target{Resource: client.ConfigMaps}), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data})
	}
	host := t.TempDir()
	volume := func(source corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
			s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}
	}
	projected := func(source corev1.VolumeProjection) func(*corev1.PodSpec) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}})
	}
	empty := volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	file := func(list []Mount, path string) string {
		for _, m := range list {
			if rest, ok := strings.CutPrefix(path, m.Container); ok {
				b, err := os.ReadFile(m.Host + rest)
				if err == nil {
					return string(b)
				}
			}
		}
		return ""
	}
	hasFile := func(name, want string) func(*corev1.Pod, ContainerSpec) bool {
		return func(_ *corev1.Pod, s ContainerSpec) bool { return file(s.Mounts, "/v/"+name) == want }
	}
	network := func(path, part string) func(*corev1.Pod, ContainerSpec) bool {
		return func(_ *corev1.Pod, s ContainerSpec) bool { return strings.Contains(file(s.Network, path), part) }
	}
	mounted := func(path string) func(*corev1.Pod, ContainerSpec) bool {
		return func(_ *corev1.Pod, s ContainerSpec) bool {
			return slices.ContainsFunc(s.Mounts, func(m Mount) bool { return m.Container == path })
		}
	}
	mount := func(check func(Mount) bool) func(*corev1.Pod, ContainerSpec) bool {
		return func(_ *corev1.Pod, s ContainerSpec) bool { return slices.ContainsFunc(s.Mounts, check) }
	}
	token := projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}})
	robot := func(_ *corev1.Pod, s ContainerSpec) bool {
		return subject(t, file(s.Mounts, "/v/token")) == "system:serviceaccount:default:robot"
	}
	name := corev1.LocalObjectReference{Name: "cm"}
	r.checkHonoured([]honoured{
		{field: "serviceAccountName", set: func(s *corev1.PodSpec) { token(s); s.ServiceAccountName = "robot" },
			remove: func(s *corev1.PodSpec) { s.ServiceAccountName = "" }, holds: robot},
		{field: "serviceAccount", set: func(s *corev1.PodSpec) { token(s); s.DeprecatedServiceAccount = "robot" },
			remove: func(s *corev1.PodSpec) { s.DeprecatedServiceAccount = "" }, holds: robot},
		{field: "automountServiceAccountToken", set: func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = new(true) }, holds: mounted(ServiceAccountPath)},
		{field: "hostname", set: func(s *corev1.PodSpec) { s.Hostname = "door" },
			holds: func(_ *corev1.Pod, s ContainerSpec) bool { return slices.Contains(s.Env, "HOSTNAME=door") }},
		{field: "setHostnameAsFQDN", set: func(s *corev1.PodSpec) {
			s.Hostname, s.Subdomain, s.SetHostnameAsFQDN = "door", "house", new(true)
		}, remove: func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = nil },
			holds: func(_ *corev1.Pod, s ContainerSpec) bool {
				return slices.Contains(s.Env, "HOSTNAME=door.house.default.svc.cluster.local")
			}},
		{field: "hostnameOverride", set: func(s *corev1.PodSpec) {
			s.Hostname, s.Subdomain, s.HostnameOverride = "door", "house", new("gate.example")
		},
			remove: func(s *corev1.PodSpec) { s.HostnameOverride = nil },
			holds: func(p *corev1.Pod, s ContainerSpec) bool {
				return slices.Contains(s.Env, "HOSTNAME=gate.example") && network("/etc/hosts", "\tgate.example\n")(p, s)
			}},
		{field: "hostAliases", set: func(s *corev1.PodSpec) {
			s.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"shop"}}}
		},
			holds: network("/etc/hosts", "192.0.2.7\tshop")},
		{field: "dnsPolicy", set: func(s *corev1.PodSpec) {
			s.DNSPolicy, s.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53"}}
		}, remove: func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSClusterFirst },
			holds: func(_ *corev1.Pod, s ContainerSpec) bool {
				return file(s.Network, "/etc/resolv.conf") == "nameserver 192.0.2.53\n" && s.Resolver == nil
			}},
		{field: "dnsConfig", set: func(s *corev1.PodSpec) { s.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"shop.example"}} },
			holds: func(_ *corev1.Pod, s ContainerSpec) bool {
				return strings.Contains(file(s.Network, "/etc/resolv.conf"), " shop.example") && slices.Contains(s.Resolver.Searches, "shop.example")
			}},
		{field: "resources", set: func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}
		}, holds: func(_ *corev1.Pod, s ContainerSpec) bool { return s.Limits.PodMemory == 64<<20 }},
		{field: "terminationMessagePath", set: func(s *corev1.PodSpec) { s.Containers[0].TerminationMessagePath = "/out" }, holds: mounted("/out")},
		{field: "recursiveReadOnly", set: func(s *corev1.PodSpec) {
			empty(s)
			s.Containers[0].VolumeMounts[0].ReadOnly, s.Containers[0].VolumeMounts[0].RecursiveReadOnly = true, new(corev1.RecursiveReadOnlyEnabled)
		}, holds: mount(func(m Mount) bool { return m.Recursive })},
		{field: "mountPropagation", set: func(s *corev1.PodSpec) {
			empty(s)
			s.Containers[0].VolumeMounts[0].MountPropagation = new(corev1.MountPropagationHostToContainer)
		}, holds: mount(func(m Mount) bool { return m.Propagation == corev1.MountPropagationHostToContainer })},
		{field: "hostPath", set: volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}), remove: empty,
			holds: mount(func(m Mount) bool { return m.Host == host && m.Container == "/v" })},
		{field: "configMap", set: volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name}}), remove: empty,
			holds: hasFile("key", "value")},
		{field: "configMap.optional", set: volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: new(true),
		}}), remove: func(s *corev1.PodSpec) { s.Volumes = nil; s.Containers[0].VolumeMounts = nil }, holds: mounted("/v")},
		{field: "projected configMap", set: projected(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name}}),
			remove: empty, holds: hasFile("key", "value")},
		{field: "projected downwardAPI", set: projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
		}}}), remove: empty, holds: hasFile("namespace", "default")},
		{field: "downwardAPI", set: volume(corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
		}}}), remove: empty, holds: hasFile("namespace", "default")},
	})
	const long = "a-name-of-forty-characters-is-long-enough"
	r.pod("long", corev1.PodSpec{Hostname: long, Subdomain: "house", SetHostnameAsFQDN: new(true)})
	r.event("long", "FailedCreatePodSandBox", "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN "+
		long+".house.default.svc.cluster.local is too long (64 characters is the max, 73 characters requested)")
	// Without optional, the pod waits for the ConfigMap.
	r.pod("waits", corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}},
	}}}})
	r.event("waits", "FailedMount", `MountVolume.SetUp failed for volume "v" : configmap "none" not found`)
	r.waitSummary("waits", "Pending c:ContainerCreating")
	if entries, err := os.ReadDir(filepath.Clean(host)); err != nil || len(entries) > 0 {
		t.Errorf("the host's directory has %v, %v", entries, err)
	}
}

// TestClaims: a container has the directories of the volumes that the claims of its pod are bound to, its own one among them.
func TestClaims(t *testing.T) {
	r := newRig(t)
	small := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	claimSpec := func(volume string) corev1.PersistentVolumeClaimSpec {
		return corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: small},
			VolumeName: volume, StorageClassName: new(""),
		}
	}
	bind := func(name string, owner *corev1.Pod) string {
		directory := t.TempDir()
		to := client.Target{Resource: persistentVolumeClaims, Namespace: "default"}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: claimSpec("pv-" + name)}
		if owner != nil {
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID, Controller: new(true)}}
		}
		claim = r.create(to, claim).(*corev1.PersistentVolumeClaim)
		r.create(client.Target{Resource: persistentVolumes}, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}, Spec: corev1.PersistentVolumeSpec{
				Capacity: small, AccessModes: claim.Spec.AccessModes, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: name, UID: claim.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: directory}},
			},
		})
		bound := claim.DeepCopy()
		bound.Status.Phase = corev1.ClaimBound
		if _, err := r.api.Update(t.Context(), client.In(persistentVolumeClaims, keyOf(bound)).Sub("status"), bound, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return directory
	}
	claimed := func(readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: readOnly}}
	}
	pod := r.pod("p", corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: claimed(false)}, {Name: "read", VolumeSource: claimed(true)},
			{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec("pv-p-own")},
			}}},
		},
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: "/data"}, {Name: "read", MountPath: "/read"}, {Name: "own", MountPath: "/own"},
		}}},
	})
	r.waitSummary("p", "Pending c:ContainerCreating")
	data, own := bind("data", nil), bind("p-own", pod)
	r.waitSummaryAdvancing("p", "Running c:running+started+ready")
	spec, _ := r.runtime.spec(pod.UID, "c")
	for i, want := range []Mount{{Host: data, Container: "/data"}, {Host: data, Container: "/read", ReadOnly: true}, {Host: own, Container: "/own"}} {
		if got := spec.Mounts[i]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	var summary stats.Summary
	if w := r.call("GET", "n1", "/stats/summary", asAPIServer, ""); json.Unmarshal(w.Body.Bytes(), &summary) != nil || len(summary.Pods) != 1 {
		t.Fatalf("summary: %s", w.Body)
	}
	measured := map[string]string{}
	for _, v := range summary.Pods[0].VolumeStats {
		if v.PVCRef != nil && *v.CapacityBytes >= *v.UsedBytes && *v.CapacityBytes > 0 {
			measured[v.Name] = v.PVCRef.Namespace + "/" + v.PVCRef.Name
		}
	}
	if want := map[string]string{"data": "default/data", "read": "default/data", "own": "default/p-own"}; !maps.Equal(measured, want) {
		t.Errorf("statistics of %v, want %v", measured, want)
	}
	r.metrics("/metrics", `kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="data"} `,
		`kubelet_volume_stats_inodes_used{namespace="default",persistentvolumeclaim="p-own"} `)
}

// claimReads counts the reads of claims.
type claimReads struct {
	client.Client
	count atomic.Int32
}

func (c *claimReads) Get(ctx context.Context, t client.Target, opts metav1.GetOptions) (objects.Object, error) {
	if t.Resource == persistentVolumeClaims {
		defer c.count.Add(1)
	}
	return c.Client.Get(ctx, t, opts)
}

// TestClaimIsBoundMeanwhile: a pod starts at once when its claim gets bound just after it, and only a claim that stays unbound has an Event.
func TestClaimIsBoundMeanwhile(t *testing.T) {
	var reads *claimReads
	r := newRig(t, func(_ *HostConfig, c *Config) {
		reads = &claimReads{Client: c.Client}
		c.Client = reads
	})
	small := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	to := client.Target{Resource: persistentVolumeClaims, Namespace: "default"}
	claim := r.create(to, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: small},
		VolumeName: "pv", StorageClassName: new(""),
	}}).(*corev1.PersistentVolumeClaim)
	r.create(client.Target{Resource: persistentVolumes}, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			Capacity: small, AccessModes: claim.Spec.AccessModes, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data", UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: t.TempDir()}},
		},
	})
	spec := corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}}
	r.pod("waits", spec)
	r.until("the first attempt", func() string {
		if reads.count.Load() == 0 {
			return "no read of the claim"
		}
		return ""
	})
	bound := claim.DeepCopy()
	bound.Status.Phase = corev1.ClaimBound
	if _, err := r.api.Update(t.Context(), client.In(persistentVolumeClaims, keyOf(bound)).Sub("status"), bound, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	began := r.clock.Now()
	r.until("the pod runs", func() string {
		if got := summary(r.get("waits")); got != "Running c:running+started+ready" {
			r.advance(10 * time.Millisecond)
			return fmt.Sprintf("got %q", got)
		}
		return ""
	})
	t.Logf("the pod ran after %s", r.clock.Now().Sub(began))
	r.event("waits", "Started", "Container started")
	const failed = `MountVolume.SetUp failed for volume "v" : PVC default/%s is not bound`
	if r.missingEvent("waits", "FailedMount", fmt.Sprintf(failed, "data")) == "" {
		t.Error("the pod has an Event about its claim")
	}

	stays := claim.DeepCopy()
	stays.ObjectMeta, stays.Spec.VolumeName = metav1.ObjectMeta{Name: "stays", Namespace: "default"}, ""
	r.create(to, stays)
	spec = *spec.DeepCopy()
	spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "stays"}
	r.pod("stays", spec)
	r.event("stays", "FailedMount", fmt.Sprintf(failed, "stays"))
}

// subject returns the subject of a token; "" without a token.
func subject(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	return claims.Subject
}

// TestEphemeralContainers: an ephemeral container starts in a running pod, and neither starts again nor keeps the pod from ending.
func TestEphemeralContainers(t *testing.T) {
	r := newRig(t)
	pod := r.pod("p", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure})
	r.waitSummary("p", "Running c:running+started+ready")
	next := r.get("p").DeepCopy()
	next.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "look", Image: "nginx", Env: []corev1.EnvVar{{Name: "V", Value: "x"}},
	}}}
	if _, err := r.api.Update(t.Context(), client.In(client.Pods, keyOf(next)).Sub("ephemeralcontainers"), next, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait := func(want string) {
		t.Helper()
		r.until("the ephemeral container", func() string {
			got := ""
			for _, s := range r.get("p").Status.EphemeralContainerStatuses {
				got += s.Name + ":" + state(s.State)
			}
			if got != want {
				return "got " + got + ", want " + want
			}
			return ""
		})
	}
	wait("look:running")
	if spec, _ := r.runtime.spec(pod.UID, "look"); !slices.Contains(spec.Env, "V=x") {
		t.Errorf("got %+v", spec)
	}
	r.exit(pod, "look", 3)
	wait("look:Error=3")
	r.exit(pod, "c", 0)
	r.waitSummary("p", "Succeeded c:Completed=0")
	wait("look:Error=3")
}

// TestReadinessGates: a pod with a readiness gate is ready when its condition is true.
func TestReadinessGates(t *testing.T) {
	r := newRig(t)
	const gate = "example.com/served"
	r.pod("plain", corev1.PodSpec{})
	if c := conditionOf(r.waitSummary("plain", "Running c:running+started+ready"), corev1.PodReady); c.Status != corev1.ConditionTrue {
		t.Errorf("without a gate: got %+v", c)
	}
	r.pod("p", corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}}})
	got := r.waitSummary("p", "Running c:running+started+ready")
	if c := conditionOf(got, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" ||
		c.Message != `corresponding condition of pod readiness gate "example.com/served" does not exist.` {
		t.Errorf("got %+v", c)
	}
	r.setStatus(got, func(s *corev1.PodStatus) {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue})
	})
	r.until("the pod is ready", func() string {
		if c := conditionOf(r.get("p"), corev1.PodReady); c.Status != corev1.ConditionTrue {
			return c.Message
		}
		return ""
	})
}
