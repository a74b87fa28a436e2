package kubelet

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
)

// containerScheme is the prefix of every container ID.
const containerScheme = "minikctl://"

// statusInput is what a pod's status is generated from.
type statusInput struct {
	pod       *corev1.Pod
	old       corev1.PodStatus // the newest that was generated, or else the API's
	seen      Pod              // the runtime's view, with the refused starts
	address   string           // of the node
	now       time.Time
	startTime time.Time
	end       *podEnd
	admitted  bool
	lifecycle lifecycleState
	probes    interface {
		result(id ContainerID) probeResult
	}
	volumes *podVolumes // has the termination messages
	resize  []corev1.PodCondition

	simulated bool
	resizable bool // the runtime is a Resizer
}

// statusInput collects the input of the pod's status from the worker's parts.
func (w *podWorker) statusInput(pod *corev1.Pod, seen Pod) statusInput {
	state := w.lifecycle.state()
	in := statusInput{
		pod: pod, old: w.lastStatus(pod), seen: seen.with(state.refused), address: w.kubelet.Address, now: w.clock().Now(),
		lifecycle: state, probes: &w.prober, volumes: &w.volumes, simulated: w.simulated(),
	}
	_, in.resizable = w.runtime().(Resizer)
	in.resize = w.allocation.conditions()
	w.mu.Lock()
	defer w.mu.Unlock()
	in.startTime, in.end, in.admitted = w.startTime, w.end, w.admitted
	return in
}

func equalStatus(a, b corev1.PodStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// generate returns the pod's status.
func (in *statusInput) generate() corev1.PodStatus {
	pod, old := in.pod, in.old
	s := corev1.PodStatus{
		ObservedGeneration: pod.Generation, QOSClass: pod.Status.QOSClass, NominatedNodeName: pod.Status.NominatedNodeName,
		StartTime: new(metav1.NewTime(in.startTime).Rfc3339Copy()),
		HostIP:    in.address, HostIPs: []corev1.HostIP{{IP: in.address}},
		Resize: pod.Status.Resize, ResourceClaimStatuses: pod.Status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus,
	}
	if ip := podIP(pod, in.seen, in.address, old); ip != "" {
		s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	stopped := in.lifecycle.stopped
	if in.end != nil && !in.admitted { // a rejected pod has no containers
		in.applyEnd(&s)
		s.Conditions = conditions(pod, s, old, false, in.now)
		return s
	}
	s.InitContainerStatuses = in.containerStatuses(pod.Spec.InitContainers, old.InitContainerStatuses, true)
	s.ContainerStatuses = in.containerStatuses(pod.Spec.Containers, old.ContainerStatuses, false)
	s.EphemeralContainerStatuses = in.ephemeralStatuses()
	slices.SortFunc(s.ContainerStatuses, func(a, b corev1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
	s.Phase = phaseOf(pod, s, stopped, in.isRestarting)
	in.applyEnd(&s)
	if stopped {
		makeFinal(pod, &s)
	}
	seen := s
	if in.simulated && s.Phase == corev1.PodSucceeded {
		seen = asReady(s)
	}
	s.Conditions = conditions(pod, seen, old, in.seen.UID != "" && !stopped, in.now)
	if !isFinished(s.Phase) {
		s.Conditions = slices.Insert(s.Conditions, len(otherConditions(pod.Status.Conditions)), in.resize...)
	}
	if in.end != nil && in.end.disruption {
		s.Conditions = in.withDisruption(s.Conditions)
	}
	return s
}

// asReady returns the status of a pod that has succeeded as it was while its containers were ready. Simulated pods keep the conditions
// of that status, as those of kwok do.
func asReady(s corev1.PodStatus) corev1.PodStatus {
	s.Phase = corev1.PodRunning
	for _, list := range []*[]corev1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Ready = true
		}
	}
	return s
}

// makeFinal makes a status final: the phase is Succeeded or Failed, and every container is terminated.
func makeFinal(pod *corev1.Pod, s *corev1.PodStatus) {
	if !isFinished(s.Phase) {
		s.Phase = corev1.PodFailed
	}
	terminate := func(list []corev1.ContainerStatus) {
		for i := range list {
			if list[i].State.Terminated == nil {
				list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated", ExitCode: 137,
				}}
			}
		}
	}
	if wasInitialized(pod, s) {
		terminate(s.ContainerStatuses)
	}
	terminate(s.EphemeralContainerStatuses)
	// The statuses of init containers after the last started one do not change: these never ran.
	for i := len(s.InitContainerStatuses) - 1; i >= 0; i-- {
		if c := s.InitContainerStatuses[i]; c.State.Waiting == nil || c.LastTerminationState.Terminated != nil || i == 0 {
			terminate(s.InitContainerStatuses[:i+1])
			break
		}
	}
}

