package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/table"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// watchTime is the minimum duration of a watch; the maximum is twice that. The ends are spread so that clients do not
// all restart their watches at once.
const watchTime = 30 * time.Minute

func (s *Handler) watch(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	offer := s.offer(k, codec.Metadata)
	offer.Stream = true
	media, err := codec.Negotiate(r, offer)
	if err != nil {
		return err
	}
	opts, err := listOptions(r.URL, true)
	if err != nil {
		return err
	}
	if err := narrow(opts, callOf(r).address); err != nil {
		return err
	}
	ctx, cancel := s.watchContext(r.Context(), opts)
	defer cancel()
	user := callOf(r).user.GetName()
	req.Replay = func(ctx context.Context) (func(), error) { return s.replays.enter(ctx, user) }
	events, err := s.config.API.Watch(ctx, req, opts)
	if err != nil {
		return err
	}
	enc := &eventEncoder{kind: k, media: media}
	if media.Table() {
		if enc.printer, err = s.printer(r, k, media); err != nil {
			return err
		}
		enc.now = s.config.Clock.Now
	}
	response := &openResponse{w: w}
	defer response.end()
	defer context.AfterFunc(ctx, func() { s.cutWrites(response, writeGrace) })()
	w.Header().Set("Content-Type", codec.StreamType(media.Format))
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return nil //nolint:nilerr // the client has disconnected
	}
	callOf(r).seat.Leave() // an idle watch takes no seat
	out := s.newFrames(response, enc, user)
	defer out.close()
	for batch, err := range events {
		if err != nil {
			if ctx.Err() == nil {
				_ = out.fail(err) // the watch ends either way
			}
			return nil
		}
		if out.write(ctx, batch) != nil {
			return nil // the client has disconnected, or has read the error
		}
	}
	return nil
}

// narrow restricts a watch to the object that its path names.
func narrow(opts *metav1.ListOptions, a address) error {
	if !a.named {
		return nil
	}
	if opts.FieldSelector == "" {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", a.name).String()
		return nil
	}
	if selectedName(a.fields) != a.name {
		return apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	return nil
}

// watchContext returns a context that ends after the watch's timeout and when the server stops.
func (s *Handler) watchContext(ctx context.Context, opts *metav1.ListOptions) (context.Context, context.CancelFunc) {
	last := s.config.Random.Jitter(watchTime, 1)
	if t := opts.TimeoutSeconds; t != nil && *t > 0 {
		last = time.Duration(*t) * time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := s.machine.AfterFunc(last, cancel)
	unlink := context.AfterFunc(s.config.Stopping, cancel)
	return ctx, func() {
		timer.Stop()
		unlink()
		cancel()
	}
}

// eventEncoder writes the events of one watch.
type eventEncoder struct {
	kind    codec.Kind
	media   codec.Media
	printer table.Printer
	now     func() time.Time // for ages in tables: an object may be created long after the watch began
	headed  bool             // the first frame, with the column definitions, has been written
}

// object returns the object of an event, encoded.
func (e *eventEncoder) object(it *cache.Item) ([]byte, error) {
	switch {
	case e.media.Table():
		header := !e.headed
		e.headed = true
		e.printer.Now = e.now()
		return e.printer.JSON([]*cache.Item{it}, metav1.ListMeta{ResourceVersion: strconv.FormatUint(uint64(it.Revision), 10)}, header)
	case e.media.Partial():
		return codec.Partial(it, e.media.As.Version, e.media.Format)
	}
	return e.kind.EncodeEvent(it, e.media.Format)
}

// shares reports whether all watches share the bytes of object.
func (e *eventEncoder) shares() bool {
	switch {
	case e.media.Table():
		return false
	case e.media.Partial():
		return e.media.As.Version == metav1.SchemeGroupVersion.Version
	}
	return e.kind.Stored()
}

// bookmark returns the object of a bookmark, which has a resourceVersion only.
func (e *eventEncoder) bookmark(ev verbs.Event) *cache.Item {
	obj := e.kind.Resource.New()
	obj.SetResourceVersion(strconv.FormatUint(uint64(ev.Revision), 10))
	if ev.Initial {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return cache.NewItem(objects.Key{}, ev.Revision, obj)
}
