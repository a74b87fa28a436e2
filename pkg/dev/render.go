package dev

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/images"
)

// BuildAnnotation is the annotation of pods with the digest of the files that they were started from. A new digest makes their controller
// replace them.
const BuildAnnotation = "minikctl.dev/build"

// Renderer puts programs and directories of this machine into manifests.
type Renderer struct {
	// Images are programs and directories by the names of the images that they replace, with or without a tag. Their paths are absolute.
	Images map[string]string
	// Resolve finds the images that the cluster's config maps; nil: none.
	Resolve func(name string, command []string) (images.Image, error)

	used  map[string]bool // the names of Images that a manifest has
	files map[string]bool // the programs and directories that manifests have
}

// Render changes the containers of an object: an image of Images is replaced by its directory, or by its program if the container has no
// command. Pods get the digest of the programs and directories that their containers use. Other objects stay as they are.
func (r *Renderer) Render(obj *unstructured.Unstructured) error {
	for _, path := range podPaths {
		pod, ok, _ := unstructured.NestedMap(obj.Object, path...)
		if !ok || pod["spec"] == nil {
			continue
		}
		files, err := r.pod(pod)
		if err != nil || len(files) == 0 {
			return err
		}
		sum, err := digest(files)
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(pod, sum, "metadata", "annotations", BuildAnnotation); err != nil {
			return err
		}
		if len(path) == 0 {
			obj.Object = pod
			return nil
		}
		return unstructured.SetNestedMap(obj.Object, pod, path...)
	}
	return nil
}

// podPaths are the places of pods and of their templates.
var podPaths = [][]string{{"spec", "jobTemplate", "spec", "template"}, {"spec", "template"}, {}}

// pod changes the containers of a pod or of a template, and returns the files that they use.
func (r *Renderer) pod(pod map[string]any) ([]string, error) {
	var files []string
	for _, field := range []string{"initContainers", "containers"} {
		list, ok, _ := unstructured.NestedSlice(pod, "spec", field)
		if !ok {
			continue
		}
		for _, c := range list {
			if c, ok := c.(map[string]any); ok {
				file, err := r.container(c)
				if err != nil {
					return nil, err
				}
				if file != "" {
					files = append(files, file)
					r.note(file)
				}
			}
		}
		if err := unstructured.SetNestedSlice(pod, list, "spec", field); err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// container returns the program or the directory that a container is started from, "" if it is none of this machine.
func (r *Renderer) container(c map[string]any) (string, error) {
	image, _, _ := unstructured.NestedString(c, "image")
	command, _, _ := unstructured.NestedStringSlice(c, "command")
	if file := r.replacement(image); file != "" {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			return "", fmt.Errorf("image %s: %w", image, err)
		case info.IsDir():
			c["image"] = images.DirPrefix + file
		case len(command) == 0:
			c["command"] = []any{file}
		}
		return file, nil
	}
	if r.Resolve == nil {
		return "", nil
	}
	img, err := r.Resolve(image, command)
	if err != nil {
		return "", nil //nolint:nilerr // the kubelet says so
	}
	if img.Root != "" {
		return img.Root, nil
	}
	if len(command) == 0 {
		command = img.Entrypoint
	}
	if len(command) > 0 && filepath.IsAbs(command[0]) {
		return command[0], nil
	}
	return "", nil
}

// replacement returns the path of Images for an image, "" without one.
func (r *Renderer) replacement(image string) string {
	for _, name := range slices.Sorted(maps.Keys(r.Images)) {
		if name == image || repository(name) == name && repository(image) == name {
			if r.used == nil {
				r.used = map[string]bool{}
			}
			r.used[name] = true
			return r.Images[name]
		}
	}
	return ""
}

// repository returns an image's name without its tag and digest.
func repository(image string) string {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	if name := reference.FamiliarName(ref); strings.HasPrefix(image, name) {
		return name
	}
	return ref.Name()
}

func (r *Renderer) note(file string) {
	if r.files == nil {
		r.files = map[string]bool{}
	}
	r.files[file] = true
}

// Files returns the programs and directories that the rendered manifests use.
func (r *Renderer) Files() []string { return slices.Sorted(maps.Keys(r.files)) }

// Unused returns the names of Images that no rendered manifest has.
func (r *Renderer) Unused() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.Images)), func(name string) bool { return r.used[name] })
}

// Outdated reports whether the live object has pods of another build than the manifest, and does not replace them itself when it changes.
func Outdated(live, manifest runtime.Object) bool {
	switch manifest.GetObjectKind().GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Kind: "ReplicationController"}, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"},
		schema.GroupKind{Group: "batch", Kind: "Job"}:
		return buildOf(live) != buildOf(manifest)
	}
	return false
}

func buildOf(obj runtime.Object) string {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return ""
	}
	for _, path := range podPaths {
		if build, ok, _ := unstructured.NestedString(m, append(slices.Clone(path), "metadata", "annotations", BuildAnnotation)...); ok {
			return build
		}
	}
	return ""
}

// digest returns a short digest of the contents of files and directories.
func digest(files []string) (string, error) {
	sum := sha256.New()
	for _, root := range files {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := os.Stat(path) // not the symbolic link
			if err != nil || !info.Mode().IsRegular() {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			fmt.Fprintf(sum, "%s %d\n", path, info.Size())
			_, err = io.Copy(sum, f)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
