package apiserver

import (
	"context"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/flowcontrol"
)

// furniture are the groups of which every cluster has objects that nothing here reads. They are made, and made again if
// they are missing, when somebody asks for the group: a cluster that nobody asks starts without them.
var furniture = map[string]func(*Server) []systemObject{
	flowcontrolv1.GroupName: (*Server).flowObjects,
}

// furnish makes what is missing of the furniture that a request may look at.
func (s *Server) furnish(ctx context.Context, a address) error {
	group := a.group
	switch {
	case group == rbacv1.GroupName:
		return s.furnishRoles(ctx)
	case group == networkingv1.GroupName && (a.resource == ipAddresses.Resource || a.resource == serviceRanges.Resource):
		return s.furnishAddresses(ctx)
	case group == apiregistrationv1.GroupName:
		return s.furnishRegistrations(ctx)
	case a.resource == "configmaps" && group == "" && (a.namespace == metav1.NamespaceSystem || a.namespace == ""):
		return s.publishAuthentication(ctx)
	}
	list := furniture[group]
	if list == nil {
		return nil
	}
	s.furnishing.Lock()
	defer s.furnishing.Unlock()
	var all errgroup.Group
	for _, o := range list(s) {
		all.Go(func() error { return s.furnishOne(ctx, o) }) // writes that wait together are committed together
	}
	if err := all.Wait(); err != nil || group != flowcontrolv1.GroupName {
		return err
	}
	return s.fitFlowSchemas(ctx)
}

func (s *Server) furnishOne(ctx context.Context, o systemObject) error {
	err := s.engineHas(ctx, o)
	if apierrors.IsNotFound(err) {
		t := client.Target{Resource: o.resource, Namespace: o.object.GetNamespace()}
		_, err = s.Client(self, systemAgent).Create(ctx, t, o.object, metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (s *Server) engineHas(ctx context.Context, o systemObject) error {
	key := objects.Key{Namespace: o.object.GetNamespace(), Name: o.object.GetName()}
	_, err := s.engine.Reader().Get(ctx, o.resource.GroupResource(), key)
	return err
}

// flowObjects are the priority levels and flow schemas.
func (s *Server) flowObjects() []systemObject {
	levels := schema.GroupVersionResource{Group: flowcontrolv1.GroupName, Version: "v1", Resource: flowcontrol.PriorityLevelConfigurations.Names.Plural}
	schemas := schema.GroupVersionResource{Group: flowcontrolv1.GroupName, Version: "v1", Resource: flowcontrol.FlowSchemas.Names.Plural}
	var out []systemObject
	for _, l := range flowcontrol.SystemLevels() {
		out = append(out, systemObject{levels, l.DeepCopy()})
	}
	for _, f := range flowcontrol.SystemSchemas() {
		out = append(out, systemObject{schemas, f.DeepCopy()})
	}
	return out
}
