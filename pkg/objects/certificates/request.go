// Package certificates holds the rows of the group certificates.k8s.io.
package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
)

type (
	request   = certificatesv1.CertificateSigningRequest
	condition = certificatesv1.CertificateSigningRequestCondition
)

// CertificateSigningRequests is the row of CertificateSigningRequest. Admission sets the user.
var CertificateSigningRequests = objects.Def[*certificatesv1.CertificateSigningRequest]{
	Names: objects.Names{Group: certificatesv1.GroupName, Version: "v1", Kind: "CertificateSigningRequest",
		Plural: "certificatesigningrequests", Short: []string{"csr"}, Cluster: true},
	New:       func() *certificatesv1.CertificateSigningRequest { return &certificatesv1.CertificateSigningRequest{} },
	NewList:   func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
	ValidName: anyName,
	Prepare: func(r, old *request) {
		if old == nil {
			r.Status = certificatesv1.CertificateSigningRequestStatus{}
			return
		}
		r.Spec, r.Status = old.Spec, old.Status
	},
	Validate:   func(r, old *request) field.ErrorList { return validate(r, old, may{}) },
	Columns:    columns,
	Selectable: map[string]func(*request) string{"spec.signerName": func(r *request) string { return r.Spec.SignerName }},
	Reset:      []string{"spec", "status"},
	Status: &objects.Status[*request]{
		Prepare: func(r, old *request) {
			r.Spec = old.Spec
			keepConditions(r, old, certificatesv1.CertificateApproved)
			keepConditions(r, old, certificatesv1.CertificateDenied)
		},
		Validate: func(r, old *request) field.ErrorList { return validate(r, old, may{sign: true}) },
		Reset:    []string{"spec", "status.conditions"},
	},
	Parts: map[string]objects.Status[*request]{"approval": {
		Prepare: func(r, old *request) {
			conditions := r.Status.Conditions
			r.Spec, r.Status = old.Spec, old.Status
			r.Status.Conditions = conditions
		},
		Validate: func(r, old *request) field.ErrorList { return validate(r, old, may{approve: true}) },
		Reset:    []string{"spec", "status.certificate"},
	}},
	Connects: []string{"approval"},
}

// anyName accepts every name that is valid as a path segment.
func anyName(string, bool) []string { return nil }

// keepConditions copies the conditions of a type from old, unless their number has changed, which validation rejects.
func keepConditions(r, old *request, t certificatesv1.RequestConditionType) {
	now, was := indices(r, t), indices(old, t)
	if len(now) != len(was) {
		return
	}
	for i := range now {
		r.Status.Conditions[now[i]] = old.Status.Conditions[was[i]]
	}
}

func indices(r *request, t certificatesv1.RequestConditionType) []int {
	var out []int
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == t {
			out = append(out, i)
		}
	}
	return out
}

var (
	specDoc   = certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc()
	statusDoc = certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()
)

var columns = []objects.Column[*request]{
	objects.NameColumn[*request](),
	{Name: "Age", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		Cell: func(r *request, now time.Time) any { return objects.Age(r.CreationTimestamp, now) }},
	{Name: "SignerName", Description: specDoc["signerName"], Cell: func(r *request, _ time.Time) any {
		if r.Spec.SignerName == "" {
			return "<none>"
		}
		return r.Spec.SignerName
	}},
	{Name: "Requestor", Description: specDoc["request"], Cell: func(r *request, _ time.Time) any { return r.Spec.Username }},
	{Name: "RequestedDuration", Description: specDoc["expirationSeconds"], Cell: func(r *request, _ time.Time) any {
		if r.Spec.ExpirationSeconds == nil {
			return "<none>"
		}
		return duration.HumanDuration(time.Duration(*r.Spec.ExpirationSeconds) * time.Second)
	}},
	{Name: "Condition", Description: statusDoc["conditions"], Cell: func(r *request, _ time.Time) any { return state(r) }},
}

// state formats the conditions of a request.
func state(r *request) string {
	has := func(t certificatesv1.RequestConditionType) bool { return len(indices(r, t)) > 0 }
	out := "Pending"
	switch {
	case has(certificatesv1.CertificateDenied):
		out = "Denied"
	case has(certificatesv1.CertificateApproved):
		out = "Approved"
	}
	if has(certificatesv1.CertificateFailed) {
		out += ",Failed"
	}
	if len(r.Status.Certificate) > 0 {
		out += ",Issued"
	}
	return out
}
