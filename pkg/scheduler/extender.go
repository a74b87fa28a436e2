package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
)

// extender calls an HTTP extender of the configuration. Its name is the urlPrefix. Each call is bounded by the extender's httpTimeout and by
// the scheduler's own time-out of plugin calls, whichever is less. After a call of the scheduling cycle that took too long the extender is
// suspended: the calls of the next seconds fail at once, so that an extender that hangs cannot hold up the pods that do not need it. It is
// safe for concurrent use.
type extender struct {
	configv1.Extender
	managed   sets.Set[string]
	transport *http.Transport
	setup     *setup
	site      *site // of the calls of the scheduling cycle
	*Suspension
}

const (
	defaultExtenderTimeout = 5 * time.Second
	// maxExtenderResponse bounds the bytes that are read of a response: the list of all nodes of a large cluster is less.
	maxExtenderResponse = 256 << 20
	// maxTrailer is how many bytes behind the value are read.
	maxTrailer = 512
)

func newExtender(m *setup, config configv1.Extender) (*extender, error) {
	transport, err := extenderTransport(&config)
	if err != nil {
		return nil, err
	}
	x := &extender{Extender: config, managed: sets.New[string](), transport: transport, setup: m, Suspension: NewSuspension()}
	x.HTTPTimeout.Duration = cmp.Or(config.HTTPTimeout.Duration, defaultExtenderTimeout)
	for _, r := range config.ManagedResources {
		x.managed.Insert(r.Name)
	}
	x.site = m.site(&instance{name: x.URLPrefix, cooperative: true, timeouts: m.timeouts}, "Extender")
	return x, nil
}

// extenderTransport returns a transport with the TLS settings of an extender. As in Kubernetes, enableHTTPS without a certificate authority
// does not verify the server.
func extenderTransport(config *configv1.Extender) (*http.Transport, error) {
	var c rest.Config
	if tls := config.TLSConfig; tls != nil {
		c.TLSClientConfig = rest.TLSClientConfig{Insecure: tls.Insecure, ServerName: tls.ServerName, CertFile: tls.CertFile, KeyFile: tls.KeyFile,
			CAFile: tls.CAFile, CertData: tls.CertData, KeyData: tls.KeyData, CAData: tls.CAData}
	}
	if config.EnableHTTPS && c.CAFile == "" && len(c.CAData) == 0 {
		c.Insecure = true
	}
	tls, err := rest.TLSConfigFor(&c)
	if err != nil {
		return nil, err
	}
	return utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls}), nil
}

// Name and the methods below implement framework.Extender. Plugins that call them outside of a call of their own have no context: the
// calls end with the configuration.
func (x *extender) Name() string                 { return x.URLPrefix }
func (x *extender) IsIgnorable() bool            { return x.Ignorable }
func (x *extender) IsFilter() bool               { return x.FilterVerb != "" }
func (x *extender) IsPrioritizer() bool          { return x.PrioritizeVerb != "" }
func (x *extender) IsBinder() bool               { return x.BindVerb != "" }
func (x *extender) SupportsPreemption() bool     { return x.PreemptVerb != "" }
func (x *extender) Bind(b *corev1.Binding) error { return x.bind(x.setup.ctx, b) }
func (x *extender) Filter(pod *corev1.Pod, nodes []framework.NodeInfo) ([]framework.NodeInfo, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	return x.filter(x.setup.ctx, pod, nodes)
}
func (x *extender) Prioritize(pod *corev1.Pod, nodes []framework.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	scores, err := x.prioritize(x.setup.ctx, pod, nodes)
	return &scores, x.Weight, err
}
func (x *extender) ProcessPreemption(pod *corev1.Pod, victims map[string]*extenderv1.Victims, nodes framework.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	return x.preempt(x.setup.ctx, pod, victims, nodes)
}

