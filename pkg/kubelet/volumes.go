package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/supervisor/remove"
	"github.com/minikctl/minikctl/pkg/trace"
)

// podVolumes makes, refreshes and removes the files of a pod: its volumes, termination messages and logs. It is used by
// sync alone.
type podVolumes struct {
	*podScope
	tokens  map[string]token   // by audience
	written map[string]payload // by volume
	claimed map[string]string  // the paths of the volumes of claims and images on the host, by volume
	unbound time.Time          // the first attempt with a claim that was not bound
}

// mountRetry is the pause after a volume could not be set up, before the next attempt.
const mountRetry = 2 * time.Second

func (v *podVolumes) directory(volume string) string {
	return filepath.Join(v.podDir(), "volumes", volume)
}

// mount makes the pod's volumes. A positive duration means that an object is missing, and requests another sync after it.
func (v *podVolumes) mount(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if v.simulated() {
		return 0, nil
	}
	began := v.machineClock().Now()
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if err := v.setUp(ctx, pod, volume); err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			if v.isBinding(err) {
				return bindingRetry, nil
			}
			v.recordFailedMount(ctx, pod, volume, err)
			return retryMount(err), nil
		}
	}
	if len(pod.Spec.Volumes) > 0 {
		trace.Add(ctx, "volumes", began, v.machineClock().Since(began))
	}
	return 0, nil
}

// retryMount returns the pause after an error of a volume, before the next attempt.
func retryMount(err error) time.Duration {
	if apierrors.IsNotFound(err) {
		return configRetry // the object's creation also enqueues the pod
	}
	return mountRetry
}

// refresh updates the volumes of a running pod and returns the time until the next update; 0 means none. A volume that could not be updated
// keeps its files until a later attempt.
func (v *podVolumes) refresh(ctx context.Context, pod *corev1.Pod) time.Duration {
	if v.simulated() || len(pod.Spec.Volumes) == 0 {
		return 0
	}
	var retry time.Duration
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.EmptyDir != nil || volume.HostPath != nil || volume.Image != nil || v.claimed[volume.Name] != "" {
			continue
		}
		if err := v.setUp(ctx, pod, volume); err != nil && ctx.Err() == nil {
			v.recordFailedMount(ctx, pod, volume, err)
			retry = soonest(retry, retryMount(err))
		}
	}
	return soonest(retry, v.renewTokensIn())
}

