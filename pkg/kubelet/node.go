package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/release"
)

// maxPods is a node's capacity for pods, unless the config sets another.
const maxPods = 110

// register creates the Node, unless the node leaves the cluster. An existing Node gets the labels, annotations and status of this
// kubelet.
func (k *Kubelet) register(ctx context.Context) error {
	wanted := k.nodeObject(nil)
	if k.BeingRemoved {
		err := k.updateNode(ctx)
		if apierrors.IsNotFound(err) {
			k.setNode(wanted)
			return nil
		}
		return err
	}
	made, err := k.client.Create(ctx, client.Target{Resource: client.Nodes}, wanted, metav1.CreateOptions{})
	if err == nil {
		node, ok := made.(*corev1.Node)
		if !ok {
			return fmt.Errorf("create node: the response is a %T", made)
		}
		k.setNode(node)
		return k.renew(ctx)
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return k.updateNode(ctx)
}

// updateNode gives the existing Node the labels, annotations and status of this kubelet.
func (k *Kubelet) updateNode(ctx context.Context) error {
	got, err := k.client.Get(ctx, k.nodeTarget(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	node := got.(*corev1.Node)
	next := node.DeepCopy()
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	maps.Copy(next.Labels, k.labels())
	if len(k.Annotations) > 0 && next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	maps.Copy(next.Annotations, k.Annotations)
	if node, err = k.patchNode(ctx, node, next, ""); err != nil {
		return err
	}
	k.setNode(node)
	if err := k.postNode(ctx); err != nil {
		return err
	}
	return k.renew(ctx)
}

func (k *Kubelet) nodeTarget() client.Target {
	return client.Target{Resource: client.Nodes, Name: k.Name}
}

func (k *Kubelet) setNode(node *corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.node = node
}

// currentNode returns the newer version of the Node: that of the API's last response or that of the watch.
func (k *Kubelet) currentNode() *corev1.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seen, ok := k.nodes.Get(objects.Key{Name: k.Name}); ok && (k.node == nil || objects.RevisionOf(seen) > objects.RevisionOf(k.node)) {
		return seen
	}
	return k.node
}

// readyDiffers reports whether the condition Ready in the API differs from the runtime's health: the health has
// changed, or the node lifecycle controller has missed heartbeats.
func (k *Kubelet) readyDiffers() bool {
	node := k.currentNode()
	status := k.readyCondition().Status
	if node != nil && node.Status.Phase != k.phase(node) {
		return true
	}
	return node != nil && !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == status
	})
}

// readyCondition returns the condition Ready: it is True while the runtime can start containers, unless the node is simulated as not ready.
func (k *Kubelet) readyCondition() corev1.NodeCondition {
	ready := k.runtimeCondition()
	if k.isShuttingDown() && ready.Status == corev1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "node is shutting down"
	}
	return simReady(k.simState(), ready)
}

// IsUnready reports whether the node does not become ready by itself: its runtime is down, its annotation says so, or Stages write its status.
func (k *Kubelet) IsUnready() bool {
	return k.down() || k.leavesStatus() || k.readyCondition().Status != corev1.ConditionTrue
}

// runtimeCondition is the condition Ready by the health of the runtime.
func (k *Kubelet) runtimeCondition() corev1.NodeCondition {
	if h, ok := k.runtime.(HealthChecker); ok {
		if err := h.Healthy(); err != nil {
			return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
				Message: "container runtime is down: " + err.Error()}
		}
	}
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
}

// reportReady posts the node's status and records an Event when the runtime's health has changed. When the runtime becomes
// healthy, the status has its features again.
func (k *Kubelet) reportReady(ctx context.Context) {
	ready := k.readyCondition()
	changed := ready.Status != k.ready
	k.ready = ready.Status
	post := k.readyDiffers()
	if changed && ready.Status == corev1.ConditionTrue && k.updateFeatures() {
		post = true
	}
	if post {
		if err := k.postNode(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot post node status", "node", k.Name, "err", err) // the next heartbeat repeats it
		}
	}
	if k.recorder == nil || !changed {
		return
	}
	reason := "NodeReady"
	if ready.Status != corev1.ConditionTrue {
		reason = "NodeNotReady"
		slog.WarnContext(ctx, "the node is not ready", "node", k.Name, "reason", ready.Message)
	}
	k.recorder.Event(ctx, k.currentNode(), corev1.EventTypeNormal, reason, "Node "+k.Name+" status is now: "+reason)
}

// postNode writes the node's status, unless the node is simulated as silent or belongs to Stages.
func (k *Kubelet) postNode(ctx context.Context) error {
	if k.down() || k.leavesStatus() {
		return nil
	}
	old := k.currentNode()
	next := old.DeepCopy()
	next.Status = k.nodeStatus(old)
	node, err := k.patchNode(ctx, old, next, "status")
	if err != nil {
		return err
	}
	k.setNode(node)
	return nil
}

