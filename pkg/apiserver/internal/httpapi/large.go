package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/clock"
)

// The limits of large bodies. The admitted ones take up to 180 MB for each full body of JSON. YAML takes some four times as much time
// and memory as JSON, and is counted accordingly.
const (
	smallBody     = 32 << 10
	bodiesInWork  = 2 * maxBody
	waitingBodies = 64 << 20
	waitingOfUser = 16 << 20
	yamlWeight    = 4

	// Of the bodies that are being received, the part behind the first smallBody bytes. They wait by their announced size, of which
	// the server holds nothing yet.
	bodiesReceived  = 32 << 20
	bodiesAnnounced = 1 << 30
	receiveTime     = 15 * time.Second // until that part has to arrive at receiveRate
	receiveRate     = 32 << 10         // bytes a second
)

func (s *Handler) newBodies() *bodies.Limit {
	return bodies.New(bodies.Config{
		Small: smallBody, Large: bodiesInWork, Waiting: waitingBodies, PerUser: waitingOfUser,
		QueueTimeout: requestTimeout / 4, Clock: s.machine,
	})
}

func (s *Handler) newReceived() *bodies.Limit {
	return bodies.New(bodies.Config{
		Large: bodiesReceived, Waiting: bodiesAnnounced, PerUser: bodiesAnnounced / 2, QueueTimeout: requestTimeout / 4, Clock: s.machine,
	})
}

// limitBodies bounds the large bodies that are handled at a time, fairly among users. Administrators are no exception: they may delay
// others, but not take all memory.
func (s *Handler) limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || callOf(r).address.longRunning(r.URL) {
			next.ServeHTTP(w, r)
			return
		}
		b := &limitedBody{ReadCloser: r.Body, limit: s.bodies, received: s.received, clock: s.machine}
		defer b.leave()
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// limitedBody is a request's body that waits for its turn once it has been read.
type limitedBody struct {
	io.ReadCloser
	limit        *bodies.Limit
	received     *bodies.Limit
	clock        clock.Clock
	bytes        atomic.Int64 // that were read
	done         func()       // nil: not admitted
	doneReceived func()       // nil: not among the bodies that are received
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

// receive waits until the rest of a large body may be received, which then has to arrive at receiveRate after receiveTime. The
// caller must call arrived when the body has been received, and leaveReceived when it has been admitted or refused.
func (b *limitedBody) receive(w http.ResponseWriter, r *http.Request) (arrived func(), err error) {
	size := maxBody
	if n := r.ContentLength; n >= 0 {
		size = int(min(n, maxBody))
	}
	if b.doneReceived, err = b.received.Enter(r.Context(), callOf(r).user.GetName(), size); err != nil {
		return nil, busyBodies(err)
	}
	return b.stopSlow(&openResponse{w: w}), nil
}

// stopSlow ends the reading of a body that arrives too slowly, until the returned function is called.
func (b *limitedBody) stopSlow(open *openResponse) (arrived func()) {
	began, before := b.clock.Now(), b.bytes.Load()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			timely := receiveTime + time.Duration(b.bytes.Load()-before)*time.Second/receiveRate
			left := timely - b.clock.Since(began)
			if left <= 0 {
				open.stop((*http.ResponseController).SetReadDeadline)
				return
			}
			timer := b.clock.NewTimer(left)
			select {
			case <-timer.C():
			case <-ended:
				timer.Stop()
				return
			}
		}
	})
	return func() {
		close(ended)
		open.end()
		wg.Wait()
	}
}

func (b *limitedBody) leaveReceived() {
	if b.doneReceived != nil {
		b.doneReceived()
		b.doneReceived = nil
	}
}

// busyBodies returns the error for a client whose body is not admitted.
func busyBodies(err error) error {
	if errors.Is(err, bodies.ErrBusy) {
		return apierrors.NewTooManyRequests("the server handles too many large requests, please try again later", 1)
	}
	return err
}

// enter waits for the body's turn. The turn ends with the request.
func (b *limitedBody) enter(ctx context.Context, user string, format codec.Format, size int) error {
	if b.done != nil {
		return nil
	}
	if format == codec.YAML {
		size *= yamlWeight
	}
	done, err := b.limit.Enter(ctx, user, size)
	b.done = done
	return busyBodies(err)
}

func (b *limitedBody) leave() {
	if b.done != nil {
		b.done()
	}
}

// checkWeight refuses a body of JSON, or of YAML in the form of JSON, that takes too much memory for its size once decoded. Other YAML
// is weighed when it has been converted to JSON, and protobuf before it is decoded.
func checkWeight(format codec.Format, body []byte) error {
	if format == codec.Protobuf || format == codec.YAML && !bodies.LooksLikeJSON(body) {
		return nil
	}
	return bodies.CheckWeight(body)
}
