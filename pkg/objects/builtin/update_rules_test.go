package builtin_test

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

const (
	podTemplate = `template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
	selected    = `selector: {matchLabels: {a: b}}, ` + podTemplate
	jobTemplate = `template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}`
	jobSelected = `manualSelector: true, selector: {matchLabels: {a: b}}, ` + jobTemplate
)

// TestChanges looks what an update may not change, with the beginning of the only error; "": it may.
func TestChanges(t *testing.T) {
	tests := []struct{ kind, name, old, now, want string }{
		{"Deployment", "replicas", `spec: {` + selected + `}`, `spec: {replicas: 3, ` + selected + `}`, ""},
		{"Deployment", "selector", `spec: {` + selected + `}`, `spec: {selector: {matchLabels: {}, matchExpressions: [{key: a, operator: Exists}]}, ` + podTemplate + `}`,
			`spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is immutable`},
		{"ReplicaSet", "selector", `spec: {` + selected + `}`, `spec: {selector: {matchExpressions: [{key: a, operator: Exists}]}, ` + podTemplate + `}`,
			`spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is immutable`},
		{"DaemonSet", "selector", `spec: {` + selected + `}`, `spec: {selector: {matchExpressions: [{key: a, operator: Exists}]}, ` + podTemplate + `}`,
			`spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is immutable`},
		{"StatefulSet", "retention", `spec: {` + selected + `}`, `spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}, ` + selected + `}`, ""},
		{"StatefulSet", "service", `spec: {` + selected + `}`, `spec: {serviceName: "not a label", ` + selected + `}`,
			"spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "},
		{"ControllerRevision", "data", `{data: {a: 1}, revision: 1}`, `{data: {a: 2}, revision: 2}`, `data: Invalid value: `},
		{"ControllerRevision", "revision", `{data: {a: 1}, revision: 1}`, `{data: {a: 1}, revision: 2}`, ""},
		{"Job", "success policy", `spec: {completionMode: Indexed, completions: 2, ` + jobSelected + `}`,
			`spec: {completionMode: Indexed, completions: 2, successPolicy: {rules: [{succeededCount: 1}]}, ` + jobSelected + `}`,
			`spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: field is immutable`},
		{"Job", "manager", `spec: {` + jobSelected + `}`, `spec: {managedBy: example.com/x, ` + jobSelected + `}`,
			`spec.managedBy: Invalid value: "example.com/x": field is immutable`},
		{"CronJob", "zone in the schedule that had one", `spec: {schedule: "TZ=UTC * * * * *", jobTemplate: {spec: {` + jobTemplate + `}}}`,
			`spec: {schedule: "TZ=UTC 1 * * * *", jobTemplate: {spec: {` + jobTemplate + `}}}`, ""},
		{"CronJob", "zone in the schedule", `spec: {schedule: "* * * * *", jobTemplate: {spec: {` + jobTemplate + `}}}`,
			`spec: {schedule: "TZ=UTC 1 * * * *", jobTemplate: {spec: {` + jobTemplate + `}}}`,
			`spec.schedule: Invalid value: "TZ=UTC 1 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`},
		{"PersistentVolumeClaim", "size", `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Bound}}`,
			`spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}`, ""},
		{"PersistentVolumeClaim", "size of one that waits", `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`,
			`spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}`,
			"spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"},
		{"HorizontalPodAutoscaler", "a target of no group that was there", `spec: {maxReplicas: 2, scaleTargetRef: {kind: X, name: x, apiVersion: v1}}`,
			`spec: {maxReplicas: 3, scaleTargetRef: {kind: X, name: y, apiVersion: v1}}`, ""},
		{"HorizontalPodAutoscaler", "another kind of no group", `spec: {maxReplicas: 2, scaleTargetRef: {kind: X, name: x, apiVersion: v1}}`,
			`spec: {maxReplicas: 2, scaleTargetRef: {kind: "Y", name: x, apiVersion: v1}}`,
			`spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group`},
		{"Service", "class of a balancer", `spec: {type: LoadBalancer, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 1}]}`,
			`spec: {type: LoadBalancer, loadBalancerClass: a/b, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 1}]}`,
			`spec.loadBalancerClass: Invalid value: "a/b": may not change once set`},
		{"Service", "address with zeros that was there", `spec: {externalIPs: [010.0.0.1], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 1}]}`,
			`spec: {externalIPs: [010.0.0.1], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 2}]}`, ""},
		{"Service", "address with zeros", `spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 1}]}`,
			`spec: {externalIPs: [010.0.0.1], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 1}]}`,
			`spec.externalIPs[0]: Invalid value: "010.0.0.1": must not have leading 0s`},
		{"PodDisruptionBudget", "amount", `spec: {minAvailable: 1}`, `spec: {minAvailable: 2}`, ""},
		{"Pod", "policy of labels that was there", `spec: {securityContext: {seLinuxChangePolicy: Recursive}, nodeName: n, containers: [{name: c, image: i, imagePullPolicy: Always}]}`,
			`spec: {securityContext: {seLinuxChangePolicy: Recursive}, nodeName: n, containers: [{name: c, image: "i:2", imagePullPolicy: Always}]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			r := row(t, tt.kind)
			old, now := object(t, r, tt.old), object(t, r, tt.now)
			old.SetUID(uid)
			now.SetUID(uid)
			status := reflect.ValueOf(old).Elem().FieldByName("Status")
			was := reflect.Value{}
			if status.IsValid() {
				was = reflect.New(status.Type()).Elem()
				was.Set(status)
			}
			r.Prepare(old, nil)
			if was.IsValid() {
				status.Set(was)
			}
			r.Prepare(now, old)
			got := ""
			if errs := r.Validate(now, old); len(errs) > 0 {
				got = errs[0].Error()
			}
			if got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestGenerations looks whether a changed spec makes a new generation, and nothing else does.
func TestGenerations(t *testing.T) {
	tests := []struct{ kind, old, now string }{
		{"Deployment", `spec: {` + selected + `}`, `spec: {replicas: 3, ` + selected + `}`},
		{"ReplicaSet", `spec: {` + selected + `}`, `spec: {replicas: 3, ` + selected + `}`},
		{"StatefulSet", `spec: {` + selected + `}`, `spec: {replicas: 3, ` + selected + `}`},
		{"DaemonSet", `spec: {` + selected + `}`, `spec: {minReadySeconds: 3, ` + selected + `}`},
		{"ReplicationController", `spec: {` + podTemplate + `}`, `spec: {replicas: 3, ` + podTemplate + `}`},
		{"Job", `spec: {` + jobTemplate + `}`, `spec: {parallelism: 2, ` + jobTemplate + `}`},
		{"CronJob", `spec: {schedule: "* * * * *", jobTemplate: {spec: {` + jobTemplate + `}}}`, `spec: {schedule: "1 * * * *", jobTemplate: {spec: {` + jobTemplate + `}}}`},
		{"PodDisruptionBudget", `spec: {minAvailable: 1}`, `spec: {minAvailable: 2}`},
		{"Pod", `spec: {containers: [{name: c, image: i}]}`, `spec: {containers: [{name: c, image: "i:2"}]}`},
		{"PodTemplate", podTemplate, `template: {spec: {containers: [{name: c, image: "i:2"}]}}`},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			r := row(t, tt.kind)
			old := object(t, r, tt.old)
			old.SetUID(uid)
			r.Prepare(old, nil)
			if old.GetGeneration() != 1 {
				t.Errorf("a new one has generation %d", old.GetGeneration())
			}
			same := old.DeepCopyObject().(objects.Object)
			same.SetLabels(map[string]string{"x": "y"})
			r.Prepare(same, old)
			if same.GetGeneration() != 1 {
				t.Errorf("labels make generation %d", same.GetGeneration())
			}
			now := object(t, r, tt.now)
			now.SetUID(uid)
			r.Prepare(now, old)
			if now.GetGeneration() != 2 {
				t.Errorf("a change makes generation %d", now.GetGeneration())
			}
		})
	}
}

// TestStatusApart looks whether a write of the object leaves its status, and one of the status all else.
func TestStatusApart(t *testing.T) {
	fill := filler(3)
	for _, r := range builtin.Resources {
		if r.Status == nil || r.Names.Kind == "Service" || r.Names.Kind == "CustomResourceDefinition" { // whose status follows the spec
			continue
		}
		for range 5 {
			obj, old := r.New(), r.New()
			fill.Fill(obj)
			fill.Fill(old)
			wrote := obj.DeepCopyObject().(objects.Object)
			r.Status.Prepare(wrote, old)
			if !sameField(wrote, old, "Spec") {
				t.Errorf("%s: a write of the status changes the spec", r.Names.Kind)
			}
			r.Prepare(obj, old)
			if !sameField(obj, old, "Status") {
				t.Errorf("%s: a write changes the status", r.Names.Kind)
			}
		}
	}
}

func sameField(a, b objects.Object, name string) bool {
	x, y := reflect.ValueOf(a).Elem().FieldByName(name), reflect.ValueOf(b).Elem().FieldByName(name)
	return !x.IsValid() || equality.Semantic.DeepEqual(x.Interface(), y.Interface())
}
