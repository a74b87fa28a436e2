package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/schedplugins/internal/expression"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// celPlugin filters and scores nodes by expressions of the configuration. Kubernetes has no such plugin. A configuration may have several
// instances, CEL/NAME.
type celPlugin struct {
	cooperative
	local
	name     string
	args     minikctl.CELArgs
	filter   *expression.Expression // nil: every node passes
	score    *expression.Expression // nil: no scores
	rejected *framework.Status
	state    framework.StateKey
}

func defaultCEL() minikctl.CELArgs { return minikctl.CELArgs{Normalize: minikctl.NormalizeMinMax} }

// newCEL also returns the plugin if it lacks its required arguments, for the list of plugins.
func newCEL(args minikctl.CELArgs, h framework.Handle) (framework.Plugin, error) {
	p := &celPlugin{name: "CEL", args: args}
	if named, ok := h.(scheduler.ArgsHandle); ok {
		p.name = named.PluginName()
	}
	p.state = framework.StateKey("minikctl.dev/" + p.name)
	var errs field.ErrorList
	compile := func(name, source string, want ...*cel.Type) *expression.Expression {
		if source == "" {
			return nil
		}
		e, err := expression.Compile(field.NewPath(name), source, want...)
		if f, ok := errors.AsType[*field.Error](err); ok {
			errs = append(errs, f)
		} else if err != nil {
			errs = append(errs, field.InternalError(field.NewPath(name), err))
		}
		return e
	}
	p.filter = compile("filter", args.Filter, cel.BoolType)
	p.score = compile("score", args.Score, cel.IntType, cel.DoubleType)
	switch {
	case args.Filter == "" && args.Score == "":
		errs = append(errs, field.Required(field.NewPath("filter"), "at least one of filter and score must be specified"))
	case args.Filter == "" && args.Message != "":
		errs = append(errs, field.Forbidden(field.NewPath("message"), "may only be specified with filter"))
	}
	if args.Normalize != minikctl.NormalizeMinMax && args.Normalize != minikctl.NormalizeNone {
		errs = append(errs, field.NotSupported(field.NewPath("normalize"), args.Normalize, []string{minikctl.NormalizeMinMax, minikctl.NormalizeNone}))
	}
	message := args.Message
	if message == "" {
		message = "node(s) didn't satisfy the CEL filter " + args.Filter
	}
	p.rejected = framework.NewStatus(framework.Unschedulable, message).WithPlugin(p.name)
	if len(errs) > 0 {
		return p, errs.ToAggregate()
	}
	return p, nil
}

func (p *celPlugin) Name() string { return p.name }

// celPod is the variable pod in the cycle's state.
type celPod expression.Pod

// Clone implements framework.StateData.
func (c celPod) Clone() framework.StateData { return c }

func celPodOf(pod *corev1.Pod) celPod {
	requests := scheduler.ResourceOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true}))
	return celPod(expression.PodOf(pod, requests))
}

// PreFilter and PreScore skip pods of an instance without that expression.
func (p *celPlugin) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if p.filter == nil {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(p.state, celPodOf(pod))
	return nil, nil
}

// PreFilterExtensions returns nil: the results depend on no other pods than those of a node.
func (p *celPlugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter rejects a node on which the filter is false, or cannot be evaluated.
func (p *celPlugin) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	ok, err := p.filter.Bool(p.pod(state, pod), expression.NodeOf(node))
	switch {
	case err != nil:
		return framework.NewStatus(framework.Unschedulable, fmt.Sprintf("node(s) on which the CEL filter %s fails: %v", p.args.Filter, err))
	case ok:
		return nil
	}
	return p.rejected
}

func (p *celPlugin) pod(state framework.CycleState, pod *corev1.Pod) expression.Pod {
	if v, err := state.Read(p.state); err == nil {
		return expression.Pod(v.(celPod))
	}
	return expression.Pod(celPodOf(pod))
}

// PreScore is described at PreFilter.
func (p *celPlugin) PreScore(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) *framework.Status {
	if p.score == nil {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(p.state, celPodOf(pod))
	return nil
}

const (
	// doubleScale is how many units of a raw score a double of 1 is.
	doubleScale = 1000
	// maxRawScore bounds raw scores: larger ones are not exact as doubles.
	maxRawScore = 1 << 53
)

// Score returns the score: of a double, before it is normalised by MinMax, in thousandths.
func (p *celPlugin) Score(_ context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) (int64, *framework.Status) {
	v, whole, err := p.score.Number(p.pod(state, pod), expression.NodeOf(node))
	if err != nil {
		return 0, framework.AsStatus(fmt.Errorf("CEL score %s on node %s: %w", p.args.Score, node.Node().Name, err))
	}
	if !whole && p.args.Normalize == minikctl.NormalizeMinMax {
		v *= doubleScale
	}
	if math.IsNaN(v) || math.Abs(v) > maxRawScore {
		return 0, framework.AsStatus(fmt.Errorf("CEL score %s on node %s: %v is not in the range of scores", p.args.Score, node.Node().Name, v))
	}
	return int64(math.Round(v)), nil
}

// ScoreExtensions returns the plugin if it normalises its scores.
func (p *celPlugin) ScoreExtensions() framework.ScoreExtensions {
	if p.args.Normalize == minikctl.NormalizeNone {
		return nil
	}
	return p
}

// NormalizeScore converts the least score to 0 and the greatest to 100. Equal scores become 0.
func (p *celPlugin) NormalizeScore(_ context.Context, _ framework.CycleState, _ *corev1.Pod, scores framework.NodeScoreList) *framework.Status {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range scores {
		least, most = min(least, s.Score), max(most, s.Score)
	}
	for i := range scores {
		if most == least {
			scores[i].Score = framework.MinScore
			continue
		}
		scores[i].Score = int64(float64(scores[i].Score-least) / float64(most-least) * float64(framework.MaxScore))
	}
	return nil
}

// SignPod returns the fields of the pod that the expressions read.
func (p *celPlugin) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	read := map[string]any{}
	for _, e := range []*expression.Expression{p.filter, p.score} {
		if e == nil || len(e.PodFields()) == 0 {
			continue
		}
		all := celPodOf(pod)
		for _, name := range e.PodFields() {
			read[name] = all[name]
		}
	}
	return signature("minikctl.dev/"+p.name, read)
}

// EventsToRegister lists changes of nodes, and of pods, whose number and requests the expressions read.
func (p *celPlugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		on(framework.Node, framework.Add|framework.UpdateNodeLabel|framework.UpdateNodeAnnotation|framework.UpdateNodeTaint|framework.UpdateNodeAllocatable, nil),
		on(framework.Pod, framework.Add|framework.Delete|framework.Update, nil),
	}, nil
}
