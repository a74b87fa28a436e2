package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/schedplugins/internal/guest"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// wasmPlugin is a plugin in a WebAssembly module, with the ABI of sigs.k8s.io/kube-scheduler-wasm-extension. A configuration may have several
// instances, Wasm/NAME. It has the extension points that its module exports.
type wasmPlugin struct {
	name       string
	handle     framework.Handle
	module     *guest.Module
	suspension *scheduler.Suspension
	cache      *wasmCache // nil: results are not kept
	close      func() error
	closed     atomic.Bool
}

func newWasm(ctx context.Context, given runtime.Object, h framework.Handle) (framework.Plugin, error) {
	return newWasmWithin(ctx, given, h, guest.Limits{})
}

// newWasmWithin also returns the plugin if it lacks its module, for the list of plugins.
func newWasmWithin(ctx context.Context, given runtime.Object, h framework.Handle, limits guest.Limits) (framework.Plugin, error) {
	args, err := decode[minikctl.WasmArgs, *minikctl.WasmArgs](given, func() minikctl.WasmArgs { return minikctl.WasmArgs{} })
	if err != nil {
		return nil, err
	}
	p := &wasmPlugin{name: "Wasm", handle: h, suspension: scheduler.NewSuspension(), close: func() error { return nil }}
	named, ok := h.(scheduler.ArgsHandle)
	if ok {
		named.RecordArgs(&args)
		p.name = named.PluginName()
	}
	path := field.NewPath("guestURL")
	if args.GuestURL == "" {
		return p, field.Required(path, "")
	}
	u, err := url.Parse(args.GuestURL)
	if err != nil || u.Scheme != "file" || u.Host != "" || u.Path == "" {
		return p, field.Invalid(path, args.GuestURL, "must be a file:// URL with an absolute path")
	}
	if args.LogSeverity < 0 || args.LogSeverity > guest.MaxSeverity {
		return p, field.Invalid(field.NewPath("logSeverity"), args.LogSeverity, fmt.Sprintf("must be between 0 and %d, inclusive", guest.MaxSeverity))
	}
	if args.Cache != nil {
		if p.cache, err = newWasmCache(p.name, args.Cache.PodFields); err != nil {
			return p, err
		}
	}
	if ok {
		named.WatchFile(u.Path)
	}
	binary, err := readModule(u.Path)
	if err == nil {
		config := guest.Config{Limits: limits, Guest: args.GuestConfig, Severity: args.LogSeverity, Handle: h}
		if api, ok := h.(scheduler.APIHandle); ok && api.Caches() != nil {
			config.Nodes = api.Caches().Nodes()
		}
		p.module, err = guest.New(ctx, binary, config)
	}
	if err != nil {
		return p, field.Invalid(path, args.GuestURL, err.Error())
	}
	p.close = func() error { return p.module.Close(context.WithoutCancel(ctx)) }
	if p.cache != nil {
		if err := p.cache.check(p.module); err != nil {
			return p, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, guest.MaxBytes+1))
	if err == nil && len(b) > guest.MaxBytes {
		err = fmt.Errorf("the module exceeds %d bytes", guest.MaxBytes)
	}
	return b, err
}

// wasmPoints are the extension points by the functions of modules.
var wasmPoints = map[string]string{"preFilter": guest.PreFilter, "filter": guest.Filter, "postFilter": guest.PostFilter, "preScore": guest.PreScore, "score": guest.Score,
	"reserve": guest.Reserve, "permit": guest.Permit, "preBind": guest.PreBind, "bind": guest.Bind, "postBind": guest.PostBind}

var (
	_ scheduler.Partial             = (*wasmPlugin)(nil)
	_ framework.EnqueueExtensions   = (*wasmPlugin)(nil)
	_ framework.PreFilterPlugin     = (*wasmPlugin)(nil)
	_ framework.PreFilterExtensions = (*wasmPlugin)(nil)
	_ framework.FilterPlugin        = (*wasmPlugin)(nil)
	_ framework.PostFilterPlugin    = (*wasmPlugin)(nil)
	_ framework.PreScorePlugin      = (*wasmPlugin)(nil)
	_ framework.ScorePlugin         = (*wasmPlugin)(nil)
	_ framework.ReservePlugin       = (*wasmPlugin)(nil)
	_ framework.PermitPlugin        = (*wasmPlugin)(nil)
	_ framework.PreBindPlugin       = (*wasmPlugin)(nil)
	_ framework.BindPlugin          = (*wasmPlugin)(nil)
	_ framework.PostBindPlugin      = (*wasmPlugin)(nil)
)

