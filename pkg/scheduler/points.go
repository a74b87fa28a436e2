package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// point is an extension point: its plugin set in a configuration, how a profile adds a plugin to it, and the plugins that
// a profile has there. take reports whether the plugin implements the point.
type point struct {
	name string
	set  func(*configv1.Plugins) *configv1.PluginSet
	take func(ctx context.Context, p *profile, made *instance, weight int32) (bool, error)
	list func(p *profile) []weighted
	// implements reports whether a plugin has the point.
	implements func(framework.Plugin) bool
}

// points lists the extension points. The list is made at its first use.
var points = sync.OnceValue(func() []point {
	return []point{
		at("preEnqueue", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreEnqueue }, func(p *profile) *[]extension[framework.PreEnqueuePlugin] { return &p.preEnqueue }),
		at("queueSort", func(s *configv1.Plugins) *configv1.PluginSet { return &s.QueueSort }, func(p *profile) *[]extension[framework.QueueSortPlugin] { return &p.queueSort }),
		at("preFilter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreFilter }, func(p *profile) *[]extension[framework.PreFilterPlugin] { return &p.preFilter }),
		at("filter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Filter }, func(p *profile) *[]extension[framework.FilterPlugin] { return &p.filter }),
		at("postFilter", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PostFilter }, func(p *profile) *[]extension[framework.PostFilterPlugin] { return &p.postFilter }),
		at("preScore", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreScore }, func(p *profile) *[]extension[framework.PreScorePlugin] { return &p.preScore }),
		scoringAt("score", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Score }, func(p *profile) *[]scorer { return &p.score }, framework.ScorePlugin.ScoreExtensions),
		at("reserve", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Reserve }, func(p *profile) *[]extension[framework.ReservePlugin] { return &p.reserve }),
		at("permit", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Permit }, func(p *profile) *[]extension[framework.PermitPlugin] { return &p.permit }),
		at("preBind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PreBind }, func(p *profile) *[]extension[framework.PreBindPlugin] { return &p.preBind }),
		at("bind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.Bind }, func(p *profile) *[]extension[framework.BindPlugin] { return &p.bind }),
		at("postBind", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PostBind }, func(p *profile) *[]extension[framework.PostBindPlugin] { return &p.postBind }),
		at("placementGenerate", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PlacementGenerate }, func(p *profile) *[]extension[framework.PlacementGeneratePlugin] { return &p.placementGenerate }),
		scoringAt("placementScore", func(s *configv1.Plugins) *configv1.PluginSet { return &s.PlacementScore }, func(p *profile) *[]placementScorer { return &p.placementScore },
			framework.PlacementScorePlugin.PlacementScoreExtensions),
	}
})

// at returns an extension point whose plugins have no weight.
func at[T framework.Plugin](name string, set func(*configv1.Plugins) *configv1.PluginSet, list func(*profile) *[]extension[T]) point {
	site := siteName(name)
	take := func(_ context.Context, p *profile, made *instance, _ int32) (bool, error) {
		t, ok := made.Plugin.(T)
		if ok = ok && uses(made.Plugin, name); ok {
			l := list(p)
			*l = append(*l, extension[T]{p.setup.site(made, site), t})
		}
		return ok, nil
	}
	names := func(p *profile) []weighted {
		var out []weighted
		for _, x := range *list(p) {
			out = append(out, weighted{name: x.name})
		}
		return out
	}
	return point{name, set, take, names, implements[T]}
}

// scoring is a plugin that scores, with its weight. N normalises its scores.
type scoring[T framework.Plugin, N any] struct {
	extension[T]
	weight      int64
	normaliser  N // nil: raw scores are final
	normalizing *site
}

type (
	scorer          = scoring[framework.ScorePlugin, framework.ScoreExtensions]
	placementScorer = scoring[framework.PlacementScorePlugin, framework.PlacementScoreExtensions]
)

