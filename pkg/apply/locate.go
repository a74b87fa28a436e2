package apply

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"
)

// Locator finds where the objects of manifests are served, in the order in which they are applied: a manifest may be of a
// kind that one before it has defined.
type Locator struct {
	Mapper meta.RESTMapper
	Client func(*meta.RESTMapping) (resource.RESTClient, error)
	Place  resource.VisitorFunc // gives the objects of namespaces one

	defining []*resource.Info // definitions that were applied and may not be served yet
}

// definitionTime is how long a definition may take to be served.
const definitionTime = 30 * time.Second

// Applied tells what was applied.
func (l *Locator) Applied(info *resource.Info) {
	if isDefinition(info) {
		l.defining = append(l.defining, info)
	}
}

func isDefinition(info *resource.Info) bool {
	gvk := kindOf(info)
	return gvk.Kind == "CustomResourceDefinition" && gvk.Group == "apiextensions.k8s.io"
}

// Locate sets where info's object is served, and its namespace. It waits for definitions that were applied before.
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

// awaitDefinitions returns when all definitions that were applied are served.
func (l *Locator) awaitDefinitions(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, definitionTime, fmt.Errorf("not established after %s", definitionTime))
	defer cancel()
	quiet := &Waiter{Say: func(string) {}}
	for _, info := range l.defining {
		if err := quiet.ready(ctx, info); err != nil {
			return err
		}
	}
	l.defining = nil
	return nil
}
