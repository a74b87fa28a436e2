// Package codec owns the wire formats of HTTP: it negotiates the format of a response, encodes objects, lists and
// watches, and decodes bodies into objects of the stored version.
//
// Responses are assembled from the encoded bytes that the cache keeps with each item (cache.Item.Encoded), so that a list
// or a watch does not encode an object again.
package codec

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Format is an encoding of objects.
type Format uint8

// The formats.
const (
	JSON Format = iota
	YAML
	Protobuf
)

// The media types of the formats.
const (
	MediaJSON     = "application/json"
	MediaYAML     = "application/yaml"
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
)

// String returns the format's media type.
func (f Format) String() string { return [...]string{MediaJSON, MediaYAML, MediaProtobuf}[f] }

// Media is the negotiated form of a response: its format, and its kind if that is not the resource's own.
type Media struct {
	Format Format
	As     schema.GroupVersionKind // empty, or Table, PartialObjectMetadata or PartialObjectMetadataList
	Pretty bool
}

// Table reports whether the response is a Table.
func (m Media) Table() bool { return m.As.Kind == "Table" }

// Partial reports whether the response is metadata only.
func (m Media) Partial() bool { return strings.HasPrefix(m.As.Kind, "PartialObjectMetadata") }

// Offer describes the forms of responses that a path supports.
type Offer struct {
	NoProtobuf bool
	Collection bool                               // a collection, which can be watched
	Stream     bool                               // a watch, which YAML does not support
	Unrouted   bool                               // a custom resource: Kubernetes checks Accept in the handler, not in the route
	Transform  func(schema.GroupVersionKind) bool // accepts other kinds than the resource's own; nil: none
}

// formats returns the formats of the offer.
func (o Offer) formats() []Format {
	if o.NoProtobuf {
		return []Format{JSON, YAML}
	}
	return []Format{JSON, YAML, Protobuf}
}

// bodies lists the media types of request bodies.
func (o Offer) bodies() string {
	var names []string
	for _, f := range o.formats() {
		names = append(names, f.String())
	}
	return strings.Join(names, ", ")
}

const (
	mediaTypes  = MediaJSON + ", " + MediaYAML + ", " + MediaProtobuf
	streamTypes = MediaJSON + ";stream=watch, " + MediaProtobuf + ";stream=watch"
)

// represented lists the media types of the path's route.
func (o Offer) represented() string {
	if o.Collection || o.Stream {
		return mediaTypes + ", " + streamTypes
	}
	return mediaTypes
}

// routed reports whether the route has a media type that the client accepts. Routes do not support application/*.
func (o Offer) routed(accepted []goautoneg.Accept) bool {
	return o.Unrouted || slices.ContainsFunc(accepted, func(a goautoneg.Accept) bool {
		return a.Type == "*" && a.SubType == "*" || slices.ContainsFunc(o.formats(), func(f Format) bool {
			return f.String() == a.Type+"/"+a.SubType
		})
	})
}

// Metadata reports whether gvk is a Table, PartialObjectMetadata or its list. Fits distinguishes objects from lists.
func Metadata(gvk schema.GroupVersionKind) bool {
	return metaKind(gvk, "Table", "PartialObjectMetadata", "PartialObjectMetadataList")
}

// MetadataAlone is Metadata without Table.
func MetadataAlone(gvk schema.GroupVersionKind) bool { return Metadata(gvk) && gvk.Kind != "Table" }

// Fits checks that an object of kind k, or a list of them, can be returned as the requested kind.
func (m Media) Fits(k Kind, list bool) error {
	const one, many = "PartialObjectMetadata", "PartialObjectMetadataList"
	switch {
	case list && m.As.Kind == one:
		return notAcceptable(fmt.Sprintf("you requested %s, but the requested object is a list (*%sList)", one, k.internalName()))
	case !list && m.As.Kind == many:
		return notAcceptable(fmt.Sprintf("you requested %s, but the requested object is not a list (*%s)", many, k.internalName()))
	}
	return nil
}

