package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// profile is the plugins that schedule the pods of one schedulerName, by extension point.
type profile struct {
	name       string
	percentage int32 // of nodes to score; 0: all
	registry   Registry
	plugins    map[string]*instance
	merged     *configv1.Plugins // the configured plugins and the default ones
	setup      *setup
	nominator  *nominator
	handles    func(*profile) *handle // creates the Handle of a plugin

	preEnqueue []extension[framework.PreEnqueuePlugin]
	queueSort  []extension[framework.QueueSortPlugin]
	preFilter  []extension[framework.PreFilterPlugin]
	filter     []extension[framework.FilterPlugin]
	postFilter []extension[framework.PostFilterPlugin]
	preScore   []extension[framework.PreScorePlugin]
	score      []scorer
	reserve    []extension[framework.ReservePlugin]
	permit     []extension[framework.PermitPlugin]
	preBind    []extension[framework.PreBindPlugin]
	bind       []extension[framework.BindPlugin]
	postBind   []extension[framework.PostBindPlugin]

	placementGenerate []extension[framework.PlacementGeneratePlugin] // at most one
	placementScore    []placementScorer

	signers    []extension[framework.SignPlugin] // of every plugin that filters or scores; nil when one of them cannot sign
	locals     []extension[NodeLocal]
	updaters   []extension[Incremental]
	events     map[string][]registeredEvent // by plugin
	explainers map[string]extension[Explainer]

	cooperative      bool // all plugins are cooperative
	gatesCooperative bool // all PreEnqueue plugins are cooperative
}

// extension is a plugin at one of its extension points.
type extension[T framework.Plugin] struct {
	*site
	plugin T
}

// registeredEvent is a cluster event that a plugin registered for, with its QueueingHint.
type registeredEvent struct {
	*site
	framework.ClusterEventWithHint
}

// fillFrom creates the plugins that the configuration names, each once, and adds them to their extension points. The errors
// begin with the field's path. After an error p.plugins holds those created so far.
func (p *profile) fillFrom(ctx context.Context, path *field.Path, cfg configv1.KubeSchedulerProfile) []error {
	errs := plain(checkNames(p.registry, path, cfg))
	p.merged = mergeDefaults(p.registry, p.setup.features, cfg.Plugins)
	if errs = append(errs, p.makeAll(ctx, path, cfg)...); len(errs) > 0 {
		return errs
	}
	for _, pt := range points() {
		if err := p.fill(ctx, path.Child("plugins"), pt); err != nil {
			return []error{err}
		}
	}
	if err := p.finish(ctx, path.Child("plugins")); err != nil {
		return []error{err}
	}
	return nil
}

// makeAll creates the plugins of all extension points and of all arguments: those of a plugin that is not enabled are still
// checked.
func (p *profile) makeAll(ctx context.Context, path *field.Path, cfg configv1.KubeSchedulerProfile) []error {
	var names []string
	for _, pt := range points() {
		for _, c := range order(*pt.set(p.merged), p.merged.MultiPoint.Enabled) {
			names = append(names, c.Name)
		}
	}
	for _, c := range cfg.PluginConfig {
		names = append(names, c.Name)
	}
	var errs []error
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] || !p.registry.Has(name) { // checkNames reports unknown names
			continue
		}
		seen[name] = true
		if err := p.makePlugin(ctx, name, cfg.PluginConfig); err != nil {
			errs = append(errs, atArgs(path, cfg.PluginConfig, name, err)...)
		}
	}
	return errs
}

// atArgs returns the errors of the plugin's arguments under their path.
func atArgs(path *field.Path, config []configv1.PluginConfig, name string, err error) []error {
	i := slices.IndexFunc(config, func(c configv1.PluginConfig) bool { return c.Name == name })
	if i < 0 {
		return []error{fmt.Errorf("%s: scheduler plugin %s: %w", path.Child("plugins"), name, err)}
	}
	args := path.Child("pluginConfig").Index(i).Child("args")
	var out []error
	for _, err := range leaves(err) {
		if f, ok := errors.AsType[*field.Error](err); ok {
			at := *f
			at.Field = args.String() + "." + f.Field
			out = append(out, &at)
		} else {
			out = append(out, fmt.Errorf("%s: scheduler plugin %s: %w", args, name, err))
		}
	}
	return out
}

