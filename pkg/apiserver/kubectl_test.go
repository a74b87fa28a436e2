package apiserver_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
)

// kubectls finds the installed kubectl, and those of other releases in the same directory: kubectl.1.27.
func kubectls() []string {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return nil
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	others, _ := filepath.Glob(path + ".1.*") // fails only for a path with special characters
	return append([]string{path}, others...)
}

const manifest = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
`

func TestStockKubectl(t *testing.T) {
	oneAtATime(t)
	programs := kubectls()
	if len(programs) == 0 {
		t.Skip("no kubectl on this machine")
	}
	for _, program := range programs {
		t.Run(filepath.Base(program), func(t *testing.T) {
			t.Parallel()
			e := apiservertest.New(t)
			pair, err := e.PKI.Admin()
			if err != nil {
				t.Fatal(err)
			}
			file, home := filepath.Join(e.Dir, "kubeconfig"), t.TempDir()
			access := pki.Access{Server: e.URL, CA: e.PKI.CA(), Cluster: "t", Context: "t", User: "t", Client: pair}
			if err := pki.WriteKubeconfig(file, pki.Kubeconfig(access)); err != nil {
				t.Fatal(err)
			}
			kubectl := func(stdin string, args ...string) string {
				cmd := exec.CommandContext(testContext(t), program, args...)
				cmd.Env = []string{"KUBECONFIG=" + file, "HOME=" + home, "PATH=/usr/bin:/bin"}
				cmd.Stdin = strings.NewReader(stdin)
				out, _ := cmd.CombinedOutput() // a refusal is also output to compare
				return string(out)
			}
			for _, c := range []struct {
				stdin, args string
				want        []string
			}{
				{manifest, "apply -f -", []string{"deployment.apps/web created"}},
				{manifest, "apply -f -", []string{"deployment.apps/web unchanged"}},
				{strings.Replace(manifest, "replicas: 2", "replicas: 3", 1), "apply -f -", []string{"deployment.apps/web configured"}},
				{strings.Replace(manifest, "replicas: 2", "replica: 2", 1), "apply -f -", []string{`strict decoding error: unknown field "spec.replica"`}},
				{manifest, "apply --server-side --force-conflicts -f -", []string{"deployment.apps/web serverside-applied"}},
				{"", "get deployments", []string{"NAME   READY   UP-TO-DATE   AVAILABLE   AGE", "web "}},
				{"", "get deploy web -o wide", []string{"CONTAINERS", "nginx"}},
				{"", "scale deploy web --replicas=5", []string{"deployment.apps/web scaled"}},
				{"", "get deploy web -o jsonpath={.spec.replicas}", []string{"5"}},
				{"", "autoscale deploy web --min=2 --max=5 --cpu-percent=80", []string{"horizontalpodautoscaler.autoscaling/web autoscaled"}},
				{"", "autoscale deploy web --min=2 --max=5", []string{`horizontalpodautoscalers.autoscaling "web" already exists`}},
				{"", "autoscale deploy web --name=other --max=0", []string{"--max=MAXPODS is required"}},
				{"", "get hpa web", []string{"REFERENCE", "Deployment/web", "<unknown>/80%", " 2 ", " 5 "}},
				{"", "get horizontalpodautoscalers.v1.autoscaling web -o jsonpath={.spec}", []string{`"targetCPUUtilizationPercentage":80`, `"minReplicas":2`}},
				{"", "get horizontalpodautoscalers.v2.autoscaling web -o jsonpath={.spec.metrics}", []string{`"averageUtilization":80`}},
				{"", "describe hpa web", []string{"Deployment/web", "<unknown> / 80%", "Min replicas:"}},
				{"", "delete hpa web", []string{`"web" deleted`}},
				{"", "create configmap m --from-literal=a=b", []string{"configmap/m created"}},
				{"", "create configmap m --from-literal=a=b", []string{`configmaps "m" already exists`}},
				{"", "label configmap m x=y", []string{"configmap/m labeled"}},
				{"", "get cm -l x=y -o name", []string{"configmap/m"}},
				{"", "explain deployment.spec.replicas", []string{"Number of desired pods"}},
				{"", "api-resources --api-group=minikctl.dev", []string{"decisions", "traces"}},
				{"", "get traces.minikctl.dev", []string{"REVISION", "ACTOR", "deployments.apps default/web"}},
				{"", "get all", []string{"deployment.apps/web", "service/kubernetes"}},
				{"", "describe cm m", []string{"a:\n----\nb"}},
				{"", "delete deploy web", []string{`deployment.apps "web" deleted`}},
				{"", "get nonsense", []string{`error: the server doesn't have a resource type "nonsense"`}},
				{"", "get cm nope", []string{`Error from server (NotFound): configmaps "nope" not found`}},
			} {
				out := kubectl(c.stdin, strings.Fields(c.args)...)
				for _, want := range c.want {
					if !strings.Contains(out, want) {
						t.Errorf("kubectl %s: %q is not in\n%s", c.args, want, out)
					}
				}
			}
		})
	}
}