// internalName is the name of the kind's internal type in Kubernetes' messages.
func (k Kind) internalName() string {
	if k.Resource.Custom() {
		return "unstructured.Unstructured"
	}
	gvk := k.Resource.Names.GVK()
	return internalPackage(gvk.Group) + "." + gvk.Kind
}

func metaKind(gvk schema.GroupVersionKind, kinds ...string) bool {
	if gvk.Group != metav1.GroupName || gvk.Version != "v1" && gvk.Version != "v1beta1" {
		return false
	}
	for _, k := range kinds {
		if gvk.Kind == k {
			return true
		}
	}
	return false
}

// Negotiate returns the first media that r accepts and the offer has.
func Negotiate(r *http.Request, offer Offer) (Media, error) {
	m := Media{Pretty: pretty(r)}
	accept := r.Header.Get("Accept")
	if accept == "" {
		return m, nil
	}
	clauses := goautoneg.ParseAccept(accept)
	if !offer.routed(clauses) {
		return m, generic(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+offer.represented())
	}
	for _, clause := range clauses {
		f, ok := match(clause, offer.formats())
		if !ok {
			continue
		}
		as, ok := transformation(clause.Params, f, offer)
		if !ok {
			continue
		}
		if offer.Stream && f == YAML {
			return m, notAcceptable(only + streamTypes)
		}
		m.Format, m.As = f, as
		if p, ok := clause.Params["pretty"]; ok && p == "1" {
			m.Pretty = true
		}
		return m, nil
	}
	return m, notAcceptable(only + mediaTypes)
}

// only is the prefix of the message to a client that accepts none of the media types.
const only = "only the following media types are accepted: "

func match(clause goautoneg.Accept, formats []Format) (Format, bool) {
	for _, f := range formats {
		main, sub, _ := strings.Cut(f.String(), "/")
		if clause.Type == "*" || clause.Type == main && (clause.SubType == "*" || clause.SubType == sub) {
			return f, true
		}
	}
	return 0, false
}

// transformation returns the kind of the parameters as, g and v. ok is false if the offer does not have it.
func transformation(params map[string]string, f Format, offer Offer) (schema.GroupVersionKind, bool) {
	gvk := schema.GroupVersionKind{Group: params["g"], Version: params["v"], Kind: params["as"]}
	if c, ok := params["charset"]; ok && !strings.EqualFold(c, "utf-8") {
		return gvk, false
	}
	if gvk.Kind == "" {
		return schema.GroupVersionKind{}, true
	}
	if offer.Transform == nil || !offer.Transform(gvk) || gvk.Kind == "Table" && f == Protobuf {
		return gvk, false
	}
	return gvk, true
}

// pretty reports whether to indent the response: for the query parameter pretty, or a browser or curl.
func pretty(r *http.Request) bool {
	if values, ok := query(r)["pretty"]; ok && len(values) > 0 && values[0] != "" {
		on, err := strconv.ParseBool(values[0])
		return err == nil && on
	}
	agent := r.UserAgent()
	for _, p := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(agent, p) {
			return true
		}
	}
	return false
}

func query(r *http.Request) url.Values {
	if r.URL.RawQuery == "" {
		return nil
	}
	return r.URL.Query()
}

// BodyFormat returns the format of r's body.
func BodyFormat(r *http.Request, offer Offer) (Format, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return JSON, nil
	}
	media, _, err := mime.ParseMediaType(header)
	if err == nil {
		for _, f := range offer.formats() {
			if f.String() == media {
				return f, nil
			}
		}
	}
	return 0, UnsupportedMedia(offer.bodies())
}

// UnsupportedMedia is the error of a body in another media type than the accepted ones.
func UnsupportedMedia(accepted string) error {
	return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+accepted)
}

func notAcceptable(text string) error {
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, text)
}

func statusError(code int32, reason metav1.StatusReason, text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: text}}
}

// generic returns the error of a request that is refused before it reaches a resource.
func generic(code int, text string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", text, 0, false)
}
