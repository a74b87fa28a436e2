package daemon

import (
	"context"
	"errors"
	"testing"
)

func TestHealth(t *testing.T) {
	var h health
	if err := h.check(t.Context()); !errors.Is(err, errNotRunning) {
		t.Errorf("before it runs: %v", err)
	}
	_ = h.of(func(ctx context.Context) error {
		if err := h.check(ctx); err != nil {
			t.Errorf("while it runs: %v", err)
		}
		return nil
	})(t.Context())
	if err := h.check(t.Context()); !errors.Is(err, errNotRunning) {
		t.Errorf("after it has ended: %v", err)
	}
}
