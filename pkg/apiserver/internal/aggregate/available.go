package aggregate

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/backend"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// condition returns the condition Available of an APIService, or nil.
func condition(s *apiregistrationv1.APIService) *apiregistrationv1.APIServiceCondition {
	i := slices.IndexFunc(s.Status.Conditions, func(c apiregistrationv1.APIServiceCondition) bool { return c.Type == apiregistrationv1.Available })
	if i < 0 {
		return nil
	}
	return &s.Status.Conditions[i]
}

// outcome returns a condition Available without its time.
func outcome(status apiregistrationv1.ConditionStatus, reason, format string, args ...any) *apiregistrationv1.APIServiceCondition {
	return &apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

const (
	yes     = apiregistrationv1.ConditionTrue
	no      = apiregistrationv1.ConditionFalse
	unknown = apiregistrationv1.ConditionUnknown
)

// endpointsNotFound is the reason for a Service without EndpointSlices.
const endpointsNotFound = "EndpointsNotFound"

// checkService returns the condition of an extension whose Service is missing or has no endpoints or port; nil if it has all.
func (e *extension) checkService(ctx context.Context) *apiregistrationv1.APIServiceCondition {
	reader, key, port := e.link.x.config.Reader, e.link.service, e.link.port
	obj, err := reader.Get(ctx, services, key)
	s, ok := obj.(*corev1.Service)
	switch {
	case apierrors.IsNotFound(err):
		return outcome(no, "ServiceNotFound", "service/%s in %q is not present", key.Name, key.Namespace)
	case err != nil || !ok:
		return outcome(unknown, "ServiceAccessError", "service/%s in %q cannot be checked due to: %v", key.Name, key.Namespace, err)
	case s.Spec.Type != corev1.ServiceTypeClusterIP:
		return nil
	}
	at := backend.Port(s, port)
	if at == nil {
		return outcome(no, "ServicePortError", "service/%s in %q is not listening on port %d", key.Name, key.Namespace, port)
	}
	slices, err := backend.Slices(ctx, reader, key)
	switch {
	case err != nil:
		return outcome(unknown, "EndpointsAccessError", "service/%s in %q cannot be checked due to: %v", key.Name, key.Namespace, err)
	case len(slices) == 0:
		return outcome(no, endpointsNotFound, "cannot find endpointslices for service/%s in %q", key.Name, key.Namespace)
	case !anyReady(slices, at.Name):
		return outcome(no, "MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", key.Name, key.Namespace, at.Name)
	}
	return nil
}

func anyReady(all []*discoveryv1.EndpointSlice, port string) bool {
	return slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return backend.Ready(&e) }) &&
			slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return p.Name != nil && *p.Name == port && p.Port != nil })
	})
}

// furtherAttempts is the number of further concurrent requests to an extension that does not respond. One response suffices.
const furtherAttempts = 4

// try requests the discovery document of the extension's group-version.
func (e *extension) try(ctx context.Context) error {
	err := e.check(ctx)
	if err == nil {
		return nil
	}
	results := make(chan error, furtherAttempts)
	for range furtherAttempts {
		go func() { results <- e.check(ctx) }() // ends with its request
	}
	for range furtherAttempts {
		if err = <-results; err == nil {
			return nil
		}
	}
	return err
}

func (e *extension) check(ctx context.Context) error {
	if e.link.broken != nil {
		return e.link.broken
	}
	u, err := e.link.address(ctx)
	if err != nil {
		return err
	}
	u.Path = pathOf(schema.GroupVersion{Group: e.service.Spec.Group, Version: e.service.Spec.Version})
	resp, err := e.link.get(ctx, u.Path, nil)
	if err != nil {
		e.link.transport.CloseIdleConnections()
		return fmt.Errorf("failing or missing response from %v: %w", u, err)
	}
	_ = resp.Body.Close() // the body is not used
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("failing or missing response from %v: bad status from %v: %d", u, u, resp.StatusCode)
	}
	return nil
}

// aggregatorUser is the user of the server's own requests to extensions.
var aggregatorUser = &user.DefaultInfo{Name: "system:kube-aggregator", Groups: []string{user.SystemPrivilegedGroup}}

// get sends one of the server's own requests.
func (l *link) get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	u, err := l.address(ctx)
	if err != nil {
		return nil, err
	}
	u.Path = path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	transport.SetAuthProxyHeaders(req, aggregatorUser.Name, "", aggregatorUser.Groups, nil)
	return l.client().Do(req)
}

// pathOf returns the path of a group-version.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// store writes the condition if it has changed.
func (x *Extensions) store(ctx context.Context, s *apiregistrationv1.APIService, found *apiregistrationv1.APIServiceCondition) error {
	was := condition(s)
	next := *found
	next.LastTransitionTime = metav1.NewTime(x.config.Clock.Now().Truncate(second))
	if was != nil && was.Status == next.Status {
		next.LastTransitionTime = was.LastTransitionTime
	}
	if was != nil && *was == next {
		return nil
	}
	s = s.DeepCopy()
	if c := condition(s); c != nil {
		*c = next
	} else {
		s.Status.Conditions = append(s.Status.Conditions, next)
	}
	target := client.In(apiregistrationv1.SchemeGroupVersion.WithResource(apiServices.Resource), objects.Key{Name: s.Name}).Sub("status")
	_, err := x.config.Client().Update(ctx, target, s, metav1.UpdateOptions{})
	return err
}
