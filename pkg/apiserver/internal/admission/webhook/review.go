package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"

	reviewv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// reviewGroup is the group of AdmissionReview. Its two versions differ only in the checks of the response.
const reviewGroup = "admission.k8s.io"

// newReview returns the review of a request in a version that the webhook accepts.
func (h *Hook) newReview(uid types.UID, q *match.Request, v match.Version, seen *admission.VersionedAttributes) (*reviewv1.AdmissionReview, error) {
	for _, version := range h.AdmissionReviewVersions {
		if version != "v1" && version != "v1beta1" {
			continue
		}
		a, dry := q.Admission(), q.Admission().DryRun
		kind, resource := metav1.GroupVersionKind(q.Requested.Kind), metav1.GroupVersionResource(q.Requested.Resource)
		return &reviewv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: reviewGroup + "/" + version, Kind: "AdmissionReview"},
			Request: &reviewv1.AdmissionRequest{
				UID: uid, Kind: metav1.GroupVersionKind(v.Kind), Resource: metav1.GroupVersionResource(v.Resource), SubResource: a.Subresource,
				RequestKind: &kind, RequestResource: &resource, RequestSubResource: a.Subresource,
				Name: q.Name(), Namespace: a.Namespace, Operation: reviewv1.Operation(a.Operation), UserInfo: stage.UserInfo(seen.GetUserInfo()),
				Object:    runtime.RawExtension{Object: seen.VersionedObject},
				OldObject: runtime.RawExtension{Object: seen.VersionedOldObject},
				DryRun:    &dry, Options: runtime.RawExtension{Object: seen.GetOperationOptions()},
			},
		}, nil
	}
	return nil, fmt.Errorf("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

// readReview decodes and checks the response to a review.
func readReview(sent *reviewv1.AdmissionReview, body []byte, mutating bool) (*reviewv1.AdmissionResponse, error) {
	got := &reviewv1.AdmissionReview{}
	if err := json.Unmarshal(body, got); err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	r := got.Response
	if r == nil {
		return nil, invalid("webhook response was absent")
	}
	if sent.APIVersion != reviewGroup+"/v1" { // Kubernetes does not check v1beta1
		if !mutating || len(r.Patch) == 0 {
			r.Patch, r.PatchType = nil, nil
		} else {
			r.PatchType = new(reviewv1.PatchTypeJSONPatch)
		}
		return r, nil
	}
	want, is := sent.GroupVersionKind(), got.GroupVersionKind()
	switch {
	case r.UID != sent.Request.UID:
		return nil, invalid("expected response.uid=%q, got %q", sent.Request.UID, r.UID)
	case want != is:
		return nil, invalid("expected webhook response of %v, got %v", want.String(), is.String())
	case !mutating && len(r.Patch) > 0:
		return nil, invalid("validating webhook may not return response.patch")
	case !mutating && r.PatchType != nil:
		return nil, invalid("validating webhook may not return response.patchType")
	case len(r.Patch) > 0 && r.PatchType == nil:
		return nil, invalid("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return nil, invalid("webhook returned response.patchType but not response.patch")
	case r.PatchType != nil && *r.PatchType == "":
		return nil, invalid("webhook returned invalid response.patchType of %q", *r.PatchType)
	}
	return r, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("received invalid webhook response: %w", fmt.Errorf(format, args...))
}

// denied returns the error for a request that a webhook denies.
func denied(name string, result *metav1.Status) error {
	status := metav1.Status{}
	if result != nil {
		status = *result
	}
	status.Code = max(status.Code, http.StatusBadRequest)
	status.Status = metav1.StatusFailure
	by := fmt.Sprintf("admission webhook %q denied the request", name)
	switch {
	case status.Message != "":
		status.Message = by + ": " + status.Message
	case status.Reason != "":
		status.Message = by + ": " + string(status.Reason)
	default:
		status.Message = by + " without explanation"
	}
	return &apierrors.StatusError{ErrStatus: status}
}
