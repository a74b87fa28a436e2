package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// ours is a minikctl.
type ours struct {
	label, program, dir string
	without             []string // the sections that it can't do
}

func (o *ours) name() string { return o.label }

func (o *ours) can(section string) bool { return !slices.Contains(o.without, section) }

// start runs "minikctl up -d" with an empty home directory, as a new user does.
func (o *ours) start(ctx context.Context, w want) (*cluster, error) {
	home, err := os.MkdirTemp(o.dir, o.label)
	if err != nil {
		return nil, err
	}
	data, kubeconfig := filepath.Join(home, "data"), filepath.Join(home, "kubeconfig")
	minikctl := func(ctx context.Context, args ...string) error {
		args = append(args, "--name", "compare", "--data-dir", data)
		cmd := exec.CommandContext(ctx, o.program, args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("minikctl %v: %w\n%s", args, err, out)
		}
		return nil
	}
	up := []string{"up", "-d", "--write-kubeconfig", kubeconfig}
	if !w.control {
		up = append(up, "--only", "apiserver")
	}
	var gangs []string
	if w.gangs {
		gangs = []string{"--feature-gates", w.gates(), "--runtime-config", w.versions()}
		up = append(up, gangs...)
	}
	if w.nodes > 0 {
		config := filepath.Join(home, "config.yaml")
		nodes := fmt.Sprintf("nodes:\n- {count: %d, name: node, runtime: {name: sim}, capacity: {cpu: \"32\", memory: 256Gi, pods: \"110\"}}\n", w.nodes)
		if err := os.WriteFile(config, []byte(nodes), 0o600); err != nil {
			return nil, err
		}
		up = append(up, "--config", config)
	}
	began := time.Now()
	if err := minikctl(ctx, up...); err != nil {
		return nil, err
	}
	c := &cluster{took: time.Since(began), kubeconfig: kubeconfig}
	c.schedule = func() (processes, func() error, error) {
		args := append([]string{"up", "--only", "scheduler", "--kubeconfig", kubeconfig, "--name", "compare-scheduler", "--data-dir", filepath.Join(home, "scheduler")}, gangs...)
		pid, end, err := serve(home, []string{"HOME=" + home, "KUBECONFIG="}, o.program, args...)
		return processes{pid}, end, err
	}
	c.stop = func() error {
		err := minikctl(context.WithoutCancel(ctx), "down", "--purge")
		return errors.Join(err, os.RemoveAll(home))
	}
	if err := o.finish(ctx, c, data, w); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// finish reads the daemon's process number and waits for its nodes.
func (o *ours) finish(ctx context.Context, c *cluster, data string, w want) error {
	state, err := os.ReadFile(filepath.Join(data, "daemon.json"))
	if err != nil {
		return err
	}
	var daemon struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(state, &daemon); err != nil {
		return err
	}
	c.processes = processes{daemon.PID}
	return nodesReady(ctx, c, w.nodes)
}
