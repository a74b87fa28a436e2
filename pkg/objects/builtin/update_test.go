package builtin_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

func row(t *testing.T, kind string) objects.Resource {
	t.Helper()
	for _, r := range builtin.Resources() {
		if r.Names.Kind == kind {
			return r
		}
	}
	t.Fatalf("no row of %s", kind)
	return objects.Resource{}
}

// object parses an object and sets its name.
func object(t *testing.T, r objects.Resource, text string) objects.Object {
	t.Helper()
	obj := r.New()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	if obj.GetName() == "" {
		obj.SetName("x")
	}
	if !r.Names.Cluster {
		obj.SetNamespace("default")
	}
	obj.SetResourceVersion("1")
	r.Default(obj)
	return obj
}

func want(t *testing.T, errs field.ErrorList, text string) {
	t.Helper()
	got := ""
	if err := errs.ToAggregate(); err != nil {
		got = err.Error()
		if len(errs) > 1 {
			got = strings.TrimSuffix(strings.TrimPrefix(got, "["), "]")
		}
	}
	if got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
}

func wrongLabel(at string) string {
	return at + `: Invalid value: "*": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character ` +
		`(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
}

func TestCreates(t *testing.T) {
	tests := []struct{ kind, name, object, want string }{
		{"Secret", "TLS without keys", `type: kubernetes.io/tls`, "data[tls.crt]: Required value, data[tls.key]: Required value"},
		{"Secret", "registry without JSON", `{type: kubernetes.io/dockercfg, stringData: {.dockercfg: x}}`,
			`data[.dockercfg]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value`},
		{"Secret", "token, no account", `type: kubernetes.io/service-account-token`,
			"metadata.annotations[kubernetes.io/service-account.name]: Required value"},
		{"ConfigMap", "key twice", `{data: {a: b}, binaryData: {a: Yg==}}`, `data[a]: Invalid value: "a": duplicate of key present in binaryData`},
		{"ConfigMap", "too long", "data: {a: " + strings.Repeat("x", 1<<20+1) + "}", "[]: Too long: may not be more than 1048576 bytes"},
		{"Namespace", "finalizer", `spec: {finalizers: [x]}`,
			`spec.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`},
		{"Node", "taints", `spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}, {key: b}]}`,
			`metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair, metadata.taints[2].effect: Required value`},
		{"Node", "no ranges", `spec: {podCIDRs: [10.0.0.0/24, x]}`, `spec.podCIDRs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64), ` +
			`spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: <nil> (invalid CIDR address: x), ` +
			`spec.podCIDRs: Invalid value: ["10.0.0.0/24","x"]: may specify no more than one CIDR for each IP family`},
		{"Node", "capacity", `status: {capacity: {cpu: "-1", pods: 1500m}}`, ""},
		{"PriorityClass", "high", `value: 1000000001`, "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"},
		{"PriorityClass", "the system's", "metadata: {name: system-x}\nvalue: 1",
			"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class"},
		{"PriorityClass", "one of the system's", "metadata: {name: system-node-critical}\nvalue: 2000001000", ""},
		{"PriorityClass", "preemption", `{value: 1, preemptionPolicy: Sometimes}`,
			`preemptionPolicy: Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"`},
		{"StatefulSet", "volumes that claims stand for", `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}], volumes: [{name: v}]}}, ` +
			`volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1}}}}, {metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1}}}}]}`, ""},
		{"StatefulSet", "claims filled from elsewhere", `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}, ` +
			`volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1}}, dataSource: {kind: PersistentVolumeClaim, name: a}, dataSourceRef: {kind: PersistentVolumeClaim, name: a, namespace: A}}}]}`,
			`spec.volumeClaimTemplates[0].spec.dataSourceRef.namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'), ` +
				`spec.volumeClaimTemplates[0].spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified`},
		{"Job", "labels of the template", `spec: {template: {metadata: {labels: {a: "*"}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}`,
			wrongLabel("metadata.labels") + ", metadata.uid: Required value, " + wrongLabel("spec.template.labels")},
		{"LocalSubjectAccessReview", "no resource", `{metadata: {name: x, namespace: default}, spec: {user: a, nonResourceAttributes: {path: /x, verb: get}}}`,
			`metadata: Invalid value: {"name":"x","namespace":"default","resourceVersion":"1"}: must be empty except for namespace, ` +
				`spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: disallowed on this kind of request`},
		{"Lease", "plain", `spec: {holderIdentity: a, leaseDurationSeconds: 40}`, ""},
		{"Lease", "numbers", `spec: {leaseDurationSeconds: 0, leaseTransitions: -1}`,
			"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0, spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"},
		{"Lease", "preferred, which is left aside", `spec: {preferredHolder: a}`, ""},
		{"Event", "old", `involvedObject: {namespace: default}`, ""},
		{"Event", "of elsewhere", `involvedObject: {namespace: other}`, `involvedObject.namespace: Invalid value: "other": does not match event.namespace`},
		{"Event", "new", `{eventTime: "2026-01-01T00:00:00.000000Z", involvedObject: {namespace: default}, reportingComponent: a b, reportingInstance: i, reason: R}`,
			`reportingComponent: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), action: Required value`},
	}
	for _, tt := range tests {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			r := row(t, tt.kind)
			obj := object(t, r, tt.object)
			r.Prepare(obj, nil)
			errs := r.Validate(obj, nil)
			if tt.name == "capacity" { // two resources in random order
				if len(errs) != 4 {
					t.Errorf("got %v", errs.ToAggregate())
				}
				return
			}
			want(t, errs, tt.want)
		})
	}
}

