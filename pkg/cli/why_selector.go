package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// ofPod returns the chosen decisions about a pod.
func (f *whyFlags) ofPod(ctx context.Context, env *Env, namespace, name string) (*minikctl.DecisionList, error) {
	list, err := decisionsOf(ctx, env, namespace, name)
	if err != nil {
		return nil, err
	}
	return list, f.choose(list)
}

// ofSelected returns the chosen decisions about the pods that the selector matches. A pod without a decision is a warning.
func (f *whyFlags) ofSelected(ctx context.Context, env *Env, namespace string) (*minikctl.DecisionList, error) {
	set, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
	if err != nil {
		return nil, err
	}
	list := func(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
		opts.LabelSelector = f.selector
		return set.CoreV1().Pods(namespace).List(ctx, opts)
	}
	pods, err := listAll(ctx, list, func(l *corev1.PodList) []corev1.Pod { return l.Items })
	if err != nil {
		return nil, err
	}
	out := &minikctl.DecisionList{Items: []minikctl.Decision{}}
	out.SetGroupVersionKind(minikctl.GroupVersion.WithKind("DecisionList"))
	for _, pod := range pods {
		of, err := f.ofPod(ctx, env, namespace, pod.Name)
		if err != nil {
			fmt.Fprintln(env.Err, "Warning:", err)
			continue
		}
		out.ResourceVersion = of.ResourceVersion
		out.Items = slices.Concat(out.Items, of.Items)
	}
	if len(pods) == 0 {
		fmt.Fprintf(env.Err, "No resources found in %s namespace.\n", namespace)
	}
	return out, nil
}
