package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/trace"
)

// configRetry is the pause before the next start of a container whose configuration or image is missing.
const configRetry = 10 * time.Second

// start starts a container and reports whether it runs. A positive duration requests another sync after it.
func (l *podLifecycle) start(ctx context.Context, pod *corev1.Pod, seen Pod, c *corev1.Container) (bool, time.Duration) {
	_, path := container(pod, c.Name)
	began := l.machineClock().Now()
	img, wait := images.Image{}, l.images.volumeWait(c)
	if wait == nil {
		img, wait = l.images.resolve(ctx, pod, c, path)
	}
	if wait != nil {
		l.setWaiting(c.Name, wait.state)
		l.event(ctx, pod, path, corev1.EventTypeWarning, "Failed", "Error: "+wait.event)
		return false, wait.retry
	}
	trace.Add(ctx, "image", began, l.machineClock().Since(began))
	last, started := l.withRefused(seen).latest(c.Name)
	spec, err := l.containerSpec(ctx, pod, seen, c, img, l.nextAttempt(pod, c, last, started))
	if err != nil {
		l.setWaiting(c.Name, corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()})
		l.event(ctx, pod, path, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return false, configRetry
	}
	if started {
		if at := failedAt(seen, last, l.isRestarting(last)); !at.IsZero() {
			l.mu.Lock()
			put(&l.backoffs, c.Name, l.backoffs[c.Name].next(at, l.clock().Now()))
			l.mu.Unlock()
		}
	}
	l.recordUnsupported(ctx, pod, path, spec)
	l.event(ctx, pod, path, corev1.EventTypeNormal, "Created", "Container created")
	began = l.machineClock().Now()
	id, err := l.runtime().Start(ctx, l.uid, spec)
	if err != nil {
		if ctx.Err() != nil {
			return false, 0
		}
		l.recordRefused(ctx, pod, c, spec, err)
		return false, firstPause
	}
	trace.Add(ctx, "start", began, l.machineClock().Since(began))
	l.event(ctx, pod, path, corev1.EventTypeNormal, "Started", "Container started")
	l.mu.Lock()
	delete(l.waiting, c.Name)
	delete(l.restarting, c.Name)
	l.refused = slices.DeleteFunc(l.refused, func(r Container) bool { return r.Name == c.Name })
	l.mu.Unlock()
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil && !l.simulated() {
		l.runPostStart(ctx, pod, c, Container{ID: id, Name: c.Name, Attempt: spec.Attempt, Running: true, Started: l.clock().Now()})
	}
	return true, 0
}

// recordUnsupported records one Event for each container about the fields that the runtime ignores.
func (l *podLifecycle) recordUnsupported(ctx context.Context, pod *corev1.Pod, path string, spec ContainerSpec) {
	d, ok := l.runtime().(Describer)
	if !ok || spec.Attempt > 0 {
		return
	}
	// The mounts of every pod are left out: they would hide those of the pod's spec.
	spec.Mounts = slices.DeleteFunc(slices.Clone(spec.Mounts), func(m Mount) bool {
		return m.Container == ServiceAccountPath || m.Container == corev1.TerminationMessagePathDefault
	})
	if list := d.Unhonoured(spec); len(list) > 0 {
		l.event(ctx, pod, path, corev1.EventTypeWarning, notHonoured,
			fmt.Sprintf("The %s runtime of this node does not support everything in the pod spec: %s", l.kubelet.Tier.Name, strings.Join(list, "; ")))
	}
}

// ServiceAccountPath is the mount path of the service account's token in every pod.
const ServiceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// nextAttempt returns the number of the container's next start. last is its latest one, if started.
func (l *podLifecycle) nextAttempt(pod *corev1.Pod, c *corev1.Container, last Container, started bool) int {
	if started {
		return last.Attempt + 1
	}
	old := anyStatusOf(&pod.Status, c.Name)
	if old == nil || old.ContainerID == "" {
		return 0
	}
	if l.simulated() {
		return int(old.RestartCount) // the same start: a new daemon simulates it again
	}
	return int(old.RestartCount) + 1 // the runtime has lost the container
}

