package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// profile is the plugins that pods of one schedulerName are scheduled with, by extension point.
type profile struct {
	name       string
	percentage int32 // of nodes to score; 0: not said
	registry   Registry
	plugins    map[string]framework.Plugin

	preEnqueue []framework.PreEnqueuePlugin
	queueSort  []framework.QueueSortPlugin
	preFilter  []framework.PreFilterPlugin
	filter     []framework.FilterPlugin
	postFilter []framework.PostFilterPlugin
	preScore   []framework.PreScorePlugin
	score      []scorer
	reserve    []framework.ReservePlugin
	permit     []framework.PermitPlugin
	preBind    []framework.PreBindPlugin
	bind       []framework.BindPlugin
	postBind   []framework.PostBindPlugin

	signers []framework.SignPlugin // of every plugin that judges nodes; nil when one of them cannot sign
	locals  []NodeLocal
	hints   map[string][]framework.ClusterEventWithHint // by plugin
}

// newProfile makes the plugins that the configuration names, each once, and puts them at their extension points.
func newProfile(ctx context.Context, cfg configv1.KubeSchedulerProfile, registry Registry, h func(*profile) framework.Handle) (*profile, error) {
	p := &profile{name: profileName(cfg), percentage: value(cfg.PercentageOfNodesToScore), registry: registry, plugins: map[string]framework.Plugin{}}
	if err := checkNames(registry, cfg); err != nil {
		return nil, p.wrap(err)
	}
	merged := mergeDefaults(registry, cfg.Plugins)
	handle := h(p)
	for _, pt := range points {
		if err := p.fill(ctx, pt, merged, cfg.PluginConfig, handle); err != nil {
			return nil, p.wrap(err)
		}
	}
	// Arguments of a plugin that is not enabled are still checked.
	for _, c := range cfg.PluginConfig {
		if _, err := p.plugin(ctx, c.Name, cfg.PluginConfig, handle); err != nil {
			return nil, p.wrap(err)
		}
	}
	if err := p.finish(ctx); err != nil {
		return nil, p.wrap(err)
	}
	return p, nil
}

func (p *profile) wrap(err error) error { return fmt.Errorf("profile %q: %w", p.name, err) }

func (p *profile) fill(ctx context.Context, pt point, merged *configv1.Plugins, args []configv1.PluginConfig, h framework.Handle) error {
	set := *pt.set(merged)
	for _, c := range order(set, merged.MultiPoint.Enabled) {
		plugin, err := p.plugin(ctx, c.Name, args, h)
		if err != nil {
			return err
		}
		weight := value(c.Weight)
		if weight == 0 {
			weight = weightIn(merged.MultiPoint.Enabled, c.Name)
		}
		if !pt.take(p, plugin, weight) && lists(set.Enabled, c.Name) {
			return fmt.Errorf("scheduler plugin %s has no extension point %s", c.Name, pt.name)
		}
	}
	return nil
}

func weightIn(plugins []configv1.Plugin, name string) int32 {
	for _, p := range plugins {
		if p.Name == name {
			return value(p.Weight)
		}
	}
	return 0
}

// plugin returns the profile's plugin of that name, made when it is first asked for.
func (p *profile) plugin(ctx context.Context, name string, config []configv1.PluginConfig, h framework.Handle) (framework.Plugin, error) {
	if plugin, ok := p.plugins[name]; ok {
		return plugin, nil
	}
	factory, err := p.registry.find(name)
	if err != nil {
		return nil, err
	}
	plugin, err := factory(ctx, argsOf(config, name), h)
	if err != nil {
		return nil, fmt.Errorf("scheduler plugin %s: %w", name, err)
	}
	p.plugins[name] = plugin
	return plugin, nil
}

func argsOf(config []configv1.PluginConfig, name string) runtime.Object {
	for _, c := range config {
		switch {
		case c.Name != name:
		case c.Args.Object != nil:
			return c.Args.Object
		case len(c.Args.Raw) > 0:
			return &runtime.Unknown{Raw: c.Args.Raw, ContentType: runtime.ContentTypeJSON}
		}
	}
	return nil
}

// finish checks the profile as a whole and works out what the engine asks of it.
func (p *profile) finish(ctx context.Context) error {
	switch {
	case len(p.queueSort) != 1:
		return fmt.Errorf("one queue sort plugin required, but got %d", len(p.queueSort))
	case len(p.bind) == 0:
		return errors.New("at least one bind plugin is needed")
	}
	p.hints = map[string][]framework.ClusterEventWithHint{}
	for name, plugin := range p.plugins {
		events := []framework.ClusterEventWithHint{{Event: framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All}}}
		if e, ok := plugin.(framework.EnqueueExtensions); ok {
			var err error
			if events, err = e.EventsToRegister(ctx); err != nil {
				return fmt.Errorf("scheduler plugin %s: events to register: %w", name, err)
			}
		}
		p.hints[name] = events
	}
	p.signers, p.locals = p.rememberers()
	return nil
}

// rememberers returns the plugins that judge nodes as signers and locals, or nothing when one of them is neither.
func (p *profile) rememberers() ([]framework.SignPlugin, []NodeLocal) {
	var judges []framework.Plugin
	judges = appendPlugins(judges, p.preFilter)
	judges = appendPlugins(judges, p.filter)
	judges = appendPlugins(judges, p.preScore)
	for _, s := range p.score {
		judges = append(judges, s.ScorePlugin)
	}
	var signers []framework.SignPlugin
	var locals []NodeLocal
	seen := map[string]bool{}
	for _, plugin := range judges {
		signer, ok := plugin.(framework.SignPlugin)
		local, also := plugin.(NodeLocal)
		if !ok || !also {
			return nil, nil
		}
		if !seen[plugin.Name()] {
			signers, locals = append(signers, signer), append(locals, local)
		}
		seen[plugin.Name()] = true
	}
	return signers, locals
}

func appendPlugins[T framework.Plugin](to []framework.Plugin, from []T) []framework.Plugin {
	for _, p := range from {
		to = append(to, p)
	}
	return to
}

// sign returns what of the pod the profile's verdicts depend on, or "" when a plugin will not say.
func (p *profile) sign(ctx context.Context, pod *corev1.Pod) string {
	if p.signers == nil {
		return ""
	}
	parts := map[string]any{}
	for _, s := range p.signers {
		fragments, status := s.SignPod(ctx, pod)
		if !status.IsSuccess() {
			return ""
		}
		for _, f := range fragments {
			parts[f.Key] = f.Value
		}
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return "" // a plugin's value that JSON cannot hold: the pod is judged afresh each time
	}
	return string(b)
}

// local reports whether verdicts about the pod may be remembered in this cluster.
func (p *profile) local(pod *corev1.Pod, cluster framework.SharedLister) bool {
	return !slices.ContainsFunc(p.locals, func(l NodeLocal) bool { return !l.NodeLocal(pod, cluster) })
}
