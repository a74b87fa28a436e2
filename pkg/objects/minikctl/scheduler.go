package minikctl

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SchedulerConfigs is the resource of SchedulerConfig.
var SchedulerConfigs = GroupVersion.WithResource("schedulerconfigs")

// SchedulerConfig is the configuration that a scheduler runs. Its name is the schedulerName of the first profile. Its
// metadata.generation counts the configurations that the scheduler has run since its start, from 1.
type SchedulerConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	File    string           `json:"file,omitempty"` // the file that it was read from; empty: the defaults
	Applied metav1.MicroTime `json:"applied"`        // when it came into force
	// Refused is why the file's present content is not in force; empty if it is.
	Refused  string   `json:"refused,omitempty"`
	Profiles []string `json:"profiles"` // their schedulerNames, in order
	// Configuration is a KubeSchedulerConfiguration with all defaults filled in: it lists every plugin and its arguments.
	Configuration runtime.RawExtension `json:"configuration"`
}

// SchedulerConfigList is a list of the configurations of all schedulers.
type SchedulerConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SchedulerConfig `json:"items"`
}

// CELArgs are the arguments of the scheduler plugin CEL: expressions in the Common Expression Language about the variables
// node and pod. At least one of Filter and Score is required.
type CELArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Filter is true for the nodes that the pod may run on.
	Filter string `json:"filter,omitempty"`
	// Message is the reason of nodes that Filter rejects. Default: it names the expression.
	Message string `json:"message,omitempty"`
	// Score is an integer or a double, which is greater for better nodes.
	Score string `json:"score,omitempty"`
	// Normalize converts the scores of the nodes that pass to the range from 0 to 100. MinMax: the least becomes 0, the greatest 100.
	// None: the scores have to be in this range. Default: MinMax.
	Normalize string `json:"normalize,omitempty"`
}

// The values of CELArgs.Normalize.
const (
	NormalizeMinMax = "MinMax"
	NormalizeNone   = "None"
)

// WasmArgs are the arguments of the scheduler plugin Wasm: a WebAssembly module with the ABI of kube-scheduler-wasm-extension.
type WasmArgs struct {
	metav1.TypeMeta `json:",inline"`

	// GuestURL is the module's file, as file:///PATH. The scheduler loads it again when it changes.
	GuestURL string `json:"guestURL"`
	// GuestConfig is the module's own configuration, which it reads by get_config.
	GuestConfig string `json:"guestConfig,omitempty"`
	// LogSeverity is the least severity of the module's messages that are logged: 0 info, 1 warning, 2 error, 3 fatal.
	LogSeverity int32 `json:"logSeverity,omitempty"`
	// Cache declares that what the module's filter and score return for a node depends only on these fields of the pod, on Node objects and on
	// GuestConfig, so that the scheduler may use the results for equal pods. nil: the results are not kept.
	Cache *WasmCache `json:"cache,omitempty"`
}

// WasmCache declares on what the results of a module depend.
type WasmCache struct {
	// PodFields are the fields of the pod that the module can read, e.g. metadata.labels. It does not see the others.
	PodFields []string `json:"podFields,omitempty"`
}

var (
	_ runtime.Object = (*WasmArgs)(nil)
	_ runtime.Object = (*SchedulerConfig)(nil)
	_ runtime.Object = (*SchedulerConfigList)(nil)
	_ runtime.Object = (*CELArgs)(nil)
)

// DeepCopyObject implements runtime.Object.
func (c *SchedulerConfig) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Profiles = append([]string(nil), c.Profiles...)
	c.Configuration.DeepCopyInto(&out.Configuration)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *SchedulerConfigList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]SchedulerConfig, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*SchedulerConfig)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (a *WasmArgs) DeepCopyObject() runtime.Object {
	out := *a
	if a.Cache != nil {
		out.Cache = &WasmCache{PodFields: slices.Clone(a.Cache.PodFields)}
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (a *CELArgs) DeepCopyObject() runtime.Object {
	out := *a
	return &out
}
