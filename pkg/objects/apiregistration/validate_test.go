package apiregistration

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// good is an APIService of an extension server.
func good() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1beta1.metrics.k8s.io", ResourceVersion: "1", UID: "u"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "metrics.k8s.io", Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 100, CABundle: []byte("x"),
			Service: &apiregistrationv1.ServiceReference{Namespace: "kube-system", Name: "metrics-server", Port: new(int32(443))},
		},
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *apiregistrationv1.APIService)
		want   []string
	}{
		"good":     {func(*apiregistrationv1.APIService) {}, nil},
		"local":    {func(s *apiregistrationv1.APIService) { s.Spec.Service, s.Spec.CABundle = nil, nil }, nil},
		"insecure": {func(s *apiregistrationv1.APIService) { s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = nil, true }, nil},
		"name": {func(s *apiregistrationv1.APIService) { s.Name = "v1.metrics.k8s.io" }, []string{
			"metadata.name: Invalid value: \"v1.metrics.k8s.io\": must be `spec.version+\".\"+spec.group`: \"v1beta1.metrics.k8s.io\""}},
		"core": {func(s *apiregistrationv1.APIService) { s.Name, s.Spec.Group, s.Spec.Version = "v1.", "", "v1" }, nil},
		"no group": {func(s *apiregistrationv1.APIService) { s.Name, s.Spec.Group, s.Spec.Version = "v2.", "", "v2" }, []string{
			"spec.group: Required value: only v1 may have an empty group and it better be legacy kube"}},
		"priorities": {func(s *apiregistrationv1.APIService) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 0, 1001 }, []string{
			"spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
			"spec.versionPriority: Invalid value: 1001: must be positive and less than 1000"}},
		"local with an authority": {func(s *apiregistrationv1.APIService) { s.Spec.Service, s.Spec.InsecureSkipTLSVerify = nil, true }, []string{
			`spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle`,
			"spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"}},
		"service": {func(s *apiregistrationv1.APIService) {
			s.Spec.Service = &apiregistrationv1.ServiceReference{Port: new(int32(0))}
		}, []string{
			`spec.service.namespace: Required value`, `spec.service.name: Required value`,
			`spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive`}},
		"both": {func(s *apiregistrationv1.APIService) { s.Spec.InsecureSkipTLSVerify = true }, []string{
			"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"}},
	} {
		s := good()
		c.change(s)
		var got []string
		for _, err := range validateService(s, nil) {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

// TestUpdate checks that a write of the spec keeps the status, and a write of the status the spec.
func TestUpdate(t *testing.T) {
	old, next := good(), good()
	old.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue}}
	next.Spec.VersionPriority, next.Labels = 7, map[string]string{"a": "b"}
	prepareService(next, old)
	if len(next.Status.Conditions) != 1 || next.Spec.VersionPriority != 7 {
		t.Errorf("a user's update: %+v", next)
	}
	if errs := validateService(next, old); len(errs) > 0 {
		t.Error(errs)
	}
	next.Name = "v1.example.org"
	if errs := validateService(next, old); len(errs) < 2 || !strings.Contains(errs[0].Error(), "metadata.name: Invalid value: \"v1.example.org\": field is immutable") {
		t.Errorf("another name: %v", errs)
	}
	status := good()
	status.Spec.VersionPriority, status.Labels = 7, map[string]string{"a": "b"}
	status.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: "Maybe"}}
	prepareStatus(status, old)
	if status.Spec.VersionPriority != 100 || len(status.Labels) > 0 {
		t.Errorf("an update of the status: %+v", status)
	}
	if errs := validateStatus(status, old); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), `status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"`) {
		t.Errorf("a status that there is not: %v", errs)
	}
}
