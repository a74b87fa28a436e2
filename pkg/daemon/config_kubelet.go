package daemon

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// KubeletConfig holds the settings of the kubelets. Their names are those of a KubeletConfiguration.
type KubeletConfig struct {
	// StaticPodPath is a file with a static pod, or a directory with such files. Each node of the runtime process runs these pods on its own, and the
	// API shows their mirrors, called NAME-NODE. The files may change at any time. Default: none.
	StaticPodPath string `json:"staticPodPath,omitempty"`
	// ShutdownGracePeriod is how long the pods of the nodes may take to end when "minikctl down" shuts the nodes down, for example 30s.
	// Pods whose containers exit with 0 are Succeeded then, and others Failed, and only controllers replace them at the next start. Default 0: pods get SIGTERM and five seconds,
	// and are started again at the next start.
	ShutdownGracePeriod metav1.Duration `json:"shutdownGracePeriod,omitzero"`
	// ShutdownGracePeriodCriticalPods is the part of shutdownGracePeriod that is for critical pods, which end after the others. Default 0.
	ShutdownGracePeriodCriticalPods metav1.Duration `json:"shutdownGracePeriodCriticalPods,omitzero"`
	// ShutdownGracePeriodByPodPriority gives each priority of pods, up to the next one in the list, a period of its own, the lowest first. It
	// replaces the other two settings.
	ShutdownGracePeriodByPodPriority []ShutdownGracePeriod `json:"shutdownGracePeriodByPodPriority,omitempty"`
	// EvictionHard has the least amount, or percentage of the capacity, that has to be available of a signal: memory.available, nodefs.available,
	// nodefs.inodesFree, imagefs.available, imagefs.inodesFree or pid.available, for example {memory.available: 100Mi}. Below it the node gets a
	// condition such as MemoryPressure and evicts pods. Default: none, since others use the machine's memory and disk, too.
	EvictionHard map[string]string `json:"evictionHard,omitempty"`
	// EvictionSoft is like evictionHard for pods that are evicted after evictionSoftGracePeriod, and gracefully.
	EvictionSoft map[string]string `json:"evictionSoft,omitempty"`
	// EvictionSoftGracePeriod is how long less than evictionSoft of a signal may be available, for example {memory.available: 90s}.
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	// EvictionMinimumReclaim is how much more than the threshold of a signal has to be available before evictions end. Default: none.
	EvictionMinimumReclaim map[string]string `json:"evictionMinimumReclaim,omitempty"`
	// EvictionMaxPodGracePeriod is the longest grace period, in seconds, of a pod that evictionSoft evicts. Default 0.
	EvictionMaxPodGracePeriod int64 `json:"evictionMaxPodGracePeriod,omitempty"`
	// EvictionPressureTransitionPeriod is how long a condition such as MemoryPressure stays after enough is available again. Default 5m.
	EvictionPressureTransitionPeriod metav1.Duration `json:"evictionPressureTransitionPeriod,omitzero"`
	// SecurityContext says what happens to a container of a process node whose user or group the machine can't give it: strict (it does not
	// start) or besteffort (it runs as the daemon's user, and the pod gets an Event). This setting is minikctl's own. Default strict.
	SecurityContext string `json:"securityContext,omitempty"`
	// MountPaths says what happens to a container of a process node without a mount namespace whose mountPath has files of this machine: strict
	// (it does not start, unless its command or env names $MINIKCTL_ROOT) or besteffort (it starts and works with these files; its volume is
	// below $MINIKCTL_ROOT only). This setting is minikctl's own. Default strict.
	MountPaths string `json:"mountPaths,omitempty"`
	// PodUsers says which user runs the containers of process nodes whose user neither the pod nor the image names: daemon (the daemon's own)
	// or own (each pod has a user of its own, a number from 1879048192 on, which can't read the daemon's files; privileged containers run as
	// root). The value own needs root. This setting is minikctl's own. Default daemon.
	PodUsers string `json:"podUsers,omitempty"`
	// PodPIDsLimit is how many processes and threads each pod of a process node may have. Where the daemon can't create cgroups with a pids
	// controller the limit has no effect, and pods get an Event. Default 0, or -1: no limit.
	PodPIDsLimit int64 `json:"podPidsLimit,omitempty"`
}

// bestEffort is the value of securityContext and mountPaths that lets containers start.
const bestEffort = "besteffort"

// ownUsers is the value of podUsers that gives each pod a user.
const ownUsers = "own"

// ShutdownGracePeriod is how long the pods from a priority on may take to end.
type ShutdownGracePeriod struct {
	// Priority is the lowest priority of the pods.
	Priority int32 `json:"priority"`
	// ShutdownGracePeriodSeconds is the period in seconds.
	ShutdownGracePeriodSeconds int64 `json:"shutdownGracePeriodSeconds"`
}

