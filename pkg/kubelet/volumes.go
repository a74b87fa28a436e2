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

	"github.com/minikctl/minikctl/pkg/trace"
)

// volumes is what a worker knows of its pod's volumes.
type volumes struct {
	tokens  map[string]token   // by audience
	written map[string]payload // by volume
}

// retryMount is when a volume that could not be made is tried again.
const retryMount = 2 * time.Second

func (w *worker) podFolder() string { return filepath.Join(w.host.Dir, podsFolder, string(w.uid)) }

func (w *worker) volumeFolder(name string) string {
	return filepath.Join(w.podFolder(), "volumes", name)
}

// mount makes the pod's volumes. A positive time means: something is missing, try again after it.
func (w *worker) mount(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if w.Tier.Simulated {
		return 0, nil
	}
	began := w.host.Clock.Now()
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if err := w.makeVolume(ctx, pod, v); err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			w.event(ctx, pod, "", corev1.EventTypeWarning, "FailedMount",
				fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", v.Name, err))
			if apierrors.IsNotFound(err) {
				return retryConfig, nil // the pod is woken when it appears
			}
			return retryMount, nil
		}
	}
	if len(pod.Spec.Volumes) > 0 {
		trace.Add(ctx, "volumes", began, w.host.Clock.Since(began))
	}
	return 0, nil
}

// refreshVolumes brings the volumes of a running pod up to date with what they show, and returns when to do so again.
func (w *worker) refreshVolumes(ctx context.Context, pod *corev1.Pod) time.Duration {
	if w.Tier.Simulated || len(pod.Spec.Volumes) == 0 {
		return 0
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir != nil || v.HostPath != nil {
			continue
		}
		if err := w.makeVolume(ctx, pod, v); err != nil && ctx.Err() == nil {
			slog.DebugContext(ctx, "volume not refreshed", "pod", w.key.String(), "volume", v.Name, "err", err)
		}
	}
	return w.renewTokensIn()
}

// makeVolume makes one volume, or brings it up to date.
func (w *worker) makeVolume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	switch {
	case v.EmptyDir != nil:
		if err := os.MkdirAll(w.volumeFolder(v.Name), 0o777); err != nil {
			return err
		}
		return os.Chmod(w.volumeFolder(v.Name), 0o777) // MkdirAll is held back by the umask
	case v.HostPath != nil:
		return checkHostPath(v.HostPath)
	}
	files, err := w.contents(ctx, pod, v)
	if err != nil {
		return err
	}
	return w.writePayload(v.Name, files)
}

// errUnsupportedVolume is the error of a volume that no tier of minikctl can give.
var errUnsupportedVolume = errors.New("this kind of volume is not supported by minikctl")

