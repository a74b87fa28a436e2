package aggregate

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/openapi"
)

// openAPICache holds the OpenAPI documents of an extension. They are fetched on demand, and again once they are too
// old.
type openAPICache struct {
	index time.Time // when its OpenAPI v3 index was fetched; zero: never
	link  string
	old   bool // it does not serve OpenAPI v3

	swagger time.Time // when its OpenAPI v2 document was fetched
	v2      *spec.Swagger
	v3      []byte // converted from v2
	etag    string
	hash    string
}

// OpenAPI returns the OpenAPI v3 documents of the extensions and, if v2 is set, those of OpenAPI v2.
func (x *Extensions) OpenAPI(ctx context.Context, v2 bool) ([]openapi.Remote, error) {
	t, err := x.table(ctx)
	if err != nil || len(t.byGV) == 0 {
		return nil, err
	}
	var (
		mu   sync.Mutex
		out  []openapi.Remote
		each sync.WaitGroup
	)
	for gv, e := range t.byGV {
		each.Go(func() {
			r := e.describe(ctx, gv, v2)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, r)
		})
	}
	each.Wait()
	slices.SortFunc(out, func(a, b openapi.Remote) int { return compare(a.GroupVersion, b.GroupVersion) })
	return out, nil
}

// Describes returns the handler of the OpenAPI v3 document of a version if an extension serves it, or nil.
func (x *Extensions) Describes(ctx context.Context, gv schema.GroupVersion) (Handler, error) {
	t, err := x.table(ctx)
	if err != nil || t.byGV[gv] == nil {
		return nil, err
	}
	e := t.byGV[gv]
	if e.describe(ctx, gv, false).V3 != nil {
		return nil, nil
	}
	return e.serve, nil
}

// describe returns the extension's OpenAPI documents of a version. While it is unreachable these are the last fetched
// ones.
func (e *extension) describe(ctx context.Context, gv schema.GroupVersion, v2 bool) openapi.Remote {
	l := e.link
	l.describing.Lock()
	defer l.describing.Unlock()
	ctx = context.WithoutCancel(ctx) // other requests wait for the same documents, which are cached
	d := &l.openapi
	there := available(e.service) && l.broken == nil
	if there && (d.index.IsZero() || l.clock.Since(d.index) >= discoverEvery) {
		if err := l.fetchIndex(ctx, gv, d); err != nil {
			slog.WarnContext(ctx, "fetch the OpenAPI v3 of an extension server", "version", gv.String(), "err", err)
		}
		d.index = l.clock.Now()
	}
	if there && (v2 || d.old) && (d.swagger.IsZero() || l.clock.Since(d.swagger) >= discoverEvery) {
		if err := l.fetchSwagger(ctx, gv, d); err != nil {
			slog.WarnContext(ctx, "fetch the OpenAPI v2 of an extension server", "version", gv.String(), "err", err)
		}
		d.swagger = l.clock.Now()
	}
	r := openapi.Remote{GroupVersion: gv, Link: d.link, Hash: d.hash}
	if v2 {
		r.V2 = d.v2
	}
	if d.old {
		r.V3 = d.v3
	}
	return r
}

// fetchIndex fetches the OpenAPI v3 index.
func (l *link) fetchIndex(ctx context.Context, gv schema.GroupVersion, d *openAPICache) error {
	resp, err := l.get(ctx, "/openapi/v3", http.Header{"Accept": {"application/json"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	d.old = resp.StatusCode == http.StatusNotFound
	if d.old {
		d.link = ""
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it responded with %s", resp.Status)
	}
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := decode(resp.Body, &index); err != nil {
		return err
	}
	d.link = index.Paths[strings.TrimPrefix(pathOf(gv), "/")].URL
	return nil
}

// fetchSwagger fetches the OpenAPI v2 document and keeps the part of the version.
func (l *link) fetchSwagger(ctx context.Context, gv schema.GroupVersion, d *openAPICache) error {
	header := http.Header{"Accept": {"application/json"}}
	if d.etag != "" {
		header.Set("If-None-Match", d.etag)
	}
	resp, err := l.get(ctx, "/openapi/v2", header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil
	case http.StatusNotFound: // it has no OpenAPI document
		d.v2, d.v3, d.etag, d.hash = nil, nil, "", ""
		return nil
	case http.StatusOK:
	default:
		return fmt.Errorf("it responded with %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return err
	}
	v2, v3, err := readSwagger(body, gv)
	if err != nil {
		return err
	}
	sum := sha512.Sum512(body)
	d.v2, d.v3, d.etag, d.hash = v2, v3, resp.Header.Get("ETag"), hex.EncodeToString(sum[:])
	return nil
}

// readSwagger decodes an OpenAPI v2 document and returns the part of a version, also as OpenAPI v3. The document is
// untrusted: a panic of the libraries becomes an error.
func readSwagger(body []byte, gv schema.GroupVersion) (v2 *spec.Swagger, v3 []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the OpenAPI v2 document makes no sense: %v", p)
		}
	}()
	whole := &spec.Swagger{}
	if err := json.Unmarshal(body, whole); err != nil {
		return nil, nil, err
	}
	if whole.Paths == nil {
		whole.Paths = &spec.Paths{}
	}
	v2 = aggregator.FilterSpecByPathsWithoutSideEffects(whole, []string{pathOf(gv) + "/"})
	v3, err = json.Marshal(openapiconv.ConvertV2ToV3(v2))
	return v2, v3, err
}
