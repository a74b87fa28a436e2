// Package controllers owns the control loops that make the cluster what its objects say: each watches some resources
// through caches and writes others through the API, under an identity of its own, and knows nothing of the rest.
//
// A controller is a file with a constructor that returns a reconcile.Loop, and a line in All. What it decides is a pure
// function beside it; reconcile looks, decides and acts.
package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Controller is one control loop and who it acts as.
type Controller struct {
	Account   string // the service account in kube-system that it acts as
	Component string // of its Events
	New       func(Env) reconcile.Loop
}

// All lists the controllers.
var All = []Controller{

	{"deployment-controller", "deployment-controller", Deployment},
	{"replicaset-controller", "replicaset-controller", ReplicaSet},
	{"generic-garbage-collector", "generic-garbage-collector", GarbageCollector},
	{"namespace-controller", "namespace-controller", Namespace},
	{"service-account-controller", "service-account-controller", ServiceAccount},
	{"root-ca-cert-publisher", "root-ca-cert-publisher", RootCA},
	{"node-controller", "node-controller", NodeLifecycle},
	{"node-controller", "taint-eviction-controller", TaintEviction},
	{"pod-garbage-collector", "pod-garbage-collector", PodGC},
	{"resourcequota-controller", "resourcequota-controller", ResourceQuota},
	{"pvc-protection-controller", "pvc-protection-controller", ClaimProtection},
	{"pv-protection-controller", "pv-protection-controller", VolumeProtection},
	{"generic-garbage-collector", "tokens-controller", TokenSecret},
	{"clusterrole-aggregation-controller", "clusterrole-aggregation-controller", ClusterRoleAggregation},
	{"certificate-controller", "certificate-controller", CSRApproving},
	{"certificate-controller", "certificate-controller", CSRSigning},
	{"certificate-controller", "certificate-controller", CSRCleaner},
	{"validatingadmissionpolicy-status-controller", "validatingadmissionpolicy-status-controller", PolicyStatus},
}

// How many keys a loop works on at the same time. Each write waits for its commit, and all that wait go into the same one,
// so that more at a time take hardly longer.
const (
	some = 16
	many = 64 // where there is a write for each of many pods
)

// Env is what a controller is given.
type Env struct {
	Client client.Client // acts as the controller
	Caches *client.Caches
	Events *client.Recorder
	Clock  clock.Clock
	Source *clock.Source
	RootCA []byte // the cluster's CA certificate, PEM

	Authority Authority
	Token     TokenFor // nil: the key of tokens is elsewhere

	// Describe returns a client of what the API says of itself, which acts as the controller.
	Describe func() (discovery.DiscoveryInterface, error)

	custom *customKinds // shared by all
}

// TokenFor makes the token that a Secret is to hold for a ServiceAccount.
type TokenFor func(*corev1.Secret, *corev1.ServiceAccount) (string, error)

// Config says how to run the controllers.
type Config struct {
	// Client returns the client that acts as the service account name in kube-system.
	Client func(name string) client.Client
	Caches *client.Caches // shared by all; the caller runs them
	Clock  clock.Clock
	Source *clock.Source
	RootCA []byte // the cluster's CA certificate, PEM, for the ConfigMap kube-root-ca.crt of each namespace

	// Authority signs certificates. Without its key, which is where the API server is, none are signed.
	Authority Authority
	// Token makes the tokens of Secrets; nil: none are made, as their key is where the API server is.
	Token TokenFor

	// Describe returns a client of what the API says of itself, which acts as the service account name in kube-system.
	Describe func(name string) (discovery.DiscoveryInterface, error)
}

// Run runs all controllers until ctx ends, and returns when they have finished what they had begun.
func Run(ctx context.Context, cfg Config) error { return run(ctx, cfg, All) }

func run(ctx context.Context, cfg Config, list []Controller) error {
	var loops []reconcile.Loop
	var running sync.WaitGroup
	defer running.Wait()
	custom := newCustomKinds(cfg.Caches, cfg.Clock)
	for _, c := range list {
		cl := cfg.Client(c.Account)
		events := client.NewRecorder(cl, cfg.Clock, cfg.Source, c.Component, "")
		loops = append(loops, c.New(Env{
			Client: cl, Caches: cfg.Caches, Events: events, Clock: cfg.Clock, Source: cfg.Source, RootCA: cfg.RootCA, Authority: cfg.Authority,
			Token:    cfg.Token,
			Describe: func() (discovery.DiscoveryInterface, error) { return cfg.Describe(c.Account) },
			custom:   custom,
		}))
		running.Go(func() {
			if err := events.Run(ctx); err != nil {
				slog.ErrorContext(ctx, "events no longer recorded", "controller", c.Account, "err", err)
			}
		})
	}
	if err := cfg.Caches.WaitSynced(ctx); err != nil {
		return nil // ended before it began
	}
	failed := make([]error, len(loops))
	for i, l := range loops {
		running.Go(func() {
			if err := l.Run(ctx, cfg.Clock); err != nil {
				failed[i] = fmt.Errorf("controller %s: %w", l.Name, err)
			}
		})
	}
	running.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
