package cli

import (
	"context"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/objects"
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
	client, err := cmdutil.NewFactory(env.Target).DynamicClient()
	if err != nil {
		return err
	}
	if c.GroupDefinition == nil && slices.ContainsFunc(c.PodGroups, isCustom) {
		if c.GroupDefinition, err = groupDefinition(ctx, client); err != nil && !absent(err) {
			return err
		}
	}
	resource := schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	custom, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
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

func isCustom(group objects.Object) bool {
	_, is := group.(*unstructured.Unstructured)
	return is
}

// groupDefinition reads the definition of the PodGroups of scheduling.x-k8s.io.
func groupDefinition(ctx context.Context, c dynamic.Interface) (*apiextensionsv1.CustomResourceDefinition, error) {
	u, err := c.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(ctx, whatif.GroupDefinitionName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}
