package convert

import (
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// review is a ConversionReview of either version: they differ only in the checks of a response. The objects of a response stay
// encoded.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request  `json:"request,omitempty"`
	Response        *response `json:"response,omitempty"`
}

type request struct {
	UID     types.UID                    `json:"uid"`
	Desired string                       `json:"desiredAPIVersion"`
	Objects []*unstructured.Unstructured `json:"objects"`
}

type response struct {
	UID     types.UID         `json:"uid"`
	Objects []json.RawMessage `json:"convertedObjects"`
	Result  metav1.Status     `json:"result"`
}

// newReview returns a review of the first supported version that the webhook accepts.
func newReview(versions []string, uid types.UID, objs []*unstructured.Unstructured, to schema.GroupVersion) (*review, error) {
	for _, v := range versions {
		if v == "v1" || v == "v1beta1" {
			gv := schema.GroupVersion{Group: apiextensionsv1.GroupName, Version: v}
			return &review{
				TypeMeta: metav1.TypeMeta{APIVersion: gv.String(), Kind: "ConversionReview"},
				Request:  &request{UID: uid, Desired: to.String(), Objects: objs},
				Response: &response{},
			}, nil
		}
	}
	return nil, errors.New("no supported conversion review versions")
}

// read decodes a response to the review and returns its objects.
func (r *review) read(body []byte) ([]json.RawMessage, error) {
	got := review{TypeMeta: r.TypeMeta} // the default of a response without a kind
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	newer := r.APIVersion == apiextensionsv1.SchemeGroupVersion.String() // Kubernetes does not check v1beta1
	if got.TypeMeta != r.TypeMeta {
		if newer {
			want, is := r.GroupVersionKind(), got.GroupVersionKind()
			return nil, fmt.Errorf("expected webhook response of %v, got %v", want.String(), is.String())
		}
		return nil, errors.New("no response provided")
	}
	a := got.Response
	switch {
	case a == nil:
		return nil, errors.New("no response provided")
	case newer && a.UID != r.Request.UID:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", r.Request.UID, a.UID)
	case a.Result.Status == metav1.StatusSuccess:
		return a.Objects, nil
	case a.Result.Message != "":
		return nil, errors.New(a.Result.Message)
	}
	return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", a.Result.Status)
}
