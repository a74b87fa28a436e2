package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Runtime is one node's runtime.
type Runtime struct {
	host    *Host
	node    string
	changed chan struct{}
}

// Runtime implements all interfaces that a kubelet uses.
var (
	_ kubelet.Runtime   = (*Runtime)(nil)
	_ kubelet.Execer    = (*Runtime)(nil)
	_ kubelet.Attacher  = (*Runtime)(nil)
	_ kubelet.Describer = (*Runtime)(nil)

	_ kubelet.HealthChecker = (*Runtime)(nil)
	_ kubelet.Meter         = (*Runtime)(nil)
	_ kubelet.Resizer       = (*Runtime)(nil)
	_ kubelet.Restarter     = (*Runtime)(nil)
)

// ErrNoPod means that a pod was not started.
var ErrNoPod = errors.New("no such pod")

func (r *Runtime) hint() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Changed implements kubelet.Runtime.
func (r *Runtime) Changed() <-chan struct{} { return r.changed }

// Healthy implements kubelet.HealthChecker. A Runtime is unhealthy while no supervisor can be started.
func (r *Runtime) Healthy() error { return r.host.health() }

// Pods implements kubelet.Runtime. It returns the statuses that the supervisor has sent, without a request.
func (r *Runtime) Pods(ctx context.Context) ([]kubelet.Pod, error) {
	if err := r.host.await(ctx); err != nil {
		return nil, err
	}
	h := r.host
	h.mu.Lock()
	defer h.mu.Unlock()
	byPod := map[types.UID][]kubelet.Container{}
	for id, s := range h.status {
		uid := types.UID(s.Spec.Pod)
		if p := h.pods[uid]; p != nil && p.Node == r.node {
			byPod[uid] = append(byPod[uid], toContainer(s, h.metas[id]))
		}
	}
	var all []kubelet.Pod
	for _, p := range h.pods {
		if p.Node == r.node {
			all = append(all, toPod(p, byPod[p.UID]))
		}
	}
	slices.SortFunc(all, func(a, b kubelet.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return all, nil
}

func toPod(p *pod, containers []kubelet.Container) kubelet.Pod {
	slices.SortFunc(containers, func(a, b kubelet.Container) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Attempt, b.Attempt))
	})
	return kubelet.Pod{PodSpec: p.PodSpec, IP: p.IP, Started: p.Started, Containers: containers}
}

// containerMeta is the part of a kubelet.ContainerSpec that the supervisor stores for the Host, in wire.Spec.Meta.
type containerMeta struct {
	Name    string
	Attempt int
	Image   kubelet.Image
	Mounts  []kubelet.Mount `json:",omitempty"`
}

// metaOf decodes the containerMeta of a container. Fields that an older version did not write are empty.
func metaOf(s *wire.Spec) containerMeta {
	var n containerMeta
	_ = json.Unmarshal(s.Meta, &n) // written by the Host
	return n
}

func toContainer(s *wire.Status, n containerMeta) kubelet.Container {
	c := kubelet.Container{
		ID: kubelet.ContainerID(s.Spec.ID), Name: n.Name, Attempt: n.Attempt, Image: n.Image,
		Started: s.Started, Running: s.Running, Finished: s.Finished,
		ExitCode: s.ExitCode, Signal: s.Signal, Reason: s.Reason, Message: s.Message, Restart: s.Restart,
	}
	l := s.Limits()
	c.Limits = kubelet.Limits{MilliCPU: l.MilliCPU, Memory: l.Memory, PodMemory: l.PodMemory}
	if s.Running {
		c.PID = s.PID
	}
	return c
}

// StartPod implements kubelet.Runtime.
func (r *Runtime) StartPod(ctx context.Context, spec kubelet.PodSpec) (kubelet.Pod, error) {
	if err := r.host.await(ctx); err != nil {
		return kubelet.Pod{}, fmt.Errorf("start pod %s/%s: %w", spec.Namespace, spec.Name, err)
	}
	p, err := r.host.addPod(r.node, spec)
	if err != nil {
		return kubelet.Pod{}, fmt.Errorf("start pod %s/%s: %w", spec.Namespace, spec.Name, err)
	}
	var containers []kubelet.Container
	for _, s := range r.host.containers(spec.UID) {
		containers = append(containers, toContainer(s, metaOf(s.Spec)))
	}
	return toPod(p, containers), nil
}

// StopPod implements kubelet.Runtime.
func (r *Runtime) StopPod(ctx context.Context, uid types.UID) error {
	p := r.host.pod(uid)
	if p == nil {
		return nil
	}
	if err := r.host.await(ctx); err != nil {
		return fmt.Errorf("stop pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	containers := r.host.containers(uid)
	errs := make([]error, len(containers))
	var wg sync.WaitGroup
	for i, s := range containers {
		wg.Go(func() {
			id := kubelet.ContainerID(s.Spec.ID)
			if errs[i] = r.Stop(ctx, id, 0); errs[i] == nil {
				errs[i] = r.Remove(ctx, id)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	if err := r.host.removePod(p); err != nil {
		return fmt.Errorf("stop pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// Start implements kubelet.Runtime.
func (r *Runtime) Start(ctx context.Context, uid types.UID, spec kubelet.ContainerSpec) (kubelet.ContainerID, error) {
	p := r.host.pod(uid)
	if p == nil {
		return "", fmt.Errorf("start container %s: pod %s: %w", spec.Name, uid, ErrNoPod)
	}
	ws, err := r.host.spec(p, &spec)
	if err != nil {
		return "", err
	}
	reply, err := r.host.call(ctx, &wire.Request{Op: wire.Start, Spec: ws})
	if err != nil {
		return "", err // users see this error, such as: exec: "foo": executable file not found in $PATH
	}
	r.host.mu.Lock()
	delete(r.host.removed, ws.ID)
	r.host.observe(reply.Status)
	r.host.mu.Unlock()
	return kubelet.ContainerID(ws.ID), nil
}

// Stop implements kubelet.Runtime.
func (r *Runtime) Stop(ctx context.Context, id kubelet.ContainerID, grace time.Duration) error {
	return r.stop(ctx, id, grace, false)
}

// StopToRestart implements kubelet.Restarter.
func (r *Runtime) StopToRestart(ctx context.Context, id kubelet.ContainerID, grace time.Duration) error {
	return r.stop(ctx, id, grace, true)
}

func (r *Runtime) stop(ctx context.Context, id kubelet.ContainerID, grace time.Duration, restart bool) error {
	reply, err := r.host.call(ctx, &wire.Request{Op: wire.Stop, ID: string(id), Grace: grace, Restart: restart})
	if errors.Is(err, wire.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	r.host.observe(reply.Status)
	return nil
}

// Resize implements kubelet.Resizer.
func (r *Runtime) Resize(ctx context.Context, id kubelet.ContainerID, l kubelet.Limits) error {
	limits := &wire.Limits{MilliCPU: l.MilliCPU, Memory: l.Memory, PodMemory: l.PodMemory}
	reply, err := r.host.call(ctx, &wire.Request{Op: wire.Relimit, ID: string(id), Limits: limits})
	if err != nil {
		return err
	}
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	r.host.observe(reply.Status)
	return nil
}

// Remove implements kubelet.Runtime.
func (r *Runtime) Remove(ctx context.Context, id kubelet.ContainerID) error {
	if _, err := r.host.call(ctx, &wire.Request{Op: wire.Remove, ID: string(id)}); err != nil {
		return err
	}
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	if r.host.status[string(id)] != nil {
		r.host.drop(string(id))
		r.host.removed[string(id)] = struct{}{}
	}
	return nil
}
