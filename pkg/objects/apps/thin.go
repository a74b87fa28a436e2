package apps

import (
	appsv1 "k8s.io/api/apps/v1"
)

func deploymentWarnings(n, old *appsv1.Deployment) []string { return nil }
func replicaSetWarnings(n, old *appsv1.ReplicaSet) []string { return nil }
