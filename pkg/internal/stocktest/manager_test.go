package stocktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const finalizer = "example.com/sites"

// sites is a small operator: it creates a Deployment for every ConfigMap with the label of a site, and writes its progress to the
// ConfigMap.
type sites struct {
	client.Client
	name string
}

func (s sites) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site corev1.ConfigMap
	if err := s.Get(ctx, req.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&site, finalizer) {
			return ctrl.Result{}, s.Update(ctx, &site)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&site, finalizer) {
		return ctrl.Result{}, s.Update(ctx, &site)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, s.Client, deployment, func() error {
		labels := map[string]string{"site": site.Name}
		deployment.Spec.Replicas = ptr.To[int32](1)
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
		}
		c := &deployment.Spec.Template.Spec.Containers[0]
		c.Name, c.Image, c.Env = "web", "nginx", []corev1.EnvVar{{Name: "TITLE", Value: site.Data["title"]}}
		return controllerutil.SetControllerReference(&site, deployment, s.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	ready := fmt.Sprint(deployment.Status.ReadyReplicas)
	if site.Annotations["ready"] == ready && site.Annotations["by"] == s.name {
		return ctrl.Result{}, nil
	}
	was := site.DeepCopy()
	metav1.SetMetaDataAnnotation(&site.ObjectMeta, "ready", ready)
	metav1.SetMetaDataAnnotation(&site.ObjectMeta, "by", s.name)
	return ctrl.Result{}, s.Patch(ctx, &site, client.MergeFrom(was))
}

// startManager runs a manager until the returned function is called, which waits until it has ended.
func startManager(t *testing.T, c cluster, name string) (client.Client, func()) {
	t.Helper()
	m, err := ctrl.NewManager(c.config, ctrl.Options{
		LeaderElection: true, LeaderElectionID: "sites.example.com", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true, LeaseDuration: ptr.To(3 * time.Second), RenewDeadline: ptr.To(2 * time.Second), RetryPeriod: ptr.To(200 * time.Millisecond),
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	labelled := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetLabels()["kind"] == "site" })
	err = ctrl.NewControllerManagedBy(m).
		For(&corev1.ConfigMap{}, builder.WithPredicates(labelled)).
		Owns(&appsv1.Deployment{}).
		Complete(sites{m.GetClient(), name})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stop := func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager %s: %v", name, err)
		}
	}
	return m.GetClient(), stop
}

func leader(t *testing.T, c client.Client) string {
	var lease coordinationv1.Lease
	eventually(t, "a leader", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "sites.example.com"}, &lease); err != nil {
			return err
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			return fmt.Errorf("the lease has no holder")
		}
		return nil
	})
	return *lease.Spec.HolderIdentity
}

// TestManager runs a controller in two managers of controller-runtime: the leader reconciles from
// its cache, and when it ends the other manager becomes the leader.
func TestManager(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	direct, err := client.New(c.config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cached, stopFirst := startManager(t, c, "first")
	first := leader(t, direct)
	_, stopSecond := startManager(t, c, "second")
	defer stopSecond()

	site := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "home", Namespace: "default", Labels: map[string]string{"kind": "site"}},
		Data:       map[string]string{"title": "Home"},
	}
	if err := direct.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	told := func(key, want string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := direct.Get(ctx, client.ObjectKeyFromObject(site), site); err != nil {
				return err
			}
			if got := site.Annotations[key]; got != want {
				return fmt.Errorf("annotation %s is %q, want %q", key, got, want)
			}
			return nil
		}
	}
	eventually(t, "the site is ready", told("ready", "1"))
	eventually(t, "the first manager has reconciled the site", told("by", "first"))
	eventually(t, "the cache shows the Deployment", func(ctx context.Context) error {
		var list appsv1.DeploymentList
		if err := cached.List(ctx, &list, client.InNamespace("default")); err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%d Deployments: %w", len(list.Items), err)
		}
		return nil
	})

	stopFirst()
	eventually(t, "another leader", func(ctx context.Context) error {
		if leader(t, direct) == first {
			return fmt.Errorf("%s still leads", first)
		}
		return nil
	})
	eventually(t, "the second manager continues", told("by", "second"))

	if err := direct.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the site and its Deployment are gone", func(ctx context.Context) error {
		for _, obj := range []client.Object{&corev1.ConfigMap{}, &appsv1.Deployment{}} {
			if err := direct.Get(ctx, client.ObjectKeyFromObject(site), obj); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T: %w", obj, err)
			}
		}
		return nil
	})
}
