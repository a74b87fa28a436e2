package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// upstream is Kubernetes' own programs. Its nodes are objects whose pods this program reports as Running.
type upstream struct {
	dir, etcd, apiserver, controllers, scheduler string
}

func (u *upstream) name() string { return "Kubernetes" }

func (u *upstream) can(section string) bool {
	switch section {
	case "start", "api":
		return true
	case "backlog", "workloads", "large":
		return u.scheduler != ""
	}
	return u.controllers != "" && u.scheduler != ""
}

// start runs etcd and kube-apiserver, and where controllers are wanted and named, kube-controller-manager and
// kube-scheduler, all with their default settings but for ports, client limits and the time after which a node without a
// heartbeat is unhealthy.
func (u *upstream) start(ctx context.Context, w want) (_ *cluster, err error) {
	home, err := os.MkdirTemp(u.dir, "kubernetes")
	if err != nil {
		return nil, err
	}
	c := &cluster{kubeconfig: filepath.Join(home, "kubeconfig")}
	var ends []func() error
	c.stop = func() error {
		var errs []error
		for _, end := range slices.Backward(ends) {
			errs = append(errs, end())
		}
		return errors.Join(append(errs, os.RemoveAll(home))...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.logs(home), c.stop())
		}
	}()
	key, token := filepath.Join(home, "service-account.key"), filepath.Join(home, "tokens.csv")
	if err := errors.Join(writeKey(key), os.WriteFile(token, []byte("compare,admin,admin,system:masters\n"), 0o600)); err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	if err := writeKubeconfig(c.kubeconfig, ports[0]); err != nil {
		return nil, err
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1]), fmt.Sprintf("http://127.0.0.1:%d", ports[2])

	run := func(program string, args ...string) {
		if err != nil {
			return
		}
		var pid int
		var end func() error
		if pid, end, err = serve(home, []string{"HOME=" + home}, program, args...); err == nil {
			c.processes, ends = append(c.processes, pid), append(ends, end)
		}
	}
	began := time.Now()
	run(u.etcd, "--data-dir", filepath.Join(home, "etcd"), "--log-level", "warn", "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	run(u.apiserver, "--etcd-servers", client, "--cert-dir", filepath.Join(home, "certs"), "--bind-address", "127.0.0.1",
		"--secure-port", fmt.Sprint(ports[0]), "--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none",
		"--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "Node,RBAC", "--token-auth-file", token,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--feature-gates", w.gates(), "--runtime-config", w.versions())
	limits := []string{"--kubeconfig", c.kubeconfig, "--secure-port", "0", "--leader-elect=false", "--kube-api-qps", "10000", "--kube-api-burst", "10000",
		"--feature-gates", w.gates()}
	if w.control && u.controllers != "" {
		run(u.controllers, append(slices.Clone(limits), "--service-account-private-key-file", key, "--node-monitor-grace-period", "1h")...)
	}
	if w.control && u.scheduler != "" {
		run(u.scheduler, limits...)
	}
	if err != nil {
		return nil, err
	}
	c.schedule = func() (processes, func() error, error) {
		pid, end, err := serve(home, []string{"HOME=" + home}, u.scheduler, limits...)
		return processes{pid}, end, err
	}
	wait, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := awaitReady(wait, c); err != nil {
		return nil, err
	}
	c.took = time.Since(began)
	if w.nodes > 0 {
		end, err := simulate(ctx, c, w.nodes)
		if err != nil {
			return nil, err
		}
		ends = append(ends, end)
	}
	return c, nodesReady(wait, c, w.nodes)
}

// logs returns the last lines of each program's log as an error, for a start that failed.
func (u *upstream) logs(home string) error {
	files, err := filepath.Glob(filepath.Join(home, "*.log"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		errs = append(errs, fmt.Errorf("%s: %s", filepath.Base(file), strings.Join(lines[max(0, len(lines)-3):], "\n")))
	}
	return errors.Join(errs...)
}

func writeKey(file string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
}

func writeKubeconfig(file string, port int) error {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["k"] = &clientcmdapi.Cluster{Server: fmt.Sprintf("https://127.0.0.1:%d", port), InsecureSkipTLSVerify: true}
	cfg.AuthInfos["k"] = &clientcmdapi.AuthInfo{Token: "compare"}
	cfg.Contexts["k"] = &clientcmdapi.Context{Cluster: "k", AuthInfo: "k"}
	cfg.CurrentContext = "k"
	return clientcmd.WriteToFile(*cfg, file)
}

// freePorts returns ports that nothing listens on now. Another program may take one before it is used; then the start fails.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
