// Package controllers owns the list of controllers and runs them. Each controller watches resources through caches and
// writes others through the API as its own service account; controllers don't call each other.
//
// A controller is a file in the package of its group, with a constructor that returns a reconcile.Loop, and a line in All.
// Its decisions are pure functions; its reconcile method reads caches, decides and writes.
package controllers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/admission"
	"github.com/minikctl/minikctl/pkg/controllers/apps"
	"github.com/minikctl/minikctl/pkg/controllers/autoscaling"
	"github.com/minikctl/minikctl/pkg/controllers/batch"
	"github.com/minikctl/minikctl/pkg/controllers/certificates"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/controllers/discovery"
	"github.com/minikctl/minikctl/pkg/controllers/gc"
	"github.com/minikctl/minikctl/pkg/controllers/namespace"
	"github.com/minikctl/minikctl/pkg/controllers/networking"
	"github.com/minikctl/minikctl/pkg/controllers/node"
	"github.com/minikctl/minikctl/pkg/controllers/policy"
	"github.com/minikctl/minikctl/pkg/controllers/quota"
	"github.com/minikctl/minikctl/pkg/controllers/rbac"
	"github.com/minikctl/minikctl/pkg/controllers/resource"
	"github.com/minikctl/minikctl/pkg/controllers/scheduling"
	"github.com/minikctl/minikctl/pkg/controllers/service"
	"github.com/minikctl/minikctl/pkg/controllers/serviceaccount"
	"github.com/minikctl/minikctl/pkg/controllers/storage"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// All lists the controllers. Name and Alias select one, as in --controllers of kube-controller-manager. Account names the service account in
