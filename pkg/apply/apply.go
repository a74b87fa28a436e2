// Package apply is client-side apply. Sort orders the manifests. An Applier computes a three-way merge of the last-applied
// configuration, the manifest and the live object, and sends the result as a patch. A Waiter watches the objects until they are
// current.
//
// It uses kubectl's last-applied annotation and field manager, so that users can apply the same object with both programs.
package apply

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/util"
)

// Outcome is the printed result of applying a manifest.
type Outcome string

const (
	Created    Outcome = "created"
	Configured Outcome = "configured"
	Unchanged  Outcome = "unchanged"
)

// FieldManager is the field manager of client-side apply.
const FieldManager = "kubectl-client-side-apply"

// conflictRetries is the number of times that a patch is computed again after a conflict.
const conflictRetries = 5

// Applier applies manifests.
type Applier struct {
	Manager    string            // the field manager; "" is FieldManager
	Validation string            // Strict, Warn or Ignore
	DryRun     bool              // --dry-run=server: the server stores nothing
	Pretend    bool              // --dry-run=client: only reads are sent
	Overwrite  bool              // the manifest overrides changes that other clients made to the same fields
	Force      bool              // delete and create an object whose patch the server refuses
	Warn       func(text string) // never nil

	// Replace reports whether an object is deleted and created instead of patched; nil: never.
	Replace func(live, manifest runtime.Object) bool
}

// Apply creates the object of info from its manifest or patches it. info then holds the live object.
func (a *Applier) Apply(info *resource.Info) (Outcome, error) {
	if err := named(info); err != nil {
		return "", err
	}
	modified, err := util.GetModifiedConfiguration(info.Object, true, unstructured.UnstructuredJSONScheme)
	if err != nil {
		return "", fmt.Errorf("retrieving modified configuration from:\n%s: %w", info.String(), err)
	}
	gvk := info.Object.GetObjectKind().GroupVersionKind()
	manifest := info.Object
	switch err := info.Get(); {
	case apierrors.IsNotFound(err):
		return a.create(info, manifest)
	case err != nil:
		return "", err
	}
	if err := a.warn(info); err != nil {
		return "", err
	}
	if a.Replace != nil && a.Replace(info.Object, manifest) {
		return Configured, a.replace(info, manifest)
	}
	for try := 0; ; try++ {
		p, err := merge(gvk, modified, info.Object, a.Overwrite)
		if err != nil {
			return "", fmt.Errorf("patching %s: %w", info.ObjectName(), err)
		}
		if p.empty() {
			return Unchanged, nil
		}
		before := resourceVersion(info.Object)
		err = a.send(info, p)
		switch {
		case err == nil && resourceVersion(info.Object) == before && !a.Pretend:
			return Unchanged, nil
		case err == nil:
			return Configured, nil
		case a.Force && (apierrors.IsConflict(err) || apierrors.IsInvalid(err)):
			return Configured, a.replace(info, manifest)
		case !apierrors.IsConflict(err) || try >= conflictRetries:
			return "", err
		}
		if err := info.Get(); err != nil {
			return "", err
		}
	}
}

// named refuses a manifest with a generateName: the next apply could not find its object.
func named(info *resource.Info) error {
	m, err := meta.Accessor(info.Object)
	if err != nil || info.Name != "" || m.GetGenerateName() == "" {
		return err
	}
	return fmt.Errorf("from %s: cannot use generate name with apply", m.GetGenerateName())
}

func (a *Applier) helper(info *resource.Info) *resource.Helper {
	manager := a.Manager
	if manager == "" {
		manager = FieldManager
	}
	return resource.NewHelper(info.Client, info.Mapping).DryRun(a.DryRun).WithFieldManager(manager).WithFieldValidation(a.Validation)
}

func (a *Applier) create(info *resource.Info, manifest runtime.Object) (Outcome, error) {
	if err := util.CreateApplyAnnotation(manifest, unstructured.UnstructuredJSONScheme); err != nil {
		return "", err
	}
	if a.Pretend {
		return Created, info.Refresh(manifest, true)
	}
	obj, err := a.helper(info).Create(info.Namespace, true, manifest)
	if err != nil {
		return "", err
	}
	return Created, info.Refresh(obj, true)
}

func (a *Applier) send(info *resource.Info, p patch) error {
	if a.Pretend {
		return nil
	}
	obj, err := a.helper(info).Patch(info.Namespace, info.Name, p.kind, p.data, nil)
	if err != nil {
		return err
	}
	return info.Refresh(obj, true)
}

// replace deletes the object and creates it from its manifest.
func (a *Applier) replace(info *resource.Info, manifest runtime.Object) error {
	if a.Pretend || a.DryRun {
		return nil
	}
	propagation := metav1.DeletePropagationForeground
	if _, err := a.helper(info).DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := awaitGone(info); err != nil {
		return err
	}
	_, err := a.create(info, manifest)
	return err
}

func (a *Applier) warn(info *resource.Info) error {
	m, err := meta.Accessor(info.Object)
	if err != nil {
		return err
	}
	if _, ok := m.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; !ok {
		a.Warn(fmt.Sprintf("resource %[1]s is missing the %[2]s annotation which is required by %[3]s apply. %[3]s apply should only be used on resources created declaratively by either %[3]s create --save-config or %[3]s apply. The missing annotation will be patched automatically.",
			info.ObjectName(), corev1.LastAppliedConfigAnnotation, "minikctl"))
	}
	if m.GetDeletionTimestamp() != nil {
		a.Warn(fmt.Sprintf("Detected changes to resource %s which is currently being deleted.", m.GetName()))
	}
	return nil
}

func resourceVersion(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}
