package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	custom "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"

	"github.com/minikctl/minikctl/pkg/clock"
)

// source reads metrics. It is safe for concurrent use.
type source interface {
	// resource returns a resource metric of the pods that a selector matches: of one container, or with container "" of all together.
	resource(ctx context.Context, name corev1.ResourceName, namespace string, pods labels.Selector, container string) (samples, error)
	// ofPods returns a metric of the pods that a selector matches.
	ofPods(metric, namespace string, pods, metrics labels.Selector) (samples, error)
	// ofObject returns a metric of an object, in thousandths.
	ofObject(metric, namespace string, object autoscalingv2.CrossVersionObjectReference, metrics labels.Selector) (int64, error)
	// external returns the values of an external metric, in thousandths.
	external(metric, namespace string, metrics labels.Selector) ([]int64, error)
}

// defaultWindow is the window of a metric that comes without one.
const defaultWindow = time.Minute

// apiSource reads from the API groups metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io.
type apiSource struct {
	resources resourceclient.PodMetricsesGetter
	customs   custom_metrics.CustomMetricsClient
	externals external_metrics.ExternalMetricsClient
	clock     clock.Clock

	mu       sync.Mutex
	versions custom_metrics.AvailableAPIsGetter // of custom.metrics.k8s.io
	read     time.Time                          // when versions were last forgotten
}

// newSource returns the metrics of the server in cfg. mapper finds the resources of described objects.
func newSource(cfg *rest.Config, discover discovery.DiscoveryInterface, mapper meta.RESTMapper, clk clock.Clock) (*apiSource, error) {
	resources, err := resourceclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	externals, err := external_metrics.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	versions := custom_metrics.NewAvailableAPIsGetter(discover)
	return &apiSource{
		resources: resources, externals: externals, versions: versions, clock: clk,
		customs: custom_metrics.NewForConfig(cfg, mapper, versions),
	}, nil
}

// custom returns the client of custom.metrics.k8s.io. It looks for the versions of the group once in a sync period.
func (s *apiSource) custom() custom_metrics.CustomMetricsClient {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock.Since(s.read) >= syncPeriod {
		s.versions.Invalidate()
		s.read = s.clock.Now()
	}
	return s.customs
}

func (s *apiSource) resource(ctx context.Context, name corev1.ResourceName, namespace string, pods labels.Selector, container string) (samples, error) {
	list, err := s.resources.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: pods.String()})
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	out := samples{}
	for i := range list.Items {
		m := &list.Items[i]
		if value, ok := usageOf(m, name, container); ok {
			out[m.Name] = sample{m.Timestamp.Time, m.Window.Duration, value}
		}
	}
	return out, nil
}

// usageOf returns what a pod uses, in thousandths; false if one of the containers lacks the resource.
func usageOf(m *v1beta1.PodMetrics, name corev1.ResourceName, container string) (value int64, ok bool) {
	for _, c := range m.Containers {
		if container != "" && c.Name != container {
			continue
		}
		q, found := c.Usage[name]
		if !found {
			return 0, false
		}
		value, ok = value+q.MilliValue(), true
	}
	return value, ok
}

func (s *apiSource) ofPods(metric, namespace string, pods, metrics labels.Selector) (samples, error) {
	list, err := s.custom().NamespacedMetrics(namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, pods, metric, metrics)
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	out := samples{}
	for i := range list.Items {
		m := &list.Items[i]
		out[m.DescribedObject.Name] = sample{m.Timestamp.Time, windowOf(m), m.Value.MilliValue()}
	}
	return out, nil
}

func windowOf(m *custom.MetricValue) time.Duration {
	if m.WindowSeconds == nil {
		return defaultWindow
	}
	return time.Duration(*m.WindowSeconds) * time.Second
}

// ofObject returns the metric of the autoscaler's own namespace for any Namespace: a reference can't leave it.
func (s *apiSource) ofObject(metric, namespace string, object autoscalingv2.CrossVersionObjectReference, metrics labels.Selector) (int64, error) {
	kind := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind).GroupKind()
	var value *custom.MetricValue
	var err error
	if kind == (schema.GroupKind{Kind: "Namespace"}) {
		value, err = s.custom().RootScopedMetrics().GetForObject(kind, namespace, metric, metrics)
	} else {
		value, err = s.custom().NamespacedMetrics(namespace).GetForObject(kind, object.Name, metric, metrics)
	}
	if err != nil {
		return 0, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	return value.Value.MilliValue(), nil
}

func (s *apiSource) external(metric, namespace string, metrics labels.Selector) ([]int64, error) {
	list, err := s.externals.NamespacedMetrics(namespace).List(metric, metrics)
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from external metrics API")
	}
	out := make([]int64, len(list.Items))
	for i := range list.Items {
		out[i] = list.Items[i].Value.MilliValue()
	}
	return out, nil
}