// kube-system, whose RBAC rules are in pkg/apiserver/internal/authz/controllers.go.
var All = []controller.Controller{
	{Name: "deployment-controller", Alias: "deployment", Account: "deployment-controller", Component: "deployment-controller", New: apps.Deployment},
	{Name: "replicaset-controller", Alias: "replicaset", Account: "replicaset-controller", Component: "replicaset-controller", New: apps.ReplicaSet},
	{Name: "replicationcontroller-controller", Alias: "replicationcontroller", Account: "replication-controller", Component: "replication-controller", New: apps.ReplicationController},
	{Name: "daemonset-controller", Alias: "daemonset", Account: "daemon-set-controller", Component: "daemonset-controller", New: apps.DaemonSet},
	{Name: "statefulset-controller", Alias: "statefulset", Account: "statefulset-controller", Component: "statefulset-controller", New: apps.StatefulSet},
	{Name: "job-controller", Alias: "job", Account: "job-controller", Component: "job-controller", New: batch.Job},
	{Name: "job-controller", Alias: "job", Account: "job-controller", Component: "job-controller", New: batch.JobOrphans},
	{Name: "cronjob-controller", Alias: "cronjob", Account: "cronjob-controller", Component: "cronjob-controller", New: batch.CronJob},
	{Name: "ttl-after-finished-controller", Alias: "ttl-after-finished", Account: "ttl-after-finished-controller", Component: "ttl-after-finished-controller", New: batch.TTLAfterFinished},
	{Name: "endpointslice-controller", Alias: "endpointslice", Account: "endpointslice-controller", Component: "endpoint-slice-controller", New: discovery.EndpointSlice},
	{Name: "endpoints-controller", Alias: "endpoint", Account: "endpoint-controller", Component: "endpoint-controller", New: discovery.Endpoints},
	{Name: "endpointslice-mirroring-controller", Alias: "endpointslicemirroring", Account: "endpointslicemirroring-controller", Component: "endpoint-slice-mirroring-controller", New: discovery.Mirroring},
	{Name: "garbage-collector-controller", Alias: "garbagecollector", Account: "generic-garbage-collector", Component: "generic-garbage-collector", EventSource: "garbage-collector-controller", New: gc.GarbageCollector},
	{Name: "namespace-controller", Alias: "namespace", Account: "namespace-controller", Component: "namespace-controller", New: namespace.Namespace},
	{Name: "serviceaccount-controller", Alias: "serviceaccount", Account: "service-account-controller", Component: "service-account-controller", New: serviceaccount.ServiceAccount},
	{Name: "root-ca-certificate-publisher-controller", Alias: "root-ca-cert-publisher", Account: "root-ca-cert-publisher", Component: "root-ca-cert-publisher", New: serviceaccount.RootCA},
	{Name: "node-lifecycle-controller", Alias: "nodelifecycle", Account: "node-controller", Component: "node-controller", New: node.NodeLifecycle},
	{Name: "ttl-controller", Alias: "ttl", Account: "ttl-controller", Component: "ttl-controller", New: node.TTL},
	{Name: "node-ipam-controller", Alias: "nodeipam", Account: "node-controller", Component: "node-ipam-controller", EventSource: "cidrAllocator", New: node.NodeIPAM},
	{Name: "service-lb-controller", Alias: "service", Account: "service-controller", Component: "service-controller", New: service.LoadBalancer},
	{Name: "service-cidr-controller", Account: "service-cidrs-controller", Component: "service-cidr-controller", New: networking.ServiceCIDR},
	{Name: "taint-eviction-controller", Account: "node-controller", Component: "taint-eviction-controller", New: node.TaintEviction},
	{Name: "pod-garbage-collector-controller", Alias: "podgc", Account: "pod-garbage-collector", Component: "pod-garbage-collector", New: node.PodGC},
	{Name: "disruption-controller", Alias: "disruption", Account: "disruption-controller", Component: "disruption-controller", EventSource: "controllermanager", New: policy.Disruption},
	{Name: "disruption-controller", Alias: "disruption", Account: "disruption-controller", Component: "disruption-controller", New: policy.StaleDisruption},
	{Name: "horizontal-pod-autoscaler-controller", Alias: "horizontalpodautoscaling", Account: "horizontal-pod-autoscaler", Component: "horizontal-pod-autoscaler", New: autoscaling.HorizontalPodAutoscaler},
	{Name: "resourcequota-controller", Alias: "resourcequota", Account: "resourcequota-controller", Component: "resourcequota-controller", New: quota.ResourceQuota},
	{Name: "resourceclaim-controller", Alias: "resource-claim-controller", Account: "resource-claim-controller", Component: "resource-claim-controller", EventSource: "resource_claim", New: resource.ResourceClaim},
	{Name: "resourceclaim-controller", Alias: "resource-claim-controller", Account: "resource-claim-controller", Component: "resource-claim-controller", EventSource: "resource_claim", New: resource.PodResourceClaim},
	{Name: "persistentvolume-binder-controller", Alias: "persistentvolume-binder", Account: "persistent-volume-binder", Component: "persistentvolume-controller", New: storage.PersistentVolume},
	{Name: "minikctl.dev/folder", Account: "persistent-volume-binder", Component: "minikctl.dev/folder", New: storage.DirProvisioner},
	{Name: "ephemeral-volume-controller", Alias: "ephemeral-volume", Account: "ephemeral-volume-controller", Component: "ephemeral_volume", New: storage.EphemeralVolume},
	{Name: "persistentvolume-expander-controller", Alias: "persistentvolume-expander", Account: "expand-controller", Component: "volume_expand", New: storage.VolumeExpand},
	{Name: "volumeattributesclass-protection-controller", Account: "volumeattributesclass-protection-controller", Component: "volumeattributesclass-protection-controller", New: storage.VACProtection},
	{Name: "persistentvolumeclaim-protection-controller", Alias: "pvc-protection", Account: "pvc-protection-controller", Component: "pvc-protection-controller", New: storage.PVCProtection},
	{Name: "persistentvolume-protection-controller", Alias: "pv-protection", Account: "pv-protection-controller", Component: "pv-protection-controller", New: storage.PVProtection},
	{Name: "podgroup-protection-controller", Account: "podgroup-protection-controller", Component: "podgroup-protection-controller", New: scheduling.PodGroupProtection,
		Gate: func(g feature.Gates) bool { return g.GenericWorkload }},
	{Name: "serviceaccount-token-controller", Alias: "serviceaccount-token", Account: "generic-garbage-collector", Component: "tokens-controller", New: serviceaccount.TokenSecret},
	{Name: "legacy-serviceaccount-token-cleaner-controller", Alias: "legacy-service-account-token-cleaner", Account: "legacy-service-account-token-cleaner", Component: "legacy-service-account-token-cleaner", New: serviceaccount.LegacyTokenCleaner},
	{Name: "clusterrole-aggregation-controller", Alias: "clusterrole-aggregation", Account: "clusterrole-aggregation-controller", Component: "clusterrole-aggregation-controller", New: rbac.ClusterRoleAggregation},
	{Name: "certificatesigningrequest-approving-controller", Alias: "csrapproving", Account: "certificate-controller", Component: "certificate-controller", New: certificates.CSRApproving},
	{Name: "certificatesigningrequest-signing-controller", Alias: "csrsigning", Account: "certificate-controller", Component: "certificate-controller", New: certificates.CSRSigning},
	{Name: "certificatesigningrequest-cleaner-controller", Alias: "csrcleaner", Account: "certificate-controller", Component: "certificate-controller", New: certificates.CSRCleaner},
	{Name: "validatingadmissionpolicy-status-controller", Alias: "validatingadmissionpolicy-status", Account: "validatingadmissionpolicy-status-controller", Component: "validatingadmissionpolicy-status-controller", New: admission.PolicyStatus},
}

