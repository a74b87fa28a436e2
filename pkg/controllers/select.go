package controllers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// gated are the names of controllers that Kubernetes knows and does not run, since the feature gate of what they act on is off by
// default.
var gated = []string{
	"kube-apiserver-serving-clustertrustbundle-publisher-controller", "podcertificaterequest-cleaner-controller",
	"resourcepoolstatusrequest-controller", "storage-version-migrator-controller", "svm", "storageversion-garbage-collector-controller", "storage-version-gc",
}

// absent are the names of controllers that Kubernetes can run and minikctl does not have. A list may switch them off.
var absent = []string{
	"bootstrap-signer-controller", "bootstrapsigner", "cloud-node-lifecycle-controller", "cloud-node-lifecycle", "device-taint-eviction-controller",
	"node-route-controller", "route", "persistentvolume-attach-detach-controller", "attachdetach", "selinux-warning-controller", "token-cleaner-controller",
	"tokencleaner",
}

// Select returns the controllers that a list enables, as --controllers of kube-controller-manager: "*" is all of them, "NAME" is one,
// and "-NAME" is none, also beside "*". The first element about a controller counts. An empty list is all.
func Select(list []string) ([]controller.Controller, error) {
	if len(list) == 0 {
		return All, nil
	}
	for _, item := range list {
		if err := checkItem(item); err != nil {
			return nil, err
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

func checkItem(item string) error {
	name, off := strings.CutPrefix(item, "-")
	switch {
	case item == "*" || slices.Contains(gated, name):
	case slices.Contains(absent, name):
		if !off {
			return fmt.Errorf("minikctl does not have the controller %q", name)
		}
	case !slices.ContainsFunc(All, func(c controller.Controller) bool { return isNamed(c, name) }):
		return fmt.Errorf("%q is not in the list of known controllers", name)
	}
	return nil
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
