package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// fetchCluster reads the state of the cluster, which may be any of the user's kubeconfig, and only reads. Nodes and pods are required; what else the user may
// not list is left out with a warning.
func fetchCluster(ctx context.Context, env *Env, c *whatif.Cluster) error {
	set, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
	if err != nil {
		return err
	}
	nodes, err := listAll(ctx, set.CoreV1().Nodes().List, func(l *corev1.NodeList) []corev1.Node { return l.Items })
	if err != nil {
		return err
	}
	pods, err := listAll(ctx, set.CoreV1().Pods("").List, func(l *corev1.PodList) []corev1.Pod { return l.Items })
	if err != nil {
		return err
	}
	namespaces, err := listAll(ctx, set.CoreV1().Namespaces().List, func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	budgets, err := listAll(ctx, set.PolicyV1().PodDisruptionBudgets("").List, func(l *policyv1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	classes, err := listAll(ctx, set.SchedulingV1().PriorityClasses().List, func(l *schedulingv1.PriorityClassList) []schedulingv1.PriorityClass { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	c.Nodes, c.Namespaces, c.Budgets = nodes, append(c.Namespaces, namespaces...), append(c.Budgets, budgets...)
	c.Priorities = append(c.Priorities, classes...)
	c.Pods = append(c.Pods, slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed // it takes up nothing
	})...)
	return errors.Join(fetchSelecting(ctx, env, set, c), fetchStorage(ctx, env, set, c), fetchDevices(ctx, env, set, c), fetchPodGroups(ctx, env, set, c))
}

// fetchStorage reads the claims and volumes, and how many of them a node may have.
func fetchStorage(ctx context.Context, env *Env, set kubernetes.Interface, c *whatif.Cluster) error {
	claims, err := listAll(ctx, set.CoreV1().PersistentVolumeClaims("").List, func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	volumes, err := listAll(ctx, set.CoreV1().PersistentVolumes().List, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	classes, err := listAll(ctx, set.StorageV1().StorageClasses().List, func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	drivers, err := listAll(ctx, set.StorageV1().CSINodes().List, func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	attachments, err := listAll(ctx, set.StorageV1().VolumeAttachments().List, func(l *storagev1.VolumeAttachmentList) []storagev1.VolumeAttachment { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	c.Claims, c.Volumes, c.Classes = append(c.Claims, claims...), append(c.Volumes, volumes...), append(c.Classes, classes...)
	c.Drivers, c.Attachments = append(c.Drivers, drivers...), append(c.Attachments, attachments...)
	return nil
}

// fetchDevices reads the resource claims, and the devices that they can get. It warns if pods have claims and the cluster does not serve them in this version.
func fetchDevices(ctx context.Context, env *Env, set kubernetes.Interface, c *whatif.Cluster) error {
	claims, err := listAll(ctx, set.ResourceV1().ResourceClaims("").List, func(l *resourcev1.ResourceClaimList) []resourcev1.ResourceClaim { return l.Items })
	if apierrors.IsNotFound(err) {
		if slices.ContainsFunc(c.Pods, func(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }) {
			fmt.Fprintln(env.Err, "Warning: left out: the cluster does not serve resource claims and devices in resource.k8s.io/v1; pods with claims find no node")
		}
		return nil
	}
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	templates, err := listAll(ctx, set.ResourceV1().ResourceClaimTemplates("").List, func(l *resourcev1.ResourceClaimTemplateList) []resourcev1.ResourceClaimTemplate { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	devices, err := listAll(ctx, set.ResourceV1().ResourceSlices().List, func(l *resourcev1.ResourceSliceList) []resourcev1.ResourceSlice { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	classes, err := listAll(ctx, set.ResourceV1().DeviceClasses().List, func(l *resourcev1.DeviceClassList) []resourcev1.DeviceClass { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	c.DeviceClaims, c.ClaimTemplates = append(c.DeviceClaims, claims...), append(c.ClaimTemplates, templates...)
	c.DeviceSlices, c.DeviceClasses = append(c.DeviceSlices, devices...), append(c.DeviceClasses, classes...)
	return nil
}

// fetchSelecting reads the Services and the controllers by whose selectors pods are spread.
func fetchSelecting(ctx context.Context, env *Env, set kubernetes.Interface, c *whatif.Cluster) error {
	services, err := listAll(ctx, set.CoreV1().Services("").List, func(l *corev1.ServiceList) []corev1.Service { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	controllers, err := listAll(ctx, set.CoreV1().ReplicationControllers("").List, func(l *corev1.ReplicationControllerList) []corev1.ReplicationController { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	replicaSets, err := listAll(ctx, set.AppsV1().ReplicaSets("").List, func(l *appsv1.ReplicaSetList) []appsv1.ReplicaSet { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	statefulSets, err := listAll(ctx, set.AppsV1().StatefulSets("").List, func(l *appsv1.StatefulSetList) []appsv1.StatefulSet { return l.Items })
	if err = unlessForbidden(env, err); err != nil {
		return err
	}
	c.Selecting = append(c.Selecting, asObjects(services)...)
	c.Selecting = append(c.Selecting, asObjects(controllers)...)
	c.Selecting = append(c.Selecting, asObjects(replicaSets)...)
	c.Selecting = append(c.Selecting, asObjects(statefulSets)...)
	return nil
}

func asObjects[T objects.Object](in []T) []objects.Object {
	out := make([]objects.Object, len(in))
	for i, obj := range in {
		out[i] = obj
	}
	return out
}

// listPage is how many objects one request lists, so that a large cluster is read in small parts.
const listPage = 500

// listAll lists all objects of a resource.
func listAll[L metav1.ListInterface, T any](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), items func(L) []T) ([]*T, error) {
	var out []*T
	options := metav1.ListOptions{Limit: listPage}
	for {
		page, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		part := items(page)
		for i := range part {
			out = append(out, &part[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return out, nil
		}
	}
}

// unlessForbidden warns of an error that the user may not list a resource, and returns any other.
func unlessForbidden(env *Env, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	fmt.Fprintln(env.Err, "Warning: left out:", err)
	return nil
}