// complete fills in the defaults and validates the settings.
func (k *KubeletConfig) complete() error {
	if k.StaticPodPath != "" { // a later start may have another working directory
		abs, err := filepath.Abs(k.StaticPodPath)
		if err != nil {
			return err
		}
		k.StaticPodPath = abs
	}
	for field, value := range map[string]string{"securityContext": k.SecurityContext, "mountPaths": k.MountPaths} {
		switch value {
		case "", "strict", bestEffort:
		default:
			return fmt.Errorf("kubelet.%s: %q is neither strict nor %s", field, value, bestEffort)
		}
	}
	switch k.PodUsers {
	case "", "daemon":
	case ownUsers:
		if err := kubelet.CheckPodUsers(); err != nil {
			return fmt.Errorf("kubelet.podUsers: %w", err)
		}
	default:
		return fmt.Errorf("kubelet.podUsers: %q is neither daemon nor %s", k.PodUsers, ownUsers)
	}
	if k.PodPIDsLimit < -1 {
		return fmt.Errorf("kubelet.podPidsLimit: %d is below -1", k.PodPIDsLimit)
	}
	if err := k.checkEviction(); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	return k.checkShutdown()
}

// settings returns the settings that are fields of a KubeletConfiguration, with the defaults that are in force.
func (k *KubeletConfig) settings() map[string]any {
	shown := *k
	shown.EvictionPressureTransitionPeriod.Duration = k.eviction().TransitionPeriod
	shown.PodPIDsLimit = cmp.Or(k.PodPIDsLimit, -1)
	shown.SecurityContext, shown.MountPaths, shown.PodUsers = "", "", ""
	out := map[string]any{}
	if raw, err := json.Marshal(shown); err != nil || json.Unmarshal(raw, &out) != nil {
		return nil // impossible: the settings have been read from JSON
	}
	return out
}

// HavePodUsers reports whether pods of process nodes have users of their own.
func (k *KubeletConfig) HavePodUsers() bool { return k.PodUsers == ownUsers }

// transitionPeriod is Kubernetes' default.
const transitionPeriod = 5 * time.Minute

func (k *KubeletConfig) checkEviction() error {
	if k.EvictionMaxPodGracePeriod < 0 {
		return fmt.Errorf("evictionMaxPodGracePeriod: %d is negative", k.EvictionMaxPodGracePeriod)
	}
	if d := k.EvictionPressureTransitionPeriod.Duration; d < 0 {
		return fmt.Errorf("evictionPressureTransitionPeriod: %s is negative", d)
	}
	return kubelet.CheckEviction(k.eviction())
}

// eviction returns the settings of evictions.
func (k *KubeletConfig) eviction() kubelet.Eviction {
	return kubelet.Eviction{
		Hard: k.EvictionHard, Soft: k.EvictionSoft, SoftGracePeriod: k.EvictionSoftGracePeriod, MinimumReclaim: k.EvictionMinimumReclaim,
		MaxPodGracePeriod: k.EvictionMaxPodGracePeriod, TransitionPeriod: cmp.Or(k.EvictionPressureTransitionPeriod.Duration, transitionPeriod),
	}
}

func (k *KubeletConfig) checkShutdown() error {
	all, critical := k.ShutdownGracePeriod.Duration, k.ShutdownGracePeriodCriticalPods.Duration
	for name, d := range map[string]time.Duration{"shutdownGracePeriod": all, "shutdownGracePeriodCriticalPods": critical} {
		if d < 0 || d > 0 && d < time.Second {
			return fmt.Errorf("kubelet.%s: %s is neither 0 nor at least a second", name, d)
		}
	}
	if critical > all {
		return fmt.Errorf("kubelet.shutdownGracePeriodCriticalPods: %s is more than shutdownGracePeriod, %s", critical, all)
	}
	if len(k.ShutdownGracePeriodByPodPriority) > 0 && all > 0 {
		return errors.New("kubelet: shutdownGracePeriod and shutdownGracePeriodByPodPriority exclude each other")
	}
	seen := map[int32]bool{}
	for i, p := range k.ShutdownGracePeriodByPodPriority {
		at := fmt.Sprintf("kubelet.shutdownGracePeriodByPodPriority[%d]", i)
		if p.ShutdownGracePeriodSeconds < 0 {
			return fmt.Errorf("%s.shutdownGracePeriodSeconds: %d is negative", at, p.ShutdownGracePeriodSeconds)
		}
		if seen[p.Priority] {
			return fmt.Errorf("%s.priority: %d is in the list already", at, p.Priority)
		}
		seen[p.Priority] = true
	}
	return nil
}

// systemCritical is the priority from which pods are critical.
const systemCritical = 2_000_000_000

// shutdownPeriods returns the periods of a node shutdown; none if the nodes do not shut down gracefully.
func (k *KubeletConfig) shutdownPeriods() []kubelet.PriorityGrace {
	var out []kubelet.PriorityGrace
	for _, p := range k.ShutdownGracePeriodByPodPriority {
		out = append(out, kubelet.PriorityGrace{Priority: p.Priority, Period: time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	if all := k.ShutdownGracePeriod.Duration; all > 0 {
		critical := k.ShutdownGracePeriodCriticalPods.Duration
		out = append(out, kubelet.PriorityGrace{Period: all - critical}, kubelet.PriorityGrace{Priority: systemCritical, Period: critical})
	}
	return out
}

// shutdownPeriod returns the longest time that a node shutdown takes.
func (k *KubeletConfig) shutdownPeriod() time.Duration {
	sum := time.Duration(0)
	for _, p := range k.shutdownPeriods() {
		sum += p.Period
	}
	return sum
}
