package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// newQuota creates a quota with the status that its controller would set.
func newQuota(t *testing.T, c kubernetes.Interface, name string, spec corev1.ResourceQuotaSpec) {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	q, err := c.CoreV1().ResourceQuotas("default").Create(t.Context(), q, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{}
	for name := range q.Spec.Hard {
		q.Status.Used[name] = resource.MustParse("0")
	}
	if _, err := c.CoreV1().ResourceQuotas("default").UpdateStatus(t.Context(), q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func used(t *testing.T, c kubernetes.Interface, name string, r corev1.ResourceName) string {
	t.Helper()
	q, err := c.CoreV1().ResourceQuotas("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := q.Status.Used[r]
	return n.String()
}

func quantities(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func newMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestQuotaIsExact fills a quota with concurrent writers. Some writes fail because the name exists: the quota that they
// reserved is released.
func TestQuotaIsExact(t *testing.T) {
	const writers, each, limit = 32, 8, 100
	e := apiservertest.New(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	newQuota(t, c, "maps", corev1.ResourceQuotaSpec{Hard: quantities("configmaps", fmt.Sprint(limit), "count/configmaps", "200")})
	maps := c.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), newMap("taken"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var made, refused atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				_, err := maps.Create(t.Context(), newMap(fmt.Sprintf("m-%d-%d", w, i)), metav1.CreateOptions{})
				switch {
				case err == nil:
					made.Add(1)
				case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: maps, requested: configmaps=1, used: configmaps="):
					refused.Add(1)
				default:
					t.Errorf("create: %v", err)
				}
				if _, err := maps.Create(t.Context(), newMap("taken"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
					t.Errorf("create an existing object: %v", err)
				}
			}
		})
	}
	wg.Wait()
	// A failed write may have reserved quota for a moment; the remaining quota is filled one by one.
	for i := 0; ; i++ {
		if _, err := maps.Create(t.Context(), newMap(fmt.Sprintf("last-%d", i)), metav1.CreateOptions{}); err != nil {
			break
		}
		made.Add(1)
	}
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for _, m := range list.Items {
		if strings.HasPrefix(m.Name, "m-") || strings.HasPrefix(m.Name, "last-") {
			stored++
		}
	}
	if made.Load() != limit-1 || stored != limit-1 || used(t, c, "maps", "configmaps") != fmt.Sprint(limit) {
		t.Errorf("%d were made, %d refused, %d are stored, %s used, of %d", made.Load(), refused.Load(), stored, used(t, c, "maps", "configmaps"), limit)
	}
	want := fmt.Sprintf(`configmaps "more" is forbidden: exceeded quota: maps, requested: configmaps=1, used: configmaps=%d, limited: configmaps=%d`, limit, limit)
	if _, err := maps.Create(t.Context(), newMap("more"), metav1.CreateOptions{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestQuotas(t *testing.T) {
	e := apiservertest.New(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	newQuota(t, c, "compute", corev1.ResourceQuotaSpec{Hard: quantities("requests.cpu", "1", "limits.memory", "1Gi"),
		Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort}})
	newQuota(t, c, "cheap", corev1.ResourceQuotaSpec{Hard: quantities("pods", "1"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}})
	newQuota(t, c, "services", corev1.ResourceQuotaSpec{Hard: quantities("services.nodeports", "2", "services.loadbalancers", "0")})
	for _, s := range []struct {
		name string
		do   func(ctx context.Context) error
		want string // the text of the error after "is forbidden: "
	}{
		{"a pod without requests is of another scope", func(ctx context.Context) error { return createPod(ctx, c, "cheap-1", nil, nil) }, ""},
		{"a second one is too many", func(ctx context.Context) error { return createPod(ctx, c, "cheap-2", nil, nil) },
			"exceeded quota: cheap, requested: pods=1, used: pods=1, limited: pods=1"},
		{"a pod without the required limits", func(ctx context.Context) error { return createPod(ctx, c, "half", quantities("cpu", "1"), nil) },
			"failed quota: compute: must specify limits.memory for: c"},
		{"a pod within", func(ctx context.Context) error {
			return createPod(ctx, c, "paid-1", quantities("cpu", "600m"), quantities("memory", "512Mi"))
		}, ""},
		{"a pod too much", func(ctx context.Context) error {
			return createPod(ctx, c, "paid-2", quantities("cpu", "600m"), quantities("memory", "768Mi"))
		},
			"exceeded quota: compute, requested: limits.memory=768Mi,requests.cpu=600m, used: limits.memory=512Mi,requests.cpu=600m, limited: limits.memory=1Gi,requests.cpu=1"},
		{"a service", func(ctx context.Context) error { return createService(ctx, c, corev1.ServiceTypeNodePort, 2) }, ""},
		{"a port more", func(ctx context.Context) error { return createService(ctx, c, corev1.ServiceTypeNodePort, 1) },
			"exceeded quota: services, requested: services.nodeports=1, used: services.nodeports=2, limited: services.nodeports=2"},
		{"a dry run reserves nothing", func(ctx context.Context) error {
			_, err := c.CoreV1().Pods("default").Create(ctx, quotaPod("dry", quantities("cpu", "100m"), quantities("memory", "1Mi")), metav1.CreateOptions{DryRun: []string{"All"}})
			if n := used(t, c, "compute", "requests.cpu"); err == nil && n != "600m" {
				return errors.New("used: " + n)
			}
			return err
		}, ""},
	} {
		err := s.do(t.Context())
		if s.want == "" && err != nil || s.want != "" && (err == nil || !strings.HasSuffix(err.Error(), "is forbidden: "+s.want)) {
			t.Errorf("%s: got %v, want %s", s.name, err, s.want)
		}
	}
}

func quotaPod(name string, requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
	}}}
}

func createPod(ctx context.Context, c kubernetes.Interface, name string, requests, limits corev1.ResourceList) error {
	_, err := c.CoreV1().Pods("default").Create(ctx, quotaPod(name, requests, limits), metav1.CreateOptions{})
	return err
}

func createService(ctx context.Context, c kubernetes.Interface, kind corev1.ServiceType, ports int) error {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}, Spec: corev1.ServiceSpec{Type: kind}}
	for i := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(80 + i)})
	}
	_, err := c.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{})
	return err
}
