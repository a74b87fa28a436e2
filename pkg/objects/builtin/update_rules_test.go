package builtin_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestChanges checks the error of changing a field, by its beginning; "": the change is valid.
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
		{"PersistentVolumeClaim", "source elsewhere", `spec: {accessModes: [ReadWriteOnce], dataSource: {kind: PersistentVolumeClaim, name: a}, resources: {requests: {storage: 1Gi}}}`,
			`spec: {accessModes: [ReadWriteOnce], dataSource: {kind: PersistentVolumeClaim, name: a}, dataSourceRef: {kind: PersistentVolumeClaim, name: a, namespace: b}, resources: {requests: {storage: 1Gi}}}`,
			`spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified`},
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
		{"IPAddress", "owner", `{metadata: {name: 10.0.0.1}, spec: {parentRef: {resource: services, name: a, namespace: b}}}`, `{metadata: {name: 10.0.0.1}, spec: {parentRef: {resource: services, name: c, namespace: b}}}`,
			`spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"b","Name":"c"}: field is immutable`},
		{"Job", "labels of the template, which are the Job's too", `spec: {` + jobSelected + `}`,
			`{metadata: {name: x, labels: {a: "*"}}, spec: {manualSelector: true, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: "*"}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`,
			`metadata.labels: Invalid value: "*": a valid label must be`},
		{"Service", "node ports that another port has", `spec: {type: NodePort, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{name: a, port: 1, nodePort: 30001}, {name: b, port: 2, nodePort: 30002}]}`,
			`spec: {type: ClusterIP, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{name: b, port: 1, nodePort: 30002}]}`, ""},
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

// TestStatusWarnings checks the warnings of a write of the status.
func TestStatusWarnings(t *testing.T) {
	tests := []struct{ kind, object, want string }{
		{"Pod", `status: {podIPs: [{ip: 10.0.0.1}, {ip: "::ffff:1.2.3.4"}], hostIPs: [{ip: 010.0.0.1}]}`,
			`status.podIPs[1].ip: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"; ` +
				`status.hostIPs[0].ip: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"`},
		{"Service", `status: {loadBalancer: {ingress: [{hostname: a}, {ip: "2001:DB8::1"}]}}`,
			`status.loadBalancer.ingress[1]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")`},
		{"Ingress", `status: {loadBalancer: {ingress: [{ip: 010.0.0.1}]}}`,
			`status.loadBalancer.ingress[0]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"`},
		{"Deployment", `{spec: {` + selected + `}, status: {replicas: 1}}`, ""},
	}
	for _, tt := range tests {
		r := row(t, tt.kind)
		obj := object(t, r, tt.object)
		if got := strings.Join(r.Part("status").Warnings(obj, obj), "; "); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.kind, got, tt.want)
		}
	}
}

// TestTemplateWarnings checks that an update of a ReplicationController warns of its old template.
func TestTemplateWarnings(t *testing.T) {
	r := row(t, "ReplicationController")
	wrong := object(t, r, `spec: {template: {metadata: {labels: {a: b}}, spec: {terminationGracePeriodSeconds: -1, containers: [{name: c, image: i}]}}}`)
	right := object(t, r, `spec: {`+podTemplate+`}`)
	wrong.SetGeneration(2)
	if got := r.Warnings(wrong, right); len(got) != 0 {
		t.Errorf("what comes: %q", got)
	}
	wrong.SetGeneration(1)
	right.SetGeneration(2)
	if got, want := strings.Join(r.Warnings(right, wrong), ""),
		"spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"; got != want {
		t.Errorf("what goes: got %q, want %q", got, want)
	}
}

// TestStatusMetadata checks that a write of the status keeps the labels, for the kinds that do.
func TestStatusMetadata(t *testing.T) {
	for _, kind := range []string{"ServiceCIDR", "ValidatingAdmissionPolicy", "ResourceClaim", "VolumeAttachment"} {
		r := row(t, kind)
		old, now := object(t, r, `metadata: {name: x, labels: {a: b}}`), object(t, r, `metadata: {name: x, labels: {c: d}}`)
		r.Status.Prepare(now, old)
		if !reflect.DeepEqual(now.GetLabels(), old.GetLabels()) || !slices.Contains(r.Status.Reset, "metadata") {
			t.Errorf("%s: a write of the status made the labels %v", kind, now.GetLabels())
		}
	}
}

// TestDefaults checks default values, as JSON that the object must contain.
func TestDefaults(t *testing.T) {
	tests := []struct{ kind, object, want string }{
		{"ResourceClaim", `spec: {devices: {requests: [{name: a, exactly: {deviceClassName: g, tolerations: [{key: x}]}}]}}`, `"tolerations":[{"key":"x","operator":"Equal"}]`},
		{"ResourceClaim", `spec: {devices: {requests: [{name: a, firstAvailable: [{name: b, deviceClassName: g, tolerations: [{key: x}]}]}]}}`, `"tolerations":[{"key":"x","operator":"Equal"}]`},
		{"ResourceClaim", `status: {allocation: {devices: {results: [{tolerations: [{key: x, operator: Exists}, {key: "y"}]}]}}}`, `{"key":"y","operator":"Equal"}`},
		{"VolumeAttachment", `spec: {source: {inlineVolumeSpec: {rbd: {image: i}}}}`, `"pool":"rbd","user":"admin"`},
	}
	for _, tt := range tests {
		r := row(t, tt.kind)
		text, err := json.Marshal(object(t, r, tt.object))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), tt.want) {
			t.Errorf("%s: no %s in %s", tt.kind, tt.want, text)
		}
	}
}

