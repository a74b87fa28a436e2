package apiregistration

import (
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves this version. It is here because manifests of old extension servers use it.
var oldServices = []objects.Version[*apiregistrationv1.APIService]{
	objects.Removed("apiregistration.k8s.io/v1beta1", "APIService", func() *apiregistrationv1.APIService { return &apiregistrationv1.APIService{} },
		func() *apiregistrationv1beta1.APIService { return &apiregistrationv1beta1.APIService{} }, func() runtime.Object { return &apiregistrationv1beta1.APIServiceList{} }),
}
