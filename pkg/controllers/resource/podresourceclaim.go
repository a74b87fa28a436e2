package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/objects/resource"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// claimsManager is the field manager of the claims in a pod's status.
const claimsManager = "ResourceClaimController"

var (
	// podsByClaim lists pods by the claims that they refer to, and podsByTemplate by their templates, as NAMESPACE/NAME.
	podsByClaim    = client.NewIndex(claimsOf)
	podsByTemplate = client.NewIndex(templatesOf)
	// claimsByPod lists claims by the UID of the pod that they were made for.
	claimsByPod = client.NewIndex(madeFor)
)

type podResourceClaim struct {
	env       controller.Env
	pods      *client.Cache[*corev1.Pod]
	claims    *client.Cache[*resourcev1.ResourceClaim]
	templates *client.Cache[*resourcev1.ResourceClaimTemplate]
}

// PodResourceClaim makes ResourceClaims from the templates that pods refer to, writes their names to the status of the pods, and
// reserves allocated claims for pods that were bound without the scheduler.
func PodResourceClaim(env controller.Env) reconcile.Loop {
	r := podResourceClaim{
		env: env, pods: env.Caches.Pods(), claims: client.CacheOf[*resourcev1.ResourceClaim](env.Caches, resourceClaims),
		templates: client.CacheOf[*resourcev1.ResourceClaimTemplate](env.Caches, resourceClaimTemplates),
	}
	return reconcile.Loop{
		Name: "podresourceclaim", Workers: controller.Workers,
		Sources: []reconcile.Source{
			reconcile.Map(r.pods, podWithClaims), reconcile.Map(r.claims, r.podsOfClaim), reconcile.Map(r.templates, r.podsOfTemplate),
		},
		Reconcile: r.reconcile,
	}
}

func podWithClaims(ch client.Change[*corev1.Pod]) []objects.Key {
	pod := ch.New
	if ch.Deleted() {
		pod = ch.Old
	}
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	return []objects.Key{ch.Key()}
}

func claimsOf(pod *corev1.Pod) []string {
	var out []string
	for name := range podref.ResourceClaims(pod) {
		out = append(out, pod.Namespace+"/"+name)
	}
	return out
}

func templatesOf(pod *corev1.Pod) []string {
	var out []string
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName != nil {
			out = append(out, pod.Namespace+"/"+*c.ResourceClaimTemplateName)
		}
	}
	return out
}

func madeFor(claim *resourcev1.ResourceClaim) []string {
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && owner.APIVersion == "v1" && owner.Kind == "Pod" {
		return []string{string(owner.UID)}
	}
	return nil
}

func (r podResourceClaim) podsOfClaim(ch client.Change[*resourcev1.ResourceClaim]) []objects.Key {
	return keysOf(r.pods.ByIndex(podsByClaim, ch.Key().String()))
}

func (r podResourceClaim) podsOfTemplate(ch client.Change[*resourcev1.ResourceClaimTemplate]) []objects.Key {
	if ch.Deleted() {
		return nil
	}
	return keysOf(r.pods.ByIndex(podsByTemplate, ch.Key().String()))
}

func keysOf(pods []*corev1.Pod) []objects.Key {
	var keys []objects.Key
	for _, p := range pods {
		keys = append(keys, controller.KeyOf(p))
	}
	return keys
}

func (r podResourceClaim) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	pod, ok := r.pods.Get(key)
	if !ok || pod.DeletionTimestamp != nil || isDone(pod) { // the loop of claims removes the claims and reservations of a pod that is done
		return 0, nil
	}
	if !r.hasWork(pod) {
		return 0, nil
	}
	names, changed := map[string]string{}, false
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		name, isNew, err := r.ensureClaim(ctx, pod, c)
		if err != nil {
			message := fmt.Sprintf("PodResourceClaim %s: %v", c.Name, err)
			r.env.Events.Event(ctx, pod, corev1.EventTypeWarning, "FailedResourceClaimCreation", message)
			return 0, fmt.Errorf("pod %s, %s", key, message)
		}
		if name != "" {
			names[c.Name] = name
		}
		changed = changed || isNew
	}
	if changed {
		if err := r.setNames(ctx, pod, names); err != nil {
			return 0, fmt.Errorf("update pod %s ResourceClaimStatuses: %w", key, err)
		}
	}
	return 0, r.reserveAll(ctx, pod)
}

