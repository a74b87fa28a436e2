package verbs

import (
	"context"
	"slices"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// hook runs the resource's hooks.
func (w *write) hook(ctx context.Context, tx *stage.Transaction, obj, old objects.Object) error {
	if err := w.loadHooks(ctx); err != nil {
		return w.status(err)
	}
	for _, h := range w.hooks {
		if h.Prepare == nil {
			continue
		}
		if err := h.Prepare(ctx, tx, obj, old); err != nil {
			return w.status(err)
		}
	}
	return nil
}

// loadHooks tells the hooks what is stored, before they are first used.
func (t *table) loadHooks(ctx context.Context) error {
	if !slices.ContainsFunc(t.hooks, func(h stage.Hook) bool { return h.Load != nil }) {
		return nil
	}
	t.loaded.Lock()
	defer t.loaded.Unlock()
	if t.ready {
		return nil
	}
	items, err := t.All(ctx, "")
	if err != nil {
		return err
	}
	current := make([]objects.Object, 0, len(items))
	for _, i := range items {
		obj, err := i.Object()
		if err != nil {
			return err
		}
		current = append(current, obj)
	}
	for _, h := range t.hooks {
		if h.Load != nil {
			h.Load(current)
		}
	}
	t.ready = true
	return nil
}

// toldDeleted tells the hooks that an object is gone. Hooks that are not loaded yet will not see it.
func (t *table) toldDeleted(obj objects.Object) {
	t.loaded.Lock()
	defer t.loaded.Unlock()
	if !t.ready {
		return
	}
	for _, h := range t.hooks {
		if h.Deleted != nil {
			h.Deleted(obj)
		}
	}
}
