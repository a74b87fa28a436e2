package kubelet

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// The annotations of static pods. The hash is also the pod's UID.
const (
	configSource = "kubernetes.io/config.source"
	configHash   = "kubernetes.io/config.hash"
	configSeen   = "kubernetes.io/config.seen"
	configMirror = corev1.MirrorPodAnnotationKey
)

// maxManifest bounds the size of a file with a static pod.
const maxManifest = 10 << 20

// readStaticPods returns the static pods of a path by their files: a file, or a directory whose files are read without those in directories and
// those whose names start with a dot. A missing path has none. It logs and leaves out the files that have no valid pod; their names are
// returned, too.
func readStaticPods(path, node string) (pods map[string]*corev1.Pod, invalid []string, err error) {
	files := []string{path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		if files, err = filesIn(path); err != nil {
			return nil, nil, err
		}
	}
	pods = map[string]*corev1.Pod{}
	for _, file := range files {
		pod, err := readStaticPod(file, node)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			slog.Error("cannot run a static pod", "node", node, "file", file, "err", err)
			invalid = append(invalid, file)
			continue
		}
		pods[file] = pod
	}
	return pods, invalid, nil
}

func filesIn(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		path := filepath.Join(directory, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files, nil
}

func readStaticPod(file, node string) (*corev1.Pod, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("it has more than %d bytes", maxManifest)
	}
	return parseStaticPod(b, file, node)
}

// parseStaticPod returns the static pod of a manifest in YAML or JSON as the node runs it: with defaults, with the node's name as a suffix
// of its own, and with a UID that depends on its content, the node and the file.
func parseStaticPod(manifest []byte, file, node string) (*corev1.Pod, error) {
	raw, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		return nil, err
	}
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return nil, fmt.Errorf("it has a %q of version %q, and no Pod of version \"v1\"", pod.Kind, pod.APIVersion)
	}
	if pod.Name == "" {
		return nil, errors.New("invalid pod: name is needed for the pod")
	}
	core.Pods.Default(pod)
	if pod.UID == "" {
		pod.UID = staticUID(pod, file, node)
	}
	pod.Name += "-" + strings.ToLower(node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[configHash] = string(pod.UID)
	pod.Annotations[configSource] = "file"
	// The pod stays on a node with problems.
	always := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if !slices.Contains(pod.Spec.Tolerations, always) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, always)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if errs := core.Pods.Validate(pod, nil); len(errs) > 0 {
		return nil, fmt.Errorf("invalid pod: %w", errs.ToAggregate())
	}
	what, err := podref.Resource(pod)
	if err == nil && what != "" {
		err = fmt.Errorf("static pods may not reference %s", what)
	}
	return pod, err
}

// staticUID returns a UID that changes with the pod, its file and its node.
func staticUID(pod *corev1.Pod, file, node string) types.UID {
	sum := fnv.New128a()
	b, _ := json.Marshal(pod) // it was JSON before
	_, _ = sum.Write(b)       // never fails
	fmt.Fprintf(sum, "host:%sfile:%s", node, file)
	return types.UID(hex.EncodeToString(sum.Sum(nil)))
}

// isMirror reports whether a pod is the mirror of a static pod.
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[configMirror]
	return ok
}

// isStatic reports whether a pod was read from a file of its node.
func isStatic(pod *corev1.Pod) bool {
	source, ok := pod.Annotations[configSource]
	return ok && source != "api"
}

// mirrors reports whether a pod of the API is the current mirror of a static pod.
func mirrors(pod, static *corev1.Pod) bool {
	hash, ok := pod.Annotations[configMirror]
	return ok && pod.DeletionTimestamp == nil && hash == static.Annotations[configHash]
}