func (p *wasmPlugin) Name() string { return p.name }

// Implements implements scheduler.Partial. A module whose pods have an instance to themselves has it from Reserve to PostBind.
func (p *wasmPlugin) Implements(point string) bool {
	switch {
	case point == "sign":
		return p.cache != nil
	case point == "reserve" && p.module.Exports(guest.Unreserve), (point == "reserve" || point == "postBind") && p.module.PerPod():
		return true
	}
	return p.module.Exports(wasmPoints[point])
}

// Close frees the module.
func (p *wasmPlugin) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	return p.close()
}

// call calls a function of the module. One that took too long is not called again for a while, so that it cannot hold up other pods.
func (p *wasmPlugin) call(ctx context.Context, function string, v *guest.Values) (uint64, *framework.Status) {
	return p.callBy(ctx, p.module.Call, function, v)
}

// callBy calls a function by a method of the module.
func (p *wasmPlugin) callBy(ctx context.Context, call func(context.Context, string, *guest.Values) (uint64, error), function string, v *guest.Values) (uint64, *framework.Status) {
	if p.suspension.Active() {
		return 0, framework.AsStatus(errors.New("wasm: the module is suspended: an earlier call has exceeded its time-out"))
	}
	out, err := call(ctx, function, v)
	p.suspension.Observe(errors.Is(err, guest.ErrTimeout))
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	return out, nil
}

// binding calls a function of the binding cycle that returns a code.
func (p *wasmPlugin) binding(ctx context.Context, function string, pod *corev1.Pod, node string) *framework.Status {
	v := &guest.Values{Pod: pod, Node: node}
	code, failed := p.callBy(ctx, p.module.CallBinding, function, v)
	if failed != nil {
		return failed
	}
	return framework.NewStatus(framework.Code(int32(code)), v.Reason)
}

// finish calls a function without a result at the end of a binding cycle, if the module has it, and gives up the pod's instance.
func (p *wasmPlugin) finish(ctx context.Context, function string, pod *corev1.Pod, node string) {
	defer p.module.Release(ctx, pod.UID)
	if !p.module.Exports(function) {
		return
	}
	if status := p.binding(ctx, function, pod, node); !status.IsSuccess() {
		p.module.LogError(ctx, fmt.Errorf("plugin %s: %w", p.name, status.AsError()))
	}
}

// verdict calls a function that returns a code.
func (p *wasmPlugin) verdict(ctx context.Context, function string, v *guest.Values) *framework.Status {
	code, failed := p.call(ctx, function, v)
	if failed != nil {
		return failed
	}
	return framework.NewStatus(framework.Code(int32(code)), v.Reason)
}

// EventsToRegister returns the module's events, and without any those of pods, nodes and volumes.
func (p *wasmPlugin) EventsToRegister(ctx context.Context) ([]framework.ClusterEventWithHint, error) {
	v := &guest.Values{}
	if p.module.Exports(guest.Enqueue) {
		if _, failed := p.call(ctx, guest.Enqueue, v); failed != nil {
			return nil, failed.AsError()
		}
	}
	if len(v.Events) == 0 {
		for _, r := range []framework.EventResource{framework.Pod, framework.Node, framework.CSINode, framework.PersistentVolume, framework.PersistentVolumeClaim, framework.StorageClass} {
			v.Events = append(v.Events, framework.ClusterEvent{Resource: r, ActionType: framework.All})
		}
	}
	out := make([]framework.ClusterEventWithHint, len(v.Events))
	for i, e := range v.Events {
		out[i] = framework.ClusterEventWithHint{Event: e}
	}
	return out, nil
}

// PreFilter and the methods below call the functions of the module.
func (p *wasmPlugin) PreFilter(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	v := &guest.Values{Pod: p.visible(pod)}
	status := p.preFilter(ctx, v, pod)
	if v.NodeNames == nil || !status.IsSuccess() {
		return nil, status
	}
	return &framework.PreFilterResult{NodeNames: sets.New(v.NodeNames...)}, status
}

// PreFilterExtensions returns nil if the module has none.
func (p *wasmPlugin) PreFilterExtensions() framework.PreFilterExtensions {
	if !p.module.Exports(guest.AddPod) || !p.module.Exports(guest.RemovePod) || p.cache != nil { // cached results depend on no pods of nodes
		return nil
	}
	return p
}

func (p *wasmPlugin) AddPod(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, added framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.verdict(ctx, guest.AddPod, &guest.Values{Pod: pod, Target: added.GetPod(), Node: node.Node().Name})
}