// wasInitialized reports whether the init containers let the app containers start.
func wasInitialized(pod *corev1.Pod, s *corev1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 {
		return true
	}
	for _, c := range s.ContainerStatuses {
		if c.State.Waiting == nil || c.LastTerminationState.Terminated != nil {
			return true
		}
	}
	last := &pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	c := statusOf(s.InitContainerStatuses, last.Name)
	if isSidecar(last) {
		return c.Started != nil && *c.Started
	}
	for _, end := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if end != nil && end.ExitCode == 0 {
			return true
		}
	}
	return false
}

// applyEnd sets the phase, reason and message of the kubelet's own end of the pod. A final phase of an earlier status
// stays.
func (in *statusInput) applyEnd(s *corev1.PodStatus) {
	if e := in.end; e != nil && e.phase != "" && (in.lifecycle.stopped || !in.admitted) {
		if s.Phase == corev1.PodSucceeded && e.disruption {
			return // the containers exited with 0 within the grace period
		}
		s.Phase, s.Reason, s.Message = e.phase, e.reason, e.message
		return
	}
	for _, before := range []corev1.PodStatus{in.pod.Status, in.old} {
		if isFinished(before.Phase) {
			s.Phase = before.Phase
		}
	}
	if s.Phase == in.old.Phase {
		s.Reason, s.Message = in.old.Reason, in.old.Message
	}
}

// podIP returns the pod's address; "" when it has none. host is the node's.
func podIP(pod *corev1.Pod, seen Pod, host string, old corev1.PodStatus) string {
	switch {
	case pod.Spec.HostNetwork:
		return host
	case seen.IP != "":
		return seen.IP
	case seen.UID == "": // the sandbox is stopped or not started yet
		return old.PodIP
	}
	return ""
}

// containerStatuses returns the statuses of the init containers or of the app containers.
func (in *statusInput) containerStatuses(list []corev1.Container, old []corev1.ContainerStatus, init bool) []corev1.ContainerStatus {
	if len(list) == 0 {
		return nil
	}
	out := make([]corev1.ContainerStatus, 0, len(list))
	for i := range list {
		out = append(out, in.containerStatus(&list[i], statusOf(old, list[i].Name), init))
	}
	return out
}

// ephemeralStatuses returns the statuses of the ephemeral containers. These are neither restarted nor probed.
func (in *statusInput) ephemeralStatuses() []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range ephemeralContainers(in.pod) {
		old := statusOf(in.pod.Status.EphemeralContainerStatuses, c.Name)
		s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, VolumeMounts: mountStatuses(&c)}
		if attempts := in.seen.attempts(c.Name); len(attempts) > 0 {
			in.setFromRuntime(&c, &s, attempts, old)
			s.AllocatedResources, s.Resources = nil, nil
		} else {
			in.setLost(&s, old)
		}
		in.setWaiting(&c, &s, func(*corev1.Pod, *corev1.Container, int) bool { return false })
		out = append(out, s)
	}
	return out
}

func (in *statusInput) containerStatus(c *corev1.Container, old *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	attempts := in.seen.attempts(c.Name)
	if in.hidesRestart(c.Name, attempts, old) {
		return *old
	}
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, VolumeMounts: mountStatuses(c)}
	if len(attempts) == 0 {
		in.setLost(&s, old)
	} else {
		in.setFromRuntime(c, &s, attempts, old)
	}
	again := restarts
	if init {
		again = restartsInit
	}
	if in.isRestarting(c.Name) {
		again = func(*corev1.Pod, *corev1.Container, int) bool { return true }
	}
	in.setWaiting(c, &s, again)
	in.setReady(&s, c, attempts, init)
	return s
}

// isRestarting reports whether the newest start of a container is one that the kubelet has stopped to start the container again.
func (in *statusInput) isRestarting(name string) bool {
	last, ok := in.seen.latest(name)
	return ok && (last.Restart || last.ID != "" && in.lifecycle.restarting[name] == last.ID)
}

// hidesRestart reports whether the kubelet has just ended a container that it is about to start again. Its status stays meanwhile, as
// in Kubernetes, where one sync of the pod stops and starts the container.
func (in *statusInput) hidesRestart(name string, attempts []Container, old *corev1.ContainerStatus) bool {
	state, busy := in.lifecycle.busy[name]
	return busy && state.Reason == "" && len(attempts) > 0 && !attempts[0].Running && old != nil && old.State.Running != nil
}