// contents returns the files of a volume that shows API objects.
func (w *worker) contents(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (payload, error) {
	out := payload{}
	switch {
	case v.ConfigMap != nil:
		s := v.ConfigMap
		data, err := w.host.refs.configMap(ctx, w, s.Name, s.Optional)
		if err != nil {
			return nil, err
		}
		return out, out.pick(data, s.Items, s.DefaultMode, s.Optional, "configmap")
	case v.Secret != nil:
		s := v.Secret
		data, err := w.host.refs.secret(ctx, w, s.SecretName, s.Optional)
		if err != nil {
			return nil, err
		}
		return out, out.pick(data, s.Items, s.DefaultMode, s.Optional, "secret")
	case v.DownwardAPI != nil:
		return out, w.downward(out, pod, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if err := w.project(ctx, out, pod, &v.Projected.Sources[i], v.Projected.DefaultMode); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, errUnsupportedVolume
}

// project adds one source of a projected volume.
func (w *worker) project(ctx context.Context, out payload, pod *corev1.Pod, s *corev1.VolumeProjection, mode *int32) error {
	switch {
	case s.ConfigMap != nil:
		data, err := w.host.refs.configMap(ctx, w, s.ConfigMap.Name, s.ConfigMap.Optional)
		if err != nil {
			return err
		}
		return out.pick(data, s.ConfigMap.Items, mode, s.ConfigMap.Optional, "configmap")
	case s.Secret != nil:
		data, err := w.host.refs.secret(ctx, w, s.Secret.Name, s.Secret.Optional)
		if err != nil {
			return err
		}
		return out.pick(data, s.Secret.Items, mode, s.Secret.Optional, "secret")
	case s.DownwardAPI != nil:
		return w.downward(out, pod, s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		text, err := w.serviceAccountToken(ctx, pod, s.ServiceAccountToken)
		if err != nil {
			return err
		}
		return out.add(s.ServiceAccountToken.Path, []byte(text), modeOf(mode, nil))
	}
	return errUnsupportedVolume
}

func (w *worker) downward(out payload, pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	seen, _ := w.view(w.uid)
	at := addresses{pod: podIP(pod, seen, w.Address, pod.Status), host: w.Address}
	for i := range items {
		item := &items[i]
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = podField(pod, item.FieldRef.FieldPath, at)
		case item.ResourceFieldRef != nil:
			text, err = resourceField(pod, nil, item.ResourceFieldRef, w.capacityNow())
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

// checkHostPath makes what the host's path shall be, or checks that it is so.
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

// hostFolder returns where a volume is on the host.
func (w *worker) hostFolder(pod *corev1.Pod, name string) string {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return w.volumeFolder(name)
}

// mounts returns what a container is to see of the host: its volumes and the file for its last words.
func (w *worker) mounts(pod *corev1.Pod, c *corev1.Container, env *environment, words string) ([]Mount, error) {
	var out []Mount
	for _, m := range c.VolumeMounts {
		from := w.hostFolder(pod, m.Name)
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expand(m.SubPathExpr, env.get)
		}
		if sub != "" {
			if filepath.IsAbs(sub) || strings.Contains("/"+filepath.ToSlash(sub)+"/", "/../") {
				return nil, fmt.Errorf("subPath %q of volume %q leads out of it", sub, m.Name)
			}
			if err := makeSubPath(from, sub); err != nil {
				return nil, fmt.Errorf("subPath %q of volume %q: %w", sub, m.Name, err)
			}
			from = filepath.Join(from, sub)
		}
		out = append(out, Mount{Host: from, Container: m.MountPath, ReadOnly: m.ReadOnly})
	}
	if words != "" {
		out = append(out, Mount{Host: words, Container: c.TerminationMessagePath})
	}
	return out, nil
}

// makeSubPath makes a folder in a volume if it is missing. Links that a container has put there are not followed out of it.
func makeSubPath(volume, sub string) error {
	if err := os.MkdirAll(volume, 0o755); err != nil { // what a hostPath names need not be there
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

// terminationFile makes the file that takes a container's last words.
func (w *worker) terminationFile(c *corev1.Container, attempt int) (string, error) {
	if c.TerminationMessagePath == "" {
		return "", nil
	}
	path := w.wordsPath(c.Name, attempt)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return "", err
	}
	return path, errors.Join(f.Chmod(0o666), f.Close()) // the container may run as another user
}

func (w *worker) wordsPath(name string, attempt int) string {
	return filepath.Join(w.podFolder(), "containers", name, fmt.Sprintf("termination-%d", attempt))
}

// unmount removes the pod's volumes. What a hostPath shows is not touched: it is not below the pod's folder.
func (w *worker) unmount() {
	w.mu.Lock()
	w.config = nil
	w.mu.Unlock()
	if w.Tier.Simulated {
		return
	}
	if err := os.RemoveAll(filepath.Join(w.podFolder(), "volumes")); err != nil {
		slog.Warn("cannot remove volumes", "pod", w.key.String(), "err", err)
	}
}

// dropFolders removes what is left of the pod on disk, its logs with it.
func (w *worker) dropFolders(pod *corev1.Pod) {
	if w.Tier.Simulated {
		return
	}
	if err := errors.Join(os.RemoveAll(w.podFolder()), os.RemoveAll(w.logFolder(pod))); err != nil {
		slog.Warn("cannot remove the pod's files", "pod", w.key.String(), "err", err)
	}
}

// dropLog removes the files of one start of a container.
func (w *worker) dropLog(pod *corev1.Pod, run Container) {
	if w.Tier.Simulated {
		return
	}
	path := w.logPath(pod, run.Name, run.Attempt)
	rotated, _ := filepath.Glob(path + ".*") // fails only on a bad pattern
	for _, f := range append(rotated, path, w.wordsPath(run.Name, run.Attempt)) {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			slog.Warn("cannot remove a container's file", "pod", w.key.String(), "err", err)
		}
	}
}
