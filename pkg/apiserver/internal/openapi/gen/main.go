// Command gen generates the definitions that package openapi embeds: it runs openapi-gen over the API types in a
// temporary module with this module's versions, runs the generated code, and writes a compressed file for each Go
// package of types. The generated Go code does not become part of the program.
//
// With -check it writes nothing and fails when the files are not up to date.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// groups are the directories of k8s.io/api whose types get definitions.
var groups = []string{
	"admissionregistration/v1", "admissionregistration/v1beta1", "apps/v1", "apps/v1beta1", "apps/v1beta2",
	"authentication/v1", "authorization/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1", "batch/v1beta1",
	"certificates/v1", "coordination/v1", "core/v1", "discovery/v1", "events/v1", "extensions/v1beta1",
	"flowcontrol/v1", "networking/v1", "networking/v1beta1", "node/v1", "policy/v1", "policy/v1beta1", "rbac/v1",
	"resource/v1", "scheduling/v1", "scheduling/v1alpha2", "storage/v1", "storage/v1beta1",
}

// others are the packages of types in other modules.
var others = []string{"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"}

// shared are the packages that the types of all groups use.
var shared = []string{
	"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime", "k8s.io/apimachinery/pkg/version",
	"k8s.io/apimachinery/pkg/util/intstr", "k8s.io/apimachinery/pkg/api/resource",
}

func main() {
	out := flag.String("out", "definitions", "directory to write to")
	check := flag.Bool("check", false, "only compare")
	flag.Parse()
	if err := run(*out, *check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out string, check bool) error {
	definitions, err := generate()
	if err != nil {
		return err
	}
	files, err := split(definitions)
	if err != nil {
		return err
	}
	if files["versions"], err = versions(); err != nil {
		return err
	}
	if check {
		return compare(out, files)
	}
	return write(out, files)
}

// generate returns all definitions by name.
func generate() (map[string]json.RawMessage, error) {
	dir, err := os.MkdirTemp("", "minikctl-openapi-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := makeModule(dir); err != nil {
		return nil, err
	}
	args := []string{
		"run", "-mod=mod", "k8s.io/kube-openapi/cmd/openapi-gen", "--output-dir", filepath.Join(dir, "definitions"),
		"--output-pkg", "definitions/definitions", "--output-file", "generated.go", "--report-filename", os.DevNull,
	}
	for _, g := range groups {
		args = append(args, "k8s.io/api/"+g)
	}
	if _, err := goTool(dir, slices.Concat(args, others, shared)...); err != nil {
		return nil, err
	}
	raw, err := goTool(dir, "run", "-mod=mod", ".")
	if err != nil {
		return nil, err
	}
	var definitions map[string]json.RawMessage
	if err := json.Unmarshal(raw, &definitions); err != nil {
		return nil, fmt.Errorf("read the definitions: %w", err)
	}
	return definitions, nil
}

// makeModule creates a module with this module's requirements in dir.
func makeModule(dir string) error {
	mod, err := goTool(".", "env", "GOMOD")
	if err != nil {
		return err
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	raw, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	_, requirements, ok := bytes.Cut(raw, []byte("\n"))
	if !ok {
		return errors.New("go.mod has one line only")
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"go.mod": append([]byte("module definitions\n"), requirements...), "go.sum": sums, "main.go": []byte(dump),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return os.Mkdir(filepath.Join(dir, "definitions"), 0o700)
}

func goTool(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// split groups the definitions by package: the part of a name before its last dot.
func split(definitions map[string]json.RawMessage) (map[string][]byte, error) {
	packages := map[string]map[string]json.RawMessage{}
	for name, d := range definitions {
		pkg := name[:strings.LastIndex(name, ".")]
		if packages[pkg] == nil {
			packages[pkg] = map[string]json.RawMessage{}
		}
		packages[pkg][name] = d
	}
	files := map[string][]byte{}
	for pkg, content := range packages {
		raw, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		files[pkg+".json"] = raw
	}
	return files, nil
}

// versions writes the modules' versions, so that a test detects definitions of older ones.
func versions() ([]byte, error) {
	return goTool(".", "list", "-m", "k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/apimachinery", "k8s.io/kube-aggregator", "k8s.io/kube-openapi")
}

func write(out string, files map[string][]byte) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	old, err := present(out)
	if err != nil {
		return err
	}
	for _, name := range old {
		if files[name] == nil {
			if err := os.Remove(filepath.Join(out, name+".gz")); err != nil {
				return err
			}
		}
	}
	for name, raw := range files {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		_, err = w.Write(raw)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+".gz"), packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the decompressed content of the files: the bytes differ between compressors.
func compare(out string, files map[string][]byte) error {
	old, err := present(out)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range old {
		if files[name] == nil {
			errs = append(errs, fmt.Errorf("%s should not be there", name))
		}
	}
	for name, want := range files {
		if !slices.Contains(old, name) {
			errs = append(errs, fmt.Errorf("%s is missing", name))
			continue
		}
		got, err := unpack(filepath.Join(out, name+".gz"))
		if err != nil || !bytes.Equal(got, want) {
			errs = append(errs, errors.Join(fmt.Errorf("%s is not up to date", name), err))
		}
	}
	if len(errs) > 0 {
		errs = append(errs, errors.New("run go generate"))
	}
	return errors.Join(errs...)
}

func present(out string) ([]string, error) {
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".gz"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

func unpack(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	return b.Bytes(), err
}
