package bootstrap

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

func namespaces(context.Context) ([]virtual, error) {
	var out []virtual
	for _, name := range systemNamespaces {
		out = append(out, virtual{object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	return out, nil
}

func priorityClasses(context.Context) ([]virtual, error) {
	return defaultsOf([]*schedulingv1.PriorityClass{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2000001000,
			Description: "Used for system critical pods that must not be moved from their current node.",
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "system-cluster-critical"}, Value: 2000000000,
			Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
		},
	}), nil
}

// kubernetesName is the name of the Service through which pods reach the API server, and of its ServiceCIDR.
const kubernetesName = "kubernetes"

func (b *Bootstrap) kubernetesService(context.Context) ([]virtual, error) {
	return []virtual{{object: b.newKubernetesService()}}, nil
}

func (b *Bootstrap) newKubernetesService() *corev1.Service {
	address := ServiceAddress(b.config.ServiceAddresses)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: kubernetesName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: address, ClusterIPs: []string{address},
			IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol},
			SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
			IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
			Ports: []corev1.ServicePort{{
				Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(b.config.Port()),
			}},
		},
	}
}

var endpoints = corev1.SchemeGroupVersion.WithResource("endpoints")

// kubernetesEndpoints returns the Endpoints of the Service kubernetes: this server. They have the label by which they are not mirrored, as
// in Kubernetes: there is a slice already.
func (b *Bootstrap) kubernetesEndpoints(context.Context) ([]virtual, error) {
	return []virtual{{object: &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{
			Name: kubernetesName, Namespace: metav1.NamespaceDefault, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"},
		},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: b.config.Host()}},
			Ports:     []corev1.EndpointPort{{Name: "https", Port: b.config.Port(), Protocol: corev1.ProtocolTCP}},
		}},
	}}}, nil
}

func (b *Bootstrap) kubernetesSlice(context.Context) ([]virtual, error) {
	family := discoveryv1.AddressTypeIPv4
	if strings.Contains(b.config.Host(), ":") {
		family = discoveryv1.AddressTypeIPv6
	}
	return []virtual{{object: &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: kubernetesName, Namespace: metav1.NamespaceDefault, Labels: map[string]string{discoveryv1.LabelServiceName: kubernetesName},
		},
		AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{b.config.Host()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(b.config.Port()), Protocol: new(corev1.ProtocolTCP)}},
	}}}, nil
}

// systemResources are the resources whose defaults are stored at the first start: other objects refer to them.
var systemResources = []schema.GroupResource{
	client.Namespaces.GroupResource(), client.PriorityClasses.GroupResource(), client.Services.GroupResource(),
}

// ensureSystem stores the system namespaces, the priority classes and the Service kubernetes at the first start, and
// creates again the namespaces and the Service that a client has deleted.
func (b *Bootstrap) ensureSystem(ctx context.Context) error {
	if err := b.store.storeMissing(ctx, systemResources...); err != nil {
		return err
	}
	all, err := namespaces(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		if err := b.ensure(ctx, client.Namespaces, v.object); err != nil {
			return err
		}
	}
	return b.ensure(ctx, client.Services, b.newKubernetesService())
}

// ensure creates obj when there is no object of its name.
func (b *Bootstrap) ensure(ctx context.Context, gvr schema.GroupVersionResource, obj objects.Object) error {
	if b.rows[gvr.GroupResource()] == nil {
		return nil
	}
	key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	_, err := b.access.Reader.Get(ctx, gvr.GroupResource(), key)
	if apierrors.IsNotFound(err) {
		_, err = b.access.Client(Agent).Create(ctx, client.Target{Resource: gvr, Namespace: key.Namespace}, obj, metav1.CreateOptions{})
	}
	return ignoreConflict(err)
}
