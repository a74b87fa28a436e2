package controllers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// gated are the names of controllers that Kubernetes knows and does not run, since the feature gate of what they act on is off by
// default: StorageVersionAPI.
var gated = []string{"storageversion-garbage-collector-controller", "storage-version-gc"}

// Select returns the controllers that a list enables, as --controllers of kube-controller-manager: "*" is all of them, "NAME" is one,
// and "-NAME" is none, also beside "*". The first element about a controller counts. An empty list is all.
func Select(list []string) ([]controller.Controller, error) {
	if len(list) == 0 {
		return All, nil
	}
	for _, item := range list {
		name := strings.TrimPrefix(item, "-")
		known := func(c controller.Controller) bool { return isNamed(c, name) }
		if item != "*" && !slices.Contains(gated, name) && !slices.ContainsFunc(All, known) {
			return nil, fmt.Errorf("%q is not in the list of known controllers", name)
		}
	}
	enabled := []controller.Controller{} // not nil, which is all
	for _, c := range All {
		if isEnabled(c, list) {
			enabled = append(enabled, c)
		}
	}
	return enabled, nil
}

func isNamed(c controller.Controller, name string) bool {
	return name != "" && (c.Name == name || c.Alias == name)
}

func isEnabled(c controller.Controller, list []string) bool {
	for _, item := range list {
		if name, off := strings.CutPrefix(item, "-"); isNamed(c, name) {
			return !off
		}
	}
	return slices.Contains(list, "*")
}
