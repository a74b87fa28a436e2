package kubelet

import (
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

// retryConfig is when a container that cannot be started for a reason outside of it is tried again.
const retryConfig = 10 * time.Second

// start starts a container and reports whether it runs. A positive time means: try again after it.
func (w *worker) start(ctx context.Context, pod *corev1.Pod, seen Pod, c *corev1.Container) (bool, time.Duration) {
	_, path := container(pod, c.Name)
	began := w.host.Clock.Now()
	img, again, ok := w.image(ctx, pod, c, path)
	if !ok {
		return false, again
	}
	trace.Add(ctx, "image", began, w.host.Clock.Since(began))
	last, had := w.withFailed(seen).latest(c.Name)
	spec, err := w.containerSpec(ctx, pod, seen, c, img, w.attempt(pod, c, last, had))
	if err != nil {
		w.setWhy(c.Name, corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()})
		w.event(ctx, pod, path, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return false, retryConfig
	}
	if had {
		w.mu.Lock()
		w.back[c.Name] = w.back[c.Name].next(last.Finished, w.host.Clock.Now())
		w.mu.Unlock()
	}
	w.confess(ctx, pod, path, spec)
	w.event(ctx, pod, path, corev1.EventTypeNormal, "Created", "Container created")
	began = w.host.Clock.Now()
	id, err := w.runtime.Start(ctx, w.uid, spec)
	if err != nil {
		if ctx.Err() != nil {
			return false, 0
		}
		w.refused(ctx, pod, c, spec, err)
		return false, firstPause
	}
	trace.Add(ctx, "start", began, w.host.Clock.Since(began))
	w.event(ctx, pod, path, corev1.EventTypeNormal, "Started", "Container started")
	w.mu.Lock()
	delete(w.why, c.Name)
	w.failed = slices.DeleteFunc(w.failed, func(f Container) bool { return f.Name == c.Name })
	w.mu.Unlock()
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil && !w.Tier.Simulated {
		w.postStart(ctx, pod, c, Container{ID: id, Name: c.Name, Attempt: spec.Attempt, Running: true, Started: w.host.Clock.Now()})
	}
	return true, 0
}

// confess says in an Event, once for each container, what its runtime will not do of what the pod asks for.
func (w *worker) confess(ctx context.Context, pod *corev1.Pod, path string, spec ContainerSpec) {
	d, ok := w.runtime.(Describer)
	if !ok || spec.Attempt > 0 {
		return
	}
	// What every pod has, and did not ask for itself, would only hide the rest.
	spec.Mounts = slices.DeleteFunc(slices.Clone(spec.Mounts), func(m Mount) bool {
		return m.Container == serviceAccountPath || m.Container == corev1.TerminationMessagePathDefault
	})
	if list := d.Unhonoured(spec); len(list) > 0 {
		w.event(ctx, pod, path, corev1.EventTypeWarning, notHonoured,
			fmt.Sprintf("The %s runtime of this node does less than the pod asks for: %s", w.Tier.Name, strings.Join(list, "; ")))
	}
}

// serviceAccountPath is where the token of its service account is mounted in every pod.
const serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// attempt returns the number of the container's next start.
func (w *worker) attempt(pod *corev1.Pod, c *corev1.Container, last Container, had bool) int {
	if had {
		return last.Attempt + 1
	}
	old := statusOf(pod.Status.ContainerStatuses, c.Name)
	if old == nil {
		old = statusOf(pod.Status.InitContainerStatuses, c.Name)
	}
	if old == nil || old.ContainerID == "" {
		return 0
	}
	if w.Tier.Simulated {
		return int(old.RestartCount) // it goes on where the last process made it up
	}
	return int(old.RestartCount) + 1 // the runtime has forgotten it
}

// refused notes a start that the runtime could not make. It counts as a start that failed at once.
func (w *worker) refused(ctx context.Context, pod *corev1.Pod, c *corev1.Container, spec ContainerSpec, err error) {
	now := w.host.Clock.Now()
	w.mu.Lock()
	w.failed = slices.DeleteFunc(w.failed, func(f Container) bool { return f.Name == c.Name })
	w.failed = append(w.failed, Container{
		Name: c.Name, Attempt: spec.Attempt, Image: spec.Image, Finished: now,
		ExitCode: 128, Reason: "StartError", Message: err.Error(),
	})
	w.mu.Unlock()
	w.setWhy(c.Name, corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: err.Error()})
	_, path := container(pod, c.Name)
	w.event(ctx, pod, path, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
}

// postStart runs the container's hook beside it. The container counts as not running yet until the hook has ended.
func (w *worker) postStart(ctx context.Context, pod *corev1.Pod, c *corev1.Container, run Container) {
	look := corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if len(pod.Spec.InitContainers) > 0 {
		look.Reason = "PodInitializing"
	}
	w.mu.Lock()
	w.busy[c.Name] = look
	w.mu.Unlock()
	w.tasks.Go(func() {
		err := w.hook(ctx, pod, c, run, c.Lifecycle.PostStart, 0)
		if err != nil && ctx.Err() == nil {
			_, path := container(pod, c.Name)
			w.event(ctx, pod, path, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
			w.setWhy(c.Name, corev1.ContainerStateWaiting{Reason: "PostStartHookError", Message: "PostStartHook failed"})
			w.kill(ctx, pod, c, run, "FailedPostStartHook", time.Duration(w.grace(pod))*time.Second, true)
		}
		w.free(ctx, c.Name)
	})
}

// containerSpec resolves everything that a container's spec refers to.
func (w *worker) containerSpec(ctx context.Context, pod *corev1.Pod, seen Pod, c *corev1.Container, img images.Image, attempt int) (ContainerSpec, error) {
	spec := ContainerSpec{
		Name: c.Name, Attempt: attempt, Image: Image{Name: c.Image, ID: img.ID, Root: img.Root},
		Dir: c.WorkingDir, LogPath: w.logPath(pod, c.Name, attempt), Stdin: c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY,
		Limits: Limits{MilliCPU: c.Resources.Limits.Cpu().MilliValue(), Memory: c.Resources.Limits.Memory().Value()},
	}
	if w.Tier.Simulated {
		return spec, nil
	}
	if spec.Dir == "" {
		spec.Dir = img.Dir
	}
	vars, err := w.environment(ctx, pod, seen, c)
	if err != nil {
		return spec, err
	}
	spec.Command = command(c, img, vars)
	if len(spec.Command) == 0 {
		return spec, fmt.Errorf("no command specified: image %q has none and the container gives none", c.Image)
	}
	if spec.User, spec.Group, err = runAs(pod, c); err != nil {
		return spec, err
	}
	words, err := w.terminationFile(c, attempt)
	if err != nil {
		return spec, err
	}
	if spec.Mounts, err = w.mounts(pod, c, vars, words); err != nil {
		return spec, err
	}
	for _, e := range img.Env {
		name, _, _ := cutEnv(e)
		if _, ok := vars.get(name); !ok {
			spec.Env = append(spec.Env, e)
		}
	}
	spec.Env = append(spec.Env, vars.list()...)
	spec.Env = append(spec.Env, w.identity(pod, seen, c, img, vars)...)
	return spec, os.MkdirAll(filepath.Dir(spec.LogPath), 0o755)
}

// command returns what a container runs: the image's program and arguments, each replaced by what the pod says.
func command(c *corev1.Container, img images.Image, vars *environment) []string {
	var out []string
	switch {
	case len(c.Command) > 0:
		out = vars.expandAll(c.Command)
		return append(out, vars.expandAll(c.Args)...)
	case len(c.Args) > 0:
		return append(slices.Clone(img.Entrypoint), vars.expandAll(c.Args)...)
	}
	return append(slices.Clone(img.Entrypoint), img.Cmd...)
}

// identity tells a container its host name, as container runtimes do, and the programs of built-in images who they are.
func (w *worker) identity(pod *corev1.Pod, seen Pod, c *corev1.Container, img images.Image, vars *environment) []string {
	var out []string
	if _, ok := vars.get("HOSTNAME"); !ok {
		out = append(out, "HOSTNAME="+podSpecFor(pod).Hostname)
	}
	if len(img.Entrypoint) > 0 && strings.HasPrefix(img.Entrypoint[0], images.Prefix) {
		out = append(out, "MINIKCTL_POD="+pod.Name, "MINIKCTL_NAMESPACE="+pod.Namespace, "MINIKCTL_NODE="+w.Name,
			"MINIKCTL_POD_IP="+podIP(pod, seen, w.Address, pod.Status), "MINIKCTL_IMAGE="+c.Image)
		if len(c.Ports) > 0 {
			out = append(out, "MINIKCTL_PORT="+strconv.Itoa(int(c.Ports[0].ContainerPort)))
		}
	}
	return out
}

// runAs returns the user and group that a container is to run as.
func runAs(pod *corev1.Pod, c *corev1.Container) (user, group *int64, err error) {
	nonRoot := false
	if p := pod.Spec.SecurityContext; p != nil {
		user, group = p.RunAsUser, p.RunAsGroup
		nonRoot = p.RunAsNonRoot != nil && *p.RunAsNonRoot
	}
	if s := c.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			user = s.RunAsUser
		}
		if s.RunAsGroup != nil {
			group = s.RunAsGroup
		}
		if s.RunAsNonRoot != nil {
			nonRoot = *s.RunAsNonRoot
		}
	}
	switch {
	case nonRoot && user != nil && *user == 0:
		return nil, nil, errors.New("container's runAsUser breaks non-root policy")
	case nonRoot && user == nil && os.Getuid() == 0:
		return nil, nil, errors.New("container has runAsNonRoot and image will run as root")
	}
	return user, group, nil
}

// logFolder is where the logs of a pod's containers are.
func (w *worker) logFolder(pod *corev1.Pod) string {
	return filepath.Join(w.host.Dir, logsFolder, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

func (w *worker) logPath(pod *corev1.Pod, name string, attempt int) string {
	return filepath.Join(w.logFolder(pod), name, strconv.Itoa(attempt)+".log")
}
