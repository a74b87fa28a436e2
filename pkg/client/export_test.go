package client

import "github.com/minikctl/minikctl/pkg/objects/mutation"

// DetectMutations makes a cache report changes of its objects by readers, in any build.
func (c *Cache[T]) DetectMutations(fail func(message string)) {
	c.informer.shared = mutation.NewDetector("test", fail)
}
