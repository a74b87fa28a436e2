package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// point is an extension point: its plugin set in a configuration, and how a profile adds a plugin to it. take reports
// whether the plugin implements the point.
type point struct {
	name string
	set  func(*configv1.Plugins) *configv1.PluginSet
	take func(ctx context.Context, p *profile, made *instance, weight int32) (bool, error)
}

// points lists the extension points of pods. Those of pod groups are in groupPoints.
var points = []point{
	{"preEnqueue", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreEnqueue }, taker("preEnqueue", func(p *profile) *[]extension[framework.PreEnqueuePlugin] { return &p.preEnqueue })},
	{"queueSort", func(s *configv1.Plugins) *configv1.PluginSet { return &s.QueueSort }, taker("queueSort", func(p *profile) *[]extension[framework.QueueSortPlugin] { return &p.queueSort })},
	{"preFilter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreFilter }, taker("preFilter", func(p *profile) *[]extension[framework.PreFilterPlugin] { return &p.preFilter })},
	{"filter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Filter }, taker("filter", func(p *profile) *[]extension[framework.FilterPlugin] { return &p.filter })},
	{"postFilter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PostFilter }, taker("postFilter", func(p *profile) *[]extension[framework.PostFilterPlugin] { return &p.postFilter })},
	{"preScore", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreScore }, taker("preScore", func(p *profile) *[]extension[framework.PreScorePlugin] { return &p.preScore })},
	{"score", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Score }, takeScore},
	{"reserve", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Reserve }, taker("reserve", func(p *profile) *[]extension[framework.ReservePlugin] { return &p.reserve })},
	{"permit", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Permit }, taker("permit", func(p *profile) *[]extension[framework.PermitPlugin] { return &p.permit })},
	{"preBind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreBind }, taker("preBind", func(p *profile) *[]extension[framework.PreBindPlugin] { return &p.preBind })},
	{"bind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Bind }, taker("bind", func(p *profile) *[]extension[framework.BindPlugin] { return &p.bind })},
	{"postBind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PostBind }, taker("postBind", func(p *profile) *[]extension[framework.PostBindPlugin] { return &p.postBind })},
}

// groupPoints are the extension points of pod groups. Since pods are scheduled one by one here, a configuration with a
// plugin there is refused.
var groupPoints = []point{
	{"placementGenerate", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PlacementGenerate }, nil},
	{"placementScore", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PlacementScore }, nil},
}

func taker[T framework.Plugin](point string, list func(*profile) *[]extension[T]) func(context.Context, *profile, *instance, int32) (bool, error) {
	point = strings.ToUpper(point[:1]) + point[1:]
	return func(_ context.Context, p *profile, made *instance, _ int32) (bool, error) {
		t, ok := made.Plugin.(T)
		if ok {
			l := list(p)
			*l = append(*l, extension[T]{p.setup.site(made, point), t})
		}
		return ok, nil
	}
}

// scorer is a Score plugin with its weight.
type scorer struct {
	extension[framework.ScorePlugin]
	weight      int64
	normaliser  framework.ScoreExtensions // nil: raw scores are final
	normalizing *site
}

func takeScore(ctx context.Context, p *profile, made *instance, weight int32) (bool, error) {
	s, ok := made.Plugin.(framework.ScorePlugin)
	if !ok {
		return false, nil
	}
	normalizing := p.setup.site(made, "NormalizeScore")
	normaliser, failure := call(ctx, normalizing, made.timeouts.cycle, func(context.Context) framework.ScoreExtensions { return s.ScoreExtensions() })
	if failure != nil {
		return true, failure
	}
	p.score = append(p.score, scorer{extension[framework.ScorePlugin]{p.setup.site(made, "Score"), s}, int64(max(weight, 1)), normaliser, normalizing})
	return true, nil
}

