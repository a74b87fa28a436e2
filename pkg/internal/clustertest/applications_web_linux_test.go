package clustertest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// testWeb runs the example of a web application on a clock that runs 20 times as fast as the machine's: a page through the Ingress, a Job and
// a CronJob that read it, and an autoscaler. A load uses more of a processor than the target even on a busy machine, and none uses less.
func testWeb(u *tenant) {
	u.run("apply", "-f", example(u, "application.yml"), "--wait", "--timeout", "120s")
	u.eventually("<h1>The shop is open</h1>", func() string { return u.ingress("shop", "shop.example.com") })
	u.run("wait", "--for=condition=complete", "job/shop-opens", "--timeout=120s")
	u.eventually("<h1>The shop is open</h1>", func() string { return u.text("logs", "job/shop-opens") })

	replicas := func() string {
		out, err := u.output("get", "deployment", "shop", "-o", "jsonpath={.status.readyReplicas}")
		if err != nil {
			return ""
		}
		return out
	}
	u.run("scale", "deployment/load", "--replicas", "2")
	u.eventually("true", func() string { return strconv.FormatBool(replicas() > "1") })
	u.run("scale", "deployment/load", "--replicas", "0")
	u.eventually("1", replicas)
	events := u.text("get", "events", "--field-selector", "involvedObject.kind=HorizontalPodAutoscaler,reason=SuccessfulRescale")
	for _, reason := range []string{`New size: \d; reason: cpu resource utilization \(percentage of request\) above target`, `New size: 1; reason: All metrics below target`} {
		if !regexp.MustCompile(reason).MatchString(events) {
			u.Errorf("no Event %q:\n%s", reason, events)
		}
	}
	u.eventually("true", func() string { // the clock deletes the Jobs of the CronJob soon
		visits := u.text("get", "events", "--field-selector", "involvedObject.name=shop-visit,reason=SawCompletedJob")
		return strconv.FormatBool(strings.Contains(visits, "condition: Complete"))
	})

	u.run("patch", "configmap", "shop-page", "-p", `{"data":{"index.html":"<h1>Sale</h1>"}}`)
	u.run("rollout", "restart", "deployment/shop")
	u.eventually("<h1>Sale</h1>", func() string { return u.ingress("shop", "shop.example.com") })
}

// ingress returns the page that an Ingress has for a host, or the error.
func (u *tenant) ingress(name, host string) string {
	address := u.text("get", "ingress", name, "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
	page := ""
	for _, port := range []string{"80", "8080"} { // 8080: the daemon may not listen below 1024
		req, err := http.NewRequest(http.MethodGet, "http://"+address+":"+port+"/", nil)
		if err != nil {
			return err.Error()
		}
		req.Host = host
		if page = fetchRequest(req); !strings.Contains(page, "connection refused") {
			break
		}
	}
	return page
}

// text returns the trimmed output of minikctl, or the error with it.
func (u *tenant) text(args ...string) string {
	out, err := u.output(args...)
	if err != nil {
		return fmt.Sprintf("minikctl %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(out)
}

// testRollingUpdate replaces all pods of a Service under load, from pods and from outside. No request fails.
func testRollingUpdate(u *tenant) {
	u.run("apply", "-f", example(u, "rolling-update.yml"), "--wait", "--timeout", "120s")
	u.run("scale", "deployment/front-load", "--replicas", "2")
	u.run("rollout", "status", "deployment/front-load", "--timeout", "120s")
	page := "http://127.0.0.1:" + u.run("get", "service", "front", "-o", "jsonpath={.spec.ports[0].nodePort}") + "/"
	for _, name := range []string{"front", "front.default.svc.cluster.local"} { // as a browser shows what a pod finds
		u.eventually(u.text("get", "service", "front", "-o", "jsonpath={.spec.clusterIP}"), func() string { return fetch(page + "resolve?name=" + name) })
	}
	l := startLoad(page, "Hello from pod front-", 4)
	old := strings.Fields(u.run("get", "pods", "-l", "app=front", "-o", "name"))
	u.run("rollout", "restart", "deployment/front")
	u.run("rollout", "status", "deployment/front", "--timeout", "120s")
	u.run(append([]string{"wait", "--for=delete", "--timeout=120s"}, old...)...)
	l.end()
	if len(l.failed) > 0 {
		u.Errorf("%d of %d requests from outside failed: %s", len(l.failed), len(l.took), l.failed[0])
	}
	status := map[string]int{}
	for _, line := range strings.Split(u.text("logs", "-l", "app=front-load", "--tail=-1"), "\n") {
		status[line]++
	}
	if status["200"] == 0 || len(status) > 1 {
		u.Errorf("requests from pods failed: %v", status)
	}
	u.Logf("requests from outside: %s; from pods: %v", l, status)
}

// testDaemonKills kills the daemon, in which the DNS server runs, while pods request a Service by its name. No request fails: connections don't pass
// through the daemon, and questions for names wait for the next daemon.
func testDaemonKills(u *tenant) {
	u.run("apply", "-f", example(u, "rolling-update.yml"), "--wait", "--timeout", "120s")
	u.run("scale", "deployment/front-load", "--replicas", "2")
	u.run("rollout", "status", "deployment/front-load", "--timeout", "120s")
	status := map[string]int{}
	more := func() { // requests since the last call
		u.Helper()
		before := status["200"]
		u.eventually("true", func() string {
			clear(status)
			for _, line := range strings.Split(u.text("logs", "-l", "app=front-load", "--tail=-1"), "\n") {
				status[line]++
			}
			return strconv.FormatBool(status["200"] > before+10)
		})
	}
	more()
	for range 3 {
		u.kill()
		u.run("up", "-d")
		more()
	}
	if len(status) > 1 {
		u.Errorf("requests from pods failed: %v", status)
	}
}

// example returns the path of a manifest in examples.
func example(u *tenant, name string) string {
	u.Helper()
	path, err := filepath.Abs(filepath.Join("../../../examples/manifests", name))
	if err != nil {
		u.Fatal(err)
	}
	return path
}

// load are requests from outside the cluster, each on a connection of its own.
type load struct {
	stop chan struct{}
	all  sync.WaitGroup

	mu     sync.Mutex
	took   []time.Duration
	failed []string
}

func startLoad(page, want string, clients int) *load {
	l := &load{stop: make(chan struct{})}
	for range clients {
		l.all.Go(func() {
			next := time.NewTicker(5 * time.Millisecond)
			defer next.Stop()
			for {
				select {
				case <-l.stop:
					return
				case <-next.C:
				}
				start := time.Now()
				got := fetch(page)
				l.record(got, want, time.Since(start))
			}
		})
	}
	return l
}

func (l *load) record(got, want string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
	if !strings.HasPrefix(got, want) {
		l.failed = append(l.failed, got)
	}
}

// end waits until the requests in progress have ended.
func (l *load) end() {
	close(l.stop)
	l.all.Wait()
	slices.Sort(l.took)
}

// String returns the number of requests and the percentiles of their durations.
func (l *load) String() string {
	at := func(percent int) time.Duration {
		return l.took[(len(l.took)-1)*percent/100].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%d in p50 %s, p99 %s, at most %s", len(l.took), at(50), at(99), at(100))
}
