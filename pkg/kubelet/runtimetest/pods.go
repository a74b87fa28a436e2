package runtimetest

import (
	"slices"
	"strings"
	"time"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

const short = 100 * time.Millisecond

func podListedUntilStopped(f *fixture) {
	p := f.pod()
	if got := f.pods(); len(got) != 1 || got[0].UID != p.UID || got[0].Name != p.Name || got[0].IP != p.IP {
		f.Fatalf("got %+v, want %+v", got, p)
	}
	if p.Started.IsZero() {
		f.Error("the pod has no start time")
	}
	for range 2 {
		if err := f.StopPod(f.ctx, p.UID); err != nil {
			f.Fatal(err)
		}
	}
	if got := f.pods(); len(got) != 0 {
		f.Errorf("after StopPod: got %+v", got)
	}
}

func (f *fixture) pods() []kubelet.Pod {
	f.Helper()
	pods, err := f.Pods(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return pods
}

func startPodTwice(f *fixture) {
	p := f.pod()
	again, err := f.StartPod(f.ctx, p.PodSpec)
	if err != nil {
		f.Fatal(err)
	}
	if again.IP != p.IP || again.UID != p.UID {
		f.Errorf("got %+v, want %+v", again, p)
	}
	if got := f.pods(); len(got) != 1 {
		f.Errorf("got %d pods", len(got))
	}
}

func stopUnknown(f *fixture) {
	if err := f.StopPod(f.ctx, "unknown"); err != nil {
		f.Errorf("StopPod: %v", err)
	}
	if err := f.Stop(f.ctx, "nothing", time.Second); err != nil {
		f.Errorf("Stop: %v", err)
	}
	if err := f.Remove(f.ctx, "nothing"); err != nil {
		f.Errorf("Remove: %v", err)
	}
}

func startWithoutPod(f *fixture) {
	if _, err := f.Start(f.ctx, "unknown", f.shell("exit 0")); err == nil {
		f.Error("a container was started in a pod that is not there")
	}
}

func containerRuns(f *fixture) {
	p := f.pod()
	spec := f.command("sleep", "1000")
	spec.Attempt = 3
	spec.Image = kubelet.Image{Name: "nginx", ID: "sha256:1"}
	id := f.start(p, spec)
	c, ok := f.find(id)
	if !ok {
		f.Fatal("the container is not there when Start has returned")
	}
	if !c.Running || c.Started.IsZero() || c.Name != spec.Name || c.Attempt != 3 || c.Image != spec.Image {
		f.Errorf("got %+v", c)
	}
	if f.driver.Tier.Simulated == (c.PID > 0) {
		f.Errorf("got PID %d", c.PID)
	}
}

func stopTwice(f *fixture) {
	p := f.pod()
	id := f.start(p, f.command("sleep", "1000"))
	for range 2 {
		if err := f.Stop(f.ctx, id, time.Second); err != nil {
			f.Fatal(err)
		}
		c, ok := f.find(id)
		if !ok || c.Running || c.Finished.IsZero() || c.Finished.Before(c.Started) {
			f.Fatalf("after Stop: got %+v, %v", c, ok)
		}
	}
	for range 2 {
		if err := f.Remove(f.ctx, id); err != nil {
			f.Fatal(err)
		}
		if _, ok := f.find(id); ok {
			f.Fatal("the container is there after Remove")
		}
	}
}

func stopPodEndsContainers(f *fixture) {
	p := f.pod()
	id := f.start(p, f.command("sleep", "1000"))
	c, _ := f.find(id)
	if err := f.StopPod(f.ctx, p.UID); err != nil {
		f.Fatal(err)
	}
	if got := f.pods(); len(got) != 0 {
		f.Errorf("got %+v", got)
	}
	if c.PID != 0 && alive(c.PID) {
		f.Errorf("process %d is there", c.PID)
	}
}

func removeRunning(f *fixture) {
	p := f.pod()
	id := f.start(p, f.command("sleep", "1000"))
	if err := f.Remove(f.ctx, id); err == nil {
		f.Error("a running container was removed")
	}
	if c, ok := f.find(id); !ok || !c.Running {
		f.Errorf("got %+v, %v", c, ok)
	}
}

func addressesDiffer(f *fixture) {
	var ips []string
	for range 5 {
		p := f.pod()
		if p.IP == "" || p.IP == "127.0.0.1" {
			f.Skipf("pods have no addresses of their own here: %s", f.featureMessage("PodAddresses"))
		}
		if slices.Contains(ips, p.IP) {
			f.Errorf("%s belongs to two pods", p.IP)
		}
		ips = append(ips, p.IP)
	}
	host, err := f.StartPod(f.ctx, kubelet.PodSpec{UID: "host", Namespace: "default", Name: "host", HostNetwork: true})
	if err != nil {
		f.Fatal(err)
	}
	if slices.Contains(ips, host.IP) {
		f.Errorf("a pod of the host's network has %s, which is another pod's", host.IP)
	}
}

// featureMessage returns the message of a runtime's feature.
func (f *fixture) featureMessage(feature string) string {
	d, ok := f.Runtime.(kubelet.Describer)
	if !ok {
		return "the runtime describes no features"
	}
	var said []string
	for _, x := range d.Features() {
		if x.Name == feature {
			said = append(said, x.Message)
		}
	}
	return strings.Join(said, "; ")
}

func changed(f *fixture) {
	p := f.pod()
	f.drain()
	id := f.start(p, f.command("sleep", "1000"))
	f.hint("the start")
	if err := f.Stop(f.ctx, id, time.Second); err != nil {
		f.Fatal(err)
	}
	f.hint("the end")
}

// drain reads the hints that are pending.
func (f *fixture) drain() {
	for {
		select {
		case <-f.Changed():
		case <-time.After(short):
			return
		}
	}
}

func (f *fixture) hint(what string) {
	f.Helper()
	select {
	case <-f.Changed():
	case <-f.ctx.Done():
		f.Fatalf("no hint of %s", what)
	}
}
