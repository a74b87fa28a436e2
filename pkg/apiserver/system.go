package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// systemAgent is the user agent of what the server writes for itself.
const systemAgent = "kube-apiserver"

// systemObject is something that every cluster has.
type systemObject struct {
	resource schema.GroupVersionResource
	object   objects.Object
}

// systemObjects lists them in the order in which they are created.
func (s *Server) systemObjects() []systemObject {
	var out []systemObject
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, metav1.NamespaceDefault} {
		out = append(out, systemObject{client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	classes := []struct {
		name, description string
		value             int32
	}{
		{"system-node-critical", "Used for system critical pods that must not be moved from their current node.", 2000001000},
		{"system-cluster-critical", "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.", 2000000000},
	}
	for _, c := range classes {
		out = append(out, systemObject{client.PriorityClasses, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: c.name}, Value: c.value, Description: c.description,
		}})
	}
	return append(out, systemObject{client.Services, s.kubernetesService()})
}

// kubernetesService is how pods find the server: the Service kubernetes.
func (s *Server) kubernetesService() *corev1.Service {
	one, single := corev1.ServiceInternalTrafficPolicyCluster, corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "kubernetes", Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: s.serviceIP, ClusterIPs: []string{s.serviceIP},
			SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: &one, IPFamilyPolicy: &single,
			Ports: []corev1.ServicePort{{
				Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(s.port()),
			}},
		},
	}
}

// createSystemObjects makes what is missing.
func (s *Server) createSystemObjects(ctx context.Context) error {
	c := s.Client(&user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}, systemAgent)
	for _, o := range s.systemObjects() {
		if _, ok := s.served().resources.byGVR[o.resource]; !ok {
			continue // a server of fewer resources
		}
		t := client.Target{Resource: o.resource, Namespace: o.object.GetNamespace(), Name: o.object.GetName()}
		if _, err := c.Get(ctx, t, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return err
			}
			continue
		}
		t.Name = ""
		if _, err := c.Create(ctx, t, o.object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return s.recallRoles(ctx)
}
