package cli

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// fetchPodGroups reads the PodGroups of the cluster, of the APIs that it serves. Of one that it does not serve, users without the permission
// get Forbidden.
func fetchPodGroups(ctx context.Context, env *Env, set kubernetes.Interface, c *whatif.Cluster) error {
	absent := func(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }
	groups, err := set.SchedulingV1alpha2().PodGroups("").List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		for i := range groups.Items {
			c.PodGroups = append(c.PodGroups, &groups.Items[i])
		}
	case !absent(err):
		return err
	}
	dynamic, err := cmdutil.NewFactory(env.Target).DynamicClient()
	if err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	custom, err := dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		for i := range custom.Items {
			c.PodGroups = append(c.PodGroups, &custom.Items[i])
		}
	case !absent(err):
		return err
	}
	return nil
}
