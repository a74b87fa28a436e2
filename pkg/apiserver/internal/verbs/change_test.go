package verbs

import (
	"context"
	"errors"
	"testing"

	"github.com/minikctl/minikctl/pkg/objects"
)

// TestChangeEndsWithRequest checks that nothing is built for a client that has gone, and that what was built meanwhile is dropped.
func TestChangeEndsWithRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	built := 0
	c := change{build: func(context.Context, objects.Object) (objects.Object, error) {
		if built++; built == 2 {
			cancel()
		}
		return nil, nil
	}}
	for i, want := range []error{nil, context.Canceled, context.Canceled} {
		if _, err := c.run(ctx, nil); !errors.Is(err, want) {
			t.Errorf("run %d: %v", i, err)
		}
	}
	if built != 2 {
		t.Errorf("built %d times", built)
	}
}
