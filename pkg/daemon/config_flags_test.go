package daemon

import (
	"maps"
	"testing"
)

// TestFlags leaves out settings of several parts, such as images.
func TestFlags(t *testing.T) {
	c := Config{
		LogLevel: "debug", Only: []string{"apiserver", "kubelet"}, AllocateNodeCIDRs: true, NodeCIDRMaskSize: 24,
		Images: map[string]ImageConfig{"db": {Entrypoint: []string{"db", "--password=secret"}}},
	}
	got := c.flags()
	maps.DeleteFunc(got, func(_, value string) bool { return value == "" })
	want := map[string]string{"logLevel": "debug", "only": "apiserver,kubelet", "allocateNodeCIDRs": "true", "nodeCIDRMaskSize": "24"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