func (p *wasmPlugin) RemovePod(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, removed framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.verdict(ctx, guest.RemovePod, &guest.Values{Pod: pod, Target: removed.GetPod(), Node: node.Node().Name})
}

func (p *wasmPlugin) Filter(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	if status := p.resume(ctx, pod, false); !status.IsSuccess() {
		return status
	}
	return p.verdict(ctx, guest.Filter, &guest.Values{Pod: p.visible(pod), Node: node.Node().Name})
}

func (p *wasmPlugin) PostFilter(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, statuses framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if status := p.resume(ctx, pod, false); !status.IsSuccess() {
		return nil, status
	}
	v := &guest.Values{Pod: p.visible(pod), Statuses: make(map[string]int, len(nodes))}
	for _, n := range nodes {
		v.Statuses[n.Node().Name] = int(statuses.Get(n.Node().Name).Code())
	}
	out, failed := p.call(ctx, guest.PostFilter, v)
	if failed != nil {
		return nil, failed
	}
	info := &framework.NominatingInfo{NominatedNodeName: v.Nominated, NominatingMode: framework.NominatingMode(int32(out >> 32))}
	return &framework.PostFilterResult{NominatingInfo: info}, framework.NewStatus(framework.Code(int32(out)), v.Reason)
}

func (p *wasmPlugin) PreScore(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) *framework.Status {
	if status := p.resume(ctx, pod, false); !status.IsSuccess() {
		return status
	}
	return p.preScore(ctx, &guest.Values{Pod: p.visible(pod), Nodes: nodes}, pod)
}

func (p *wasmPlugin) Score(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) (int64, *framework.Status) {
	if status := p.resume(ctx, pod, true); !status.IsSuccess() {
		return 0, status
	}
	v := &guest.Values{Pod: p.visible(pod), Node: node.Node().Name}
	out, failed := p.call(ctx, guest.Score, v)
	if failed != nil {
		return 0, failed
	}
	return int64(int32(out >> 32)), framework.NewStatus(framework.Code(int32(out)), v.Reason)
}

// ScoreExtensions returns nil if the module does not normalise.
func (p *wasmPlugin) ScoreExtensions() framework.ScoreExtensions {
	if !p.module.Exports(guest.NormalizeScore) {
		return nil
	}
	return p
}

func (p *wasmPlugin) NormalizeScore(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, scores framework.NodeScoreList) *framework.Status {
	if status := p.resume(ctx, pod, true); !status.IsSuccess() {
		return status
	}
	v := &guest.Values{Pod: p.visible(pod), Scores: scores}
	status := p.verdict(ctx, guest.NormalizeScore, v)
	if !status.IsSuccess() || len(v.Normalized) == 0 {
		return status
	}
	for i := range scores {
		score, ok := v.Normalized[scores[i].Name]
		if !ok {
			return framework.AsStatus(fmt.Errorf("wasm: no normalized score for node %s", scores[i].Name))
		}
		scores[i].Score = score
	}
	return nil
}

// Reserve begins the part of the pod's cycles in which other pods may be in theirs.
func (p *wasmPlugin) Reserve(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string) *framework.Status {
	if p.module.PerPod() {
		p.module.Reserve(pod.UID)
	}
	if !p.module.Exports(guest.Reserve) {
		return nil
	}
	return p.verdict(ctx, guest.Reserve, &guest.Values{Pod: pod, Node: node})
}

func (p *wasmPlugin) Unreserve(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string) {
	p.finish(ctx, guest.Unreserve, pod, node)
}

func (p *wasmPlugin) Permit(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string) (*framework.Status, time.Duration) {
	v := &guest.Values{Pod: pod, Node: node}
	out, failed := p.call(ctx, guest.Permit, v)
	if failed != nil {
		return failed, 0
	}
	return framework.NewStatus(framework.Code(int32(out>>32)), v.Reason), time.Duration(uint32(out)) * time.Millisecond
}

// PreBindPreFlight never skips the pod: the ABI has no such function.
func (p *wasmPlugin) PreBindPreFlight(context.Context, framework.CycleState, *corev1.Pod, string) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, nil
}

func (p *wasmPlugin) PreBind(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string) *framework.Status {
	return p.binding(ctx, guest.PreBind, pod, node)
}

func (p *wasmPlugin) Bind(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string) *framework.Status {
	return p.binding(ctx, guest.Bind, pod, node)
}

func (p *wasmPlugin) PostBind(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string) {
	p.finish(ctx, guest.PostBind, pod, node)
}
