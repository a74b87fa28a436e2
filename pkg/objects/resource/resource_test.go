package resource

import (
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects"
)

func parse[T objects.Object](t *testing.T, def objects.Def[T], text string) T {
	t.Helper()
	obj := def.New()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	obj.SetName("x")
	obj.SetResourceVersion("1")
	if !def.Names.Cluster {
		obj.SetNamespace("default")
	}
	if def.Default != nil {
		def.Default(obj)
	}
	return obj
}

func want(t *testing.T, errs field.ErrorList, texts ...string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if strings.Join(got, "\n") != strings.Join(texts, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(texts, "\n"))
	}
}

func TestClaims(t *testing.T) {
	tests := []struct {
		name, spec string
		want       []string
	}{
		{"plain", `{devices: {requests: [{name: a, exactly: {deviceClassName: gpu}}]}}`, nil},
		{"nothing", `{}`, nil},
		{"neither", `{devices: {requests: [{name: a}]}}`, []string{"spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"}},
		{"both", `{devices: {requests: [{name: a, exactly: {deviceClassName: g}, firstAvailable: [{name: b, deviceClassName: g}]}]}}`,
			[]string{"spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"}},
		{"twice", `{devices: {requests: [{name: a, exactly: {deviceClassName: g}}, {name: a, exactly: {deviceClassName: g}}]}}`,
			[]string{`spec.devices.requests[1]: Duplicate value: "a"`}},
		{"counts", `{devices: {requests: [{name: a, exactly: {deviceClassName: g, allocationMode: All, count: 2}}, {name: b, firstAvailable: [{name: c, deviceClassName: "", count: -1}]}]}}`,
			[]string{"spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
				"spec.devices.requests[1].firstAvailable[0].deviceClassName: Required value",
				"spec.devices.requests[1].firstAvailable[0].count: Invalid value: -1: must be greater than zero"}},
		{"mode", `{devices: {requests: [{name: a, exactly: {deviceClassName: g, allocationMode: Some}}]}}`,
			[]string{`spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"`}},
		{"tolerations", `{devices: {requests: [{name: a, exactly: {deviceClassName: g, tolerations: [{operator: Exists, value: v}, {}, {operator: Equal, effect: Never}]}}]}}`,
			[]string{"spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`",
				`spec.devices.requests[0].exactly.tolerations[2].effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "None"`}},
		{"constraints", `{devices: {requests: [{name: a, firstAvailable: [{name: b, deviceClassName: g}]}], constraints: [{requests: [a, a/b], matchAttribute: d.io/numa}, {requests: [a/c, b, a/b/c], distinctAttribute: numa}, {}]}}`,
			[]string{
				`spec.devices.constraints[1].requests[0]: Invalid value: "a/c": ` + noSuchRequest, `spec.devices.constraints[1].requests[1]: Invalid value: "b": ` + noSuchRequest,
				`spec.devices.constraints[1].requests[2]: Invalid value: "a/b/c": ` + noSuchRequest,
				`spec.devices.constraints[1].distinctAttribute: Invalid value: "numa": a fully qualified name must be a domain and a name separated by a slash`,
				`spec.devices.constraints[2]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`}},
		{"config", `{devices: {config: [{opaque: {driver: d.io, parameters: {a: 1}}}, {opaque: {driver: "", parameters: [1]}}, {}]}}`,
			[]string{"spec.devices.config[1].opaque.driver: Required value", `spec.devices.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`,
				"spec.devices.config[2].opaque: Required value"}},
		{"selectors", `{devices: {requests: [{name: a, exactly: {deviceClassName: g, selectors: [{}, {cel: {expression: "device.driver"}}, {cel: {expression: "device.driver == 'd'"}}]}}]}}`,
			[]string{"spec.devices.requests[0].exactly.selectors[0].cel: Required value",
				`spec.devices.requests[0].exactly.selectors[1].cel.expression: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := parse(t, ResourceClaims, "spec: "+tt.spec)
			want(t, validateClaim(c, nil), tt.want...)
			template := parse(t, ResourceClaimTemplates, "spec: {spec: "+tt.spec+"}")
			for i := range tt.want {
				tt.want[i] = "spec." + tt.want[i]
			}
			want(t, validateTemplate(template, nil), tt.want...)
		})
	}
}

func TestClaimUpdates(t *testing.T) {
	const spec = `{devices: {requests: [{name: a, exactly: {deviceClassName: gpu}}]}}`
	old := parse(t, ResourceClaims, "spec: "+spec)
	old.Status.Allocation = &resourcev1.AllocationResult{}
	now := parse(t, ResourceClaims, "{spec: {}, status: {reservedFor: [{name: p}]}}")
	prepareClaim(now, old)
	if now.Status.Allocation == nil {
		t.Error("an update changed the status")
	}
	want(t, validateClaim(now, old), `spec: Invalid value: {"Devices":{"Requests":null,"Constraints":null,"Config":null}}: field is immutable`)
	prepareClaim(now, nil)
	if now.Status.Allocation != nil {
		t.Error("a create has a status")
	}
	was, template := parse(t, ResourceClaimTemplates, "spec: {spec: "+spec+"}"), parse(t, ResourceClaimTemplates, "spec: {metadata: {name: n}, spec: "+spec+"}")
	errs := validateTemplate(template, was)
	want(t, errs[:1], "spec.metadata.name: Forbidden: cannot be set")
	if len(errs) != 2 || errs[1].Field != "spec" || errs[1].Detail != "field is immutable" {
		t.Errorf("got %v", errs)
	}
}

const result = `allocation: {devices: {results: [{request: a, driver: d.io, pool: p, device: dev}]}}`

func TestClaimStatus(t *testing.T) {
	const spec = `spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu}}]}}`
	const has = `spec: {devices: {requests: []}}, `
	tests := []struct {
		name, old, now string
		deleted        bool
		want           []string
	}{
		{"allocate", "", result, false, nil},
		{"again", result, result, false, nil},
		{"otherwise", result, `allocation: {}`, false, []string{`status.allocation: Invalid value: {"Devices":{"Results":null,"Config":null},"NodeSelector":null,"AllocationTimestamp":null}: field is immutable`}},
		{"free", result + `, devices: [{driver: d.io, pool: p, device: dev}]`, `devices: [{driver: d.io, pool: p, device: dev}]`, false, nil},
		{"device that is not allocated", "", result + `, devices: [{driver: d.io, pool: p, device: other}]`, false,
			[]string{`status.devices[0]: Invalid value: {"Driver":"d.io","Pool":"p","Device":"other","ShareID":""}: must be an allocated device in the claim`}},
		{"reserve nothing", "", `reservedFor: [{resource: pods, name: p, uid: u}]`, false, []string{"status.reservedFor: Forbidden: may not be specified when `allocated` is not set"}},
		{"reserve late", result, result + `, reservedFor: [{resource: pods, name: p, uid: u}]`, true,
			[]string{"status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"}},
		{"release late", result + `, reservedFor: [{resource: pods, name: p, uid: u}, {resource: pods, name: q, uid: v}]`, result + `, reservedFor: [{resource: pods, name: p, uid: u}]`, true, nil},
		{"consumers", result, result + `, reservedFor: [{uid: u}, {resource: pods, name: p, uid: u}]`, false,
			[]string{"status.reservedFor[0].resource: Required value", "status.reservedFor[0].name: Required value", `status.reservedFor[1]: Duplicate value: "u"`}},
		{"result", "", `allocation: {devices: {results: [{request: b, driver: "", pool: "", device: "", shareID: x, bindingConditions: [c]}], config: [{source: Here, opaque: {driver: d.io, parameters: {}}}]}}`, false,
			[]string{`status.allocation.devices.results[0].request: Invalid value: "b": ` + noSuchRequest, "status.allocation.devices.results[0].driver: Required value",
				"status.allocation.devices.results[0].pool: Required value",
				`status.allocation.devices.results[0].device: Invalid value: "": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
				"status.allocation.devices.results[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions",
				`status.allocation.devices.results[0].shareID: Invalid value: "x": error validating uid: invalid UUID length: 1`,
				`status.allocation.devices.config[0].source: Unsupported value: "Here": supported values: "FromClaim", "FromClass"`}},
		{"device", "", result + `, devices: [{driver: d.io, pool: p, device: dev, data: 1, networkData: {ips: [1.2.3.4, 10.0.0.1/24, 10.0.0.1/24]}}]`, false,
			[]string{`status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object`,
				`status.devices[0].networkData.ips[0]: Invalid value: "1.2.3.4": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)`,
				`status.devices[0].networkData.ips[2]: Duplicate value: "10.0.0.1/24"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old := parse(t, ResourceClaims, "{"+spec+", status: {"+tt.old+"}}")
			now := parse(t, ResourceClaims, "{"+has+"status: {"+tt.now+"}}")
			if tt.deleted {
				at := metav1.Unix(1, 0)
				old.DeletionTimestamp, old.Finalizers = &at, []string{"example.com/x"}
			}
			prepareClaimStatus(now, old)
			want(t, validateClaimStatus(now, old), tt.want...)
			if tt.name == "free" && now.Status.Devices != nil {
				t.Errorf("the status of devices is left: %v", now.Status.Devices)
			}
		})
	}
}

func TestClasses(t *testing.T) {
	c := parse(t, DeviceClasses, `spec: {extendedResourceName: gpu, selectors: [{cel: {expression: "1"}}], config: [{}]}`)
	want(t, validateClass(c, nil), `spec.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int`,
		"spec.config[0].opaque: Required value", `spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name`)
	old := parse(t, DeviceClasses, `spec: {extendedResourceName: example.com/gpu}`)
	want(t, validateClass(old, nil))
	now := old.DeepCopy()
	now.Spec.ExtendedResourceName = nil
	DeviceClasses.Prepare(now, old)
	if now.Generation != old.Generation+1 {
		t.Errorf("generation %d", now.Generation)
	}
}

func TestState(t *testing.T) {
	c := parse(t, ResourceClaims, `{}`)
	if got := state(c); got != "pending" {
		t.Error(got)
	}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{}}
	c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if got := state(c); got != "deleted,allocated,reserved" {
		t.Error(got)
	}
}
