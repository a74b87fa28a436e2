package daemon

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDownWithoutCluster(t *testing.T) {
	dir := home(t)
	for _, opts := range []DownOptions{{}, {KeepPods: true}, {Purge: true}} {
		if ran, err := Down(t.Context(), PathsOf("dev"), opts); ran || err != nil {
			t.Errorf("%+v: %v, %v", opts, ran, err)
		}
	}
	if exists(dir) {
		t.Error("down has made something")
	}
	if _, err := Down(t.Context(), PathsOf("dev"), DownOptions{KeepPods: true, Purge: true}); err == nil {
		t.Error("--keep-pods with --purge is taken")
	}
}

// TestPurgeKeepsFilesOfOtherPrograms checks that purge keeps files of other programs, with any name and data directory of the daemon.
func TestPurgeKeepsFilesOfOtherPrograms(t *testing.T) {
	dir := home(t)
	kept := filepath.Join(filepath.Dir(dir), "kept")
	write(t, kept)
	write(t, filepath.Join(dir, "other", "daemon.lock"))
	for _, name := range []string{"", "..", "../h", "other/..", "."} {
		if _, err := Down(t.Context(), PathsOf(name), DownOptions{Purge: true}); err == nil {
			t.Errorf("a daemon is called %q", name)
		}
	}
	mine := filepath.Join(filepath.Dir(dir), "mine")
	write(t, filepath.Join(mine, "thesis.txt"))
	write(t, filepath.Join(mine, "store", "1.sst"))
	if _, err := Down(t.Context(), PathsIn("dev", mine), DownOptions{Purge: true}); err != nil {
		t.Error(err)
	}
	for _, path := range []string{kept, filepath.Join(dir, "other", "daemon.lock"), filepath.Join(mine, "thesis.txt"), filepath.Join(mine, "store", "1.sst")} {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	// A daemon does not start in such a directory either: purge would remove the user's files.
	if held, err := lock(t.Context(), PathsIn("dev", mine)); err == nil {
		held.Close()
		t.Error("a daemon has taken a directory that has a store already")
	}
}

// TestPurgeKeepsDirs checks that purge keeps directories and kubeconfigs that existed before minikctl, even empty ones.
func TestPurgeKeepsDirs(t *testing.T) {
	dir := home(t)
	config := filepath.Join(real(t.TempDir()), "config")
	t.Setenv("KUBECONFIG", config)
	p := PathsIn("dev", real(t.TempDir()))
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := lock(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	if err := linkHome(p); err != nil {
		t.Fatal(err)
	}
	own := kubeconfigOf("dev")
	if err := errors.Join(clientcmd.WriteToFile(*own, p.Kubeconfig), mergeKubeconfig(config, own)); err != nil {
		t.Fatal(err)
	}
	if _, err := Down(t.Context(), p, DownOptions{Purge: true}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, config, p.Data} {
		if !exists(path) {
			t.Errorf("%s is gone, which minikctl did not create", path)
		}
	}
	for _, directory := range []string{dir, p.Data} {
		if left, err := os.ReadDir(directory); err != nil || len(left) != 0 {
			t.Errorf("left in %s: %v, %v", directory, left, err)
		}
	}
}

func kubeconfigOf(name string) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters["minikctl-"+name] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	c.CurrentContext = "minikctl-" + name
	c.Contexts["minikctl-"+name] = &clientcmdapi.Context{Cluster: "minikctl-" + name, AuthInfo: "minikctl-" + name + "-admin"}
	c.AuthInfos["minikctl-"+name+"-admin"] = clientcmdapi.NewAuthInfo()
	return c
}

// TestPurge checks that purge removes every file of a daemon and keeps the kubeconfig entries of other programs.
func TestPurge(t *testing.T) {
	for _, c := range []struct {
		name   string
		others bool // has the kubeconfig
		left   bool // the kubeconfig
	}{{"a kubeconfig of this cluster only", false, false}, {"a kubeconfig with other clusters", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			dir := home(t)
			config := filepath.Join(t.TempDir(), "config")
			t.Setenv("KUBECONFIG", config)
			p := PathsIn("dev", filepath.Join(real(t.TempDir()), "data"))
			held, err := lock(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			held.Close()
			if err := linkHome(p); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{p.State, p.Log, p.State + ".new", filepath.Join(p.Data, ".kubeconfig.123")} {
				write(t, file)
			}
			for _, directory := range []string{p.Store, p.PKI, p.Kubelet, p.Traces, p.DiscoveryCache, filepath.Dir(p.Socket)} {
				write(t, filepath.Join(directory, "x"))
			}
			own := kubeconfigOf("dev")
			if err := clientcmd.WriteToFile(*own, p.Kubeconfig); err != nil {
				t.Fatal(err)
			}
			if c.others {
				others := clientcmdapi.NewConfig()
				others.Clusters["theirs"] = &clientcmdapi.Cluster{Server: "https://example.com"}
				if err := clientcmd.WriteToFile(*others, config); err != nil {
					t.Fatal(err)
				}
			}
			if err := mergeKubeconfig(config, own); err != nil {
				t.Fatal(err)
			}
			if err := purge(p, nil); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{p.Data, dir, filepath.Dir(p.Socket)} {
				if exists(path) {
					t.Errorf("%s is left", path)
				}
			}
			if exists(config) != c.left {
				t.Fatalf("kubeconfig is there: %v", !c.left)
			}
			if !c.left {
				return
			}
			after, err := clientcmd.LoadFromFile(config)
			if err != nil || len(after.Clusters) != 1 || after.Clusters["theirs"] == nil || len(after.Contexts)+len(after.AuthInfos) != 0 {
				t.Errorf("kubeconfig after: %+v, %v", after, err)
			}
		})
	}
}

// TestPurgeWithBrokenKubeconfig checks that purge removes a cluster whose user has a kubeconfig that can't be read, and fails only if
// the cluster's context may be in it.
func TestPurgeWithBrokenKubeconfig(t *testing.T) {
	for _, c := range []struct {
		name, file string
		warning    bool
	}{
		{"without the context", "clusters: [{name: theirs", true},
		{"with the context", "contexts: [{name: minikctl-dev", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := home(t)
			config := filepath.Join(t.TempDir(), "config")
			t.Setenv("KUBECONFIG", config)
			if err := os.WriteFile(config, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			p := PathsOf("dev")
			held, err := lock(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			held.Close()
			if err := clientcmd.WriteToFile(*kubeconfigOf("dev"), p.Kubeconfig); err != nil {
				t.Fatal(err)
			}
			var warning error
			_, err = Down(t.Context(), p, DownOptions{Purge: true, Warn: func(err error) { warning = err }})
			if failure := cmp.Or(err, warning); failure == nil || !strings.Contains(failure.Error(), config) || (warning != nil) != c.warning || (err == nil) != c.warning {
				t.Errorf("got error %v, warning %v", err, warning)
			}
			if exists(dir) {
				t.Error("the cluster is left")
			}
		})
	}
}

func TestRemoveEmpty(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		left bool
	}{
		"empty":   {"apiVersion: v1\nkind: Config\n", false},
		"current": {"apiVersion: v1\nkind: Config\ncurrent-context: gone\n", false},
		"user":    {"apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: b}}]\n", true},
		"broken":  {"{", true},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if removeEmpty(path); exists(path) != c.left {
			t.Errorf("%s: left is %v, want %v", name, exists(path), c.left)
		}
	}
	if removeEmpty(dir); !exists(dir) {
		t.Error("a directory with files in it is removed")
	}
}

// TestRemoveRemovesAllPaths makes everything that a cluster's paths name, and removes the cluster.
func TestRemoveRemovesAllPaths(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	paths := reflect.ValueOf(p)
	for i := range paths.NumField() {
		path := paths.Field(i).String()
		if rel, err := filepath.Rel(p.Data, path); err != nil || !filepath.IsLocal(rel) || rel == "." {
			continue
		}
		if err := os.MkdirAll(filepath.Join(path, "content"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.remove(); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(p.Data + "/*")
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestDownWithDamagedState purges a cluster whose state is empty, as after a loss of power.
func TestDownWithDamagedState(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	write(t, lockPath(p))
	if err := os.WriteFile(p.State, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []DownOptions{{}, {Purge: true}} {
		if ran, err := Down(t.Context(), p, opts); ran || err != nil {
			t.Errorf("%+v: %v, %v", opts, ran, err)
		}
	}
	if Exists(p) {
		t.Error("the cluster is left")
	}
}