// Config is what Run needs.
type Config struct {
	// Controllers are those to run; nil: All. See Select.
	Controllers []controller.Controller
	// Client returns the client that acts as a service account in kube-system.
	Client func(account string) client.Client
	Caches *client.Caches // shared by all controllers; the caller runs them
	Clock  clock.Clock
	Source *clock.Source
	// Volumes is the directory of the volumes that the cluster's own provisioner makes. With "" pods are simulated: no files are made
	// or deleted.
	Volumes string
	RootCA  []byte // the cluster's CA certificate, PEM, for the ConfigMap kube-root-ca.crt of each namespace

	NodeLifecycle controller.NodeLifecycle // the zero value: the defaults

	Features feature.Gates // of the API server

	PodCIDRs      controller.PodCIDRs // of nodes; the zero value: they get none
	LoadBalancers netip.Prefix        // the addresses of Services of type LoadBalancer; the zero value: they get none

	// Authority signs certificates. Its zero value signs none: only the API server's process has the CA's key.
	Authority controller.Authority
	// Token returns the tokens for Secrets. With nil, Secrets get none: only the API server's process has the signing key.
	Token controller.TokenFor

	// REST returns a configuration that acts as a service account in kube-system. It needs to reach what controller.Env.REST says.
	REST func(account string) (*rest.Config, error)
}

// Run runs the controllers until ctx ends. It returns when they have finished the reconciles that they had begun.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Controllers == nil {
		cfg.Controllers = All
	}
	return run(ctx, cfg, cfg.Controllers)
}

func run(ctx context.Context, cfg Config, list []controller.Controller) error {
	ctx, work := clock.Begin(ctx, cfg.Clock, "start of the controllers")
	defer work.End()
	var loops []reconcile.Loop
	var running, subscribed sync.WaitGroup
	defer running.Wait()
	custom := controller.NewCustomKinds(cfg.Caches, cfg.Clock)
	for _, c := range list {
		if c.Gate != nil && !c.Gate(cfg.Features) {
			continue
		}
		cl := cfg.Client(c.Account)
		events := client.NewRecorder(cl, cfg.Clock, cfg.Source, cmp.Or(c.EventSource, c.Component), "")
		loops = append(loops, c.New(controller.Env{
			Client: cl, Caches: cfg.Caches, Events: events, Clock: cfg.Clock, Source: cfg.Source, Volumes: cfg.Volumes, RootCA: cfg.RootCA, Authority: cfg.Authority,
			Token:         cfg.Token,
			NodeLifecycle: cmp.Or(cfg.NodeLifecycle, controller.DefaultNodeLifecycle()),
			Features:      cfg.Features,
			PodCIDRs:      cfg.PodCIDRs, LoadBalancers: cfg.LoadBalancers,
			Discovery: func() (clientdiscovery.DiscoveryInterface, error) { return discover(cfg, c.Account) },
			REST:      func() (*rest.Config, error) { return cfg.REST(c.Account) },
			Custom:    custom,
		}))
		running.Go(func() {
			if err := events.Run(ctx); err != nil {
				slog.ErrorContext(ctx, "recording of events ended", "controller", c.Account, "err", err)
			}
		})
	}
	if err := cfg.Caches.WaitSynced(ctx); err != nil {
		return nil // ctx ended first
	}
	failed := make([]error, len(loops))
	for i, l := range loops {
		subscribed.Add(1)
		l.Sources = append(slices.Clip(l.Sources), func(context.Context, reconcile.Enqueue) { subscribed.Done() })
		running.Go(func() {
			if err := l.Run(ctx, cfg.Clock); err != nil {
				failed[i] = fmt.Errorf("controller %s: %w", l.Name, err)
			}
		})
	}
	subscribed.Wait()
	work.End()
	running.Wait()
	return cmp.Or(failed...)
}

// discover returns a discovery client that acts as a service account.
func discover(cfg Config, account string) (clientdiscovery.DiscoveryInterface, error) {
	as, err := cfg.REST(account)
	if err != nil {
		return nil, err
	}
	return clientdiscovery.NewDiscoveryClientForConfig(as)
}