// scoringAt returns an extension point whose plugins score. normaliser is the plugin's method that returns what normalises its scores.
func scoringAt[T framework.Plugin, N any](name string, set func(*configv1.Plugins) *configv1.PluginSet, list func(*profile) *[]scoring[T, N], normaliser func(T) N) point {
	site := siteName(name)
	take := func(ctx context.Context, p *profile, made *instance, weight int32) (bool, error) {
		t, ok := made.Plugin.(T)
		if !ok || !uses(t, name) {
			return false, nil
		}
		normalizing := p.setup.site(made, "Normalize"+site)
		n, failure := call(ctx, normalizing, made.timeouts.cycle, func(context.Context) N { return normaliser(t) })
		if failure != nil {
			return true, failure
		}
		l := list(p)
		*l = append(*l, scoring[T, N]{extension[T]{p.setup.site(made, site), t}, int64(max(weight, 1)), n, normalizing})
		return true, nil
	}
	weights := func(p *profile) []weighted {
		var out []weighted
		for _, s := range *list(p) {
			out = append(out, weighted{s.name, int32(s.weight)})
		}
		return out
	}
	return point{name, set, take, weights, implements[T]}
}

// siteName returns the name of a point in errors and metrics: PreFilter for preFilter.
func siteName(point string) string { return strings.ToUpper(point[:1]) + point[1:] }

func implements[T framework.Plugin](plugin framework.Plugin) bool {
	_, ok := plugin.(T)
	return ok
}

// uses reports whether a plugin uses an extension point that its type has.
func uses(plugin framework.Plugin, point string) bool {
	partial, ok := plugin.(Partial)
	return !ok || partial.Implements(point)
}

// mergeDefaults returns a profile's plugins merged over the defaults.
func mergeDefaults(registry Registry, g feature.Gates, custom *configv1.Plugins) *configv1.Plugins {
	out := &configv1.Plugins{}
	if custom != nil {
		custom.DeepCopyInto(out)
	}
	own := out.MultiPoint
	out.MultiPoint.Enabled = nil
	listed := map[string]bool{}
	for _, d := range defaultsWith(g) {
		if _, ok := registry[d.name]; !ok || lists(own.Disabled, d.name) || lists(own.Disabled, "*") {
			continue
		}
		plugin := configv1.Plugin{Name: d.name, Weight: &d.weight}
		if i := slices.IndexFunc(own.Enabled, func(p configv1.Plugin) bool { return p.Name == d.name }); i >= 0 {
			plugin = own.Enabled[i] // configured again: keeps its position and gets the new weight
			listed[d.name] = true
		}
		out.MultiPoint.Enabled = append(out.MultiPoint.Enabled, plugin)
	}
	for _, p := range own.Enabled {
		if !listed[p.Name] {
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
func checkNames(registry Registry, path *field.Path, prof configv1.KubeSchedulerProfile) field.ErrorList {
	var errs field.ErrorList
	plugins := value(prof.Plugins)
	multi := point{name: "multiPoint", set: func(s *configv1.Plugins) *configv1.PluginSet { return &s.MultiPoint }}
	for _, pt := range slices.Concat([]point{multi}, points()) {
		errs = append(errs, checkSet(registry, path.Child("plugins", pt.name), pt.set(&plugins))...)
	}
	seen := map[string]bool{}
	for i, c := range prof.PluginConfig {
		at := path.Child("pluginConfig").Index(i)
		if !registry.Has(c.Name) {
			errs = append(errs, registry.unknown(at.Child("name"), c.Name))
		}
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at, c.Name))
		}
		seen[c.Name] = true
	}
	return errs
}

func checkSet(registry Registry, path *field.Path, set *configv1.PluginSet) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, p := range set.Enabled {
		at := path.Child("enabled").Index(i)
		if !registry.Has(p.Name) {
			errs = append(errs, registry.unknown(at.Child("name"), p.Name))
		}
		if seen[p.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		if p.Weight != nil && (*p.Weight < 0 || *p.Weight > maxWeight) {
			errs = append(errs, field.Invalid(at.Child("weight"), *p.Weight, fmt.Sprintf("not in valid range [0-%d]", maxWeight)))
		}
		seen[p.Name] = true
	}
	for i, p := range set.Disabled {
		if !registry.Has(p.Name) && p.Name != "*" && !isDefault(p.Name) {
			errs = append(errs, registry.unknown(path.Child("disabled").Index(i).Child("name"), p.Name))
		}
	}
	return errs
}

// maxWeight keeps the sum of a node's scores from overflowing.
const maxWeight = 1_000_000
