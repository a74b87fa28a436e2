package clustertest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// A script in testdata/controllers runs on two kinds of clusters, which its command cluster starts:
//   - one daemon on a manual clock, whose components call the API server in process;
//   - a process for each component on the machine's clock, which call it over HTTP.
//
// Their commands hide the difference:
//   - cluster FLAGS… starts the cluster with these flags of up;
//   - check REGEXP ARGS… runs minikctl, whose output must match once the cluster has settled;
//   - events OBJECT REGEXP checks the Events of an object. A component that is killed loses the Events that it has not written yet, so
//     nothing is checked where components are killed;
//   - advance DURATION advances a manual clock. What needs time to pass has the condition [manual].

const controllerScripts = "testdata/controllers/*.txt"

// checkTimeout bounds how long check waits on the machine's clock.
const checkTimeout = 90 * time.Second

// TestControllers runs the scripts of controllers.
func TestControllers(t *testing.T) {
	t.Parallel()
	files := scriptsOf(t, controllerScripts)
	parallel(t, "in process", func(t *testing.T) { runFiles(t, files, "minikctl", manualSuite(checkSettled, checkSettled)) })
	parallel(t, "over HTTP", func(t *testing.T) { runFiles(t, files, "minikctl", partsSuite(checkUntil)) })
}

func scriptsOf(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts match %s: %v", pattern, err)
	}
	return files
}

// manualSuite runs scripts on one daemon with a manual clock. check and checkEvents check objects and Events.
func manualSuite(check, checkEvents command) suite {
	return suite{manual: true, commands: map[string]command{
		"cluster": func(ts *testscript.TestScript, _ bool, args []string) {
			up := []string{"minikctl", "up", "-d", "--clock=manual:2026-01-01T00:00:00Z", "--nodes", "0", "--seed", "1"}
			if out, err := output(ts, append(up, args...)); err != nil {
				ts.Fatalf("start the cluster: %v\n%s", err, out)
			}
			settle(ts, "0s")
		},
		"advance": func(ts *testscript.TestScript, _ bool, args []string) { settle(ts, one(ts, args)) },
		"check":   check,
		"events":  eventsBy(checkEvents),
		"restart": restart,
	}}
}

// partsSuite runs scripts on a process for each component. check checks Events.
func partsSuite(check command) suite {
	return suite{commands: map[string]command{
		"cluster": func(ts *testscript.TestScript, _ bool, args []string) {
			parts(ts, false, append([]string{"--nodes", "0"}, args...))
		},
		"advance": func(ts *testscript.TestScript, _ bool, args []string) { one(ts, args) },
		"check":   checkUntil,
		"events":  eventsBy(check),
		"parts":   parts,
		"restart": restart,
	}}
}

func one(ts *testscript.TestScript, args []string) string {
	if len(args) != 1 {
		ts.Fatalf("usage: advance DURATION")
	}
	return args[0]
}

// settle advances a manual clock, and waits until the cluster has settled. It does what "minikctl clock advance" does without a process of its
// own, since the scripts settle hundreds of times.
func settle(ts *testscript.TestScript, by string) {
	d, err := time.ParseDuration(by)
	ts.Check(err)
	cfg, err := clientcmd.BuildConfigFromFlags("", pathsOf(ts, "minikctl").Kubeconfig)
	ts.Check(err)
	kube, err := kubernetes.NewForConfig(cfg)
	ts.Check(err)
	c, ctx, root := kube.CoreV1().RESTClient(), context.Background(), "/apis/"+minikctl.GroupVersion.String()+"/"
	now := &minikctl.Clock{}
	decode(ts, c.Get().AbsPath(root+"clocks/"+minikctl.ClusterClock).Do(ctx), now)
	advance := &minikctl.ClockAdvance{To: new(metav1.NewMicroTime(now.Time.Add(d)))}
	advance.SetGroupVersionKind(minikctl.GroupVersion.WithKind("ClockAdvance"))
	body, err := json.Marshal(advance)
	ts.Check(err)
	for done := (&minikctl.ClockAdvance{}); !done.Done; {
		decode(ts, c.Post().AbsPath(root+minikctl.ClockAdvances.Resource).SetHeader("Content-Type", "application/json").Body(body).Do(ctx), done)
	}
}

// decode decodes the JSON of a result.
func decode(ts *testscript.TestScript, result rest.Result, into any) {
	raw, err := result.Raw()
	ts.Check(err)
	ts.Check(json.Unmarshal(raw, into))
}

// checkNothing is the check of Events where components are killed.
func checkNothing(*testscript.TestScript, bool, []string) {}

func eventsBy(check command) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) != 2 {
			ts.Fatalf("usage: events OBJECT REGEXP")
		}
		check(ts, neg, []string{args[1], "events", "-A", "--for", args[0]})
	}
}

// checkUntil waits until the output of minikctl matches.
func checkUntil(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: check REGEXP ARGS…")
	}
	retry(ts, neg, append([]string{checkTimeout.String(), args[0], "minikctl"}, args[1:]...))
}

// checkSettled waits until the cluster has settled, and fails unless the output of minikctl matches.
func checkSettled(ts *testscript.TestScript, neg bool, args []string) { checkWithin(ts, neg, args, 0) }

// checkAfterRestarts is checkSettled for clusters whose daemon is killed: what repeats at an interval begins its interval again, so that the
// clock is advanced for a minute at most until the output matches.
func checkAfterRestarts(ts *testscript.TestScript, neg bool, args []string) {
	checkWithin(ts, neg, args, 12)
}

// checkWithin is checkSettled with a number of advances by five seconds.
func checkWithin(ts *testscript.TestScript, neg bool, args []string, advances int) {
	if len(args) < 2 {
		ts.Fatalf("usage: check REGEXP ARGS…")
	}
	want, err := regexp.Compile("(?ms)" + args[0])
	ts.Check(err)
	by := "0s"
	for ; ; advances-- {
		settle(ts, by)
		out, err := output(ts, append([]string{"minikctl"}, args[1:]...))
		if _, failed := err.(interface{ ExitCode() int }); err != nil && !failed {
			ts.Fatalf("%v", err)
		}
		if want.Match(out) != neg {
			ts.Logf("%s", out)
			return
		}
		if advances == 0 {
			ts.Fatalf("the output of %v: matching %q is %v\n%s", args[1:], args[0], !neg, out)
		}
		by = "5s"
	}
}

// onParts reports whether the script's cluster has a process for each component.
func onParts(ts *testscript.TestScript) bool {
	_, err := os.Stat(ts.MkAbs(".parts"))
	return err == nil
}