// IsInterested reports whether a container of the pod requests or limits one of the extender's resources, or the extender has none.
func (x *extender) IsInterested(pod *corev1.Pod) bool {
	if x.managed.Len() == 0 {
		return true
	}
	for _, list := range [2][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			for _, amounts := range [2]corev1.ResourceList{list[i].Resources.Requests, list[i].Resources.Limits} {
				for name := range amounts {
					if x.managed.Has(string(name)) {
						return true
					}
				}
			}
		}
	}
	return false
}

// args returns what filter and prioritize send.
func (x *extender) args(pod *corev1.Pod, nodes []framework.NodeInfo) *extenderv1.ExtenderArgs {
	if x.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Node().Name
		}
		return &extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names}
	}
	list := &corev1.NodeList{Items: make([]corev1.Node, len(nodes))}
	for i, n := range nodes {
		list.Items[i] = *n.Node()
	}
	return &extenderv1.ExtenderArgs{Pod: pod, Nodes: list}
}

// filter returns the nodes that passed the extender's filter, and its messages about others. Another node than those of the request is an error.
func (x *extender) filter(ctx context.Context, pod *corev1.Pod, nodes []framework.NodeInfo) (passed []framework.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	if !x.IsFilter() {
		return nodes, extenderv1.FailedNodesMap{}, extenderv1.FailedNodesMap{}, nil
	}
	var result extenderv1.ExtenderFilterResult
	if err := x.cycleCall(ctx, x.FilterVerb, x.args(pod, nodes), &result); err != nil {
		return nil, nil, nil, err
	}
	if result.Error != "" {
		return nil, nil, nil, errors.New(result.Error)
	}
	var names []string
	switch {
	case x.NodeCacheCapable && result.NodeNames != nil:
		names = *result.NodeNames
	case result.Nodes != nil:
		for i := range result.Nodes.Items {
			names = append(names, result.Nodes.Items[i].Name)
		}
	}
	byName := make(map[string]framework.NodeInfo, len(nodes))
	for _, n := range nodes {
		byName[n.Node().Name] = n
	}
	for _, name := range names {
		n, ok := byName[name]
		if !ok {
			return nil, nil, nil, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", x.URLPrefix, name)
		}
		passed = append(passed, n)
	}
	return passed, result.FailedNodes, result.FailedAndUnresolvableNodes, nil
}

// prioritize returns the extender's scores, before its weight. Without the verb all are 0.
func (x *extender) prioritize(ctx context.Context, pod *corev1.Pod, nodes []framework.NodeInfo) (scores extenderv1.HostPriorityList, err error) {
	if !x.IsPrioritizer() {
		for _, n := range nodes {
			scores = append(scores, extenderv1.HostPriority{Host: n.Node().Name})
		}
		return scores, nil
	}
	err = x.cycleCall(ctx, x.PrioritizeVerb, x.args(pod, nodes), &scores)
	return scores, err
}

// preempt returns the nodes that the extender accepts for a preemption, with the victims that it chose on each.
func (x *extender) preempt(ctx context.Context, pod *corev1.Pod, victims map[string]*extenderv1.Victims, nodes framework.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	if !x.SupportsPreemption() {
		return nil, fmt.Errorf("preempt verb is not defined for extender %v but run into ProcessPreemption", x.URLPrefix)
	}
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToVictims: victims}
	if x.NodeCacheCapable {
		args = &extenderv1.ExtenderPreemptionArgs{Pod: pod, NodeNameToMetaVictims: identifiers(victims)}
	}
	var result extenderv1.ExtenderPreemptionResult
	if err := x.cycleCall(ctx, x.PreemptVerb, args, &result); err != nil {
		return nil, err
	}
	out := map[string]*extenderv1.Victims{}
	for name, chosen := range result.NodeNameToMetaVictims {
		node, err := nodes.Get(name)
		if err != nil {
			return nil, err
		}
		if out[name], err = x.victimsOn(node, chosen); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// identifiers returns the victims by UID.
func identifiers(victims map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
	out := make(map[string]*extenderv1.MetaVictims, len(victims))
	for node, v := range victims {
		if v == nil {
			out[node] = nil
			continue
		}
		meta := &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{}, NumPDBViolations: v.NumPDBViolations}
		for _, pod := range v.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
		out[node] = meta
	}
	return out
}

