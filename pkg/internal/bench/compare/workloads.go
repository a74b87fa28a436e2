package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// gangSize is the number of pods of a PodGroup, all of which it needs.
const gangSize = 10

// workloads measures what Kubernetes' scheduler_perf calls by these names, in this program's sizes: a backlog of pods, and then pods that come one
// by one.
func workloads(ctx context.Context, s side, size sizes, t *table) error {
	full := size.pods + size.later
	few := max(gangSize, size.pods/4)
	for _, p := range []pending{
		{what: "SchedulingBasic", pods: size.pods, change: plain},
		{what: "SchedulingNodeAffinity", pods: size.pods, change: inZone},
		{what: "TopologySpreading", pods: size.pods, change: spread(corev1.LabelTopologyZone, 5)},
		{what: "SchedulingPodAffinity", pods: size.pods, change: affinity(full)},
		{what: "SchedulingPodAntiAffinity", pods: size.pods, change: antiAffinity(max(1, size.manyNodes/5))},
		{what: "PreferredPodAffinity", pods: size.pods, change: preferred},
		{what: "Unschedulable", pods: size.pods, change: plain, prepare: tooLarge(max(1, size.pods/10))},
		{what: "SchedulingWithMixedChurn", pods: size.pods, change: plain, beside: churn},
		{what: "PreemptionBasic", pods: few, change: important, prepare: lessImportant(4 * size.manyNodes)},
		{what: "GangScheduling", pods: size.pods, change: inGang, prepare: gangs(full/gangSize + 2)},
		{what: "SchedulingWithResourceClaims", pods: few, change: claiming, prepare: claims(size.manyNodes, few+size.later)},
	} {
		if len(size.workloads) > 0 && !slices.Contains(size.workloads, p.what) {
			continue
		}
		p.nodes, p.later = size.manyNodes, size.later
		if p.what == "GangScheduling" {
			p.later = gangSize * ((p.later + gangSize - 1) / gangSize) // whole gangs
		}
		err := with(ctx, s, want{gangs: p.what == "GangScheduling"}, func(c *cluster, _ kubernetes.Interface) error { return p.measure(ctx, s, c, size.settle, t) })
		if err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
	}
	return nil
}

// large measures a backlog of so many pods that a round takes minutes.
func large(ctx context.Context, s side, size sizes, t *table) error {
	p := pending{what: "no constraint", pods: 10 * size.manyReplicas, nodes: 5 * size.manyNodes, change: plain}
	return with(ctx, s, want{}, func(c *cluster, _ kubernetes.Interface) error { return p.measure(ctx, s, c, size.settle, t) })
}

// inZone lets a pod run in one of the zones only.
func inZone(_ int, p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-1", "zone-2"}}}}}}}}
}

// preferred makes a pod prefer the nodes of the others.
func preferred(_ int, p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
		{Weight: 1, PodAffinityTerm: inGroup(0, corev1.LabelHostname, p)}}}}
}

func cores(n string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}}
}

// tooLarge creates pods that fit on no node.
func tooLarge(n int) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		return parallel(n, 32, func(i int) error {
			p := pod(fmt.Sprintf("large-%d", i), corev1.DefaultSchedulerName)
			p.Spec.Containers[0].Resources = cores("64")
			_, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
			return err
		})
	}
}

// important makes a pod evict one of those that lessImportant creates, four on each node of 32 cores.
func important(_ int, p *corev1.Pod) {
	p.Spec.PriorityClassName = "important"
	p.Spec.Containers[0].Resources = cores("8")
}

func lessImportant(n int) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "important"}, Value: 10}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
		return parallel(n, 32, func(i int) error {
			p := pod(fmt.Sprintf("low-%d", i), corev1.DefaultSchedulerName)
			p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = fmt.Sprintf("node-%d", i/4), new(int64)
			p.Spec.Containers[0].Resources = cores("7500m")
			_, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
			return err
		})
	}
}

// churn creates a node, a Service and a pod without room ten times a second, and deletes them again.
func churn(ctx context.Context, client kubernetes.Interface) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	live := context.WithoutCancel(ctx)
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := churnOnce(live, client, fmt.Sprintf("churn-%d", i)); err != nil {
			return err
		}
	}
}

func churnOnce(ctx context.Context, client kubernetes.Interface, name string) error {
	node := simulatedNode(0)
	node.Name, node.Labels = name, map[string]string{corev1.LabelHostname: name}
	node.Spec.Unschedulable = true
	p := pod(name, corev1.DefaultSchedulerName)
	p.Spec.Containers[0].Resources = cores("64")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ClusterIP: corev1.ClusterIPNone}}
	core := client.CoreV1()
	if _, err := core.Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := core.Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := core.Services("default").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := core.Services("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := core.Pods("default").Delete(ctx, name, *metav1.NewDeleteOptions(0)); err != nil {
		return err
	}
	return core.Nodes().Delete(ctx, name, metav1.DeleteOptions{})
}

func inGang(i int, p *corev1.Pod) {
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new(gangName(i / gangSize))}
}

func gangName(i int) string { return fmt.Sprintf("gang-%d", i) }

func gangs(n int) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		return parallel(n, 32, func(i int) error {
			group := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gangName(i)}, Spec: schedulingv1alpha2.PodGroupSpec{
				SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: gangSize}}}}
			_, err := client.SchedulingV1alpha2().PodGroups("default").Create(ctx, group, metav1.CreateOptions{})
			return err
		})
	}
}

// deviceClass is the class and the driver of the devices that claims creates.
const deviceClass = "devices.example.com"

func claiming(i int, p *corev1.Pod) {
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: new(claimName(i))}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
}

func claimName(i int) string { return fmt.Sprintf("claim-%d", i) }

// claims creates four devices for each of the nodes, and claims of one device each.
func claims(nodes, n int) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		api := client.ResourceV1()
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: deviceClass}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", deviceClass)}}}}}
		if _, err := api.DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
		err := parallel(nodes, 32, func(i int) error {
			name := fmt.Sprintf("node-%d", i)
			slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{Driver: deviceClass, NodeName: new(name),
				Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1}}}
			for k := range 4 {
				slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", k)})
			}
			_, err := api.ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		return parallel(n, 32, func(i int) error {
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName(i)}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: deviceClass}}}}}}
			_, err := api.ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{})
			return err
		})
	}
}
