package badger_test

import (
	"fmt"
	"sync/atomic"
	"testing"

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
