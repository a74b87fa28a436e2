package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/kube-scheduler/framework"
)

// Values are the arguments and results of a call.
type Values struct {
	Pod      *corev1.Pod
	Target   *corev1.Pod // of AddPod and RemovePod
	Node     string
	Nodes    []framework.NodeInfo // that passed the filters, for PreScore
	Statuses map[string]int       // the codes of the nodes' statuses, for PostFilter
	Scores   framework.NodeScoreList

	Reason     string
	Events     []framework.ClusterEvent
	NodeNames  []string
	Nominated  string
	Normalized map[string]int64

	binding bool // the call belongs to a binding cycle, which must not read the snapshot
}

// Handle is what modules use of a framework.Handle. Its snapshot is that of the present scheduling cycle.
type Handle interface {
	SnapshotSharedLister() framework.SharedLister
	EventRecorder() events.EventRecorderLogger
	RejectWaitingPod(uid types.UID) bool
	GetWaitingPod(uid types.UID) framework.WaitingPod
}

// NodeCache has the nodes that calls of binding cycles read.
type NodeCache interface {
	Get(key types.NamespacedName) (*corev1.Node, bool)
	List(namespace string, selector labels.Selector) []*corev1.Node
}

type valuesKey struct{}

func values(ctx context.Context) *Values {
	if v, ok := ctx.Value(valuesKey{}).(*Values); ok {
		return v
	}
	return &Values{} // a start function has no arguments
}

// host has the functions that modules import.
type host struct {
	Config
	messages *rate.Limiter // that are logged
}

// MaxSeverity is the greatest severity of a module's messages.
const MaxSeverity = 3

// What is logged of a module's messages, which may come from each filter of each node: so many at once, then so many a second, of so many bytes.
const (
	logBurst = 100
	logRate  = 10
	logBytes = 4 << 10
)

const (
	i32 = api.ValueTypeI32
	// eventBytes is the size of an encoded event: resource and action.
	eventBytes = 8
)

// instantiate makes the host's modules.
func (h *host) instantiate(ctx context.Context, runtime wazero.Runtime) error {
	reads := map[string]func(context.Context) []byte{
		"get_config":       func(context.Context) []byte { return []byte(h.Guest) },
		"currentNodeName":  func(ctx context.Context) []byte { return []byte(values(ctx).Node) },
		"currentPod":       func(ctx context.Context) []byte { return podBytes(values(ctx).Pod) },
		"targetPod":        func(ctx context.Context) []byte { return podBytes(values(ctx).Target) },
		"filteredNodeList": func(ctx context.Context) []byte { return asJSON(names(values(ctx).Nodes)) },
		"nodeToStatusMap":  func(ctx context.Context) []byte { return asJSON(values(ctx).Statuses) },
		"nodeScoreList":    func(ctx context.Context) []byte { return asJSON(scores(values(ctx).Scores)) },
	}
	writes := map[string]func(*Values, []byte){
		"result.status_reason":         func(v *Values, b []byte) { v.Reason = string(b) },
		"result.cluster_events":        func(v *Values, b []byte) { v.Events = clusterEvents(b) },
		"result.node_names":            func(v *Values, b []byte) { v.NodeNames = stringsIn(b) },
		"result.nominated_node_name":   func(v *Values, b []byte) { v.Nominated = string(b) },
		"result.normalized_score_list": func(v *Values, b []byte) { must(json.Unmarshal(b, &v.Normalized)) },
	}
	scheduler := runtime.NewHostModuleBuilder("k8s.io/scheduler")
	for name, read := range reads {
		export(scheduler, name, 2, true, func(ctx context.Context, m api.Module, stack []uint64) {
			stack[0] = write(m, stack[0], stack[1], read(ctx))
		})
	}
	for name, set := range writes {
		export(scheduler, name, 2, false, func(ctx context.Context, m api.Module, stack []uint64) {
			set(values(ctx), bytesAt(m, stack[0], stack[1]))
		})
	}
	h.exportHandle(scheduler)
	export(scheduler, "nodeImageStates", 4, true, func(ctx context.Context, m api.Module, stack []uint64) {
		if values(ctx).binding {
			panic(errors.New("nodeImageStates is not available in the binding cycle"))
		}
		var states map[string]*framework.ImageStateSummary
		if node := h.node(m, stack); node != nil {
			states = node.GetImageStates()
		}
		stack[0] = write(m, stack[2], stack[3], asJSON(states))
	})
	if _, err := scheduler.Instantiate(ctx); err != nil {
		return err
	}
	objects := runtime.NewHostModuleBuilder("k8s.io/api")
	export(objects, "node", 4, true, func(ctx context.Context, m api.Module, stack []uint64) {
		var b []byte
		if values(ctx).binding {
			if node, ok := h.Nodes.Get(types.NamespacedName{Name: string(bytesAt(m, stack[0], stack[1]))}); ok {
				b = marshal(node)
			}
		} else if node := h.node(m, stack); node != nil {
			b = marshal(node.Node())
		}
		stack[0] = write(m, stack[2], stack[3], b)
	})
	export(objects, "nodeList", 2, true, func(ctx context.Context, m api.Module, stack []uint64) {
		stack[0] = write(m, stack[0], stack[1], h.nodes(values(ctx).binding))
	})
	if _, err := objects.Instantiate(ctx); err != nil {
		return err
	}
	return h.instantiateLog(ctx, runtime)
}

