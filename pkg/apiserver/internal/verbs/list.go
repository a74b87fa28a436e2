package verbs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/store"
)

// List returns a page of the objects that opts select.
func (e *Engine) List(ctx context.Context, req *Request, opts *metav1.ListOptions) (Listing, error) {
	if err := e.admitList(ctx, req, opts); err != nil {
		return Listing{}, err
	}
	if b := e.backend(req); b != nil {
		return b.List(ctx, req, opts)
	}
	return e.list(ctx, req, opts)
}

func (e *Engine) list(ctx context.Context, req *Request, opts *metav1.ListOptions) (Listing, error) {
	t, err := e.table(req.Resource)
	if err != nil {
		return Listing{}, err
	}
	s, err := req.selector(opts)
	if err != nil {
		return Listing{}, err
	}
	l := lister{e, t, &s, int(opts.Limit)}
	if opts.ResourceVersion == "0" {
		l.limit = 0 // the cache returns the whole list
	}
	if opts.Continue != "" {
		return l.continueList(ctx, opts)
	}
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return Listing{}, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	if err := e.waitUntilFresh(ctx, opts.ResourceVersion, version); err != nil {
		return Listing{}, toStatus(req.GVR.GroupResource(), "", err)
	}
	defer req.warnCorrupt(t, &s) // after the table is filled
	legacyExact := opts.ResourceVersionMatch == "" && l.limit > 0 && version > 0
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact || legacyExact {
		page, err := t.ListAt(ctx, &s, "", l.limit, version)
		if err != nil {
			return Listing{}, toStatus(req.GVR.GroupResource(), "", err)
		}
		return l.listing(page, page.Revision), nil
	}
	page, err := t.List(ctx, &s, l.limit)
	if err != nil {
		return Listing{}, toStatus(req.GVR.GroupResource(), "", err)
	}
	return l.listing(page, page.Revision), nil
}

// lister handles one list request.
type lister struct {
	engine   *Engine
	table    *table
	selector *cache.Selector
	limit    int
}

// continueList returns the page that a continue token names. A token with revision -1 names the current objects.
func (l lister) continueList(ctx context.Context, opts *metav1.ListOptions) (Listing, error) {
	start, version, err := decodeContinue(opts.Continue)
	if err != nil {
		return Listing{}, apierrors.NewBadRequest("invalid continue token: " + err.Error())
	}
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		return Listing{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	after := strings.TrimSuffix(l.keyPrefix()+start, "\x00")
	if version < 0 {
		if err := l.engine.cache.WaitUntilFresh(ctx); err != nil {
			return Listing{}, toStatus(l.table.r.Names.GR(), "", err)
		}
		page, err := l.table.ListAfter(ctx, l.selector, after, l.limit)
		if err != nil {
			return Listing{}, toStatus(l.table.r.Names.GR(), "", err)
		}
		return l.listing(page, page.Revision), nil
	}
	if err := l.engine.waitUntilFresh(ctx, "N", store.Revision(version)); err != nil {
		return Listing{}, toStatus(l.table.r.Names.GR(), "", err)
	}
	page, err := l.table.ListAt(ctx, l.selector, after, l.limit, store.Revision(version))
	if errors.Is(err, store.ErrCompacted) {
		gone := apierrors.NewResourceExpired(inconsistentContinue)
		gone.ErrStatus.ListMeta.Continue = encodeContinue(start, -1)
		return Listing{}, gone
	}
	if err != nil {
		return Listing{}, toStatus(l.table.r.Names.GR(), "", err)
	}
	return l.listing(page, store.Revision(version)), nil
}

// keyPrefix is the prefix that continue tokens omit from keys: the namespace, when the list is of one namespace.
func (l lister) keyPrefix() string {
	if l.selector.Namespace == "" {
		return ""
	}
	return l.selector.Namespace + "/"
}

func (l lister) listing(p cache.Page, rev store.Revision) Listing {
	out := Listing{Items: p.Items, Revision: rev}
	if p.More {
		out.Continue = encodeContinue(strings.TrimPrefix(p.Last, l.keyPrefix())+"\x00", int64(rev))
		if l.selector.Everything() {
			out.Remaining = &p.Remaining
		}
	}
	return out
}

// continueToken is the content of a continue token, in Kubernetes' format.
type continueToken struct {
	Format  string `json:"v"`
	Version int64  `json:"rv"`
	Start   string `json:"start"`
}

const continueFormat = "meta.k8s.io/v1"

func encodeContinue(start string, version int64) string {
	b, err := json.Marshal(continueToken{continueFormat, version, start})
	if err != nil {
		return "" // strings and a number cannot fail
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeContinue(token string) (start string, version int64, err error) {
	const invalid = "continue key is not valid"
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", invalid, err)
	}
	var t continueToken
	if err := json.Unmarshal(data, &t); err != nil {
		return "", 0, fmt.Errorf("%s: %w", invalid, err)
	}
	switch {
	case t.Format != continueFormat:
		return "", 0, fmt.Errorf("%s: server does not recognize this encoded version %s", invalid, t.Format)
	case t.Version == 0:
		return "", 0, fmt.Errorf("%s: incorrect encoded start resourceVersion (version %s)", invalid, continueFormat)
	case t.Start == "":
		return "", 0, fmt.Errorf("%s: encoded start key empty (version %s)", invalid, continueFormat)
	}
	if key := "/" + strings.TrimPrefix(t.Start, "/"); path.Clean(key) != key {
		return "", 0, fmt.Errorf("%s: %s", invalid, t.Start)
	}
	return strings.TrimPrefix(t.Start, "/"), t.Version, nil
}
