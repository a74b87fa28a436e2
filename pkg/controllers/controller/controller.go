// Package controller owns what controllers share: the environment that each is made with, adoption and release of
// objects by controller reference, the state of pods, indexes, and the kinds that CustomResourceDefinitions add.
//
// A controller is a constructor, func(Env) reconcile.Loop, in the package of its API group beside this one. It watches
// resources through the caches of its Env and writes through its Client, which acts as the controller's service account.
package controller

import (
	"crypto"
	"crypto/x509"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Controller is one entry in the list of controllers.
type Controller struct {
	Name        string // its name in --controllers; several entries of one controller share it
	Alias       string // an earlier name, which --controllers accepts, too; "": none
	Account     string // the service account in kube-system that the controller acts as
	Component   string // its name in Kubernetes, and the source of its Events
	EventSource string // the source of its Events where Kubernetes has another one; "": Component
	New         func(Env) reconcile.Loop
	// Gate reports whether the feature gate of what the controller acts on is on; nil: it has none. Without it the controller does not run.
	Gate func(feature.Gates) bool
}

// These are the numbers of workers of a Loop. A write waits until the store commits its batch, and a batch holds all
// waiting writes. So a Loop with more workers is faster, until there is one worker for each write.
const (
	Workers     = 16
	ManyWorkers = 64 // for a Loop with one write for each of many pods
)

// MaxBackoff bounds the backoff of controllers of workloads after requests that the API server refuses, as in Kubernetes.
const MaxBackoff = 1000 * time.Second

// Env holds what a controller is made with.
type Env struct {
	Client client.Client  // acts as the controller's service account
	Caches *client.Caches // shared by all controllers
	Events *client.Recorder
	Clock  clock.Clock
	Source *clock.Source
	RootCA []byte // the cluster's CA certificate, PEM

	NodeLifecycle NodeLifecycle

	Features feature.Gates // which the built-in resources depend on

	PodCIDRs PodCIDRs // of nodes; the zero value: the cluster allocates none

	LoadBalancers netip.Prefix // the addresses of Services of type LoadBalancer; the zero value: the cluster serves none

	// Volumes is the directory of the volumes that the cluster's own provisioner makes. With "" pods are simulated: no files are made
	// or deleted.
	Volumes string

	Authority Authority
	Token     TokenFor // nil in a process without the service account signing key

	// Discovery returns a discovery client that acts as the controller's service account.
	Discovery func() (discovery.DiscoveryInterface, error)

	// REST returns a configuration for the clients of metrics, which acts as the controller's service account. In the API server's
	// process it reaches discovery, OpenAPI, and the resources of extension servers and of metrics.k8s.io.
	REST func() (*rest.Config, error)

	Custom *CustomKinds // shared by all controllers
}

// TokenFor returns the token that a Secret of type kubernetes.io/service-account-token holds for its ServiceAccount.
type TokenFor func(*corev1.Secret, *corev1.ServiceAccount) (string, error)

// Authority is the cluster's certificate authority. Its zero value is that of a process without the CA's key.
type Authority struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}