// exportHandle adds the functions of the Handle.
func (h *host) exportHandle(b wazero.HostModuleBuilder) {
	export(b, "handle.eventrecorder.eventf", 2, false, func(_ context.Context, m api.Module, stack []uint64) {
		var e eventMessage
		must(json.Unmarshal(bytesAt(m, stack[0], stack[1]), &e))
		h.Handle.EventRecorder().Eventf(e.RegardingReference.object(), nil, e.Eventtype, e.Reason, e.Action, "%s", e.Note)
	})
	export(b, "handle.reject_waiting_pod", 4, false, func(_ context.Context, m api.Module, stack []uint64) {
		rejected := h.Handle.RejectWaitingPod(types.UID(bytesAt(m, stack[0], stack[1])))
		answer := make([]byte, answerBytes)
		if rejected {
			answer[0] = 1
		}
		must(answerIn(m, stack[2:], answer))
	})
	export(b, "handle.get_waiting_pod", 4, false, func(_ context.Context, m api.Module, stack []uint64) {
		answer := make([]byte, answerBytes)
		if pod := h.Handle.GetWaitingPod(types.UID(bytesAt(m, stack[0], stack[1]))); pod != nil {
			answer = marshal(pod.GetPod())
			if size := len(answer); uint32(stack[3]) >= uint32(size+answerBytes) {
				answer = append(answer, make([]byte, answerBytes)...) // marks the end, since no size is returned
			}
		}
		must(answerIn(m, stack[2:], answer))
	})
}

// answerBytes is the size of the number that a function of the Handle answers. get_waiting_pod answers 0 without such a pod.
const answerBytes = 8

// answerIn writes an answer whose size is not returned: one that is larger than the module's buffer is an error.
func answerIn(m api.Module, buffer []uint64, answer []byte) error {
	if limit := uint32(buffer[1]); uint64(limit) < uint64(len(answer)) {
		return fmt.Errorf("an answer of %d bytes is larger than the module's buffer of %d", len(answer), limit)
	}
	write(m, buffer[0], buffer[1], answer)
	return nil
}

// eventMessage is an Event as the ABI encodes it in JSON. Related objects are not kept.
type eventMessage struct {
	RegardingReference objectReference
	Eventtype          string
	Reason             string
	Action             string
	Note               string
}

type objectReference struct {
	Kind, APIVersion, Name, Namespace, UID, ResourceVersion string
}

func (r objectReference) object() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: r.Kind, APIVersion: r.APIVersion},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: types.UID(r.UID), ResourceVersion: r.ResourceVersion},
	}
}

// export adds a function of i32 parameters to a host module, with an i32 result or none.
func export(b wazero.HostModuleBuilder, name string, params int, result bool, f api.GoModuleFunc) {
	types := []api.ValueType{i32, i32, i32, i32, i32}[:params]
	var results []api.ValueType
	if result {
		results = []api.ValueType{i32}
	}
	b.NewFunctionBuilder().WithGoModuleFunction(f, types, results).Export(name)
}

func (h *host) instantiateLog(ctx context.Context, runtime wazero.Runtime) error {
	b := runtime.NewHostModuleBuilder("k8s.io/klog")
	export(b, "log", 3, false, func(ctx context.Context, m api.Module, stack []uint64) { h.log(ctx, m, stack, nil) })
	export(b, "logs", 5, false, func(ctx context.Context, m api.Module, stack []uint64) {
		h.log(ctx, m, stack, stack[3:5])
	})
	export(b, "severity", 0, true, func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = uint64(uint32(h.Severity)) })
	_, err := b.Instantiate(ctx)
	return err
}

