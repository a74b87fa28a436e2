package scheduler

import (
	"errors"
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// point is an extension point: where a configuration lists its plugins, and how a profile takes one. take reports
// whether the plugin has that point.
type point struct {
	name string
	set  func(*configv1.Plugins) *configv1.PluginSet
	take func(p *profile, plugin framework.Plugin, weight int32) bool
}

// points are all extension points of pods. Those of pod groups are in groupPoints.
var points = []point{
	{"preEnqueue", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreEnqueue }, taker(func(p *profile) *[]framework.PreEnqueuePlugin { return &p.preEnqueue })},
	{"queueSort", func(s *configv1.Plugins) *configv1.PluginSet { return &s.QueueSort }, taker(func(p *profile) *[]framework.QueueSortPlugin { return &p.queueSort })},
	{"preFilter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreFilter }, taker(func(p *profile) *[]framework.PreFilterPlugin { return &p.preFilter })},
	{"filter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Filter }, taker(func(p *profile) *[]framework.FilterPlugin { return &p.filter })},
	{"postFilter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PostFilter }, taker(func(p *profile) *[]framework.PostFilterPlugin { return &p.postFilter })},
	{"preScore", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreScore }, taker(func(p *profile) *[]framework.PreScorePlugin { return &p.preScore })},
	{"score", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Score }, takeScore},
	{"reserve", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Reserve }, taker(func(p *profile) *[]framework.ReservePlugin { return &p.reserve })},
	{"permit", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Permit }, taker(func(p *profile) *[]framework.PermitPlugin { return &p.permit })},
	{"preBind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreBind }, taker(func(p *profile) *[]framework.PreBindPlugin { return &p.preBind })},
	{"bind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Bind }, taker(func(p *profile) *[]framework.BindPlugin { return &p.bind })},
	{"postBind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PostBind }, taker(func(p *profile) *[]framework.PostBindPlugin { return &p.postBind })},
}

// groupPoints are the extension points of pod groups, which are scheduled pod by pod here: naming a plugin there is
// refused.
var groupPoints = []point{
	{"placementGenerate", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PlacementGenerate }, nil},
	{"placementScore", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PlacementScore }, nil},
}

func taker[T framework.Plugin](list func(*profile) *[]T) func(*profile, framework.Plugin, int32) bool {
	return func(p *profile, plugin framework.Plugin, _ int32) bool {
		t, ok := plugin.(T)
		if ok {
			l := list(p)
			*l = append(*l, t)
		}
		return ok
	}
}

// scorer is a score plugin with its weight.
type scorer struct {
	framework.ScorePlugin
	weight     int64
	normaliser framework.ScoreExtensions // nil: raw scores are final
}

func takeScore(p *profile, plugin framework.Plugin, weight int32) bool {
	s, ok := plugin.(framework.ScorePlugin)
	if ok {
		p.score = append(p.score, scorer{s, int64(max(weight, 1)), s.ScoreExtensions()})
	}
	return ok
}

// mergeDefaults returns what a profile's plugins are once the defaults are put under what it says.
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
			plugin = own.Enabled[i] // configured again: keeps its place, takes the new weight
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

// order lists the plugins of one extension point: first those that it names itself and multiPoint names too, then
// multiPoint's others in their order, then its own others.
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

// checkNames collects what is wrong with the names, weights and repetitions in a profile's plugins and arguments.
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

// maxWeight keeps the sum of all scores of a node far from overflowing.
const maxWeight = 1_000_000
