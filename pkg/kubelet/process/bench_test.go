package process_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// BenchmarkStart measures from the call until the program runs, for one container and for five at once, without and with the mounts that
// every pod has.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{1, 5} {
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) { benchmarkStart(b, n, nil) })
		b.Run(fmt.Sprintf("%d with mounts", n), func(b *testing.B) {
			benchmarkStart(b, n, []kubelet.Mount{
				{Host: b.TempDir(), Container: kubelet.ServiceAccountPath}, {Host: "/etc/hosts", Container: "/dev/termination-log"},
			})
		})
	}
}

func benchmarkStart(b *testing.B, n int, mounts []kubelet.Mount) {
	root := b.TempDir()
	h, err := open(root)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := purge(h, root); err != nil {
			b.Error(err)
		}
	}()
	rt := h.Runtime("node")
	for i := range n {
		if _, err := rt.StartPod(b.Context(), kubelet.PodSpec{UID: podOf(i)}); err != nil {
			b.Fatal(err)
		}
	}
	attempt := 0
	var wg sync.WaitGroup
	for b.Loop() {
		attempt++
		ids := make([]kubelet.ContainerID, n)
		for i := range n {
			wg.Go(func() {
				var err error
				ids[i], err = rt.Start(b.Context(), podOf(i), kubelet.ContainerSpec{
					Name: "c", Attempt: attempt, Command: []string{"sleep", "1000"}, Mounts: mounts, LogPath: fmt.Sprintf("%s/%d", root, i),
				})
				if err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		for _, id := range ids {
			if err := rt.Stop(b.Context(), id, time.Second); err != nil {
				b.Fatal(err)
			}
			if err := rt.Remove(b.Context(), id); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
}

func podOf(i int) types.UID { return types.UID(fmt.Sprintf("pod%d", i)) }