// setLost sets the status of a container that the runtime does not list: it has not started yet, or the runtime has lost
// it.
func (in *statusInput) setLost(s *corev1.ContainerStatus, old *corev1.ContainerStatus) {
	reason := "ContainerCreating"
	if len(in.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	if old == nil {
		return
	}
	if old.State.Terminated != nil {
		*s = *old
		return
	}
	s.RestartCount, s.LastTerminationState = old.RestartCount, old.LastTerminationState
	if old.State.Running == nil || old.LastTerminationState.Terminated != nil {
		return
	}
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: "ContainerStatusUnknown", ExitCode: 137,
		Message: "The container could not be located when the pod was deleted.  The container used to be Running",
	}
	if in.pod.DeletionTimestamp == nil {
		s.RestartCount++
	}
}

// setFromRuntime sets the status of a container from its two newest starts.
func (in *statusInput) setFromRuntime(c *corev1.Container, s *corev1.ContainerStatus, attempts []Container, old *corev1.ContainerStatus) {
	last := attempts[0]
	s.RestartCount = int32(last.Attempt)
	if last.Image.Name != "" {
		s.Image = last.Image.Name
	}
	s.ImageID, s.ContainerID = last.Image.ID, containerID(last)
	s.State = in.stateOf(c, last)
	s.AllocatedResources, s.Resources = c.Resources.Requests, &c.Resources // shared with the pod: neither is changed
	if in.resizable && last.Running {
		s.Resources = resized(c.Resources, last.Limits)
	}
	switch {
	case len(attempts) > 1:
		s.LastTerminationState = in.stateOf(c, attempts[1])
	case old != nil && old.ContainerID != s.ContainerID && old.State.Terminated != nil:
		s.LastTerminationState = old.State
	case old != nil:
		s.LastTerminationState = old.LastTerminationState
	}
}

func containerID(c Container) string {
	if c.ID == "" {
		return ""
	}
	return containerScheme + string(c.ID)
}

func (in *statusInput) stateOf(c *corev1.Container, run Container) corev1.ContainerState {
	if run.Running {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: stamp(run.Started)}}
	}
	t := &corev1.ContainerStateTerminated{
		ExitCode: int32(run.ExitCode), Signal: int32(run.Signal), Reason: run.Reason, Message: run.Message,
		StartedAt: stamp(run.Started), FinishedAt: stamp(run.Finished), ContainerID: containerID(run),
	}
	if t.Reason == "" {
		t.Reason = "Completed"
		if run.ExitCode != 0 {
			t.Reason = "Error"
		}
	}
	if t.Message == "" && run.ID != "" {
		t.Message = in.volumes.terminationMessage(in.pod, c, run)
	}
	t.Signal = 0 // kubelets leave it empty: the exit code is 128 plus the signal
	return corev1.ContainerState{Terminated: t}
}

func stamp(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t).Rfc3339Copy()
}

// setWaiting replaces the state of a container that will start by the reason that it has not started yet.
func (in *statusInput) setWaiting(c *corev1.Container, s *corev1.ContainerStatus, again func(*corev1.Pod, *corev1.Container, int) bool) {
	if state, ok := in.lifecycle.busy[c.Name]; ok && state.Reason != "" && s.State.Running != nil {
		s.State = corev1.ContainerState{Waiting: &state}
		return
	}
	state, ok := in.lifecycle.waiting[c.Name]
	if !ok || s.State.Running != nil || in.lifecycle.stopping {
		return
	}
	if t := s.State.Terminated; t != nil {
		if !again(in.pod, c, int(t.ExitCode)) {
			return
		}
		s.LastTerminationState = s.State
	}
	s.State = corev1.ContainerState{Waiting: &state}
}

// setReady sets started and ready from the container's probes.
func (in *statusInput) setReady(s *corev1.ContainerStatus, c *corev1.Container, attempts []Container, init bool) {
	started := false
	if s.State.Running != nil {
		r := in.probes.result(attempts[0].ID)
		started = r.started
		s.Ready = r.started && r.ready
	}
	s.Started = &started
	if init && !isSidecar(c) {
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
}

// mountStatuses returns the volumeMounts of a container's status. They never change.
func mountStatuses(c *corev1.Container) []corev1.VolumeMountStatus {
	var out []corev1.VolumeMountStatus
	for _, m := range c.VolumeMounts {
		st := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			st.RecursiveReadOnly = new(corev1.RecursiveReadOnlyDisabled)
		}
		out = append(out, st)
	}
	return out
}
