package verbs

import (
	"context"
	"slices"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// runHooks calls the Prepare functions of the resource's hooks.
func (w *write) runHooks(ctx context.Context, tx *stage.Transaction, obj, old objects.Object) error {
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

// loadHooks passes the stored objects to the hooks, once, before their first use.
func (t *table) loadHooks(ctx context.Context) error {
	if !slices.ContainsFunc(t.hooks, func(h stage.Hook) bool { return h.Load != nil }) {
		return nil
	}
	t.hooksMu.Lock()
	defer t.hooksMu.Unlock()
	if t.hooksLoaded {
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
	t.hooksLoaded = true
	return nil
}

// notifyDeleted passes a deleted object to the hooks. Hooks that are not loaded yet will not see the object.
func (t *table) notifyDeleted(obj objects.Object) {
	t.hooksMu.Lock()
	defer t.hooksMu.Unlock()
	if !t.hooksLoaded {
		return
	}
	for _, h := range t.hooks {
		if h.Deleted != nil {
			h.Deleted(obj)
		}
	}
}
