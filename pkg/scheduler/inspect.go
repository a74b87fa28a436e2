package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// ReadConfig reads and strictly decodes a KubeSchedulerConfiguration file. It does not check the values: Inspect does.
func ReadConfig(path string) (*configv1.KubeSchedulerConfiguration, error) {
	c, _, err := readConfig(path)
	return c, err
}

// Inspection is what a scheduler with a configuration runs.
type Inspection struct {
	// Config has all defaults filled in: each profile lists all of its plugins, and the arguments of those that record them.
	Config   *configv1.KubeSchedulerConfiguration
	Profiles []ProfileInfo
}

// ProfileInfo are the plugins of a profile, by extension point.
type ProfileInfo struct {
	Name                     string      `json:"name"`
	PercentageOfNodesToScore int32       `json:"percentageOfNodesToScore"` // 0: as many as Kubernetes does by default
	Points                   []PointInfo `json:"points"`
}

// PointInfo are the plugins of an extension point, in the order of their calls.
type PointInfo struct {
	Name    string      `json:"name"`
	Plugins []PluginRef `json:"plugins"`
}

// PluginRef is a plugin at an extension point.
type PluginRef struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight,omitempty"` // of score and placementScore
}

// PluginInfo is a registered plugin.
type PluginInfo struct {
	Name      string          `json:"name"`
	Points    []string        `json:"points"`              // the extension points that it implements
	Default   bool            `json:"default"`             // enabled without configuration
	Weight    int32           `json:"weight,omitempty"`    // of score, if it is enabled by default
	Args      json.RawMessage `json:"args,omitempty"`      // the default arguments
	Instances bool            `json:"instances,omitempty"` // a configuration may have several, as NAME/INSTANCE
	Error     string          `json:"error,omitempty"`     // why it cannot be created without arguments; its points are then unknown
}

// Inspect creates the plugins of a configuration as a scheduler does, and closes them. The error is a utilerrors.Aggregate of all that is wrong with the
// configuration, each with the path of the field.
func Inspect(ctx context.Context, registry Registry, conf *configv1.KubeSchedulerConfiguration) (*Inspection, error) {
	s, err := newOffline(ctx, Simulation{Registry: registry, Config: conf})
	if err != nil {
		return nil, err
	}
	defer s.stopPlugins(ctx)
	return s.setup.inspect(), nil
}

// newOffline returns a scheduler without a server. The caller stops its plugins.
func newOffline(ctx context.Context, q Simulation) (*Scheduler, error) {
	clk := q.Clock
	if clk == nil {
		clk = wallClock
	}
	s := &Scheduler{registry: q.Registry, features: q.Features, objects: watchedOf(q.Objects), clock: clk, machine: wallClock, namespaces: newSimulatedNamespaces(q.Namespaces),
		budgets: func() []*policyv1.PodDisruptionBudget { return q.Budgets }, selects: selectingCaches(q.Selecting, clk), binding: map[string]*queuedPodInfo{},
		waiting: newWaitingPods(), nominator: newNominator(), bridge: newBridge(nil), recorders: newRecorders(nil, nil, nil), memo: newMemo(), decisions: newReporter(nil, clk, nil)}
	s.inbox.signal = make(chan struct{}, 1)
	s.devices = newDevices()
	s.devices.simulate(s.objects)
	conf := q.Config
	if conf == nil {
		conf = &configv1.KubeSchedulerConfiguration{}
	}
	return s, s.init(ctx, conf, q.Timeouts)
}

func (m *setup) inspect() *Inspection {
	out := &Inspection{Config: m.effective()}
	for _, p := range m.order {
		info := ProfileInfo{Name: p.name, PercentageOfNodesToScore: p.percentage}
		for _, pt := range points() {
			at := PointInfo{Name: pt.name}
			for _, w := range pt.list(p) {
				at.Plugins = append(at.Plugins, PluginRef{w.name, w.weight})
			}
			info.Points = append(info.Points, at)
		}
		out.Profiles = append(out.Profiles, info)
	}
	return out
}

// effective returns the configuration with all defaults filled in. A scheduler with it runs the same.
func (m *setup) effective() *configv1.KubeSchedulerConfiguration {
	out := m.config.DeepCopy()
	out.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration"))
	out.Parallelism = new(int32(m.parallelism))
	out.PercentageOfNodesToScore = new(m.percentage)
	out.PodInitialBackoffSeconds = new(int64(m.backoff.first.Seconds()))
	out.PodMaxBackoffSeconds = new(int64(m.backoff.last.Seconds()))
	for i := range out.Extenders {
		timeout := &out.Extenders[i].HTTPTimeout
		timeout.Duration = cmp.Or(timeout.Duration, defaultExtenderTimeout)
	}
	out.Profiles = nil
	for _, p := range m.order {
		out.Profiles = append(out.Profiles, p.effective())
	}
	return out
}

