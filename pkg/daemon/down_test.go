package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDownOfNothing(t *testing.T) {
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

// TestPurgeStaysInside: what is not the daemon's stays, whatever the daemon is called and wherever its data is said to be.
func TestPurgeStaysInside(t *testing.T) {
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
	for path, want := range map[string]bool{
		kept: true, filepath.Join(dir, "other", "daemon.lock"): true, filepath.Join(mine, "thesis.txt"): true, filepath.Join(mine, "store"): false,
	} {
		if exists(path) != want {
			t.Errorf("%s: exists is %v", path, !want)
		}
	}
}

// TestPurge: of a daemon that has ended nothing is left, and what other programs wrote into the kubeconfig stays.
func TestPurge(t *testing.T) {
	for _, c := range []struct {
		name   string
		others bool // has the kubeconfig
		left   bool // the kubeconfig
	}{{"a kubeconfig of our own", false, false}, {"a kubeconfig of others, too", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			dir := home(t)
			config := filepath.Join(t.TempDir(), "config")
			t.Setenv("KUBECONFIG", config)
			p := PathsIn("dev", filepath.Join(real(t.TempDir()), "data"))
			held, err := lock(p)
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
			for _, folder := range []string{p.Store, p.PKI, p.Kubelet, p.Traces, p.DiscoveryCache, filepath.Dir(p.Socket)} {
				write(t, filepath.Join(folder, "x"))
			}
			own := clientcmdapi.NewConfig()
			own.Clusters["minikctl-dev"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
			own.Contexts["minikctl-dev"] = &clientcmdapi.Context{Cluster: "minikctl-dev", AuthInfo: "minikctl-dev-admin"}
			own.AuthInfos["minikctl-dev-admin"] = clientcmdapi.NewAuthInfo()
			if err := clientcmd.WriteToFile(*own, p.Kubeconfig); err != nil {
				t.Fatal(err)
			}
			if c.others {
				own.Clusters["theirs"] = &clientcmdapi.Cluster{Server: "https://example.com"}
			}
			if err := clientcmd.WriteToFile(*own, config); err != nil {
				t.Fatal(err)
			}
			if err := purge(p); err != nil {
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

func TestRemoveIfEmpty(t *testing.T) {
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
		own := filepath.Join(dir, name)
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(own, "config")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := removeIfEmpty(path); err != nil || exists(path) != c.left || exists(own) != c.left {
			t.Errorf("%s: left is %v, its folder %v, want %v (%v)", name, exists(path), exists(own), c.left, err)
		}
	}
	if err := removeIfEmpty(filepath.Join(dir, "none")); err != nil {
		t.Errorf("of no file: %v", err)
	}
}