// mergeDefaults returns a profile's plugins merged over the defaults.
func mergeDefaults(registry Registry, custom *configv1.Plugins) *configv1.Plugins {
	out := &configv1.Plugins{}
	if custom != nil {
		custom.DeepCopyInto(out)
	}
	own := out.MultiPoint
	out.MultiPoint.Enabled = nil
	placed := map[string]bool{}
	for _, d := range defaultPlugins {
		if _, ok := registry[d.name]; !ok || lists(own.Disabled, d.name) || lists(own.Disabled, "*") {
			continue
		}
		plugin := configv1.Plugin{Name: d.name, Weight: &d.weight}
		if i := slices.IndexFunc(own.Enabled, func(p configv1.Plugin) bool { return p.Name == d.name }); i >= 0 {
			plugin = own.Enabled[i] // configured again: keeps its position and gets the new weight
			placed[d.name] = true
		}
		out.MultiPoint.Enabled = append(out.MultiPoint.Enabled, plugin)
	}
	for _, p := range own.Enabled {
		if !placed[p.Name] {
			out.MultiPoint.Enabled = append(out.MultiPoint.Enabled, p)
		}
	}
	return out
}

func lists(plugins []configv1.Plugin, name string) bool {
	return slices.ContainsFunc(plugins, func(p configv1.Plugin) bool { return p.Name == name })
}

// order lists the plugins of one extension point: first those that both the point and multiPoint name, then multiPoint's
// others in their order, then the point's others.
func order(set configv1.PluginSet, multiPoint []configv1.Plugin) []configv1.Plugin {
	var first, middle, last []configv1.Plugin
	for _, p := range set.Enabled {
		if lists(multiPoint, p.Name) {
			first = append(first, p)
		} else {
			last = append(last, p)
		}
	}
	if !lists(set.Disabled, "*") {
		for _, p := range multiPoint {
			if !lists(set.Enabled, p.Name) && !lists(set.Disabled, p.Name) {
				middle = append(middle, p)
			}
		}
	}
	return slices.Concat(first, middle, last)
}

// checkNames collects errors in the names, weights and repetitions of a profile's plugins and arguments.
func checkNames(registry Registry, prof configv1.KubeSchedulerProfile) error {
	var errs []error
	plugins := value(prof.Plugins)
	multi := point{"multiPoint", func(s *configv1.Plugins) *configv1.PluginSet { return &s.MultiPoint }, nil}
	for _, pt := range slices.Concat([]point{multi}, points, groupPoints) {
		errs = append(errs, checkSet(registry, pt, pt.set(&plugins))...)
	}
	seen := map[string]bool{}
	for _, c := range prof.PluginConfig {
		if _, err := registry.find(c.Name); err != nil {
			errs = append(errs, fmt.Errorf("pluginConfig: %w", err))
		}
		if seen[c.Name] {
			errs = append(errs, fmt.Errorf("pluginConfig: repeated config for plugin %s", c.Name))
		}
		seen[c.Name] = true
	}
	return errors.Join(errs...)
}

func checkSet(registry Registry, pt point, set *configv1.PluginSet) []error {
	var errs []error
	seen := map[string]bool{}
	for _, p := range set.Enabled {
		if _, err := registry.find(p.Name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", pt.name, err))
		}
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("%s: plugin %q already registered", pt.name, p.Name))
		}
		if p.Weight != nil && (*p.Weight < 0 || *p.Weight > maxWeight) {
			errs = append(errs, fmt.Errorf("%s: scheduler plugin %s: weight %d is not between 0 and %d", pt.name, p.Name, *p.Weight, maxWeight))
		}
		seen[p.Name] = true
	}
	for _, p := range set.Disabled {
		if _, err := registry.find(p.Name); err != nil && p.Name != "*" && !isDefault(p.Name) {
			errs = append(errs, fmt.Errorf("%s.disabled: %w", pt.name, err))
		}
	}
	if pt.take == nil && pt.name != "multiPoint" && len(set.Enabled) > 0 {
		errs = append(errs, fmt.Errorf("%s: this scheduler places pods one by one and has no such extension point", pt.name))
	}
	return errs
}

// maxWeight keeps the sum of a node's scores from overflowing.
const maxWeight = 1_000_000
