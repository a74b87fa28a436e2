package pki

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

func access(name string) *api.Config {
	return Kubeconfig(Access{
		Server: "https://127.0.0.1:6443", CA: []byte("ca"), Cluster: name, Context: name, User: name + "-admin",
		Client: Pair{Cert: []byte("cert"), Key: []byte("key")},
	})
}

func load(t *testing.T, path string) *api.Config {
	t.Helper()
	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const theirs = `# mine, do not touch
apiVersion: v1
kind: Config
contexts:
- context:
    cluster: work
    user: me
    namespace: prod   # careful
  name: work
clusters:
- name: work
  cluster:
    server: https://work
    x-vendor: {a: 1}
users:
- name: me
  user:
    token: secret
current-context: work
x-tool:
  keep: this
`

func TestKubeconfigOfANewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "config")
	if err := MergeKubeconfig(path, access("minikctl"), false); err != nil {
		t.Fatal(err)
	}
	c := load(t, path)
	if c.CurrentContext != "minikctl" || string(c.AuthInfos["minikctl-admin"].ClientKeyData) != "key" || c.Clusters["minikctl"].Server != "https://127.0.0.1:6443" {
		t.Errorf("the file is %+v", c)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := RemoveKubeconfig(path, access("minikctl")); err != nil {
		t.Fatal(err)
	}
	if c := load(t, path); len(c.Clusters)+len(c.AuthInfos)+len(c.Contexts) != 0 || c.CurrentContext != "" {
		t.Errorf("the file still has %+v", c)
	}
}

func TestKubeconfigKeepsOtherEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MergeKubeconfig(path, access("minikctl"), false); err != nil {
		t.Fatal(err)
	}
	merged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# mine, do not touch", "# careful", "x-vendor: {a: 1}", "keep: this", "token: secret"} {
		if !strings.Contains(string(merged), want) {
			t.Errorf("%q is lost from\n%s", want, merged)
		}
	}
	c := load(t, path)
	if c.CurrentContext != "work" || c.Contexts["minikctl"] == nil || c.Contexts["work"].Namespace != "prod" {
		t.Errorf("the file is %s", merged)
	}

	if err := MergeKubeconfig(path, access("minikctl"), true); err != nil {
		t.Fatal(err)
	}
	if c := load(t, path); c.CurrentContext != "minikctl" || len(c.Contexts) != 2 {
		t.Errorf("the current context is %q of %d", c.CurrentContext, len(c.Contexts))
	}
	if err := RemoveKubeconfig(path, access("minikctl")); err != nil {
		t.Fatal(err)
	}
	c = load(t, path)
	if c.CurrentContext != "" || len(c.Contexts) != 1 || len(c.Clusters) != 1 || len(c.AuthInfos) != 1 {
		t.Errorf("after the removal: %+v", c)
	}
}

func TestKubeconfigKeepsTheNamespaceOfItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	mine := access("minikctl")
	mine.Contexts["minikctl"].Namespace = "dev"
	for _, c := range []*api.Config{mine, access("minikctl")} {
		if err := MergeKubeconfig(path, c, false); err != nil {
			t.Fatal(err)
		}
	}
	if ns := load(t, path).Contexts["minikctl"].Namespace; ns != "dev" {
		t.Errorf("the namespace is %q", ns)
	}
}

func TestKubeconfigRemovesOnlyOwnEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := MergeKubeconfig(path, access("minikctl"), false); err != nil {
		t.Fatal(err)
	}
	c := load(t, path)
	c.Contexts["second"] = &api.Context{Cluster: "minikctl", AuthInfo: "other"}
	c.Contexts["minikctl"].AuthInfo = "other"
	if err := WriteKubeconfig(path, c); err != nil {
		t.Fatal(err)
	}
	if err := RemoveKubeconfig(path, access("minikctl")); err != nil {
		t.Fatal(err)
	}
	c = load(t, path)
	if c.Contexts["minikctl"] == nil || c.Clusters["minikctl"] == nil || c.AuthInfos["minikctl-admin"] != nil {
		t.Errorf("the file is %+v", c)
	}
	if err := RemoveKubeconfig(filepath.Join(t.TempDir(), "none"), access("minikctl")); err != nil {
		t.Error(err)
	}
}

func TestMergeUnusualKubeconfig(t *testing.T) {
	for name, raw := range map[string]string{
		"empty":       "",
		"null":        "null\n",
		"empty lists": "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ncontexts: []\ncurrent-context: \"\"\n",
		"null lists":  "apiVersion: v1\nkind: Config\nclusters: null\nusers: null\ncontexts: null\n",
		"JSON":        `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://a"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(path, []byte(raw), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := MergeKubeconfig(path, access("minikctl"), false); err != nil {
				t.Fatal(err)
			}
			if c := load(t, path); c.CurrentContext != "minikctl" || c.Clusters["minikctl"] == nil {
				t.Errorf("the file is %+v", c)
			}
		})
	}
	for name, raw := range map[string]string{"a list": "- a\n", "no YAML": "a: [\n", "another kind": "apiVersion: v1\nkind: Pod\n"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := MergeKubeconfig(path, access("minikctl"), false); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v", err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != raw {
				t.Errorf("the file is now %q, %v", got, err)
			}
		})
	}
}

func TestKubeconfigSymlinkIsKept(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(real, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	if err := MergeKubeconfig(link, access("minikctl"), false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if load(t, real).Contexts["minikctl"] == nil {
		t.Error("the file behind the link was not changed")
	}
}

func TestConcurrentKubeconfigMerges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			if err := MergeKubeconfig(path, access(name), false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if c := load(t, path); len(c.Contexts) != 4 {
		t.Errorf("there are %d contexts", len(c.Contexts))
	}
	if _, err := os.Stat(path + ".lock"); err == nil {
		t.Error("the lock is left behind")
	}
}