// log logs a message of the module. pairs, which may be nil, has the address and the size of its keys and values.
func (h *host) log(ctx context.Context, m api.Module, stack, pairs []uint64) {
	levels := [MaxSeverity + 1]slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelError}
	severity := int32(stack[0])
	if severity < h.Severity || severity < 0 || severity > MaxSeverity || !h.messages.Allow() {
		return
	}
	start := func(part []uint64) []byte { return bytesAt(m, part[0], uint64(min(uint32(part[1]), logBytes))) }
	values := ""
	if pairs != nil {
		values = strings.Join(stringsIn(start(pairs)), " ")
	}
	slog.Log(ctx, levels[severity], "message of a scheduler plugin", "text", string(start(stack[1:3])), "values", values)
}

// node returns the node whose name is in the first two parameters, nil if there is none.
func (h *host) node(m api.Module, stack []uint64) framework.NodeInfo {
	node, err := h.Handle.SnapshotSharedLister().NodeInfos().Get(string(bytesAt(m, stack[0], stack[1])))
	if err != nil {
		return nil
	}
	return node
}

// nodes returns all nodes as a NodeList.
func (h *host) nodes(binding bool) []byte {
	list := &corev1.NodeList{}
	if binding {
		for _, n := range h.Nodes.List("", nil) {
			list.Items = append(list.Items, *n)
		}
		return marshal(list)
	}
	infos, err := h.Handle.SnapshotSharedLister().NodeInfos().List()
	must(err)
	for _, n := range infos {
		list.Items = append(list.Items, *n.Node())
	}
	return marshal(list)
}

// must ends the module's call with an error, as any panic of a host function does.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func marshal(obj interface{ Marshal() ([]byte, error) }) []byte {
	b, err := obj.Marshal()
	must(err)
	return b
}

func podBytes(pod *corev1.Pod) []byte {
	if pod == nil {
		return nil
	}
	return marshal(pod)
}

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	must(err)
	return b
}

// bytesAt returns a part of the module's memory, which the module may change later.
func bytesAt(m api.Module, at, size uint64) []byte {
	b, ok := m.Memory().Read(uint32(at), uint32(size))
	if !ok {
		panic(fmt.Errorf("%d bytes at %d are outside of the module's memory", uint32(size), uint32(at)))
	}
	return b
}

// write writes b to the module's memory unless it exceeds limit, and returns its size.
func write(m api.Module, at, limit uint64, b []byte) uint64 {
	if len(b) > 0 && len(b) <= int(uint32(limit)) && !m.Memory().Write(uint32(at), b) {
		panic(fmt.Errorf("%d bytes at %d are outside of the module's memory", len(b), uint32(at)))
	}
	return uint64(len(b))
}

func names(nodes []framework.NodeInfo) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Node().Name
	}
	return out
}

func scores(list framework.NodeScoreList) map[string]int64 {
	out := make(map[string]int64, len(list))
	for _, s := range list {
		out[s.Name] = s.Score
	}
	return out
}

// stringsIn returns the non-empty strings of b, each of which ends with a zero byte.
func stringsIn(b []byte) (out []string) {
	for _, s := range strings.SplitAfter(string(b), "\x00") {
		if s, ended := strings.CutSuffix(s, "\x00"); ended && s != "" {
			out = append(out, s)
		}
	}
	return out
}

// resources are the resources of events by their numbers in the ABI.
var resources = []framework.EventResource{framework.Pod, framework.Node, framework.PersistentVolume, framework.PersistentVolumeClaim, "",
	framework.ResourceClaim, framework.StorageClass, framework.CSINode, framework.CSIDriver, framework.CSIStorageCapacity, framework.WildCard}

// The ABI's actions are the first six of the framework. All of them mean all.
const (
	allActions     = 1<<6 - 1
	updatesOfNodes = allActions &^ uint32(framework.Add|framework.Delete)
)

func clusterEvents(b []byte) (out []framework.ClusterEvent) {
	for ; len(b) >= eventBytes; b = b[eventBytes:] {
		resource, action := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		if int(resource) >= len(resources) || resources[resource] == "" {
			continue // one that Kubernetes no longer has
		}
		e := framework.ClusterEvent{Resource: resources[resource], ActionType: framework.ActionType(action & allActions)}
		switch {
		case action == allActions:
			e.ActionType = framework.All
		case action&updatesOfNodes == updatesOfNodes:
			e.ActionType |= framework.Update
		}
		out = append(out, e)
	}
	return out
}
