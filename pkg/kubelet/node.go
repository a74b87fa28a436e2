package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
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
)

// version is what a node says its kubelet is.
const version = "v1.36.3"

// maxPods is how many pods a node takes when its capacity does not say.
const maxPods = 110

// register makes the Node, or takes over the one that is there: its labels and status become what this kubelet says.
func (k *Kubelet) register(ctx context.Context) error {
	wanted := k.nodeObject(nil)
	made, err := k.client.Create(ctx, client.Target{Resource: client.Nodes}, wanted, metav1.CreateOptions{})
	if err == nil {
		node, ok := made.(*corev1.Node)
		if !ok {
			return fmt.Errorf("create node: the answer is a %T", made)
		}
		k.setNode(node)
		return k.renew(ctx)
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
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

// currentNode returns the newest state that is known of the node: what the API last answered, or what others have made
// of it since.
func (k *Kubelet) currentNode() *corev1.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seen, ok := k.nodes.Get(objects.Key{Name: k.Name}); ok && (k.node == nil || revisionOf(seen) > revisionOf(k.node)) {
		return seen
	}
	return k.node
}

// doubted reports whether the API shows the node as not ready: while nothing was heard of its kubelet, somebody said so.
func (k *Kubelet) doubted() bool {
	node := k.currentNode()
	return node != nil && !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// postNode writes the node's status.
func (k *Kubelet) postNode(ctx context.Context) error {
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

// patchNode writes what differs between two states of the node and returns the node as it is then.
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
		return nil, fmt.Errorf("patch node: the answer is a %T", got)
	}
	return node, nil
}

// twoWayPatch returns the strategic merge patch that leads from old to next. like is an empty object of their type.
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

// nodeStatus returns the node's status as of now. Conditions keep the time of their last change from old.
func (k *Kubelet) nodeStatus(old *corev1.Node) corev1.NodeStatus {
	s := corev1.NodeStatus{
		Capacity: k.capacity(),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: k.Address}, {Type: corev1.NodeHostName, Address: k.Name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: k.machine.id, SystemUUID: k.machine.systemID, BootID: k.machine.bootID,
			KernelVersion: k.machine.kernel, OSImage: k.machine.image,
			ContainerRuntimeVersion: "minikctl-" + k.Tier.Name + "://" + k.Tier.Version,
			KubeletVersion:          version,
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

// nodeConditions returns the four conditions of a healthy node, and what others have added.
func (k *Kubelet) nodeConditions(before []corev1.NodeCondition) []corev1.NodeCondition {
	now := metav1.NewTime(k.host.Clock.Now()).Rfc3339Copy()
	out := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	}
	k.mu.Lock()
	for _, f := range k.gives {
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

// postFeatures asks the runtime what it gives to pods and says so on the node. It comes after the node is registered,
// since a runtime may have to try things first.
func (k *Kubelet) postFeatures(ctx context.Context) error {
	d, ok := k.runtime.(Describer)
	if !ok {
		return nil
	}
	gives := d.Features()
	k.mu.Lock()
	k.gives = gives
	k.mu.Unlock()
	return k.postNode(ctx)
}
