package webhook

import (
	"testing"

	reviewv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzReadReview parses arbitrary responses. Every denial has a message and a status.
func FuzzReadReview(f *testing.F) {
	f.Add(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W10="}}`)
	f.Add(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","status":{"code":-7,"reason":"x","details":{"causes":[{}]}}}}`)
	f.Add(`{"response":{"allowed":false,"auditAnnotations":{"a":"b"},"warnings":["w"]}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, version := range []string{"v1", "v1beta1"} {
			sent := &reviewv1.AdmissionReview{
				TypeMeta: metav1.TypeMeta{APIVersion: reviewGroup + "/" + version, Kind: "AdmissionReview"}, Request: &reviewv1.AdmissionRequest{UID: "u"},
			}
			for _, mutating := range []bool{true, false} {
				r, err := readReview(sent, []byte(body), mutating)
				if err != nil {
					continue
				}
				if !mutating && (len(r.Patch) > 0 || r.PatchType != nil) || len(r.Patch) > 0 && r.PatchType == nil {
					t.Errorf("a patch of type %v: %s", r.PatchType, r.Patch)
				}
				if err := denied("w", r.Result); err == nil || err.Error() == "" {
					t.Error("a refusal without words")
				}
			}
		}
	})
}
