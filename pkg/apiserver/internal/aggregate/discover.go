package aggregate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/api/apidiscovery/v2beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/minikctl/minikctl/pkg/clock"
)

const (
	second = time.Second
	// discoverEvery is the interval at which an extension's discovery is fetched again.
	discoverEvery = time.Minute
	// maxDocument bounds the documents of an extension, in bytes.
	maxDocument = 32 << 20
)

// known is the fetched discovery document of an extension.
type known struct {
	version *apidiscovery.APIVersionDiscovery // of the APIService's version; nil: not fetched yet
	etag    string
	at      time.Time // time of the last request; zero: none yet
	stale   bool      // the last request failed
}

// discovered returns the known discovery document of a version.
func (l *link) discovered(version string) *apidiscovery.APIVersionDiscovery {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := apidiscovery.APIVersionDiscovery{Version: version}
	if l.known.version != nil {
		out = *l.known.version
	}
	out.Freshness = apidiscovery.DiscoveryFreshnessCurrent
	if l.known.stale || l.known.at.IsZero() {
		out.Freshness = apidiscovery.DiscoveryFreshnessStale
	}
	return &out
}

// discover fetches the discovery document if the last one is too old or the last request failed.
func (e *extension) discover(ctx context.Context) error {
	l, gv := e.link, schema.GroupVersion{Group: e.service.Spec.Group, Version: e.service.Spec.Version}
	l.mu.Lock()
	now := l.known
	l.mu.Unlock()
	if !now.at.IsZero() && !now.stale && l.clock.Since(now.at) < discoverEvery {
		return nil
	}
	next, err := l.fetch(ctx, gv, now)
	if err != nil {
		next = now
	}
	next.at, next.stale = l.clock.Now(), err != nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = next
	l.once.Do(func() { close(l.attempted) })
	return err
}

// recordFailure records a failed request and marks the discovery document as stale. It returns the delay of the next attempt.
func (l *link) recordFailure() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.stale = true
	l.once.Do(func() { close(l.attempted) })
	l.fails = min(l.fails+1, 10)
	return min(firstRetry<<(l.fails-1), checkEvery)
}

// recordSuccess records a successful request.
func (l *link) recordSuccess() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = 0
}

// firstDiscovery bounds how long clients wait, after the server's start, for the discovery of an existing extension.
const firstDiscovery = 2 * time.Second

// await waits until the discovery of available extensions was fetched, for at most firstDiscovery.
func (t *table) await(ctx context.Context, clk clock.Clock) {
	timer := clk.NewTimer(firstDiscovery)
	defer timer.Stop()
	for _, e := range t.byGV {
		if !available(e.service) {
			continue
		}
		select {
		case <-e.link.attempted:
		case <-timer.C():
			return
		case <-ctx.Done():
			return
		}
	}
}

// fetch requests aggregated discovery, and from servers without it the document of the one version.
func (l *link) fetch(ctx context.Context, gv schema.GroupVersion, now known) (known, error) {
	header := http.Header{"Accept": {clientdiscovery.AcceptV2 + "," + clientdiscovery.AcceptV2Beta1}}
	if now.etag != "" {
		header.Set("If-None-Match", now.etag)
	}
	resp, err := l.get(ctx, "/apis", header)
	if err != nil {
		return known{}, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified:
		return now, nil
	case resp.StatusCode == http.StatusServiceUnavailable:
		return known{}, fmt.Errorf("service %s:%d returned non-success response code: %d", l.service, l.port, resp.StatusCode)
	case resp.StatusCode != http.StatusOK || !aggregated(resp.Header.Get("Content-Type")):
		return l.fetchOld(ctx, gv)
	}
	// The older version of the document has another name and the same fields.
	var list apidiscovery.APIGroupDiscoveryList
	if err := decode(resp.Body, &list); err != nil {
		return known{}, err
	}
	for _, g := range list.Items {
		for i := range g.Versions {
			if v := &g.Versions[i]; g.Name == gv.Group && v.Version == gv.Version {
				return known{version: v, etag: resp.Header.Get("ETag")}, nil
			}
		}
	}
	return known{etag: resp.Header.Get("ETag")}, nil
}

func aggregated(contentType string) bool {
	for _, gv := range []schema.GroupVersion{apidiscovery.SchemeGroupVersion, v2beta1.SchemeGroupVersion} {
		if is, err := clientdiscovery.ContentTypeIsGVK(contentType, gv.WithKind("APIGroupDiscoveryList")); is && err == nil {
			return true
		}
	}
	return false
}

func (l *link) fetchOld(ctx context.Context, gv schema.GroupVersion) (known, error) {
	resp, err := l.get(ctx, pathOf(gv), http.Header{"Accept": {"application/json"}})
	if err != nil {
		return known{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return known{}, fmt.Errorf("failed to download legacy discovery for %s: %s", pathOf(gv), resp.Status)
	}
	var list metav1.APIResourceList
	if err := decode(resp.Body, &list); err != nil {
		return known{}, err
	}
	resources, err := endpoints.ConvertGroupVersionIntoToDiscovery(list.APIResources)
	if err != nil {
		return known{}, err
	}
	return known{version: &apidiscovery.APIVersionDiscovery{Version: gv.Version, Resources: resources}}, nil
}

// decode decodes a document of an extension.
func decode(body io.Reader, into any) error {
	return json.NewDecoder(io.LimitReader(body, maxDocument)).Decode(into)
}
