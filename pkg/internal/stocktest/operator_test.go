package stocktest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Site is the operator's custom resource: a web server with a title.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitempty"`
}

// SiteSpec is the desired state of a Site.
type SiteSpec struct {
	Title    string `json:"title"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// SiteStatus is the observed state of a Site.
type SiteStatus struct {
	Ready      int32              `json:"ready"`
	Selector   string             `json:"selector,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (s *Site) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if s.Spec.Replicas != nil {
		out.Spec.Replicas = ptr.To(*s.Spec.Replicas)
	}
	out.Status.Conditions = append([]metav1.Condition(nil), s.Status.Conditions...)
	return &out
}

// SiteList is a list of Sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *SiteList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Site, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Site)
	}
	return &out
}

func siteScheme(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	gv := schema.GroupVersion{Group: "web.example.com", Version: "v1"}
	s.AddKnownTypes(gv, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(s, gv)
	return s
}

// operator creates a Deployment for each Site and writes its progress to the Site's status.
type operator struct{ client.Client }

func (o operator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := o.Get(ctx, req.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	labels := map[string]string{"site": site.Name}
	_, err := controllerutil.CreateOrUpdate(ctx, o.Client, deployment, func() error {
		deployment.Spec.Replicas = site.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
		}
		return controllerutil.SetControllerReference(&site, deployment, o.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	site.Status.Ready, site.Status.Selector = deployment.Status.ReadyReplicas, "site="+site.Name
	condition := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting", ObservedGeneration: site.Generation}
	if site.Status.Ready == *site.Spec.Replicas {
		condition.Status, condition.Reason = metav1.ConditionTrue, "AllThere"
	}
	meta.SetStatusCondition(&site.Status.Conditions, condition)
	return ctrl.Result{}, o.Status().Update(ctx, &site)
}

// define creates the CustomResourceDefinition and waits until it is served.
func define(t *testing.T, direct client.Client) {
	t.Helper()
	if err := direct.Create(t.Context(), read(t, "testdata/sites.yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the custom resource is served", func(ctx context.Context) error { return direct.List(ctx, &SiteList{}) })
}

func startOperator(t *testing.T, c cluster, s *runtime.Scheme) {
	t.Helper()
	m, err := ctrl.NewManager(c.config, ctrl.Options{Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(m).For(&Site{}).Owns(&appsv1.Deployment{}).Complete(operator{m.GetClient()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("operator: %v", err)
		}
	})
}

// TestOperator runs an operator for its own custom resource.
func TestOperator(t *testing.T) {
	t.Parallel()
	c, s := newCluster(t), siteScheme(t)
	direct, err := client.New(c.config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	define(t, direct)
	startOperator(t, c, s)

	site := &Site{ObjectMeta: metav1.ObjectMeta{Name: "home", Namespace: "default"}, Spec: SiteSpec{Title: "Home"}}
	if err := direct.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if site.Spec.Replicas == nil || *site.Spec.Replicas != 1 || site.Generation != 1 {
		t.Errorf("created %+v", site)
	}
	ready := func(n int32) {
		t.Helper()
		eventually(t, fmt.Sprint(n, " replicas are ready"), func(ctx context.Context) error {
			if err := direct.Get(ctx, client.ObjectKeyFromObject(site), site); err != nil {
				return err
			}
			if site.Status.Ready != n || !meta.IsStatusConditionTrue(site.Status.Conditions, "Ready") {
				return fmt.Errorf("status %+v", site.Status)
			}
			return nil
		})
	}
	ready(1)
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	if err := direct.SubResource("scale").Update(t.Context(), site, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	ready(2)
	if site.Generation != 2 {
		t.Errorf("generation %d after one change", site.Generation)
	}
	for want, spec := range map[string]SiteSpec{
		"spec.title: Too long: may not be more than 20 bytes": {Title: strings.Repeat("x", 21)},
		"spec: Invalid value: too many replicas":              {Title: "t", Replicas: ptr.To[int32](7)},
		"should be greater than or equal to 0":                {Title: "t", Replicas: ptr.To[int32](-1)},
	} {
		err := direct.Create(t.Context(), &Site{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: "default"}, Spec: spec})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("create: %v, want %s", err, want)
		}
	}
	if err := direct.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment is gone with its Site", func(ctx context.Context) error {
		if err := direct.Get(ctx, client.ObjectKeyFromObject(site), &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got it: %w", err)
		}
		return nil
	})
}
