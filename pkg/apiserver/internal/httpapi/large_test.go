package httpapi

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

// TestLimitedBody fills the places and the queue of a user: the next body is refused with a time to wait. YAML counts more than
// JSON.
func TestLimitedBody(t *testing.T) {
	clk := testclock.NewFakeClock(time.Unix(0, 0))
	limit := bodies.New(bodies.Config{Small: 10, Large: 100, Waiting: 100, PerUser: 100, QueueTimeout: time.Minute, Clock: clk})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := func(format codec.Format, size int) (*limitedBody, chan error) {
		b := &limitedBody{ReadCloser: io.NopCloser(strings.NewReader("")), limit: limit}
		ended := make(chan error, 1)
		go func() { ended <- b.enter(ctx, "alice", format, size) }()
		return b, ended
	}
	first, ended := start(codec.YAML, 25)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	second, waits := start(codec.JSON, 100)
	for clk.Waiters() == 0 {
		runtime.Gosched()
	}
	_, ended = start(codec.JSON, 10)
	err := <-ended
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds != 1 {
		t.Errorf("got %v", err)
	}
	first.leave()
	if err := <-waits; err != nil {
		t.Error(err)
	}
	second.leave()
}
