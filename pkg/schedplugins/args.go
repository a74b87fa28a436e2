package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// argsOf is the constraint for a pointer to a plugin's arguments of type A.
type argsOf[A any] interface {
	*A
	runtime.Object
}

// with returns the factory of a plugin with arguments. They are decoded strictly over the defaults.
func with[A any, PA argsOf[A]](defaults func() A, make func(A, framework.Handle) (framework.Plugin, error)) scheduler.Factory {
	return func(_ context.Context, given runtime.Object, h framework.Handle) (framework.Plugin, error) {
		args, err := decode[A, PA](given, defaults)
		if err != nil {
			return nil, err
		}
		if r, ok := h.(scheduler.ArgsHandle); ok {
			r.RecordArgs(PA(&args))
		}
		return make(args, h)
	}
}

func decode[A any, PA argsOf[A]](given runtime.Object, defaults func() A) (A, error) {
	switch g := given.(type) {
	case nil:
		return defaults(), nil
	case PA:
		return *g, nil
	case *runtime.Unknown:
		args := defaults()
		if err := plug.Decode(g.Raw, &args); err != nil {
			return args, err
		}
		return args, checkKind(PA(&args))
	}
	return defaults(), fmt.Errorf("want %T, got %T", PA(nil), given)
}

// checkKind checks apiVersion and kind, which arguments may leave out.
func checkKind(args runtime.Object) error {
	gvk := args.GetObjectKind().GroupVersionKind()
	want := fmt.Sprintf("%T", args)
	want = want[strings.LastIndex(want, ".")+1:]
	version := configv1.SchemeGroupVersion
	switch args.(type) {
	case *minikctl.CELArgs, *minikctl.WasmArgs:
		version = minikctl.GroupVersion
	}
	if gvk.Kind != "" && gvk.Kind != want {
		return field.NotSupported(field.NewPath("kind"), gvk.Kind, []string{want})
	}
	if gv := gvk.GroupVersion(); !gv.Empty() && gv != version {
		return field.NotSupported(field.NewPath("apiVersion"), gv.String(), []string{version.String()})
	}
	return nil
}

// bare returns the factory of a plugin without arguments.
func bare(make func(framework.Handle) framework.Plugin) scheduler.Factory {
	return func(_ context.Context, given runtime.Object, h framework.Handle) (framework.Plugin, error) {
		if u, ok := given.(*runtime.Unknown); given != nil && (!ok || strings.TrimSpace(string(u.Raw)) != "{}") {
			return nil, errors.New("the plugin takes no arguments")
		}
		return make(h), nil
	}
}

// cooperative marks a plugin as scheduler.Cooperative. Every plugin of this package embeds it: they only compute, and
// DefaultBinder's API call ends with its context.
type cooperative struct{}

// Cooperative implements scheduler.Cooperative.
func (cooperative) Cooperative() {}

// local is embedded by plugins whose results for a node depend only on the pod's signature and that node.
type local struct{}

// NodeLocal implements scheduler.NodeLocal.
func (local) NodeLocal(*corev1.Pod, framework.SharedLister) bool { return true }

// signature returns a pod signature that consists of one part.
func signature(key string, value any) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: key, Value: value}}, nil
}

// on returns an event to register for.
func on(resource framework.EventResource, action framework.ActionType, hint framework.QueueingHintFn) framework.ClusterEventWithHint {
	return framework.ClusterEventWithHint{Event: framework.ClusterEvent{Resource: resource, ActionType: action}, QueueingHintFn: hint}
}

// queueIf returns the hint Queue if worth is true, otherwise QueueSkip.
func queueIf(worth bool) framework.QueueingHint {
	if worth {
		return framework.Queue
	}
	return framework.QueueSkip
}

// nodeOf returns an event's object as a Node, nil if it has no such object.
func nodeOf(obj any) *corev1.Node {
	n, _ := obj.(*corev1.Node)
	return n
}

func podOf(obj any) *corev1.Pod {
	p, _ := obj.(*corev1.Pod)
	return p
}
