package autoscaling

import (
	"context"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// server is what the autoscaler uses of an API server beside its Client: the kinds that discovery lists, and the metrics. It is made
// at the first use, since most clusters have no autoscaler.
type server struct {
	mapper *restmapper.DeferredDiscoveryRESTMapper
	scales scale.ScaleKindResolver
	source source
}

func newServer(env controller.Env) (*server, error) {
	found, err := env.Discovery()
	if err != nil {
		return nil, err
	}
	cfg, err := env.REST()
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(found)
	s := &server{mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached), scales: scale.NewDiscoveryScaleKindResolver(cached)}
	s.source, err = newSource(cfg, found, s.mapper, env.Clock)
	return s, err
}

// target is the object that an autoscaler scales.
type target struct {
	client.Target
	scale *autoscalingv1.Scale
}

// findTarget reads the scale of an autoscaler's target. Of several resources of the kind it takes the first that has the object.
func (r *autoscaler) findTarget(ctx context.Context, s *server, hpa *autoscalingv2.HorizontalPodAutoscaler) (target, error) {
	ref := hpa.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return target{}, err
	}
	mappings, err := s.mapper.RESTMappings(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if err != nil {
		return target{}, err
	}
	var first error
	for _, m := range mappings {
		found, err := r.readTarget(ctx, s, m, hpa)
		if err == nil {
			return found, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = errors.New("unrecognized resource")
	}
	s.mapper.Reset() // the resource may be served otherwise now
	return target{}, first
}

func (r *autoscaler) readTarget(ctx context.Context, s *server, m *meta.RESTMapping, hpa *autoscalingv2.HorizontalPodAutoscaler) (target, error) {
	if _, err := s.scales.ScaleForResource(m.Resource); err != nil {
		return target{}, err
	}
	at := client.Target{Resource: m.Resource, Name: hpa.Spec.ScaleTargetRef.Name, Subresource: "scale"}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		at.Namespace = hpa.Namespace
	}
	found, err := r.readScale(ctx, at)
	return target{at, found}, err
}

// readScale returns a copy of the scale at a target.
func (r *autoscaler) readScale(ctx context.Context, at client.Target) (*autoscalingv1.Scale, error) {
	obj, err := r.client.Get(ctx, at, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	found, ok := obj.(*autoscalingv1.Scale)
	if !ok {
		return nil, fmt.Errorf("the scale of %s %q is a %T", at.Resource.Resource, at.Name, obj)
	}
	return found.DeepCopy(), nil
}

// maxConflicts bounds the attempts to write a scale that changes meanwhile.
const maxConflicts = 5

// rescale writes the number of replicas.
func (r *autoscaler) rescale(ctx context.Context, t target, replicas int32) error {
	for attempt := 1; ; attempt++ {
		t.scale.Spec.Replicas = replicas
		_, err := r.client.Update(ctx, t.Target, t.scale.DeepCopy(), metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) || attempt == maxConflicts {
			return err
		}
		if now, getErr := r.readScale(ctx, t.Target); getErr == nil {
			t.scale = now
		}
	}
}
