package kubelet

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
)

// containerScheme starts every container ID.
const containerScheme = "minikctl://"

// generate returns the pod's status as of now. The caller holds w.mu.
func (w *worker) generate(pod *corev1.Pod, seen Pod) corev1.PodStatus {
	old := pod.Status
	if w.status != nil {
		old = *w.status
	}
	seen = seen.with(w.failed)
	s := corev1.PodStatus{
		ObservedGeneration: pod.Generation, QOSClass: pod.Status.QOSClass, NominatedNodeName: pod.Status.NominatedNodeName,
		StartTime: new(metav1.NewTime(w.startAt).Rfc3339Copy()),
		HostIP:    w.Address, HostIPs: []corev1.HostIP{{IP: w.Address}},
		Resize: pod.Status.Resize, ResourceClaimStatuses: pod.Status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus,
		EphemeralContainerStatuses:  pod.Status.EphemeralContainerStatuses,
	}
	if ip := podIP(pod, seen, w.Address, old); ip != "" {
		s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	stopped := w.ending != nil && w.ending.stopped
	if w.verdict != nil && !w.admitted { // it was refused: it has no containers
		w.judge(pod, old, &s, stopped)
		s.Conditions = conditions(pod, s, old, false, w.host.Clock.Now())
		return s
	}
	s.InitContainerStatuses = w.containerStatuses(pod, seen, pod.Spec.InitContainers, old.InitContainerStatuses, true)
	s.ContainerStatuses = w.containerStatuses(pod, seen, pod.Spec.Containers, old.ContainerStatuses, false)
	slices.SortFunc(s.ContainerStatuses, func(a, b corev1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
	s.Phase = phaseOf(pod, s, stopped)
	w.judge(pod, old, &s, stopped)
	if stopped {
		terminate(pod, &s)
	}
	s.Conditions = conditions(pod, s, old, sandboxReady(seen, stopped), w.host.Clock.Now())
	return s
}

// terminate makes a status final: the phase is a last one, and no container looks as if it could still do anything.
func terminate(pod *corev1.Pod, s *corev1.PodStatus) {
	if !isFinished(s.Phase) {
		s.Phase = corev1.PodFailed
	}
	lose := func(list []corev1.ContainerStatus) {
		for i := range list {
			if list[i].State.Terminated == nil {
				list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated", ExitCode: 137,
				}}
			}
		}
	}
	if wasInitialized(pod, s) {
		lose(s.ContainerStatuses)
	}
	// Of the init containers, those after the last that was ever started would not have been.
	for i := len(s.InitContainerStatuses) - 1; i >= 0; i-- {
		if c := s.InitContainerStatuses[i]; c.State.Waiting == nil || c.LastTerminationState.Terminated != nil || i == 0 {
			lose(s.InitContainerStatuses[:i+1])
			break
		}
	}
}

// wasInitialized reports whether the pod's containers could have been started.
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

// judge lets the kubelet's own verdict, and a phase that is never left, win over what the containers look like.
func (w *worker) judge(pod *corev1.Pod, old corev1.PodStatus, s *corev1.PodStatus, stopped bool) {
	if v := w.verdict; v != nil && v.phase != "" {
		s.Reason, s.Message = v.reason, v.message
		if stopped || s.Phase == corev1.PodPending {
			s.Phase = v.phase
		}
		return
	}
	for _, before := range []corev1.PodStatus{pod.Status, old} {
		if isFinished(before.Phase) {
			s.Phase = before.Phase
		}
	}
	if s.Phase == old.Phase {
		s.Reason, s.Message = old.Reason, old.Message
	}
}

func podIP(pod *corev1.Pod, seen Pod, host string, old corev1.PodStatus) string {
	switch {
	case pod.Spec.HostNetwork:
		return host
	case seen.IP != "":
		return seen.IP
	case seen.UID == "": // gone, or not there yet: what it was before
		return old.PodIP
	}
	return ""
}

func sandboxReady(seen Pod, stopped bool) bool { return seen.UID != "" && !stopped }

// containerStatuses returns the statuses of the init containers or of the containers.
func (w *worker) containerStatuses(pod *corev1.Pod, seen Pod, list []corev1.Container, old []corev1.ContainerStatus, init bool) []corev1.ContainerStatus {
	if len(list) == 0 {
		return nil
	}
	out := make([]corev1.ContainerStatus, 0, len(list))
	for i := range list {
		out = append(out, w.containerStatus(pod, seen, &list[i], statusOf(old, list[i].Name), init))
	}
	return out
}

func (w *worker) containerStatus(pod *corev1.Pod, seen Pod, c *corev1.Container, old *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	attempts := seen.attempts(c.Name)
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, VolumeMounts: mountStatuses(c)}
	if len(attempts) == 0 {
		w.absent(pod, &s, old)
	} else {
		w.present(c, &s, attempts, old)
	}
	again := restarts
	if init {
		again = restartsInit
	}
	w.waiting(pod, c, &s, again)
	w.ready(&s, c, attempts, init)
	return s
}

// absent fills the status of a container of which the runtime knows nothing.
func (w *worker) absent(pod *corev1.Pod, s *corev1.ContainerStatus, old *corev1.ContainerStatus) {
	reason := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
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
	if pod.DeletionTimestamp == nil {
		s.RestartCount++
	}
}

// present fills the status of a container from its newest starts.
func (w *worker) present(c *corev1.Container, s *corev1.ContainerStatus, attempts []Container, old *corev1.ContainerStatus) {
	last := attempts[0]
	s.RestartCount = int32(last.Attempt)
	if last.Image.Name != "" {
		s.Image = last.Image.Name
	}
	s.ImageID, s.ContainerID = last.Image.ID, containerID(last)
	s.State = w.stateOf(c, last)
	s.AllocatedResources = c.Resources.Requests.DeepCopy()
	s.Resources = c.Resources.DeepCopy()
	switch {
	case len(attempts) > 1:
		s.LastTerminationState = w.stateOf(c, attempts[1])
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

func (w *worker) stateOf(c *corev1.Container, run Container) corev1.ContainerState {
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
	if t.Message == "" && run.ID != "" && !w.Tier.Simulated {
		t.Message = w.lastWords(c, run)
	}
	t.Signal = 0 // an exit code above 128 says it; kubelets leave this empty
	return corev1.ContainerState{Terminated: t}
}

func stamp(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t).Rfc3339Copy()
}

// waiting turns the status of a container that is to start, and has not yet, into what keeps it.
func (w *worker) waiting(pod *corev1.Pod, c *corev1.Container, s *corev1.ContainerStatus, again func(*corev1.Pod, *corev1.Container, int) bool) {
	if state, ok := w.busy[c.Name]; ok && state.Reason != "" && s.State.Running != nil {
		s.State = corev1.ContainerState{Waiting: &state}
		return
	}
	why, ok := w.why[c.Name]
	if !ok || s.State.Running != nil || w.ending != nil {
		return
	}
	if t := s.State.Terminated; t != nil {
		if !again(pod, c, int(t.ExitCode)) {
			return
		}
		s.LastTerminationState = s.State
	}
	s.State = corev1.ContainerState{Waiting: &why}
}

// ready fills what probes say of a container.
func (w *worker) ready(s *corev1.ContainerStatus, c *corev1.Container, attempts []Container, init bool) {
	started := false
	if s.State.Running != nil {
		h := w.health[attempts[0].ID]
		started = h != nil && h.started
		s.Ready = started && h.ready
	}
	s.Started = &started
	if init && !isSidecar(c) {
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
}

// mountStatuses returns what the status says of a container's mounts, which never changes.
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
