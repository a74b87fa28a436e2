package cli

import (
	"context"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/kubectl/pkg/util/podutils"
)

// preferRunningPods has exec, attach, port-forward and logs of a workload prefer pods that run on to those that are being deleted. kubectl's
// order puts readiness first, and its order for logs ignores deletion: right after a scale-down or during a rollout it chooses a pod that
// is about to end. kubectl's verbs have no other place for the choice than these variables.
var preferRunningPods = sync.OnceFunc(func() {
	attachable, logs := polymorphichelpers.AttachablePodForObjectFn, polymorphichelpers.LogsForObjectFn
	polymorphichelpers.AttachablePodForObjectFn = func(getter genericclioptions.RESTClientGetter, obj runtime.Object, timeout time.Duration) (*corev1.Pod, error) {
		pod, _, err := choosePod(getter, obj, func(pods []*corev1.Pod) sort.Interface { return sort.Reverse(podutils.ActivePods(pods)) })
		if err != nil || pod == nil {
			return attachable(getter, obj, timeout)
		}
		return pod, nil
	}
	polymorphichelpers.LogsForObjectFn = func(getter genericclioptions.RESTClientGetter, obj, options runtime.Object, timeout time.Duration, allContainers bool) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
		pod, of, err := choosePod(getter, obj, func(pods []*corev1.Pod) sort.Interface { return podutils.ByLogging(pods) })
		if err != nil || pod == nil {
			return logs(getter, obj, options, timeout, allContainers)
		}
		if of > 1 {
			fmt.Fprintf(os.Stderr, "Found %v pods, using pod/%v\n", of, pod.Name)
		}
		return logs(getter, pod, options, timeout, allContainers)
	}
})

// choosePod returns the first pod of a workload in this order, and the number of its pods. Pods that are being deleted count only if no other
// one runs. Nil leaves the choice to kubectl: obj is no workload, or has no pods yet, for which kubectl waits.
func choosePod(getter genericclioptions.RESTClientGetter, obj runtime.Object, order func([]*corev1.Pod) sort.Interface) (pod *corev1.Pod, of int, err error) {
	switch obj.(type) {
	case *corev1.Pod, *corev1.PodList:
		return nil, 0, nil
	}
	namespace, selector, err := polymorphichelpers.SelectorsForObject(obj)
	if err != nil {
		return nil, 0, err
	}
	config, err := getter.ToRESTConfig()
	if err != nil {
		return nil, 0, err
	}
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, 0, err
	}
	list, err := client.Pods(namespace).List(context.Background(), metav1.ListOptions{LabelSelector: selector.String()}) //nolint:forbidigo // kubectl's functions have none
	if err != nil || len(list.Items) == 0 {
		return nil, 0, err
	}
	var all, stay []*corev1.Pod
	runs := false
	for i := range list.Items {
		p := &list.Items[i]
		all = append(all, p)
		if p.DeletionTimestamp == nil {
			stay = append(stay, p)
			runs = runs || p.Status.Phase == corev1.PodRunning
		}
	}
	if !runs {
		stay = all
	}
	sort.Sort(order(stay))
	return stay[0], len(all), nil
}