// victimsOn returns the pods of a node with the UIDs of the victims. The result is nil for no victims.
func (x *extender) victimsOn(node framework.NodeInfo, chosen *extenderv1.MetaVictims) (*extenderv1.Victims, error) {
	if chosen == nil {
		return nil, nil
	}
	pods := map[string]*corev1.Pod{}
	for _, p := range node.GetPods() {
		pods[string(p.GetPod().UID)] = p.GetPod()
	}
	out := &extenderv1.Victims{NumPDBViolations: chosen.NumPDBViolations}
	for _, meta := range chosen.Pods {
		var uid string
		if meta != nil {
			uid = meta.UID
		}
		pod, ok := pods[uid]
		if !ok {
			return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node", x.URLPrefix, meta, node.Node().Name)
		}
		out.Pods = append(out.Pods, pod)
	}
	return out, nil
}

// bind lets the extender bind a pod.
func (x *extender) bind(ctx context.Context, b *corev1.Binding) error {
	if !x.IsBinder() {
		return errors.New("unexpected empty bindVerb in extender")
	}
	args := &extenderv1.ExtenderBindingArgs{PodName: b.Name, PodNamespace: b.Namespace, PodUID: b.UID, Node: b.Target.Name}
	var result extenderv1.ExtenderBindingResult
	if err := x.send(ctx, x.setup.timeouts.binding, x.BindVerb, args, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return errors.New(result.Error)
	}
	return nil
}

// cycleCall makes a call of the scheduling cycle.
func (x *extender) cycleCall(ctx context.Context, verb string, args, result any) error {
	if x.Active() {
		return fmt.Errorf("extender %q is suspended: an earlier call has exceeded its time-out", x.URLPrefix)
	}
	err := x.send(ctx, x.setup.timeouts.cycle, verb, args, result)
	timeout, ok := errors.AsType[net.Error](err)
	x.Observe(ok && timeout.Timeout())
	return err
}

// send posts args as JSON and decodes the response. The call takes at most the time limit.
func (x *extender) send(ctx context.Context, limit time.Duration, verb string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	url := strings.TrimRight(x.URLPrefix, "/") + "/" + verb
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	c := http.Client{Transport: x.transport, Timeout: min(x.HTTPTimeout.Duration, limit)}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, resp.StatusCode)
	}
	limited := &io.LimitedReader{R: resp.Body, N: maxExtenderResponse}
	if err = json.NewDecoder(limited).Decode(result); err != nil && limited.N == 0 {
		return fmt.Errorf("the response of the extender at URL %v exceeds %d bytes", url, maxExtenderResponse)
	}
	_, rest := io.CopyN(io.Discard, limited, maxTrailer) // so that the connection can be used again
	if late, ok := errors.AsType[net.Error](rest); ok && late.Timeout() && err == nil {
		return rest
	}
	return err
}

// Suspension counts the calls in a row that exceeded their time-out, of an extender or of a plugin that runs foreign code. After each, the callee is
// suspended for a time that doubles from 10 seconds to a minute. It is safe for concurrent use.
type Suspension struct {
	clock clock.Clock
	mu    sync.Mutex
	pause time.Duration
	until time.Time
}

// NewSuspension returns a suspension that is not active.
func NewSuspension() *Suspension { return &Suspension{clock: wallClock} }

const (
	firstSuspension = 10 * time.Second
	lastSuspension  = time.Minute
)

// Active reports whether the callee may not be called now.
func (s *Suspension) Active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Now().Before(s.until)
}

// Observe begins a suspension after a call that took too long, and otherwise resets the time of the next one.
func (s *Suspension) Observe(tooLong bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !tooLong {
		s.pause = 0
		return
	}
	s.pause = min(max(firstSuspension, 2*s.pause), lastSuspension)
	s.until = s.clock.Now().Add(s.pause)
}