// patchNode writes the difference between two states of the node and returns the API's response.
func (k *Kubelet) patchNode(ctx context.Context, old, next *corev1.Node, sub string) (*corev1.Node, error) {
	if equality.Semantic.DeepEqual(old, next) {
		return old, nil
	}
	patch, err := twoWayPatch(old, next, corev1.Node{})
	if err != nil {
		return nil, err
	}
	got, err := k.client.Patch(ctx, k.nodeTarget().Sub(sub),
		client.Patch{Type: types.StrategicMergePatchType, Data: patch}, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	node, ok := got.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("patch node: the response is a %T", got)
	}
	return node, nil
}

// twoWayPatch returns the strategic merge patch from old to next. like is an empty object of their type.
func twoWayPatch(old, next, like any) ([]byte, error) {
	a, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(a, b, like)
}

// nodeObject returns the node to register.
func (k *Kubelet) nodeObject(old *corev1.Node) *corev1.Node {
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: k.Name, Labels: k.labels(), Annotations: maps.Clone(k.Annotations)},
		Spec:       corev1.NodeSpec{Taints: k.Taints},
	}
	node.Status = k.nodeStatus(old)
	return node
}

func (k *Kubelet) labels() map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:    k.Name,
		corev1.LabelOSStable:    k.machine.system,
		corev1.LabelArchStable:  k.machine.arch,
		"beta.kubernetes.io/os": k.machine.system, "beta.kubernetes.io/arch": k.machine.arch,
		TierLabel: k.Tier.Name,
	}
	maps.Copy(labels, k.Labels)
	return labels
}

// nodeStatus returns the node's current status. Conditions keep the time of their last transition from old.
func (k *Kubelet) nodeStatus(old *corev1.Node) corev1.NodeStatus {
	s := corev1.NodeStatus{
		Phase:    k.phase(old),
		Capacity: k.withExtended(old),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: k.Address}, {Type: corev1.NodeHostName, Address: k.Name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: k.machine.id, SystemUUID: k.machine.systemID, BootID: k.machine.bootID,
			KernelVersion: k.machine.kernel, OSImage: k.machine.image,
			ContainerRuntimeVersion: "minikctl-" + k.Tier.Name + "://" + k.Tier.Version,
			KubeletVersion:          release.Kubernetes,
			OperatingSystem:         k.machine.system, Architecture: k.machine.arch,
		},
	}
	s.Allocatable = maps.Clone(s.Capacity)
	maps.Copy(s.Allocatable, k.Allocatable)
	if srv := k.host.Server; srv != nil {
		s.DaemonEndpoints.KubeletEndpoint.Port = srv.Port
	}
	if !k.Tier.Simulated {
		for _, img := range k.host.Images.List() {
			s.Images = append(s.Images, corev1.ContainerImage{Names: []string{img}})
		}
	}
	var before []corev1.NodeCondition
	if old != nil {
		s.VolumesAttached, s.VolumesInUse, s.Config = old.Status.VolumesAttached, old.Status.VolumesInUse, old.Status.Config
		before = old.Status.Conditions
	}
	s.Conditions = k.nodeConditions(before)
	return s
}

// withExtended returns the node's capacity, with the resources that other clients have added to old.
func (k *Kubelet) withExtended(old *corev1.Node) corev1.ResourceList {
	out := corev1.ResourceList{}
	if old != nil {
		maps.Copy(out, old.Status.Capacity)
	}
	maps.Copy(out, k.capacity())
	return out
}

func (k *Kubelet) capacity() corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(k.machine.cpus, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(k.machine.memory, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(k.machine.storage, resource.BinarySI),
	}
	maps.Copy(out, k.Capacity)
	return out
}

// nodeConditions returns the kubelet's conditions, those of the runtime's features, and those that other clients have added.
func (k *Kubelet) nodeConditions(before []corev1.NodeCondition) []corev1.NodeCondition {
	now := metav1.NewTime(k.host.Clock.Now()).Rfc3339Copy()
	out := append(k.pressureStates(), k.readyCondition())
	k.mu.Lock()
	for _, f := range k.features {
		out = append(out, corev1.NodeCondition{
			Type: corev1.NodeConditionType(f.Name), Status: boolStatus(f.OK), Reason: featureReason(f), Message: f.Message,
		})
	}
	k.mu.Unlock()
	own := len(out)
	for i := range out {
		c := &out[i]
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		for _, b := range before {
			if b.Type == c.Type && b.Status == c.Status {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(out[:own], func(c corev1.NodeCondition) bool { return c.Type == b.Type }) {
			out = append(out, b)
		}
	}
	return out
}

// featureReason returns the reason of a feature's condition.
func featureReason(f Feature) string {
	switch {
	case f.Reason != "":
		return f.Reason
	case f.OK:
		return "RuntimeGives"
	}
	return "RuntimeLacks"
}

// updateFeatures stores the runtime's features for the node's next status, and reports whether the runtime describes any.
// It follows the registration, since a runtime may need time to find out its features.
func (k *Kubelet) updateFeatures() bool {
	d, ok := k.runtime.(Describer)
	if !ok {
		return false
	}
	features := d.Features()
	k.mu.Lock()
	k.features = features
	k.mu.Unlock()
	return true
}
