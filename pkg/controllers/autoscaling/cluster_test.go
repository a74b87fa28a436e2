package autoscaling_test

import (
	"fmt"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

// TestResourceMetric: load doubles the replicas up to the maximum. Without load, they stay for a while and then become as few as the
// minimum.
func TestResourceMetric(t *testing.T) {
	both(t, func(c *cluster) {
		c.use("100m", "10Mi")
		c.deploy("web", 1)
		c.autoscale("web", `{minReplicas: 1, maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}`)
		c.pass("scaled up", func() bool { return c.replicas("web") == 2 })
		c.event("web", "SuccessfulRescale: New size: 2; reason: cpu resource utilization (percentage of request) above target")
		c.pass("scaled to the maximum", func() bool {
			return strings.HasSuffix(c.conditions("web"), "True TooManyReplicas") && c.replicas("web") == 3
		})
		c.pass("status", func() bool { return c.hpa("web").Status.CurrentReplicas == 3 })
		controllertest.Want(c.Cluster, "conditions", c.conditions("web"),
			"AbleToScale True ReadyForNewScale, ScalingActive True ValidMetricFound, ScalingLimited True TooManyReplicas")
		m := c.hpa("web").Status.CurrentMetrics[0].Resource
		controllertest.Want(c.Cluster, "metric", fmt.Sprint(m.Name, *m.Current.AverageUtilization, m.Current.AverageValue), "cpu100 200m")

		c.use("1m", "10Mi")
		c.pass("scale-down delayed", func() bool { return strings.Contains(c.conditions("web"), "ScaleDownStabilized") })
		controllertest.Want(c.Cluster, "replicas meanwhile", c.replicas("web"), 3)
		c.pass("scaled down", func() bool { return c.replicas("web") == 1 })
		c.event("web", "SuccessfulRescale: New size: 1; reason: All metrics below target")
	})
}

// TestBounds: a target outside the bounds of its autoscaler is brought inside, without metrics. A target with no replicas is left alone.
func TestBounds(t *testing.T) {
	both(t, func(c *cluster) {
		for name, replicas := range map[string]int32{"few": 1, "many": 5, "none": 0} {
			c.deploy(name, replicas)
			c.autoscale(name, `{minReplicas: 2, maxReplicas: 3}`)
		}
		c.pass("both scaled", func() bool { return c.replicas("few") == 2 && c.replicas("many") == 3 })
		c.event("few", "SuccessfulRescale: New size: 2; reason: Current number of replicas below Spec.MinReplicas")
		c.event("many", "SuccessfulRescale: New size: 3; reason: Current number of replicas above Spec.MaxReplicas")
		c.pass("then metrics fail", func() bool {
			return strings.Contains(c.conditions("few"), "ScalingActive False FailedGetResourceMetric") && strings.Contains(c.conditions("none"), "ScalingDisabled")
		})
		const cause = "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API"
		c.event("few", "FailedGetResourceMetric: "+cause)
		c.event("few", "FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: "+cause)
		controllertest.Want(c.Cluster, "conditions", c.conditions("few"), "AbleToScale True SucceededGetScale, ScalingActive False FailedGetResourceMetric")
		controllertest.Want(c.Cluster, "target of zero", c.replicas("none"), 0)
	})
}

// TestTargets: what may be wrong with a target, and a custom resource as one.
func TestTargets(t *testing.T) {
	both(t, func(c *cluster) {
		ref := func(version, kind string) string {
			return fmt.Sprintf(`{maxReplicas: 3, minReplicas: 2, scaleTargetRef: {apiVersion: %s, kind: %s, name: x}}`, version, kind)
		}
		for name, want := range map[string][3]string{
			"absent":  {"apps/v1", "Deployment", `deployments.apps "x" not found`},
			"unknown": {"example.org/v1", "Foo", `no matches for kind "Foo" in group "example.org"`},
			"noscale": {"batch/v1", "Job", "could not find scale subresource for batch/v1, Resource=jobs in discovery information"},
		} {
			c.autoscale(name, ref(want[0], want[1]))
			c.pass("condition", func() bool { return c.conditions(name) == "AbleToScale False FailedGetScale" })
			c.event(name, "FailedGetScale: "+want[2])
			controllertest.Want(c.Cluster, "message", c.hpa(name).Status.Conditions[0].Message,
				"the HPA controller was unable to get the target's current scale: "+want[2])
		}
		lamps := c.defineLamps()
		lamp := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Lamp", "spec": map[string]any{"replicas": int64(1)}}}
		lamp.SetNamespace("default")
		lamp.SetName("x")
		controllertest.Create(c.Cluster, lamps, lamp)
		c.autoscale("lamp", ref("example.org/v1", "Lamp"))
		c.pass("custom resource scaled", func() bool {
			obj, err := c.Get(c.Context(), controllertest.At(lamps, "x").Sub("scale"), metav1.GetOptions{})
			if err != nil {
				c.Fatal(err)
			}
			return obj.(*autoscalingv1.Scale).Spec.Replicas == 2
		})
		c.pass("without a selector", func() bool { return strings.Contains(c.conditions("lamp"), "ScalingActive False InvalidSelector") })
		c.event("lamp", "SelectorRequired: selector is required")
	})
}

// TestAmbiguousSelector: two autoscalers of the same pods scale nothing.
func TestAmbiguousSelector(t *testing.T) {
	both(t, func(c *cluster) {
		c.use("100m", "1Mi")
		c.deploy("web", 1)
		c.autoscale("a", `{maxReplicas: 1, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app-web}}`)
		c.autoscale("b", `{maxReplicas: 1, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app-web}}`)
		const message = "pods by selector app=web are controlled by multiple HPAs: [default/a default/b]"
		c.pass("both fail", func() bool {
			return strings.Contains(c.conditions("a"), "AmbiguousSelector") && strings.Contains(c.conditions("b"), "AmbiguousSelector")
		})
		c.event("a", "AmbiguousSelector: "+message)
		c.event("b", "FailedComputeMetricsReplicas: "+message)
		c.Remove(hpas, "a", targetPolicy)
		c.pass("the other one works", func() bool { return strings.Contains(c.conditions("b"), "ScalingActive True ValidMetricFound") })
	})
}

// TestOtherMetrics: metrics of the custom and the external API, which an extension server serves, and containers' own. The greatest
// proposal counts.
func TestOtherMetrics(t *testing.T) {
	both(t, func(c *cluster) {
		c.use("10m", "32Mi")
		c.deploy("web", 2)
		c.autoscale("web", `
maxReplicas: 20
behavior: {scaleUp: {tolerance: "0.2", policies: [{type: Pods, value: 20, periodSeconds: 15}]}}
metrics:
- {type: ContainerResource, containerResource: {name: memory, container: d, target: {type: AverageValue, averageValue: 16Mi}}}
- {type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: "10"}}}
- {type: Object, object: {metric: {name: hits}, describedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: main}, target: {type: Value, value: "100"}}}
- {type: External, external: {metric: {name: queue, selector: {matchLabels: {q: a}}}, target: {type: AverageValue, averageValue: "30"}}}
`)
		c.pass("all but one fail", func() bool { return c.replicas("web") == 4 })
		c.event("web", "FailedGetPodsMetric: unable to get metric rps: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered")
		c.event("web", "FailedGetExternalMetric: unable to get external metric default/queue/&LabelSelector{MatchLabels:map[string]string{q: a,},"+
			"MatchExpressions:[]LabelSelectorRequirement{},}: unable to fetch metrics from external metrics API: the server could not find the requested resource (get queue.external.metrics.k8s.io)")
		c.event("web", "SuccessfulRescale: New size: 4; reason: memory resource above target")

		c.use("10m", "16Mi")
		c.extend()
		c.pass("by the queue", func() bool { return c.replicas("web") == 10 })
		c.event("web", "SuccessfulRescale: New size: 10; reason: external metric queue(&LabelSelector{MatchLabels:map[string]string{q: a,},"+
			"MatchExpressions:[]LabelSelectorRequirement{},}) above target")
		c.pass("the values of all metrics", func() bool {
			m := c.hpa("web").Status.CurrentMetrics
			return m[1].Pods != nil && m[2].Object != nil && m[3].External != nil && fmt.Sprint(m[0].ContainerResource.Current.AverageValue, m[1].Pods.Current.AverageValue,
				m[2].Object.Current.Value, m[3].External.Current.AverageValue) == "16Mi 11 115 30"
		})
	})
}
