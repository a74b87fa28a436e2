package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// idle is how long a new cluster is left alone before its memory is read.
const idle = 5 * time.Second

// with starts a cluster, calls measure and stops it.
func with(ctx context.Context, s side, w want, measure func(c *cluster, client kubernetes.Interface) error) (err error) {
	c, err := s.start(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := awaitReady(ctx, c); err != nil {
		return err
	}
	if w.control {
		if err := accountExists(ctx, client); err != nil {
			return err
		}
	}
	return measure(c, client)
}

// accountExists waits for the default ServiceAccount, without which no pod can be created.
func accountExists(ctx context.Context, client kubernetes.Interface) error {
	return poll(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// createAccount creates the default ServiceAccount of a namespace, for a cluster without controllers.
func createAccount(ctx context.Context, client kubernetes.Interface, ns string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := client.CoreV1().ServiceAccounts(ns).Create(ctx, account, metav1.CreateOptions{})
	return err
}

func start(ctx context.Context, s side, _ sizes, t *table) error {
	return with(ctx, s, want{control: true}, func(c *cluster, _ kubernetes.Interface) error {
		t.add(s, "start to ready", seconds, c.took.Seconds())
		before, err := c.cpu()
		if err != nil {
			return err
		}
		t.add(s, "CPU of the start", cpu, before)
		if err := sleep(ctx, idle); err != nil {
			return err
		}
		rss, err := c.memory("VmRSS")
		t.add(s, "idle memory", bytes, rss)
		return err
	})
}

func api(ctx context.Context, s side, size sizes, t *table) error {
	return with(ctx, s, want{}, func(c *cluster, client kubernetes.Interface) error {
		ns := "compare"
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if err := createAccount(ctx, client, ns); err != nil {
			return err
		}
		load := strings.Repeat("x", 1024)
		configMap := func(i int) error {
			_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d", i)}, Data: map[string]string{"load": load},
			}, metav1.CreateOptions{})
			return err
		}
		get := func(int) error {
			_, err := client.CoreV1().ConfigMaps(ns).Get(ctx, "c-1", metav1.GetOptions{})
			return err
		}
		createPod := func(i int) error {
			_, err := client.CoreV1().Pods(ns).Create(ctx, pod(fmt.Sprintf("p-%d", i), "none"), metav1.CreateOptions{})
			return err
		}
		var number atomic.Int64
		for _, op := range []struct {
			what string
			do   func(i int) error
		}{{"create ConfigMap", configMap}, {"create Pod", createPod}, {"get ConfigMap", get}} {
			for _, clients := range []int{1, 64} {
				what := fmt.Sprintf("%s, %d clients", op.what, clients)
				if err := throughput(s, c, t, what, size.span, clients, func() error { return op.do(int(number.Add(1))) }); err != nil {
					return err
				}
			}
		}
		if err := lists(ctx, s, client, ns, size.list, t); err != nil {
			return err
		}
		return latency(ctx, s, client, ns, 100, t)
	})
}

// throughput calls do concurrently from several clients for the duration sizes.span, and adds the rate and the server's
// CPU time per request to the table.
func throughput(s side, c *cluster, t *table, what string, span time.Duration, clients int, do func() error) error {
	before, err := c.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	var done atomic.Int64
	err = parallel(clients, clients, func(int) error {
		for time.Since(began) < span {
			if err := do(); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	took := time.Since(began)
	after, err := c.cpu()
	t.add(s, what, rate, float64(done.Load())/took.Seconds())
	t.add(s, what+": CPU a request", request, (after-before)/float64(done.Load()))
	return err
}

// lists creates pods with one label until the namespace has n of them, and measures how long it takes to list them.
func lists(ctx context.Context, s side, client kubernetes.Interface, ns string, n int, t *table) error {
	err := parallel(n, 32, func(i int) error {
		p := pod(fmt.Sprintf("list-%d", i), "none")
		p.Labels = map[string]string{"list": "yes"}
		_, err := client.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	opts := metav1.ListOptions{LabelSelector: "list=yes"}
	for range 5 {
		began := time.Now()
		if _, err := client.CoreV1().RESTClient().Get().Namespace(ns).Resource("pods").Param("labelSelector", opts.LabelSelector).DoRaw(ctx); err != nil {
			return err
		}
		t.add(s, fmt.Sprintf("LIST of %d pods, raw", n), seconds, time.Since(began).Seconds())
		began = time.Now()
		list, err := client.CoreV1().Pods(ns).List(ctx, opts)
		if err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("a list has %d pods of %d", len(list.Items), n)
		}
		t.add(s, fmt.Sprintf("LIST of %d pods, decoded by the client", n), seconds, time.Since(began).Seconds())
	}
	return nil
}

// latency measures the time from the start of a create until one watcher receives the event, while other watchers receive
// it, too.
func latency(ctx context.Context, s side, client kubernetes.Interface, ns string, watchers int, t *table) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list, err := client.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range []int{1, watchers} {
		var watches []watch.Interface
		for range n {
			w, err := client.CoreV1().Secrets(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err != nil {
				return err
			}
			defer w.Stop()
			watches = append(watches, w)
		}
		for i := range 50 {
			name := fmt.Sprintf("s-%d-%d", n, i)
			began := time.Now()
			if _, err := client.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				return err
			}
			for _, w := range watches {
				if err := arrives(w, name); err != nil {
					return err
				}
			}
			t.add(s, fmt.Sprintf("create to the event at all of %d watchers", n), seconds, time.Since(began).Seconds())
		}
	}
	return nil
}

// arrives returns once the watch delivers the Secret.
func arrives(w watch.Interface, name string) error {
	for ev := range w.ResultChan() {
		if secret, ok := ev.Object.(*corev1.Secret); !ok {
			return fmt.Errorf("a watch brings %v", ev.Object)
		} else if secret.Name == name {
			return nil
		}
	}
	return errors.New("a watch ends early")
}

func scheduler(ctx context.Context, s side, size sizes, t *table) error {
	for _, kind := range []struct {
		what   string
		change func(i int, p *corev1.Pod)
	}{
		{"no constraint", plain},
		{"spread over hosts", spread(corev1.LabelHostname, 1)},
		{"anti-affinity", antiAffinity(10)},
	} {
		err := with(ctx, s, want{control: true, nodes: size.nodes}, func(c *cluster, client kubernetes.Interface) error {
			bound, _, err := podsCome(ctx, client, size.pods, func() error { return createPods(ctx, client, size.pods, kind.change) })
			t.add(s, fmt.Sprintf("%d pods on %d nodes, %s: created and bound", size.pods, size.nodes, kind.what), rate, float64(size.pods)/bound.Seconds())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// createPods creates pods of app=web for the default scheduler. change sets the constraints of a pod from its number.
func createPods(ctx context.Context, client kubernetes.Interface, n int, change func(i int, p *corev1.Pod)) error {
	return parallel(n, 32, func(i int) error {
		_, err := client.CoreV1().Pods("default").Create(ctx, numbered(i, change), metav1.CreateOptions{})
		return err
	})
}

func numbered(i int, change func(i int, p *corev1.Pod)) *corev1.Pod {
	p := pod(fmt.Sprintf("p-%d", i), corev1.DefaultSchedulerName)
	p.Labels = map[string]string{"app": "web"}
	change(i, p)
	return p
}

func plain(int, *corev1.Pod) {}

// spread spreads all pods over the domains of a topology key.
func spread(key string, maxSkew int32) func(int, *corev1.Pod) {
	return func(_ int, p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
}

// antiAffinity gives the pods of a group of that size an anti-affinity for each other's nodes.
func antiAffinity(size int) func(int, *corev1.Pod) {
	return func(i int, p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{inGroup(i/size, corev1.LabelHostname, p)},
		}}
	}
}

// affinity gives the pods of a group of that size an affinity for each other's zone.
func affinity(size int) func(int, *corev1.Pod) {
	return func(i int, p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{inGroup(i/size, corev1.LabelTopologyZone, p)},
		}}
	}
}

// inGroup makes a pod one of a group, and returns the term for the other pods of it.
func inGroup(number int, key string, p *corev1.Pod) corev1.PodAffinityTerm {
	group := fmt.Sprint(number)
	p.Labels["group"] = group
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": group}}}
}

// podsCome calls create and returns how long after its start n pods of app=web were bound, and how long until all were Ready.
func podsCome(ctx context.Context, client kubernetes.Interface, n int, create func() error) (bound, ready time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	w, err := watchPods(ctx, client)
	if err != nil {
		return 0, 0, err
	}
	defer w.Stop()
	began := time.Now()
	created := make(chan error, 1)
	go func() { created <- create() }()
	isBound, isReady := map[string]bool{}, map[string]bool{}
	for ev := range w.ResultChan() {
		p, ok := ev.Object.(*corev1.Pod)
		if !ok {
			return 0, 0, fmt.Errorf("watch: %v", ev.Object)
		}
		if p.Spec.NodeName != "" {
			isBound[p.Name] = true
		}
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
				isReady[p.Name] = true
			}
		}
		if bound == 0 && len(isBound) == n {
			bound = time.Since(began)
		}
		if len(isReady) == n {
			return bound, time.Since(began), <-created
		}
	}
	select {
	case err = <-created:
	default:
	}
	return 0, 0, errors.Join(fmt.Errorf("the watch ended with %d of %d pods bound, %d ready", len(isBound), n, len(isReady)), err)
}

// watchPods watches the pods of app=web from now on. A busy kube-apiserver ends watches whose events it can't deliver in time: this
// watch resumes from its last event.
func watchPods(ctx context.Context, client kubernetes.Interface) (watch.Interface, error) {
	pods := client.CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	return toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = "app=web"
			return pods.Watch(ctx, options)
		},
	})
}

func pod(name, scheduler string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{
		Name: "c", Image: "registry.k8s.io/pause:3.10",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("10Mi"),
		}},
	}}}}
}

// parallel calls f for 0 to n-1 from the given number of workers, and returns the first error.
func parallel(n, workers int, f func(i int) error) error {
	var next atomic.Int64
	var once sync.Once
	var first error
	var wg sync.WaitGroup
	for range min(n, workers) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					once.Do(func() { first = err })
					next.Store(int64(n))
				}
			}
		})
	}
	wg.Wait()
	return first
}
