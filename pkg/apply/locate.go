package apply

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/minikctl/minikctl/pkg/clock"
)

// Locator maps manifests to the resources that serve them. It is called once per manifest, in the order of apply: a manifest
// may have a kind that a CustomResourceDefinition before it defines.
type Locator struct {
	Mapper meta.RESTMapper
	Client func(*meta.RESTMapping) (resource.RESTClient, error)
	Place  resource.VisitorFunc // sets the namespace of namespaced objects

	defining []*resource.Info // applied CustomResourceDefinitions that may not be established yet
}

// definitionTime is how long Locate waits for a CustomResourceDefinition to be established.
const definitionTime = 30 * time.Second

// Applied records that a manifest was applied.
func (l *Locator) Applied(info *resource.Info) {
	if isDefinition(info) {
		l.defining = append(l.defining, info)
	}
}

func isDefinition(info *resource.Info) bool {
	gvk := kindOf(info)
	return gvk.Kind == "CustomResourceDefinition" && gvk.Group == "apiextensions.k8s.io"
}

// Locate sets the mapping, the client and the namespace of info. For an unknown kind it waits until the applied
// CustomResourceDefinitions are established.
func (l *Locator) Locate(ctx context.Context, info *resource.Info) error {
	gvk := kindOf(info)
	mapping, err := l.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) && len(l.defining) > 0 {
		if err := l.awaitDefinitions(ctx); err != nil {
			return err
		}
		meta.MaybeResetRESTMapper(l.Mapper)
		mapping, err = l.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("resource mapping not found for name: %q namespace: %q from %q: %w\nensure CRDs are installed first", info.Name, info.Namespace, info.Source, err)
	}
	if err != nil {
		return fmt.Errorf("unable to recognize %q: %w", info.Source, err)
	}
	info.Mapping = mapping
	if info.Client, err = l.Client(mapping); err != nil {
		return fmt.Errorf("unable to connect to a server to handle %q: %w", mapping.Resource, err)
	}
	return l.Place(info, nil)
}

// awaitDefinitions waits until all applied CustomResourceDefinitions are established.
func (l *Locator) awaitDefinitions(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, definitionTime, fmt.Errorf("not established after %s", definitionTime))
	defer cancel()
	quiet := &Waiter{Clock: clock.Real(), Report: func(Progress) {}}
	for _, info := range l.defining {
		if err := quiet.ready(ctx, info, signals{}); err != nil {
			return err
		}
	}
	l.defining = nil
	return nil
}