// hasWork reports whether a claim of a pod has to be made or reserved. One that was not made for the pod, although the pod's status says
// so, stays until it is deleted.
func (r podResourceClaim) hasWork(pod *corev1.Pod) bool {
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		name, mustOwn, err := resourceclaim.Name(pod, c)
		if err != nil {
			return true
		}
		if name == nil {
			continue
		}
		claim, ok := r.claims.Get(objects.Key{Namespace: pod.Namespace, Name: *name})
		switch {
		case !ok && c.ResourceClaimTemplateName != nil:
			return true
		case !ok || mustOwn && resourceclaim.IsForPod(pod, claim, false) != nil:
		case needsReservation(pod, claim):
			return true
		}
	}
	return false
}

func needsReservation(pod *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	return pod.Spec.NodeName != "" && claim.Status.Allocation != nil &&
		!resourceclaim.IsReservedForPod(pod, claim, false) && resourceclaim.CanBeReserved(claim)
}

// ensureClaim returns the name of the claim that was made for a pod from a template, and whether the pod's status lacks it. It makes the
// claim if there is none. The name is "" for claims without a template, and for those that are not needed.
func (r podResourceClaim) ensureClaim(ctx context.Context, pod *corev1.Pod, c *corev1.PodResourceClaim) (name string, isNew bool, err error) {
	known, mustOwn, err := resourceclaim.Name(pod, c)
	switch {
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
	case err != nil:
		return "", false, fmt.Errorf("checking for claim before creating it: %w", err)
	case known == nil || c.ResourceClaimTemplateName == nil:
		return "", false, nil
	default:
		claim, ok := r.claims.Get(objects.Key{Namespace: pod.Namespace, Name: *known})
		if ok && (!mustOwn || resourceclaim.IsForPod(pod, claim, false) == nil) {
			return *known, false, nil
		}
	}
	if name := r.existing(pod, c); name != "" {
		return name, true, nil
	}
	template, ok := r.templates.Get(objects.Key{Namespace: pod.Namespace, Name: *c.ResourceClaimTemplateName})
	if !ok {
		gr := resourcev1.Resource("resourceclaimtemplate")
		return "", false, fmt.Errorf("resource claim template %q: %w", *c.ResourceClaimTemplateName, apierrors.NewNotFound(gr, *c.ResourceClaimTemplateName))
	}
	obj, err := r.env.Client.Create(ctx, client.Target{Resource: resourceClaims, Namespace: pod.Namespace}, resource.GeneratedClaim(pod, c.Name, template), metav1.CreateOptions{})
	if err != nil {
		return "", false, fmt.Errorf("create ResourceClaim : %w", err) // the name is not known yet
	}
	claim := obj.(*resourcev1.ResourceClaim)
	r.claims.Put(claim) // or the pod would get another one while the watch is behind
	return claim.Name, true, nil
}

// existing returns the name of a claim that was made for a pod before, although its status does not have it yet; "": none.
func (r podResourceClaim) existing(pod *corev1.Pod, c *corev1.PodResourceClaim) string {
	for _, claim := range r.claims.ByIndex(claimsByPod, string(pod.UID)) {
		if name, ok := claim.Annotations[resourcev1.PodResourceClaimAnnotation]; ok && name == c.Name {
			return claim.Name
		}
	}
	return ""
}

// setNames writes the names of the claims that were made for a pod to its status.
func (r podResourceClaim) setNames(ctx context.Context, pod *corev1.Pod, names map[string]string) error {
	var statuses []any
	for _, c := range pod.Spec.ResourceClaims {
		if name, ok := names[c.Name]; ok {
			statuses = append(statuses, map[string]any{"name": c.Name, "resourceClaimName": name})
		}
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": pod.Name, "namespace": pod.Namespace},
		"status": map[string]any{"resourceClaimStatuses": statuses},
	})
	if err != nil {
		return err
	}
	patch := client.Patch{Type: types.ApplyPatchType, Data: data}
	written, err := r.env.Client.Patch(ctx, client.In(client.Pods, controller.KeyOf(pod)).Sub("status"), patch,
		metav1.PatchOptions{FieldManager: claimsManager, Force: new(true)})
	if err != nil {
		return controller.IgnoreNotFound(err)
	}
	r.pods.Put(written.(*corev1.Pod))
	return nil
}

// reserveAll reserves the allocated claims of a pod that has a node. Those of other pods the scheduler reserves.
func (r podResourceClaim) reserveAll(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		name, mustOwn, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue // the pod's new status requeues it
		}
		claim, ok := r.claims.Get(objects.Key{Namespace: pod.Namespace, Name: *name})
		if !ok || !needsReservation(pod, claim) || mustOwn && resourceclaim.IsForPod(pod, claim, false) != nil {
			continue
		}
		claim = claim.DeepCopy()
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		if _, err := r.env.Client.Update(ctx, client.In(resourceClaims, controller.KeyOf(claim)).Sub("status"), claim, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("reserve claim %s: %w", controller.KeyOf(claim), err)
		}
	}
	return nil
}
