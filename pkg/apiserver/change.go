package apiserver

import (
	"mime"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

func (s *Server) create(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	opts, err := createOptions(r.URL)
	if err != nil {
		return err
	}
	obj, err := s.body(w, r, req, opts.FieldValidation)
	if err != nil {
		return err
	}
	out, err := s.api.Create(r.Context(), req, obj, opts)
	if err != nil {
		return err
	}
	return s.writeResult(w, r, k, media, http.StatusCreated, out)
}

func (s *Server) update(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	opts, err := updateOptions(r.URL)
	if err != nil {
		return err
	}
	obj, err := s.body(w, r, req, opts.FieldValidation)
	if err != nil {
		return err
	}
	out, err := s.api.Update(r.Context(), req, obj, opts)
	if err != nil {
		return err
	}
	return s.writeResult(w, r, k, media, http.StatusOK, out)
}

// body reads the object of a create or update and checks that it is the one that the path names. Virtual resources are
// also created as a whole list.
func (s *Server) body(w http.ResponseWriter, r *http.Request, req *verbs.Request, validation string) (runtime.Object, error) {
	began := s.clock.Now()
	defer func() {
		c := callOf(r)
		c.stage("decode", began, s.clock.Now())
		req.Stages = c.stages
	}()
	format, err := codec.BodyFormat(r, s.offer(codec.KindOf(req), nil))
	if err != nil {
		return nil, err
	}
	data, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	body := codec.Body{Format: format, Data: data, Validation: validation}
	if isVirtual(req.Resource) {
		if list, err := s.served().decoder().List(req, body); list != nil || err != nil {
			return list, err
		}
	}
	obj, err := s.served().decoder().Body(req, body)
	if err != nil {
		return nil, err
	}
	return obj, checkPlace(req, obj)
}

// checkPlace fills in the namespace that an object left out, takes it from an object of the cluster, and refuses another
// than the path's.
func checkPlace(req *verbs.Request, obj objects.Object) error {
	namespace := req.Namespace
	if req.Resource.Names.Cluster {
		namespace = ""
	}
	switch obj.GetNamespace() {
	case namespace:
		return nil
	case "":
		obj.SetNamespace(namespace)
		return nil
	}
	if namespace == "" { // what is the cluster's has none
		obj.SetNamespace("")
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// writeResult answers a write. code is for an object that was there before.
func (s *Server) writeResult(w http.ResponseWriter, r *http.Request, k codec.Kind, media codec.Media, code int, out verbs.Result) error {
	if out.Created {
		code = http.StatusCreated
	}
	if out.Item != nil {
		return s.writeItem(w, r, k, media, code, out.Item)
	}
	gvk := out.Other.GetObjectKind().GroupVersionKind()
	if st, ok := out.Other.(*metav1.Status); ok {
		gvk = statusKind
		if st.Status == metav1.StatusFailure {
			code = int(st.Code)
		}
		if code == http.StatusCreated && st.Code == 0 {
			st = st.DeepCopy()
			st.Code = http.StatusCreated
			out.Other = st
		}
	} else if gvk.Empty() {
		gvk = k.GVK()
	}
	// A question in another version is answered in that.
	if obj, ok := out.Other.(objects.Object); ok && k.Served != nil && k.Served.From != nil && gvk == k.Resource.Names.GVK() {
		answer, err := k.Served.From(obj)
		if err != nil {
			return err
		}
		out.Other, gvk = answer, k.GVK()
	}
	writeObject(w, r, media, code, out.Other, gvk)
	return nil
}

// patchTypes are the kinds of patches, as error messages list them.
var patchTypes = []string{
	string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType),
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	kind, err := patchType(r)
	if err != nil {
		return err
	}
	opts, err := patchOptions(r.URL, kind)
	if err != nil {
		return err
	}
	began := s.clock.Now()
	data, err := readBody(w, r)
	if err != nil {
		return err
	}
	c := callOf(r)
	c.stage("decode", began, s.clock.Now())
	req.Stages = c.stages
	out, err := s.api.Patch(r.Context(), req, verbs.Patch{Type: kind, Data: data, Kind: s.served().decoder().Check(req)}, opts)
	if err != nil {
		return err
	}
	return s.writeResult(w, r, k, media, http.StatusOK, out)
}

// patchType reads which kind of patch the body is. A kind that nobody knows never reached a resource.
func patchType(r *http.Request) (types.PatchType, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(patchTypes, media) {
		return "", apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "",
			"415: Unsupported Media Type", 0, false)
	}
	return types.PatchType(media), nil
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	opts, err := deleteOptions(w, r)
	if err != nil {
		return err
	}
	out, err := s.api.Delete(r.Context(), req, opts)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if out.Pending && cascades(opts) {
		code = http.StatusAccepted
	}
	return s.writeResult(w, r, k, media, code, out)
}

// cascades reports whether a delete asked by the old option for its dependents to go too.
func cascades(opts *metav1.DeleteOptions) bool {
	orphan := opts.OrphanDependents //nolint:staticcheck // old clients still send it
	return orphan != nil && !*orphan
}

func (s *Server) deleteCollection(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	offer := s.offer(k, transforms(req))
	offer.Collection = true
	media, err := codec.Negotiate(r, offer)
	if err != nil {
		return err
	}
	list, err := listOptions(r.URL, false)
	if err != nil {
		return err
	}
	opts, err := deleteOptions(w, r)
	if err != nil {
		return err
	}
	listing, err := s.api.DeleteCollection(r.Context(), req, opts, list)
	if err != nil {
		return err
	}
	return s.writeList(w, r, k, media, listing)
}
