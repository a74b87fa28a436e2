package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// side is a set of programs that serve the Kubernetes API.
type side interface {
	name() string
	can(section string) bool
	// start brings up a new cluster and returns once the API is ready and all nodes are.
	start(ctx context.Context, w want) (*cluster, error)
}

// want is what a cluster has besides the API.
type want struct {
	control bool // controllers and a scheduler
	nodes   int  // simulated nodes, whose pods are Running as soon as they are bound
	gangs   bool // PodGroups
}

// gates returns the feature gates as a flag of Kubernetes' programs has them, and versions the API versions.
func (w want) gates() string {
	return fmt.Sprintf("GenericWorkload=%t,GangScheduling=%t", w.gangs, w.gangs)
}
func (w want) versions() string {
	return fmt.Sprintf("scheduling.k8s.io/v1alpha2=%t", w.gangs)
}

// cluster is a running side.
type cluster struct {
	processes                // that start has started
	took       time.Duration // from the first command to ready
	kubeconfig string
	stop       func() error // ends its processes and removes its files
	// schedule starts a scheduler in a process of its own, for a cluster without one. The process ends when end is called.
	schedule func() (scheduler processes, end func() error, err error)
}

// client returns a client without a rate limit. It uses JSON, as kubectl and most operators do.
func (c *cluster) client() (kubernetes.Interface, error) { return c.clientOf(runtime.ContentTypeJSON) }

// clientOf returns a client without a rate limit that sends and accepts a content type.
func (c *cluster) clientOf(contentType string) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.ContentType = -1, contentType
	return kubernetes.NewForConfig(rest.AddUserAgent(cfg, "compare"))
}

// processes are the numbers of running processes.
type processes []int

// memory returns the sum of a field of /proc/PID/status of the processes in bytes: VmRSS, their resident memory, or VmHWM, the
// peak of it.
func (p processes) memory(field string) (float64, error) {
	kib, err := p.sum(func(pid int) (float64, error) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, rest, ok := strings.Cut(string(data), field+":")
		if !ok {
			return 0, errors.New("no " + field)
		}
		return strconv.ParseFloat(strings.Fields(rest)[0], 64)
	})
	return kib * 1024, err
}

// resetPeak sets the peak of each process's memory to what it has now.
func (p processes) resetPeak() error {
	const peak = "5" // for clear_refs
	for _, pid := range p {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(peak), 0); err != nil {
			return err
		}
	}
	return nil
}

// cpu returns the CPU seconds that the processes have used.
func (p processes) cpu() (float64, error) {
	const ticks = 100 // USER_HZ, which Linux fixes for programs on all supported architectures
	return p.sum(func(pid int) (float64, error) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		// The name in parentheses may hold spaces; utime and stime are the 12th and 13th field after it.
		fields := strings.Fields(string(data)[strings.LastIndexByte(string(data), ')')+1:])
		user, err := strconv.ParseFloat(fields[11], 64)
		if err != nil {
			return 0, err
		}
		system, err := strconv.ParseFloat(fields[12], 64)
		return (user + system) / ticks, err
	})
}

// during returns the CPU seconds that the processes use while work runs.
func (p processes) during(work func() error) (float64, error) {
	before, err := p.cpu()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := p.cpu()
	return after - before, err
}

func (p processes) sum(f func(pid int) (float64, error)) (float64, error) {
	total := 0.0
	for _, pid := range p {
		v, err := f(pid)
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		total += v
	}
	return total, nil
}

// serve starts a program with its output in a file in dir. The program ends when end is called, which waits for it.
func serve(dir string, env []string, program string, args ...string) (pid int, end func() error, err error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait() // a program that was sent a signal may exit with any status
		return nil
	}, nil
}

// poll calls ready every few milliseconds until it returns nil, or ctx ends.
func poll(ctx context.Context, ready func(context.Context) error) error {
	return pollEvery(ctx, 5*time.Millisecond, ready)
}

// pollEvery is poll with another pause: long lists must not be a load of their own.
func pollEvery(ctx context.Context, pause time.Duration, ready func(context.Context) error) error {
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// awaitReady polls readyz and the default namespace, which clients need first.
func awaitReady(ctx context.Context, c *cluster) error {
	var client kubernetes.Interface
	return poll(ctx, func(ctx context.Context) (err error) {
		if client == nil {
			if client, err = c.client(); err != nil {
				return err
			}
		}
		if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		_, err = client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