// recordRefused records a start that the runtime refused. It counts as a start that failed at once.
func (l *podLifecycle) recordRefused(ctx context.Context, pod *corev1.Pod, c *corev1.Container, spec ContainerSpec, err error) {
	l.mu.Lock()
	l.refused = slices.DeleteFunc(l.refused, func(r Container) bool { return r.Name == c.Name })
	l.refused = append(l.refused, Container{
		Name: c.Name, Attempt: spec.Attempt, Image: spec.Image, Finished: l.clock().Now(),
		ExitCode: 128, Reason: "StartError", Message: err.Error(),
	})
	l.mu.Unlock()
	l.setWaiting(c.Name, corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: err.Error()})
	_, path := container(pod, c.Name)
	l.event(ctx, pod, path, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
}

// runPostStart runs the container's postStart hook in the background. The status shows the container as waiting until the
// hook has ended.
func (l *podLifecycle) runPostStart(ctx context.Context, pod *corev1.Pod, c *corev1.Container, run Container) {
	state := corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if len(pod.Spec.InitContainers) > 0 {
		state.Reason = "PodInitializing"
	}
	l.setBusy(c.Name, state)
	l.tasks.Go(func() {
		err := l.runHook(ctx, pod, c, run, c.Lifecycle.PostStart, 0)
		if err != nil && ctx.Err() == nil {
			_, path := container(pod, c.Name)
			l.event(ctx, pod, path, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
			l.setWaiting(c.Name, corev1.ContainerStateWaiting{Reason: "PostStartHookError", Message: "PostStartHook failed"})
			l.kill(ctx, pod, containerToKill{container: run, spec: c, message: "FailedPostStartHook"}, time.Duration(gracePeriod(pod))*time.Second, true)
		}
		l.endBusy(ctx, c.Name)
	})
}

// containerSpec resolves the container's image, environment, command, user and mounts.
func (l *podLifecycle) containerSpec(ctx context.Context, pod *corev1.Pod, seen Pod, c *corev1.Container, img images.Image, attempt int) (ContainerSpec, error) {
	spec := ContainerSpec{
		Name: c.Name, Attempt: attempt, Image: Image{Name: c.Image, ID: img.ID, Root: img.Root},
		Dir: c.WorkingDir, LogPath: l.logPath(pod, c.Name, attempt), Stdin: c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY,
		Limits: limits(pod, c),
	}
	if l.simulated() {
		return spec, nil
	}
	if spec.Dir == "" {
		spec.Dir = img.Dir
	}
	vars, err := l.environment(ctx, pod, seen, c)
	if err != nil {
		return spec, err
	}
	spec.Command = command(c, img, vars)
	if len(spec.Command) == 0 {
		return spec, fmt.Errorf("no command specified: neither image %q nor the container has one", c.Image)
	}
	if spec.User, spec.Group, err = runAs(pod, c, img.User, l.kubelet.host.PodUsers); err != nil {
		return spec, err
	}
	spec.Security = securityOf(pod, c, spec.User)
	message, err := l.volumes.makeTerminationFile(c, attempt)
	if err != nil {
		return spec, err
	}
	if spec.Mounts, err = l.volumes.mounts(pod, c, vars, message); err != nil {
		return spec, err
	}
	if spec.Network, err = l.volumes.networkFiles(pod, c, podIP(pod, seen, l.kubelet.Address, pod.Status)); err != nil {
		return spec, err
	}
	if spec.Resolver, err = clusterResolver(pod, l.kubelet.host.ClusterDNS); err != nil {
		return spec, err
	}
	spec.Env = vars.listOver(img.Env)
	spec.Env = append(spec.Env, l.identity(pod, seen, c, img, vars)...)
	return spec, os.MkdirAll(filepath.Dir(spec.LogPath), 0o755)
}

// limits returns the limits of a container, and the memory limit of a pod that has one of its own.
func limits(pod *corev1.Pod, c *corev1.Container) Limits {
	l := Limits{MilliCPU: c.Resources.Limits.Cpu().MilliValue(), Memory: c.Resources.Limits.Memory().Value()}
	if r := pod.Spec.Resources; r != nil {
		l.PodMemory = r.Limits.Memory().Value()
	}
	return l
}

// command returns the container's program and arguments: the image's, unless the pod replaces them.
func command(c *corev1.Container, img images.Image, vars *environment) []string {
	var out []string
	switch {
	case len(c.Command) > 0:
		out = withProgram(c, img, vars.expandAll(c.Command))
		return append(out, vars.expandAll(c.Args)...)
	case len(c.Args) > 0:
		return append(slices.Clone(img.Entrypoint), vars.expandAll(c.Args)...)
	}
	return append(slices.Clone(img.Entrypoint), img.Cmd...)
}

// ProgramsOf returns the Program of the containers whose images a store resolves.
func ProgramsOf(store *images.Store) Program {
	return func(c *corev1.Container) ([]string, []string) {
		img, err := store.Resolve(c.Image, c.Command)
		if err != nil {
			img = images.Image{} // the container does not start until the image is there
		}
		vars := newEnvironment()
		for _, v := range c.Env {
			if v.ValueFrom == nil {
				vars.set(v.Name, expand(v.Value, vars.get))
			}
		}
		return command(c, img, vars), vars.listOver(img.Env)
	}
}

// identity returns the variable HOSTNAME, which container runtimes set, and those that the programs of built-in images read.
func (l *podLifecycle) identity(pod *corev1.Pod, seen Pod, c *corev1.Container, img images.Image, vars *environment) []string {
	var out []string
	if _, ok := vars.get("HOSTNAME"); !ok {
		out = append(out, "HOSTNAME="+seen.Hostname)
	}
	if len(img.Entrypoint) > 0 && strings.HasPrefix(img.Entrypoint[0], images.Prefix) {
		out = append(out, "MINIKCTL_POD="+pod.Name, "MINIKCTL_NAMESPACE="+pod.Namespace, "MINIKCTL_NODE="+l.kubelet.Name,
			"MINIKCTL_POD_IP="+podIP(pod, seen, l.kubelet.Address, pod.Status), "MINIKCTL_IMAGE="+c.Image)
		if len(c.Ports) > 0 {
			out = append(out, "MINIKCTL_PORT="+strconv.Itoa(int(c.Ports[0].ContainerPort)))
		}
	}
	return out
}

// runAs returns the user and group of the container's process: the image's, unless the pod replaces them. If neither has a user, it is
// the pod's own with podUsers, and otherwise nil, the daemon's.
func runAs(pod *corev1.Pod, c *corev1.Container, image string, podUsers bool) (user, group *int64, err error) {
	nonRoot := false
	if p := pod.Spec.SecurityContext; p != nil {
		user, group = p.RunAsUser, p.RunAsGroup
		nonRoot = p.RunAsNonRoot != nil && *p.RunAsNonRoot
	}
	if s := c.SecurityContext; s != nil {
		user, group = cmp.Or(s.RunAsUser, user), cmp.Or(s.RunAsGroup, group)
		if s.RunAsNonRoot != nil {
			nonRoot = *s.RunAsNonRoot
		}
	}
	own, err := images.ParseUser(image)
	if err != nil {
		return nil, nil, err
	}
	inherited := user == nil
	if inherited {
		uid, gid, err := own.IDs()
		if err != nil {
			return nil, nil, fmt.Errorf("image's user %q: %w", image, err)
		}
		user, group = uid, cmp.Or(group, gid)
		if user == nil && podUsers && hasPodUser(c) {
			user = new(podUser(pod.UID))
			group = cmp.Or(group, user)
		}
	}
	switch of := fmt.Sprintf("(pod: %q, container: %s)", pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")", c.Name); {
	case !nonRoot:
	case !inherited && *user == 0:
		return nil, nil, errors.New("container's runAsUser breaks non-root policy " + of)
	case inherited && own.Name() != "":
		return nil, nil, fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", own.Name(), of)
	case user == nil && os.Getuid() == 0 || user != nil && *user == 0:
		return nil, nil, errors.New("container has runAsNonRoot and image will run as root " + of)
	}
	return user, group, nil
}
