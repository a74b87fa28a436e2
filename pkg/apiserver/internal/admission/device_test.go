package admission

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

var deviceClaims = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}

// rights is an authorizer that allows the listed "VERB SUBRESOURCE NAMESPACE/NAME".
type rights []string

func (r rights) Authorize(_ context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	for _, right := range r {
		if right == a.Verb+" "+a.Subresource+" "+a.Namespace+"/"+a.Name {
			return stage.Allow, "", nil
		}
	}
	return stage.NoOpinion, "", nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAdminAccess(t *testing.T) {
	r := newReader()
	r.Put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "trusted", Labels: map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}}})
	p := deviceAccess{reader: r}
	spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "a"}, {Name: "b", Exactly: &resourcev1.ExactDeviceRequest{AdminAccess: new(true)}},
	}}}
	const want = "spec.devices.requests[1].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
	for namespace, allowed := range map[string]bool{"ns": false, "trusted": true} {
		meta := metav1.ObjectMeta{Name: "c", Namespace: namespace}
		for _, obj := range []objects.Object{&resourcev1.ResourceClaim{ObjectMeta: meta, Spec: spec},
			&resourcev1.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}} {
			got := errorText(p.Validate(t.Context(), create(deviceClaims, obj)))
			if allowed && got != "" || !allowed && !strings.Contains(got, want) {
				t.Errorf("%T in %s: %q", obj, namespace, got)
			}
		}
	}
	granted := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}, Status: resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{AdminAccess: new(true)}}}},
	}}
	if errs := p.status(t.Context(), update(granted), &granted.Status, &granted.Status); len(errs) > 0 {
		t.Errorf("devices that were granted before: %v", errs)
	}
	if errs := p.admin(t.Context(), "ns", adminResult(granted.Status.Allocation)); len(errs) != 1 {
		t.Errorf("devices that are granted now: %v", errs)
	}
}

func update(obj *resourcev1.ResourceClaim) *stage.Admission {
	a := create(deviceClaims, obj)
	a.Verb, a.Operation, a.Subresource = "update", stage.Update, "status"
	a.User = &user.DefaultInfo{Name: "system:serviceaccount:ns:driver", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}}
	return a
}

func TestResourceClaimStatusPermissions(t *testing.T) {
	on := func(node string) *resourcev1.AllocationResult {
		return &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{node}}},
		}}}}
	}
	statuses := func(driver, pool string) []resourcev1.AllocatedDeviceStatus {
		return []resourcev1.AllocatedDeviceStatus{{Driver: driver, Pool: pool, Device: "d"}}
	}
	type status = resourcev1.ResourceClaimStatus
	for name, c := range map[string]struct {
		old, now status
		may      rights
		want     string
	}{
		"nothing changes":        {status{Allocation: on("n1"), Devices: statuses("d.io", "p")}, status{Allocation: on("n1"), Devices: statuses("d.io", "p")}, nil, ""},
		"allocate":               {status{}, status{Allocation: on("n1")}, rights{"update binding /"}, ""},
		"allocate without right": {status{}, status{Allocation: on("n1")}, nil, `status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden: User "system:serviceaccount:ns:driver" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope`},
		"report on this node":    {status{Allocation: on("n1")}, status{Allocation: on("n1"), Devices: statuses("d.io", "p")}, rights{"associated-node:update driver ns/d.io"}, ""},
		"report on any node":     {status{Allocation: on("n2")}, status{Allocation: on("n2"), Devices: statuses("d.io", "p")}, rights{"arbitrary-node:update driver ns/d.io"}, ""},
		"report on another node": {status{Allocation: on("n2")}, status{Allocation: on("n2"), Devices: statuses("d.io", "p")}, rights{"associated-node:update driver ns/d.io"},
			`status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io "d.io" is forbidden: User "system:serviceaccount:ns:driver" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "ns"`},
		"of another driver":    {status{Allocation: on("n1"), Devices: statuses("e.io", "p")}, status{Allocation: on("n1")}, rights{"arbitrary-node:update driver ns/d.io"}, `verb="[associated-node:update arbitrary-node:update]"`},
		"give devices back":    {status{Allocation: on("n1"), Devices: statuses("d.io", "p")}, status{}, rights{"update binding /"}, ""},
		"report another thing": {status{Allocation: on("n1"), Devices: statuses("d.io", "p")}, status{Allocation: on("n1"), Devices: statuses("d.io", "q")}, nil, `cannot associated-node:update`},
	} {
		t.Run(name, func(t *testing.T) {
			old := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}, Status: c.old}
			now := old.DeepCopy()
			now.Status = c.now
			a := update(now)
			a.Old = old
			got := errorText(deviceAccess{newReader(), []stage.Authorizer{c.may}}.Validate(t.Context(), a))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDeviceTaints(t *testing.T) {
	then := metav1.Unix(1, 0)
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{{Taints: []resourcev1.DeviceTaint{{TimeAdded: &then}, {}}}}}}
	clk := clocktesting.NewFakeClock(time.Unix(7, 9))
	if err := (deviceTaints{clk}).Mutate(t.Context(), create(schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}, s)); err != nil {
		t.Fatal(err)
	}
	if taints := s.Spec.Devices[0].Taints; taints[0].TimeAdded.Unix() != 1 || !taints[1].TimeAdded.Time.Equal(time.Unix(7, 0)) {
		t.Errorf("got %v", taints)
	}
}
