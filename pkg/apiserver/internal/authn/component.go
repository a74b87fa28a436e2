package authn

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// componentPrefixes are the prefixes of components' user names.
var componentPrefixes = []string{"system:serviceaccount:kube-system:", "system:node:"}

// Component reports whether a user is a component of the cluster. The reports about the causes of writes are accepted from components only.
func Component(info user.Info) bool {
	switch name := info.GetName(); name {
	case user.KubeScheduler, user.KubeControllerManager:
		return true
	default:
		for _, p := range componentPrefixes {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
		return false
	}
}
