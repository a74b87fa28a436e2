package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// otherCluster is a server of three nodes that is not one of minikctl. It lists nodes in parts, forbids PodDisruptionBudgets, and records requests that are not reads.
type otherCluster struct{ writes []string }

func (o *otherCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node := func(name string) corev1.Node {
		amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10")}
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: amounts}}
	}
	status := func(code int, reason metav1.StatusReason) any {
		w.WriteHeader(code)
		return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Message: string(reason), Code: int32(code)}
	}
	if r.Method != http.MethodGet {
		o.writes = append(o.writes, r.Method+" "+r.URL.Path)
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch r.URL.Path {
	case "/api/v1/nodes":
		if r.URL.Query().Get("continue") == "" {
			answer = corev1.NodeList{ListMeta: metav1.ListMeta{Continue: "more"}, Items: []corev1.Node{node("a"), node("b")}}
		} else {
			answer = corev1.NodeList{Items: []corev1.Node{node("c")}}
		}
	case "/api/v1/pods":
		request := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}}
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default", UID: "old", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "old", UID: "r", Controller: new(true)}}},
			Spec: corev1.PodSpec{NodeName: "a", Priority: new(int32(0)), Containers: []corev1.Container{{Name: "c", Resources: request}}, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}}}
		done := *pod.DeepCopy()
		done.Name, done.UID, done.Spec.NodeName, done.Status.Phase = "done", "done", "b", corev1.PodSucceeded
		answer = corev1.PodList{Items: []corev1.Pod{pod, done}}
	case "/api/v1/namespaces":
		answer = corev1.NamespaceList{Items: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}}
	case "/apis/policy/v1/poddisruptionbudgets":
		answer = status(http.StatusForbidden, metav1.StatusReasonForbidden)
	case "/apis/scheduling.k8s.io/v1/priorityclasses":
		answer = schedulingv1.PriorityClassList{Items: []schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10}}}
	case "/api/v1/services":
		answer = corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}}}
	case "/api/v1/persistentvolumeclaims":
		answer = corev1.PersistentVolumeClaimList{}
	case "/api/v1/persistentvolumes":
		answer = corev1.PersistentVolumeList{}
	case "/apis/storage.k8s.io/v1/storageclasses":
		answer = storagev1.StorageClassList{}
	case "/apis/storage.k8s.io/v1/csinodes":
		answer = storagev1.CSINodeList{}
	case "/apis/storage.k8s.io/v1/volumeattachments":
		answer = storagev1.VolumeAttachmentList{}
	case "/api/v1/replicationcontrollers":
		answer = corev1.ReplicationControllerList{}
	case "/apis/apps/v1/replicasets":
		answer = appsv1.ReplicaSetList{Items: []appsv1.ReplicaSet{{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default"}}}}
	case "/apis/apps/v1/statefulsets":
		answer = appsv1.StatefulSetList{}
	default:
		answer = status(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// TestScheduleInAnotherCluster simulates in a cluster of the kubeconfig that is not one of minikctl, without a write.
func TestScheduleInAnotherCluster(t *testing.T) {
	cluster := &otherCluster{}
	server := httptest.NewServer(cluster)
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := write("kubeconfig", fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '%s'}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: real, context: {cluster: c, user: u}}]\n", server.URL))
	pods := write("pods.yaml", "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec: {replicas: 3, template: {spec: {priorityClassName: high, containers: [{name: c, image: i, resources: {requests: {cpu: 1500m}}}]}}}\n")
	config := write("config.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")

	code, out, errOut := run(t, "minikctl", "schedule", "--dry-run", "-f", pods, "--kubeconfig", kubeconfig, "--context", "real")
	if code != 0 || !strings.Contains(out, "evicts default/old") || !strings.Contains(out, "ReplicaSet/web  3       0        0") {
		t.Errorf("code %d\n%s%s", code, out, errOut)
	}
	for _, want := range []string{"Warning: left out: Forbidden", "Warning: the cluster does not publish its scheduler's configuration"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("no %q in %s", want, errOut)
		}
	}
	code, out, errOut = run(t, "minikctl", "schedule", "--dry-run", "--drain", "a", "--config", config, "--kubeconfig", kubeconfig, "--context", "real")
	if code != 0 || !strings.Contains(out, "default/old") || !strings.Contains(errOut, "Warning: left out: the cluster does not serve resource claims and devices in resource.k8s.io/v1") || strings.Contains(errOut, "publish") {
		t.Errorf("drain: code %d\n%s%s", code, out, errOut)
	}
	code, out, errOut = run(t, "minikctl", "schedule", "compare", config, "-f", pods, "--seeds", "2", "--kubeconfig", kubeconfig, "--context", "real")
	if code != 0 || !strings.Contains(out, "preemptions       pods    1.0 ± 0.0") {
		t.Errorf("compare: code %d\n%s%s", code, out, errOut)
	}
	if len(cluster.writes) > 0 {
		t.Errorf("writes: %v", cluster.writes)
	}
}
