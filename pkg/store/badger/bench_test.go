package badger_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// BenchmarkWrite creates objects of 2 KiB from 1, 16, 64 and 256 writers at a time.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			s, err := badger.Open(badger.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			value := make([]byte, 2048)
			var n atomic.Int64
			b.SetParallelism(writers)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					op := store.Op{Key: fmt.Sprint("k/", n.Add(1)), Value: value, Expect: store.Absent()}
					if _, err := s.Write(b.Context(), op); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// cpu returns the processor time that the process has used. Unlike the time of the clock, the load of the machine does not change
// it.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOpen verifies and opens a store of 10,000 objects of 2 KiB that was closed.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := badger.Open(badger.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < 10_000; i += 100 {
		var ops []store.Op
		for j := range 100 {
			ops = append(ops, store.Op{Key: fmt.Sprintf("pods/default/web-%06d", i+j), Value: make([]byte, 2048)})
		}
		if _, err := s.Write(b.Context(), ops...); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("verify", func(b *testing.B) {
		before := cpu(b)
		for b.Loop() {
			if err := badger.Verify(dir); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpu(b)-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			s, err := badger.Open(badger.Config{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			s.Close()
			b.StartTimer()
		}
	})
}