// TestCells checks cells and column definitions of tables.
func TestCells(t *testing.T) {
	tests := []struct{ kind, column, object, want string }{
		{"Deployment", "Selector", `spec: {selector: {matchLabels: {a: b}}}`, "a=b"},
		{"Deployment", "Selector", `spec: {selector: {}}`, ""},
		{"Deployment", "Selector", `spec: {selector: {matchExpressions: [{key: a, operator: Some}]}}`, "<invalid>"},
		{"HorizontalPodAutoscaler", "Targets", `{spec: {metrics: [{type: Resource, resource: {name: cpu, target: {}}}]}, status: {currentMetrics: [{resource: {current: {averageUtilization: 5}}}]}}`, "cpu: 5%/<auto>"},
		{"HorizontalPodAutoscaler", "Targets", `{spec: {metrics: [{type: Pods, pods: {target: {averageValue: 1k}}}, {type: Some}]}, status: {currentMetrics: [{pods: {current: {averageValue: 3}}}]}}`, "3/1k, <unknown type>"},
		{"HorizontalPodAutoscaler", "Targets", `spec: {metrics: [{type: External, external: {target: {averageValue: 5}}}, {type: Object, object: {target: {value: 5}}}, {type: Pods}]}`, "<unknown>/5 (avg), <unknown>/5 + 1 more..."},
		{"ControllerRevision", "Controller", `{metadata: {name: x, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, controller: true}]}}`, "statefulset.apps/web"},
		{"ControllerRevision", "Controller", `{metadata: {name: x, ownerReferences: [{name: web, controller: true}]}}`, "web"},
		{"EndpointSlice", "Endpoints", `{endpoints: [{addresses: [""]}]}`, "<unset>"},
		{"EndpointSlice", "Endpoints", `{endpoints: [{addresses: [a, b]}, {addresses: [c, d]}]}`, "a,b,c + 1 more..."},
		{"Event", "Source", `{source: {component: c, host: h}, reportingInstance: i}`, "c, h"},
		{"Event", "Source", `{source: {host: h}, reportingComponent: r}`, "r, h"},
		{"Event", "Source", `{source: {component: c}, reportingInstance: i}`, "c, i"},
		{"Ingress", "Address", `status: {loadBalancer: {ingress: [{ip: 192.168.100.100}, {hostname: a.example.com}, {ip: 192.168.100.100}]}}`, "192.168.100.100,a.example.com"},
		{"Node", "Kernel-Version", `status: {nodeInfo: {kernelVersion: "6.1", architecture: amd64}}`, "6.1 (amd64)"},
		{"Node", "Kernel-Version", `status: {nodeInfo: {architecture: amd64}}`, "<unknown> (amd64)"},
		{"Node", "Kernel-Version", `{}`, "<unknown>"},
		{"ValidatingAdmissionPolicyBinding", "ParamRef", `spec: {paramRef: {name: a}}`, "*/a"},
		{"ValidatingAdmissionPolicyBinding", "ParamRef", `spec: {paramRef: {name: a, namespace: b}}`, "b/a"},
		{"ValidatingAdmissionPolicyBinding", "ParamRef", `spec: {paramRef: {namespace: b}}`, "<unset>"},
		{"MutatingAdmissionPolicyBinding", "ParamRef", `spec: {paramRef: {selector: {matchLabels: {a: b}}}}`,
			"&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"},
	}
	for _, tt := range tests {
		r := row(t, tt.kind)
		columns := r.Versions[0].Columns
		i := slices.IndexFunc(columns, func(c objects.ColumnOf) bool { return c.Name == tt.column })
		if got := columns[i].Cell(object(t, r, tt.object), time.Time{}); got != tt.want {
			t.Errorf("%s, %s of %s: got %q, want %q", tt.kind, tt.column, tt.object, got, tt.want)
		}
	}
	docs := []struct{ kind, column, begin string }{
		{"PodDisruptionBudget", "Min Available", "The minimum number of pods that must be available."},
		{"CertificateSigningRequest", "Requestor", "Base64-encoded PKCS#10 CSR data"},
		{"RoleBinding", "Role", "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace."},
	}
	for _, tt := range docs {
		columns := row(t, tt.kind).Versions[0].Columns
		i := slices.IndexFunc(columns, func(c objects.ColumnOf) bool { return c.Name == tt.column })
		if !strings.HasPrefix(columns[i].Description, tt.begin) {
			t.Errorf("%s: %s is %q", tt.kind, tt.column, columns[i].Description)
		}
	}
}

// TestGenerations checks that a change of the spec, and nothing else, increments the generation.
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

// TestStatusAndSpecAreIndependent checks that a write of the object keeps its status, and a write of the status everything else.
func TestStatusAndSpecAreIndependent(t *testing.T) {
	fill := filler(3)
	for _, r := range builtin.Resources() {
		if r.Status == nil || r.Names.Kind == "Service" || r.Names.Kind == "CustomResourceDefinition" { // their status follows the spec
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
