package httpapi

import (
	"net/http"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/table"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/store"
)

// offer returns the formats in which the server can send a kind.
func (s *Handler) offer(k codec.Kind, transform func(schema.GroupVersionKind) bool) codec.Offer {
	return codec.Offer{NoProtobuf: k.Textual(), Unrouted: k.Resource.Custom(), Transform: transform}
}

// transforms returns the kinds into which a response can be transformed. A resource without list has no Table.
func transforms(req *verbs.Request) func(schema.GroupVersionKind) bool {
	if req.Subresource == "ephemeralcontainers" || !slices.Contains(req.Resource.Verbs, "list") {
		return codec.MetadataAlone
	}
	return codec.Metadata
}

func (s *Handler) get(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	opts, err := getOptions(r.URL)
	if err != nil {
		return err
	}
	item, err := s.config.API.Get(r.Context(), req, opts)
	if err != nil {
		return err
	}
	return s.writeItem(w, r, k, media, http.StatusOK, item)
}

// writeItem responds with one object: as itself, as a Table or as PartialObjectMetadata.
func (s *Handler) writeItem(w http.ResponseWriter, r *http.Request, k codec.Kind, media codec.Media, code int, item *cache.Item) error {
	recordResponse(r, media, func(e *audit.Entry, w http.ResponseWriter, r *http.Request, m codec.Media) error {
		return s.writeItem(w, r, k, m, code, e.Trim(item))
	})
	if err := media.Fits(k, false); err != nil {
		return err
	}
	switch {
	case media.Table():
		p, err := s.printer(r, k, media)
		if err != nil {
			return err
		}
		b, err := p.JSON([]*cache.Item{item}, metav1.ListMeta{ResourceVersion: versionOf(item.Revision)}, true)
		if err != nil {
			return err
		}
		writeEncoded(w, r, media, code, b)
	case media.Partial():
		b, err := codec.Partial(item, media.As.Version, media.Encoding())
		if err != nil {
			return err
		}
		writeEncoded(w, r, media, code, b)
	default:
		b, err := k.Encode(item, media.Encoding())
		if err != nil {
			return err
		}
		writeEncoded(w, r, media, code, b)
	}
	return nil
}

func (s *Handler) printer(r *http.Request, k codec.Kind, media codec.Media) (table.Printer, error) {
	opts, err := tableOptions(r.URL)
	if err != nil {
		return table.Printer{}, err
	}
	return table.Printer{Kind: k, Version: media.As.Version, Include: opts.IncludeObject, Now: s.config.Clock.Now()}, nil
}

func (s *Handler) list(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	offer := s.offer(k, codec.Metadata)
	offer.Collection = true
	media, err := codec.Negotiate(r, offer)
	if err != nil {
		return err
	}
	opts, err := listOptions(r.URL, false)
	if err != nil {
		return err
	}
	listing, err := s.config.API.List(r.Context(), req, opts)
	if err != nil {
		return err
	}
	return s.writeList(w, r, k, media, listing)
}

// writeList responds with a list: as itself, as a Table or as a PartialObjectMetadataList.
func (s *Handler) writeList(w http.ResponseWriter, r *http.Request, k codec.Kind, media codec.Media, l verbs.Listing) error {
	recordResponse(r, media, func(e *audit.Entry, w http.ResponseWriter, r *http.Request, m codec.Media) error {
		shown := l
		shown.Items = e.TrimAll(l.Items)
		return s.writeList(w, r, k, m, shown)
	})
	meta := metav1.ListMeta{
		ResourceVersion: versionOf(l.Revision), Continue: l.Continue, RemainingItemCount: l.Remaining,
	}
	if err := media.Fits(k, true); err != nil {
		return err
	}
	switch {
	case media.Table():
		p, err := s.printer(r, k, media)
		if err != nil {
			return err
		}
		pieces, err := p.List(l.Items, meta)
		if err != nil {
			return err
		}
		return writePages(w, r, media, pieces)
	case media.Partial():
		pieces, err := codec.PartialList(l.Items, meta, media.As.Version, media.Encoding())
		if err != nil {
			return err
		}
		return writePages(w, r, media, pieces)
	default:
		pieces, err := k.List(l.Items, meta, media.Encoding())
		if err != nil {
			return err
		}
		return writePages(w, r, media, pieces)
	}
}

// writePages writes a list in pieces.
func writePages(w http.ResponseWriter, r *http.Request, media codec.Media, pieces codec.Pieces) error {
	if media.Format == codec.YAML || media.Format == codec.JSON && media.Pretty {
		pieces = pieces.Text(media)
	}
	return writePieces(w, r, media.Format.String(), pieces)
}

// versionOf returns the resourceVersion of a revision; "" for 0.
func versionOf(rev store.Revision) string {
	if rev == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(rev), 10)
}