func (p *profile) effective() configv1.KubeSchedulerProfile {
	out := configv1.KubeSchedulerProfile{SchedulerName: new(p.name), Plugins: p.merged.DeepCopy()}
	if p.percentage != p.setup.percentage {
		out.PercentageOfNodesToScore = new(p.percentage)
	}
	out.Plugins.MultiPoint.Disabled = []configv1.Plugin{{Name: "*"}} // the list has those of the defaults that are enabled
	for _, name := range slices.Sorted(maps.Keys(p.plugins)) {
		args := p.plugins[name].handle.args
		if args == nil {
			args = p.plugins[name].given
		}
		if args != nil {
			out.PluginConfig = append(out.PluginConfig, configv1.PluginConfig{Name: name, Args: rawArgs(args)})
		}
	}
	return out
}

// rawArgs returns arguments as a configuration has them.
func rawArgs(args runtime.Object) runtime.RawExtension {
	if u, ok := args.(*runtime.Unknown); ok {
		return runtime.RawExtension{Raw: u.Raw}
	}
	args = args.DeepCopyObject()
	t := reflect.TypeOf(args).Elem()
	gvk := args.GetObjectKind().GroupVersionKind()
	if gvk.Empty() && t.PkgPath() == reflect.TypeFor[configv1.NodeAffinityArgs]().PkgPath() {
		gvk = configv1.SchemeGroupVersion.WithKind(t.Name())
	}
	args.GetObjectKind().SetGroupVersionKind(gvk)
	return runtime.RawExtension{Object: args}
}

// EncodeConfig returns a configuration as JSON without the fields that this scheduler does not read and that are not set.
func EncodeConfig(c *configv1.KubeSchedulerConfiguration) ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, err
	}
	empty := configv1.KubeSchedulerConfiguration{}
	if reflect.DeepEqual(c.LeaderElection, empty.LeaderElection) {
		delete(fields, "leaderElection")
	}
	if reflect.DeepEqual(c.ClientConnection, empty.ClientConnection) {
		delete(fields, "clientConnection")
	}
	return json.Marshal(fields)
}

// ListPlugins returns the plugins of a registry in the order of their names. It creates each plugin with its default arguments, and closes it.
func ListPlugins(ctx context.Context, registry Registry) ([]PluginInfo, error) {
	s, err := newOffline(ctx, Simulation{Registry: registry})
	if err != nil {
		return nil, err
	}
	defer s.stopPlugins(ctx)
	prof := s.setup.profiles[corev1.DefaultSchedulerName]
	var out []PluginInfo
	for _, name := range slices.Sorted(maps.Keys(registry)) {
		family, instances := strings.CutSuffix(name, "/*")
		if instances {
			if i := slices.IndexFunc(out, func(p PluginInfo) bool { return p.Name == family }); i >= 0 {
				out[i].Instances = true
			}
			continue
		}
		info := PluginInfo{Name: name, Default: isDefault(name)}
		for _, d := range defaultPlugins {
			if d.name == name {
				info.Weight = d.weight
			}
		}
		if err := info.fill(ctx, prof); err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

// fill creates the plugin with its default arguments, and sets what it shows. One that cannot be created has the reason as its Error.
func (info *PluginInfo) fill(ctx context.Context, prof *profile) error {
	made := &instance{name: info.Name, timeouts: prof.setup.timeouts, handle: prof.handles(prof)}
	made.handle.plugin = info.Name
	plugin, err := made.create(ctx, prof)
	if plugin == nil {
		info.Error = "no plugin"
		if err != nil {
			info.Error = err.Error()
		}
		return nil
	}
	info.Points = implemented(plugin)
	if info.Args, err = defaultArgs(made.handle.args); err != nil {
		return err
	}
	if c, ok := plugin.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// defaultArgs returns arguments as JSON, nil for none.
func defaultArgs(args runtime.Object) (json.RawMessage, error) {
	if args == nil {
		return nil, nil
	}
	args = args.DeepCopyObject()
	args.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return json.Marshal(args)
}

// implemented returns the extension points that a plugin implements.
func implemented(plugin framework.Plugin) []string {
	var out []string
	for _, pt := range points() {
		if pt.implements(plugin) {
			out = append(out, pt.name)
		}
	}
	return out
}