// leaves returns the errors of an Aggregate, or err itself.
func leaves(err error) []error {
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		return utilerrors.Flatten(all).Errors()
	}
	return []error{err}
}

// plain returns a list of errors of fields as errors.
func plain(list field.ErrorList) []error {
	out := make([]error, len(list))
	for i, err := range list {
		out[i] = err
	}
	return out
}

func (p *profile) fill(ctx context.Context, path *field.Path, pt point) error {
	set := *pt.set(p.merged)
	for _, c := range order(set, p.merged.MultiPoint.Enabled) {
		weight := value(c.Weight)
		if weight == 0 {
			weight = weightIn(p.merged.MultiPoint.Enabled, c.Name)
		}
		taken, err := pt.take(ctx, p, p.plugins[c.Name], weight)
		if err != nil {
			return fmt.Errorf("%s: %w", path.Child(pt.name), err)
		}
		if i := slices.IndexFunc(set.Enabled, func(e configv1.Plugin) bool { return e.Name == c.Name }); !taken && i >= 0 {
			return field.Invalid(path.Child(pt.name, "enabled").Index(i).Child("name"), c.Name, "the plugin has no extension point "+pt.name)
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

// makePlugin creates the profile's instance of the named plugin.
func (p *profile) makePlugin(ctx context.Context, name string, config []configv1.PluginConfig) error {
	made := &instance{name: name, resumed: p.setup.resumed, timeouts: p.setup.timeouts}
	made.handle = p.handles(p)
	made.handle.plugin, made.given = name, argsOf(config, name)
	plugin, err := made.create(ctx, p)
	switch {
	case err != nil:
		return err
	case plugin == nil:
		return errors.New("the factory returned no plugin")
	}
	made.Plugin = plugin
	_, made.cooperative = plugin.(Cooperative)
	_, made.skipsBinding = plugin.(SkipsBinding)
	p.plugins[name] = made
	return nil
}

// create calls the plugin's factory. With an error it may return a plugin, too, for the list of plugins.
func (p *instance) create(ctx context.Context, of *profile) (framework.Plugin, error) {
	factory, err := of.registry.find(p.name)
	if err != nil {
		return nil, err
	}
	type result struct {
		plugin framework.Plugin
		err    error
	}
	got, failure := call(ctx, of.setup.site(p, "New"), p.timeouts.cycle, func(context.Context) result {
		plugin, err := factory(of.setup.ctx, p.given, p.handle)
		return result{plugin, err}
	})
	if failure != nil {
		return nil, failure
	}
	return got.plugin, got.err
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

// finish checks the profile as a whole and registers its plugins' events.
func (p *profile) finish(ctx context.Context, path *field.Path) error {
	switch {
	case len(p.queueSort) != 1:
		return field.Required(path.Child("queueSort"), fmt.Sprintf("one queue sort plugin required, but got %d", len(p.queueSort)))
	case len(p.bind) == 0:
		return field.Required(path.Child("bind"), "at least one bind plugin is needed")
	case len(p.placementGenerate) > 1:
		return field.Forbidden(path.Child("placementGenerate"), fmt.Sprintf("at most one placement generate plugin is allowed for profile with scheduler name %q", p.name))
	}
	p.events = map[string][]registeredEvent{}
	for name, made := range p.plugins {
		at := p.setup.site(made, "QueueingHint")
		events, err := p.register(ctx, made)
		if err != nil {
			return err
		}
		for _, e := range events {
			p.events[name] = append(p.events[name], registeredEvent{at, e})
		}
	}
	p.explainers = map[string]extension[Explainer]{}
	for name, made := range p.plugins {
		if x, ok := made.Plugin.(Explainer); ok {
			p.explainers[name] = extension[Explainer]{p.setup.site(made, "Explain"), x}
		}
	}
	p.findMemoizable()
	p.cooperative = allCooperative(slices.Collect(maps.Values(p.plugins)))
	p.gatesCooperative = allCooperative(appendInstances(nil, p.preEnqueue))
	return nil
}

// register returns the events that a plugin registers for: all, if it has no EventsToRegister.
func (p *profile) register(ctx context.Context, made *instance) ([]framework.ClusterEventWithHint, error) {
	extensions, ok := made.Plugin.(framework.EnqueueExtensions)
	if !ok {
		return []framework.ClusterEventWithHint{{Event: framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All}}}, nil
	}
	type result struct {
		events []framework.ClusterEventWithHint
		err    error
	}
	got, failure := call(ctx, p.setup.site(made, "EventsToRegister"), made.timeouts.cycle, func(ctx context.Context) result {
		events, err := extensions.EventsToRegister(ctx)
		return result{events, err}
	})
	if failure != nil {
		return nil, failure
	}
	if got.err != nil {
		return nil, fmt.Errorf("scheduler plugin %s: events to register: %w", made.name, got.err)
	}
	return got.events, nil
}

// findMemoizable sets signers, locals and updaters, if each plugin that filters or scores is a SignPlugin and either NodeLocal or
// Incremental.
func (p *profile) findMemoizable() {
	var plugins []*instance
	plugins = appendInstances(plugins, p.preFilter)
	plugins = appendInstances(plugins, p.filter)
	plugins = appendInstances(plugins, p.preScore)
	for _, s := range p.score {
		plugins = append(plugins, s.instance)
	}
	var signers []extension[framework.SignPlugin]
	var locals []extension[NodeLocal]
	var updaters []extension[Incremental]
	for i, made := range plugins {
		if slices.Contains(plugins[:i], made) {
			continue
		}
		signer, signs := made.Plugin.(framework.SignPlugin)
		signs = signs && uses(made.Plugin, "sign")
		local, isLocal := made.Plugin.(NodeLocal)
		updater, isIncremental := made.Plugin.(Incremental)
		switch {
		case signs && isLocal:
			locals = append(locals, extension[NodeLocal]{p.setup.site(made, "NodeLocal"), local})
		case signs && isIncremental:
			updaters = append(updaters, extension[Incremental]{p.setup.site(made, "Incremental"), updater})
		default:
			return
		}
		signers = append(signers, extension[framework.SignPlugin]{p.setup.site(made, signPoint), signer})
	}
	p.signers, p.locals, p.updaters = signers, locals, updaters
}

func allCooperative(plugins []*instance) bool {
	return !slices.ContainsFunc(plugins, func(made *instance) bool { return !made.cooperative })
}

func appendInstances[T framework.Plugin](to []*instance, from []extension[T]) []*instance {
	for _, x := range from {
		to = append(to, x.instance)
	}
	return to
}

// sign returns the pod's signature, on which the results of filtering and scoring depend, or "" when a plugin does not
// sign the pod.
func (p *profile) sign(ctx context.Context, t *tracker, pod *corev1.Pod) string {
	if p.signers == nil {
		return ""
	}
	began := t.times.now()
	parts := make([]framework.SignFragment, 0, len(p.signers))
	for _, s := range p.signers {
		t.enter(s.site)
		fragments, status := s.plugin.SignPod(ctx, pod)
		t.returned(s.site, status)
		if !status.IsSuccess() {
			t.leave()
			t.times.ran("Sign", began, status)
			return ""
		}
		for _, f := range fragments {
			if !slices.ContainsFunc(parts, func(of framework.SignFragment) bool { return of.Key == f.Key }) { // plugins share fragments
				parts = append(parts, f)
			}
		}
	}
	t.leave()
	t.times.ran("Sign", began, nil)
	b, err := json.Marshal(parts)
	if err != nil {
		return "" // JSON cannot hold a plugin's value
	}
	return string(b)
}

// local reports whether the memo may keep the results for the pod in this cluster.
func (p *profile) local(t *tracker, pod *corev1.Pod, cluster framework.SharedLister) bool {
	for _, l := range p.locals {
		t.enter(l.site)
		if !l.plugin.NodeLocal(pod, cluster) {
			t.leave()
			return false
		}
	}
	t.leave()
	return true
}

// filtersLocally reports whether no Filter plugin looks at the pods of other nodes than that which it filters, of those that do not skip the
// pod of a state that the memo may keep.
func (p *profile) filtersLocally(state framework.CycleState) bool {
	skip := state.GetSkipFilterPlugins()
	return p.signers != nil && !slices.ContainsFunc(p.updaters, func(u extension[Incremental]) bool {
		return !skip.Has(u.name) && slices.ContainsFunc(p.filter, func(f extension[framework.FilterPlugin]) bool { return f.name == u.name })
	})
}
