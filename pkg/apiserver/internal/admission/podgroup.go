package admission

import (
	"context"
	"slices"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// podGroupInUse adds the protection finalizer to PodGroups. The controller podgroup-protection-controller removes it.
type podGroupInUse struct{}

func (podGroupInUse) Name() string { return "PodGroupProtection" }

const podGroupProtection = schedulingv1alpha2.GroupName + "/podgroup-protection"

func (podGroupInUse) Mutate(_ context.Context, a *stage.Admission) error {
	g, ok := a.Object.(*schedulingv1alpha2.PodGroup)
	if ok && a.Operation == stage.Create && a.Subresource == "" && !slices.Contains(g.Finalizers, podGroupProtection) {
		g.Finalizers = append(g.Finalizers, podGroupProtection)
	}
	return nil
}

// podGroupWorkload rejects a new PodGroup whose Workload, or the template in it, does not exist.
type podGroupWorkload struct{ reader stage.Reader }

func (podGroupWorkload) Name() string { return "PodGroupWorkloadExists" }

func (p podGroupWorkload) Validate(ctx context.Context, a *stage.Admission) error {
	g, ok := a.Object.(*schedulingv1alpha2.PodGroup)
	if !ok || a.Operation != stage.Create || a.Subresource != "" || g.Spec.PodGroupTemplateRef == nil || g.Spec.PodGroupTemplateRef.Workload == nil {
		return nil
	}
	ref := g.Spec.PodGroupTemplateRef.Workload
	obj, err := p.reader.Get(ctx, schedulingv1alpha2.Resource("workloads"), objects.Key{Namespace: a.Namespace, Name: ref.WorkloadName})
	if apierrors.IsNotFound(err) {
		return forbid(a, "PodGroup rejected: Workload %q not found", ref.WorkloadName)
	}
	if err != nil {
		return err
	}
	workload, ok := obj.(*schedulingv1alpha2.Workload)
	if !ok {
		return apierrors.NewBadRequest("resource was marked with kind Workload but could not be converted")
	}
	if workload.DeletionTimestamp != nil {
		return forbid(a, "PodGroup rejected: Workload %q is being deleted", ref.WorkloadName)
	}
	for i := range workload.Spec.PodGroupTemplates {
		if workload.Spec.PodGroupTemplates[i].Name == ref.PodGroupTemplateName {
			return nil
		}
	}
	return forbid(a, "PodGroup rejected: PodGroupTemplate %q not found in Workload %q", ref.PodGroupTemplateName, ref.WorkloadName)
}