func (v *podVolumes) recordFailedMount(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, err error) {
	v.event(ctx, pod, "", corev1.EventTypeWarning, "FailedMount",
		fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", volume.Name, err))
}

// setUp makes or updates one volume.
func (v *podVolumes) setUp(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	switch {
	case volume.EmptyDir != nil:
		if err := v.makeEmptyDir(volume.Name, volume.EmptyDir.Medium); err != nil {
			return err
		}
		return ownershipOf(pod, false).apply(v.directory(volume.Name))
	case volume.HostPath != nil:
		return checkHostPath(volume.HostPath)
	case volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil:
		return v.setUpClaim(ctx, pod, volume)
	case volume.Image != nil:
		return nil // resolved when a container starts
	}
	files, err := v.contents(ctx, pod, volume)
	if err != nil {
		return err
	}
	return v.write(volume.Name, files, ownershipOf(pod, true))
}

// makeEmptyDir makes the directory of an emptyDir. One in memory is found through a link.
func (v *podVolumes) makeEmptyDir(name string, medium corev1.StorageMedium) error {
	directory := v.directory(name)
	if medium == corev1.StorageMediumMemory && v.memoryDir() != "" {
		directory = filepath.Join(v.memoryDir(), name)
		if err := os.MkdirAll(filepath.Dir(v.directory(name)), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(directory, v.directory(name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return err
	}
	return os.Chmod(directory, 0o777) // MkdirAll applies the umask
}

// memoryDir is the directory of the pod's volumes in memory; "": they are on disk.
func (v *podVolumes) memoryDir() string {
	if v.kubelet.host.Memory == "" {
		return ""
	}
	return filepath.Join(v.kubelet.host.Memory, string(v.uid))
}

// errUnsupportedVolume is the error of a volume that the kubelet cannot make.
var errUnsupportedVolume = errors.New("this kind of volume is not supported by minikctl")

// contents returns the files of a volume that is made from API objects.
func (v *podVolumes) contents(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (payload, error) {
	out := payload{}
	switch {
	case volume.ConfigMap != nil:
		s := volume.ConfigMap
		data, err := v.kubelet.host.refs.configMap(ctx, v.podScope, s.Name, s.Optional)
		if err != nil {
			return nil, err
		}
		return out, out.pick(data, s.Items, s.DefaultMode, s.Optional, "configmap")
	case volume.Secret != nil:
		s := volume.Secret
		data, err := v.kubelet.host.refs.secret(ctx, v.podScope, s.SecretName, s.Optional)
		if err != nil {
			return nil, err
		}
		return out, out.pick(data, s.Items, s.DefaultMode, s.Optional, "secret")
	case volume.DownwardAPI != nil:
		return out, v.downward(out, pod, volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	case volume.Projected != nil:
		for i := range volume.Projected.Sources {
			if err := v.project(ctx, out, pod, &volume.Projected.Sources[i], volume.Projected.DefaultMode); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, errUnsupportedVolume
}

// project adds one source of a projected volume.
func (v *podVolumes) project(ctx context.Context, out payload, pod *corev1.Pod, s *corev1.VolumeProjection, mode *int32) error {
	switch {
	case s.ConfigMap != nil:
		data, err := v.kubelet.host.refs.configMap(ctx, v.podScope, s.ConfigMap.Name, s.ConfigMap.Optional)
		if err != nil {
			return err
		}
		return out.pick(data, s.ConfigMap.Items, mode, s.ConfigMap.Optional, "configmap")
	case s.Secret != nil:
		data, err := v.kubelet.host.refs.secret(ctx, v.podScope, s.Secret.Name, s.Secret.Optional)
		if err != nil {
			return err
		}
		return out.pick(data, s.Secret.Items, mode, s.Secret.Optional, "secret")
	case s.DownwardAPI != nil:
		return v.downward(out, pod, s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		text, err := v.serviceAccountToken(ctx, pod, s.ServiceAccountToken)
		if err != nil {
			return err
		}
		return out.add(s.ServiceAccountToken.Path, []byte(text), modeOf(mode, nil))
	}
	return errUnsupportedVolume
}

func (v *podVolumes) downward(out payload, pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	seen, _ := v.seen()
	at := addresses{pod: podIP(pod, seen, v.kubelet.Address, pod.Status), host: v.kubelet.Address}
	for i := range items {
		item := &items[i]
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = podField(pod, item.FieldRef.FieldPath, at)
		case item.ResourceFieldRef != nil:
			text, err = resourceField(pod, nil, item.ResourceFieldRef, v.kubelet.allocatable())
		}
		if err != nil {
			return err
		}
		if err := out.add(item.Path, []byte(text), modeOf(mode, item.Mode)); err != nil {
			return err
		}
	}
	return nil
}

// checkHostPath creates or verifies the hostPath according to its type.
func checkHostPath(s *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if s.Type != nil {
		kind = *s.Type
	}
	info, err := os.Stat(s.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case kind == corev1.HostPathUnset:
		return nil
	case err != nil && !missing:
		return err
	case missing && kind == corev1.HostPathDirectoryOrCreate:
		return os.MkdirAll(s.Path, 0o755)
	case missing && kind == corev1.HostPathFileOrCreate:
		f, err := os.OpenFile(s.Path, os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	}
	what, is := map[corev1.HostPathType]string{
		corev1.HostPathDirectory: "directory", corev1.HostPathDirectoryOrCreate: "directory",
		corev1.HostPathFile: "file", corev1.HostPathFileOrCreate: "file", corev1.HostPathSocket: "socket file",
		corev1.HostPathCharDev: "character device", corev1.HostPathBlockDev: "block device",
	}[kind], false
	if !missing {
		switch kind {
		case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
			is = info.IsDir()
		case corev1.HostPathFile, corev1.HostPathFileOrCreate:
			is = info.Mode().IsRegular()
		case corev1.HostPathSocket:
			is = info.Mode()&fs.ModeSocket != 0
		case corev1.HostPathCharDev:
			is = info.Mode()&fs.ModeCharDevice != 0
		case corev1.HostPathBlockDev:
			is = info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
		}
	}
	if !is {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", s.Path, what)
	}
	return nil
}

// hostPath returns the path of a volume on the host; an error if the volume of a claim is not set up.
func (v *podVolumes) hostPath(pod *corev1.Pod, name string) (string, error) {
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.Name != name:
		case volume.HostPath != nil:
			return volume.HostPath.Path, nil
		case volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil || volume.Image != nil:
			if path := v.claimed[name]; path != "" {
				return path, nil
			}
			return "", fmt.Errorf("volume %q is not set up", name)
		}
	}
	return v.directory(name), nil
}

// mounts returns the container's mounts: its volumes, and the file for its termination message.
func (v *podVolumes) mounts(pod *corev1.Pod, c *corev1.Container, env *environment, message string) ([]Mount, error) {
	var out []Mount
	for _, m := range c.VolumeMounts {
		from, err := v.hostPath(pod, m.Name)
		if err != nil {
			return nil, err
		}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expand(m.SubPathExpr, env.get)
		}
		if sub != "" {
			if filepath.IsAbs(sub) || strings.Contains("/"+filepath.ToSlash(sub)+"/", "/../") {
				return nil, fmt.Errorf("subPath %q is outside of volume %q", sub, m.Name)
			}
			ensure := makeSubPath
			if isImage(pod, m.Name) { // nothing is made in the directory of an image
				ensure = findSubPath
			}
			if err := ensure(from, sub); err != nil {
				return nil, fmt.Errorf("subPath %q of volume %q: %w", sub, m.Name, err)
			}
			from = filepath.Join(from, sub)
		}
		out = append(out, newMount(pod, &m, from))
	}
	if message != "" {
		out = append(out, Mount{Host: message, Container: c.TerminationMessagePath})
	}
	return out, nil
}

func newMount(pod *corev1.Pod, m *corev1.VolumeMount, from string) Mount {
	out := Mount{Host: from, Container: m.MountPath, ReadOnly: m.ReadOnly || isReadOnly(pod, m.Name)}
	if m.RecursiveReadOnly != nil {
		out.Recursive = *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyIfPossible
	}
	if m.MountPropagation != nil {
		out.Propagation = *m.MountPropagation
	}
	return out
}

// isReadOnly reports whether no container may write to a volume: the kubelet keeps its files, they are those of an image, or the pod uses the
// claim for reading only.
func isReadOnly(pod *corev1.Pod, name string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Name == name {
			return isClaimReadOnly(&v) || v.Image != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
		}
	}
	return false
}

// makeSubPath makes a directory in a volume if it is missing. It follows no link that leads out of the volume.
func makeSubPath(volume, sub string) error {
	if err := os.MkdirAll(volume, 0o755); err != nil { // the path of a hostPath may not exist
		return err
	}
	root, err := os.OpenRoot(volume)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err = root.Stat(sub); errors.Is(err, fs.ErrNotExist) {
		err = root.MkdirAll(sub, 0o755)
	}
	return err
}

// makeTerminationFile makes the file for a container's termination message and returns its path.
func (v *podVolumes) makeTerminationFile(c *corev1.Container, attempt int) (string, error) {
	if c.TerminationMessagePath == "" {
		return "", nil
	}
	path := v.terminationPath(c.Name, attempt)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return "", err
	}
	return path, errors.Join(f.Chmod(0o666), f.Close()) // the container may run as another user
}

func (v *podVolumes) terminationPath(name string, attempt int) string {
	return filepath.Join(v.podDir(), "containers", name, fmt.Sprintf("termination-%d", attempt))
}

// remove removes the pod's volumes. A hostPath stays: it is not below the pod's directory.
func (v *podVolumes) remove() {
	clear(v.tokens)
	clear(v.written)
	clear(v.claimed)
	if v.simulated() {
		return
	}
	err := remove.All(filepath.Join(v.podDir(), "volumes"))
	if memory := v.memoryDir(); memory != "" {
		err = errors.Join(err, remove.All(memory))
	}
	if err != nil {
		slog.Warn("cannot remove volumes", "pod", v.key.String(), "err", err)
	}
}

// removeDirs removes the pod's directory and its logs.
func (v *podVolumes) removeDirs(pod *corev1.Pod) {
	if v.simulated() {
		return
	}
	if err := errors.Join(remove.All(v.podDir()), remove.All(v.logDir(pod))); err != nil {
		slog.Warn("cannot remove the pod's files", "pod", v.key.String(), "err", err)
	}
}

// removeLog removes the log and the termination message of one start of a container.
func (v *podVolumes) removeLog(pod *corev1.Pod, run Container) {
	if v.simulated() {
		return
	}
	path := v.logPath(pod, run.Name, run.Attempt)
	rotated, _ := filepath.Glob(path + ".*") // fails only on a bad pattern
	for _, f := range append(rotated, path, v.terminationPath(run.Name, run.Attempt)) {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			slog.Warn("cannot remove a container's file", "pod", v.key.String(), "err", err)
		}
	}
}
