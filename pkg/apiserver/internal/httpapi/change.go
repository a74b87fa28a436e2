package httpapi

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
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

func (s *Handler) create(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	opts, err := createOptions(r.URL)
	if err != nil {
		return err
	}
	body := func() (runtime.Object, error) { return s.body(w, r, req, opts.FieldValidation) }
	out, err := s.config.API.Create(r.Context(), req, body, opts)
	if err != nil {
		return err
	}
	return s.writeResult(w, r, k, media, http.StatusCreated, out)
}

func (s *Handler) update(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	opts, err := updateOptions(r.URL)
	if err != nil {
		return err
	}
	body := func() (runtime.Object, error) { return s.body(w, r, req, opts.FieldValidation) }
	out, err := s.config.API.Update(r.Context(), req, body, opts)
	if err != nil {
		return err
	}
	return s.writeResult(w, r, k, media, http.StatusOK, out)
}

// body decodes the object of a create or update. Virtual resources can also be created as a list.
func (s *Handler) body(w http.ResponseWriter, r *http.Request, req *verbs.Request, validation string) (runtime.Object, error) {
	began := s.machine.Now()
	defer func() {
		c := callOf(r)
		c.stage("decode", began, s.machine.Now())
		req.Stages = c.stages
	}()
	format, err := codec.BodyFormat(r, s.offer(codec.KindOf(req), nil))
	if err != nil {
		return nil, err
	}
	data, err := readBody(w, r, format)
	if err != nil {
		return nil, err
	}
	body := codec.Body{Format: format, Data: data, Validation: validation}
	if isVirtual(req.Resource) {
		if list, err := s.config.Rows.Table().Decoder().List(req, body); list != nil || err != nil {
			return list, err
		}
	}
	return s.config.Rows.Table().Decoder().Body(req, body)
}

func isVirtual(r *objects.Resource) bool { return r.Names.Group == minikctl.GroupVersion.Group }

// writeResult responds to a write. code is the status code of a write that creates nothing.
func (s *Handler) writeResult(w http.ResponseWriter, r *http.Request, k codec.Kind, media codec.Media, code int, out verbs.Result) error {
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
	// A review in another version gets its response in that version.
	if obj, ok := out.Other.(objects.Object); ok && k.Version != nil && k.Version.From != nil && gvk == k.Resource.Names.GVK() {
		versioned, err := k.Version.From(obj)
		if err != nil {
			return err
		}
		out.Other, gvk = versioned, k.GVK()
	}
	writeObject(w, r, media, code, out.Other, gvk)
	return nil
}

// patchTypes are the patch types, as error messages list them.
var patchTypes = []string{
	string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType),
}

func (s *Handler) patch(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	kind, err := patchType(r)
	if err != nil {
		return err
	}
	opts, err := patchOptions(r.URL)
	if err != nil {
		return err
	}
	began := s.machine.Now()
	data, err := readBody(w, r, patchFormat(kind))
	if err != nil {
		return err
	}
	c := callOf(r)
	c.stage("decode", began, s.machine.Now())
	req.Stages = c.stages
	out, err := s.config.API.Patch(r.Context(), req, verbs.Patch{Type: kind, Data: data, CheckKind: s.config.Rows.Table().Decoder().Check(req)}, opts)
	if err != nil {
		return err
	}
	return s.writeResult(w, r, k, media, http.StatusOK, out)
}

// patchType returns the type of a patch. For an unknown type the error names no resource, as in Kubernetes.
func patchType(r *http.Request) (types.PatchType, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(patchTypes, media) {
		return "", apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "",
			"415: Unsupported Media Type", 0, false)
	}
	return types.PatchType(media), nil
}

// patchFormat returns the format of a patch.
func patchFormat(kind types.PatchType) codec.Format {
	if kind == types.ApplyYAMLPatchType {
		return codec.YAML
	}
	return codec.JSON
}

func (s *Handler) delete(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
	k := codec.KindOf(req)
	media, err := codec.Negotiate(r, s.offer(k, transforms(req)))
	if err != nil {
		return err
	}
	opts, err := deleteOptions(w, r)
	if err != nil {
		return err
	}
	out, err := s.config.API.Delete(r.Context(), req, opts)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if out.Pending && cascades(opts) {
		code = http.StatusAccepted
	}
	return s.writeResult(w, r, k, media, code, out)
}

// cascades reports whether a delete sets orphanDependents, the old option, to false.
func cascades(opts *metav1.DeleteOptions) bool {
	orphan := opts.OrphanDependents //nolint:staticcheck // old clients still send it
	return orphan != nil && !*orphan
}

func (s *Handler) deleteCollection(w http.ResponseWriter, r *http.Request, req *verbs.Request) error {
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
	listing, err := s.config.API.DeleteCollection(r.Context(), req, opts, list)
	if err != nil {
		return err
	}
	return s.writeList(w, r, k, media, listing)
}