func TestUpdates(t *testing.T) {
	const frozen = "field is immutable when `immutable` is set"
	tests := []struct{ kind, name, old, now, want string }{
		{"ConfigMap", "immutable", `{immutable: true, data: {a: b}}`, `{data: {a: c}, binaryData: {d: Yg==}}`,
			"immutable: Forbidden: " + frozen + ", data: Forbidden: " + frozen + ", binaryData: Forbidden: " + frozen},
		{"Secret", "type", `type: a/b`, `type: c/d`, `type: Invalid value: "c/d": field is immutable`},
		{"Secret", "immutable", `{immutable: true, data: {a: Yg==}}`, `{immutable: true, data: {a: YQ==}}`, "data: Forbidden: " + frozen},
		{"Namespace", "finalizers stay", `spec: {finalizers: [kubernetes]}`, `spec: {finalizers: []}`, ""},
		{"Node", "provider and pods", `spec: {providerID: a, podCIDRs: [10.0.0.0/24]}`, `spec: {providerID: b, podCIDRs: [10.1.0.0/24]}`,
			`spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid, spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`},
		{"Node", "unschedulable", `spec: {}`, `spec: {unschedulable: true, taints: [{key: a, effect: NoExecute}]}`, ""},
		{"PriorityClass", "value", `value: 1`, `{value: 2, preemptionPolicy: Never}`,
			`value: Forbidden: may not be changed in an update., preemptionPolicy: Invalid value: "Never": field is immutable`},
		{"ServiceAccount", "finalizer", `{}`, `metadata: {finalizers: [x]}`,
			`metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`},
	}
	for _, tt := range tests {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			r := row(t, tt.kind)
			old, now := object(t, r, tt.old), object(t, r, tt.now)
			r.Prepare(now, old)
			want(t, r.Validate(now, old), tt.want)
		})
	}
}

func TestStatusWrites(t *testing.T) {
	tests := []struct{ kind, name, old, now, want string }{
		{"Namespace", "ended while alive", `{}`, `status: {phase: Terminating}`,
			"status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"},
		{"Deployment", "more ready than there are", `{}`, `status: {replicas: 1, readyReplicas: 2, availableReplicas: 3}`,
			"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas"},
		{"Deployment", "fewer collisions", `status: {collisionCount: 2}`, `status: {collisionCount: 1}`,
			"status.collisionCount: Invalid value: 1: cannot be decremented"},
		{"ReplicaSet", "below zero", `{}`, `status: {replicas: -1}`,
			"status.replicas: Invalid value: -1: must be greater than or equal to 0, status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas, status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas"},
		{"Service", "ingress of a plain one", `spec: {ports: [{port: 1}]}`, `status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}`,
			"status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"},
		{"Service", "ingress", `spec: {type: LoadBalancer, ports: [{port: 1}]}`, `status: {loadBalancer: {ingress: [{ip: 1.2.3.4, ipMode: VIP}, {hostname: a, ipMode: VIP}]}}`,
			"status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set"},
		{"Node", "address twice", `{}`, `status: {addresses: [{type: InternalIP, address: a}, {type: InternalIP, address: a}]}`,
			`status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"a"}`},
	}
	for _, tt := range tests {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			r := row(t, tt.kind)
			old, now := object(t, r, tt.old), object(t, r, tt.now)
			r.Status.Prepare(now, old)
			want(t, r.Status.Validate(now, old), tt.want)
		})
	}
}

func TestFinalize(t *testing.T) {
	r := row(t, "Namespace")
	old := object(t, r, `spec: {finalizers: [kubernetes]}`)
	now := object(t, r, `{spec: {finalizers: []}, status: {phase: Terminating}}`)
	part := r.Parts["finalize"]
	part.Prepare(now, old)
	want(t, part.Validate(now, old), "")
	bad := object(t, r, `spec: {finalizers: [x]}`)
	part.Prepare(bad, old)
	want(t, part.Validate(bad, old), `spec.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`)
}
