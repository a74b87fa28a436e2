package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/release"
)

// changedOnNode returns the new and old pod of a request that changes the spec of a pod on a node, or nil.
func changedOnNode(a *stage.Admission, subresources string) (pod, old *corev1.Pod) {
	if a.Operation != stage.Update || a.GVR.GroupResource() != pods || !strings.Contains(subresources, "/"+a.Subresource+"/") {
		return nil, nil
	}
	pod, ok := a.Object.(*corev1.Pod)
	old, was := a.Old.(*corev1.Pod)
	if !ok || !was || pod.Spec.NodeName == "" || pod.Generation == old.Generation {
		return nil, nil
	}
	return pod, old
}

// nodeOfPod returns the node that a pod is bound to.
func nodeOfPod(ctx context.Context, r stage.Reader, a *stage.Admission, pod *corev1.Pod) (*corev1.Node, error) {
	obj, err := r.Get(ctx, nodes, objects.Key{Name: pod.Spec.NodeName})
	if apierrors.IsNotFound(err) {
		return nil, forbid(a, "node %q not found", pod.Spec.NodeName)
	}
	if err != nil {
		return nil, forbid(a, "failed to get node %q: %w", pod.Spec.NodeName, err)
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, forbid(a, "unexpected type %T", obj)
	}
	return node, nil
}

// nodeDeclaredFeatures rejects updates of a pod that require a feature which its node does not declare.
type nodeDeclaredFeatures struct{ reader stage.Reader }

func (nodeDeclaredFeatures) Name() string { return "NodeDeclaredFeatureValidator" }

// featuresOf is the release whose feature declarations apply.
var featuresOf = sync.OnceValue(func() *version.Version { return version.MustParseGeneric(release.Kubernetes) })

func (n nodeDeclaredFeatures) Validate(ctx context.Context, a *stage.Admission) error {
	pod, old := changedOnNode(a, "//resize/")
	if pod == nil {
		return nil
	}
	before, after := &ndf.PodInfo{Spec: &old.Spec, Status: &old.Status}, &ndf.PodInfo{Spec: &pod.Spec, Status: &pod.Status}
	needed, err := ndf.DefaultFramework.InferForPodUpdate(before, after, featuresOf())
	if err != nil {
		return forbid(a, "failed to infer pod capability requirements: %w", err)
	}
	if needed.IsEmpty() {
		return nil
	}
	node, err := nodeOfPod(ctx, n.reader, a, pod)
	if err != nil {
		return err
	}
	result, err := ndf.DefaultFramework.MatchNode(needed, node)
	if err != nil {
		return forbid(a, "failed to match pod requirements against node %q: %w", node.Name, err)
	}
	if !result.IsMatch {
		return forbid(a, "pod update requires features %s which are not available on node %q", strings.Join(result.UnsatisfiedRequirements, ", "), node.Name)
	}
	return nil
}

// podResize rejects a resize beyond the capacity of the node.
type podResize struct{ reader stage.Reader }

func (podResize) Name() string { return "PodResizeValidator" }

func (p podResize) Validate(ctx context.Context, a *stage.Admission) error {
	pod, _ := changedOnNode(a, "/resize/")
	if pod == nil {
		return nil
	}
	node, err := nodeOfPod(ctx, p.reader, a, pod)
	if err != nil {
		return err
	}
	if os, ok := node.Labels[corev1.LabelOSStable]; ok && os != "linux" {
		return refuseResize(a, "UnsupportedPlatform", fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os))
	}
	if err := fits(pod, node.Status.Allocatable); err != nil {
		return refuseResize(a, "NodeCapacity", err)
	}
	return nil
}

// fits returns an error if the pod requests more than an empty node has.
func fits(pod *corev1.Pod, has corev1.ResourceList) error {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var short []string
	if cpu := requests.Cpu(); cpu.Cmp(*has.Cpu()) > 0 {
		short = append(short, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), has.Cpu().MilliValue()))
	}
	if memory := requests.Memory(); memory.Cmp(*has.Memory()) > 0 {
		short = append(short, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), has.Memory().Value()))
	}
	if len(short) == 0 {
		return nil
	}
	return fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(short, "; "))
}

func refuseResize(a *stage.Admission, cause metav1.CauseType, err error) error {
	refused := apierrors.NewForbidden(a.GVR.GroupResource(), nameOf(a), err)
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	return refused
}
