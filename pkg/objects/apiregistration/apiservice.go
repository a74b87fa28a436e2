// Package apiregistration holds the row of APIService, which names the server of a group-version.
package apiregistration

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// APIServices is the row of APIService.
var APIServices = objects.Def[*apiregistrationv1.APIService]{
	Names: objects.Names{
		Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService", Plural: "apiservices",
		Categories: []string{"api-extensions"}, Cluster: true,
	},
	New:       func() *apiregistrationv1.APIService { return &apiregistrationv1.APIService{} },
	NewList:   func() runtime.Object { return &apiregistrationv1.APIServiceList{} },
	ValidName: pathSegment,
	Default:   defaultService,
	Prepare:   prepareService,
	Validate:  validateService,
	Columns:   columns,
	Reset:     []string{"status"},
	Status: &objects.Status[*apiregistrationv1.APIService]{
		Prepare:  prepareStatus,
		Validate: validateStatus,
		Reset:    []string{"spec", "metadata"},
	},
	NeedsVersion: true,
	Versions:     oldServices,
}

// defaultPort is the default port of a Service reference.
const defaultPort = 443

func defaultService(s *apiregistrationv1.APIService) {
	if s.Spec.Service != nil && s.Spec.Service.Port == nil {
		s.Spec.Service.Port = new(int32(defaultPort))
	}
}

func prepareService(s, old *apiregistrationv1.APIService) {
	if old != nil {
		s.Status = old.Status
		return
	}
	s.Status = apiregistrationv1.APIServiceStatus{}
	if s.Spec.Service == nil { // served by this server
		c := Local()
		c.LastTransitionTime = s.CreationTimestamp
		s.Status.Conditions = []apiregistrationv1.APIServiceCondition{c}
	}
}

// Local returns the condition of an APIService that this server serves itself, without lastTransitionTime.
func Local() apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue,
		Reason: "Local", Message: "Local APIServices are always available",
	}
}

func prepareStatus(s, old *apiregistrationv1.APIService) {
	s.Spec = old.Spec
	s.Labels, s.Annotations, s.Finalizers, s.OwnerReferences = old.Labels, old.Annotations, old.Finalizers, old.OwnerReferences
}

var columns = []objects.Column[*apiregistrationv1.APIService]{
	objects.NameColumn[*apiregistrationv1.APIService](),
	{Name: "Service", Description: "The reference to the service that hosts this API endpoint.",
		Cell: func(s *apiregistrationv1.APIService, _ time.Time) any {
			if s.Spec.Service == nil {
				return "Local"
			}
			return s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
		}},
	{Name: "Available", Description: "Whether this service is available.",
		Cell: func(s *apiregistrationv1.APIService, _ time.Time) any { return available(s) }},
	{Name: "Age", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		Cell: objects.AgeColumn[*apiregistrationv1.APIService]().Cell},
}

func available(s *apiregistrationv1.APIService) string {
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		if c.Status != apiregistrationv1.ConditionTrue && c.Reason != "" {
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
		return string(c.Status)
	}
	return string(apiregistrationv1.ConditionUnknown)
}
