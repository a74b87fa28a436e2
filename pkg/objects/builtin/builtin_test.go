package builtin_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

func TestNames(t *testing.T) {
	taken := map[string]string{}
	for _, r := range builtin.Resources() {
		n := r.Names
		if n.Singular != strings.ToLower(n.Kind) || n.Plural != strings.ToLower(n.Plural) {
			t.Errorf("%s: odd names %+v", n.Kind, n)
		}
		for _, name := range append([]string{n.Plural, n.Singular}, n.Short...) {
			if other, ok := taken[name]; ok && other != n.Kind {
				t.Errorf("%s and %s are both called %s", n.Kind, other, name)
			}
			taken[name] = n.Kind
		}
		versions := map[string]bool{}
		for i, v := range r.Versions {
			gv := v.Group + "/" + v.Version
			if versions[gv] {
				t.Errorf("%s: version %s twice", n.Kind, gv)
			}
			versions[gv] = true
			if (i == 0) != (v.To == nil) || (i == 0) != (v.From == nil) {
				t.Errorf("%s: version %s: only the stored one needs no conversion", n.Kind, gv)
			}
			if len(v.Columns) == 0 || v.Default == nil || v.Validate == nil {
				t.Errorf("%s: version %s is not whole", n.Kind, gv)
			}
		}
	}
}

func TestColumns(t *testing.T) {
	for _, r := range builtin.Resources() {
		named := 0
		for _, c := range r.Versions[0].Columns {
			described := c.Description != "" || r.Names.Kind == "RuntimeClass" // Kubernetes has no description of its handler either
			if c.Name == "" || !described || !slices.Contains([]string{"string", "integer", "boolean", "date"}, c.Type) {
				t.Errorf("%s: column %+v is not whole", r.Names.Kind, c)
			}
			if c.Format == "name" {
				named++
			}
			switch cell := c.Cell(r.New(), time.Unix(0, 0)).(type) {
			case string, int64, bool:
			default:
				t.Errorf("%s: column %s: a cell is a %T", r.Names.Kind, c.Name, cell)
			}
		}
		if named == 0 { // the error of an attachment also has its attacher's
			t.Errorf("%s: no column is the name", r.Names.Kind)
		}
	}
}

func TestDefaultIsIdempotent(t *testing.T) {
	fill := filler(1)
	for _, r := range builtin.Resources() {
		for range 30 {
			once := r.New()
			fill.Fill(once)
			r.Default(once)
			twice := once.DeepCopyObject().(objects.Object)
			r.Default(twice)
			if !reflect.DeepEqual(once, twice) {
				t.Fatalf("%s: defaulting again changes\n%s", r.Names.Kind, cmp.Diff(once, twice, cmp.Comparer(sameQuantity)))
			}
		}
	}
}

func sameQuantity(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }

// TestPrepareDoesNotChangeOld fills both objects at random and checks that Prepare does not change the old one.
func TestPrepareDoesNotChangeOld(t *testing.T) {
	fill := filler(2)
	for _, r := range builtin.Resources() {
		for range 20 {
			obj, old := r.New(), r.New()
			fill.Fill(obj)
			fill.Fill(old)
			was := old.DeepCopyObject()
			r.Prepare(obj, old)
			if len(r.Validate(obj, old)) == 0 {
				_ = r.Warnings(obj, old)
			}
			if r.Status != nil {
				r.Status.Prepare(obj, old)
				_ = r.Status.Validate(obj, old)
			}
			if !equality.Semantic.DeepEqual(was, runtime.Object(old)) {
				t.Fatalf("%s: the old object changed\n%s", r.Names.Kind, cmp.Diff(was, runtime.Object(old)))
			}
		}
	}
}

// TestValidateRandomObjects checks that Validate of random objects neither panics nor changes them.
func TestValidateRandomObjects(t *testing.T) {
	fill := filler(3)
	for _, r := range builtin.Resources() {
		for range 50 {
			obj := r.New()
			fill.Fill(obj)
			r.Default(obj)
			r.Prepare(obj, nil)
			was := obj.DeepCopyObject()
			if len(r.Validate(obj, nil)) == 0 {
				_ = r.Warnings(obj, nil)
			}
			for _, v := range r.Versions {
				for _, c := range v.Columns {
					_ = c.Cell(obj, time.Unix(0, 0))
				}
				for _, f := range v.Selectable {
					_ = f(obj)
				}
				_ = v.Validate(obj, nil)
			}
			if !equality.Semantic.DeepEqual(was, runtime.Object(obj)) {
				t.Fatalf("%s: a check changed the object", r.Names.Kind)
			}
		}
	}
}

type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func TestRoundTrips(t *testing.T) {
	fill := filler(4)
	for _, r := range builtin.Resources() {
		for _, v := range r.Versions {
			for range 20 {
				in := v.New()
				fill.Fill(in)
				roundTrip(t, in, v.New())
			}
			if v.To == nil {
				continue
			}
			for range 20 {
				roundTripVersion(t, r, v, fill)
			}
		}
	}
}

func roundTrip(t *testing.T, in, out runtime.Object) {
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatalf("%T: %v", in, err)
	}
	if !equality.Semantic.DeepEqual(in, out) {
		t.Errorf("%T changes in JSON:\n%s", in, cmp.Diff(in, out))
	}
	blank := reflect.New(reflect.TypeOf(in).Elem()).Interface().(protobuf)
	if b, err = in.(protobuf).Marshal(); err != nil {
		t.Fatal(err)
	}
	if err := blank.Unmarshal(b); err != nil {
		t.Fatalf("%T: %v", in, err)
	}
	in.GetObjectKind().SetGroupVersionKind(blank.(runtime.Object).GetObjectKind().GroupVersionKind()) // not in protobuf
	if !equality.Semantic.DeepEqual(in, blank) {
		t.Errorf("%T changes in protobuf:\n%s", in, cmp.Diff(in, blank.(runtime.Object)))
	}
}

// roundTripVersion checks that an object survives a conversion to another version and back.
func roundTripVersion(t *testing.T, r objects.Resource, v objects.VersionOf, fill *randfill.Filler) {
	obj := r.New()
	fill.Fill(obj)
	obj.GetObjectKind().SetGroupVersionKind(v.New().GetObjectKind().GroupVersionKind())
	was := obj.DeepCopyObject()
	other, err := v.From(obj)
	if err != nil {
		t.Fatal(err)
	}
	back, err := v.To(other)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(obj, back) {
		t.Fatalf("%s changes in %s/%s:\n%s", r.Names.Kind, v.Group, v.Version, cmp.Diff(obj, back))
	}
	if !equality.Semantic.DeepEqual(was, runtime.Object(obj)) {
		t.Errorf("%s: a conversion changed the object", r.Names.Kind)
	}
}

// filler fills objects at random with values that can be encoded.
func filler(seed int64) *randfill.Filler {
	return randfill.New().NilChance(.5).NumElements(1, 2).MaxDepth(14).RandSource(rand.NewSource(seed)).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1<<40), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(c.Int31()); c.Bool() {
				*v = intstr.FromString(fmt.Sprintf("%d%%", c.Int31()))
			}
		},
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(c.Int63n(1<<32), 0) },
		func(v *metav1.MicroTime, c randfill.Continue) { *v = metav1.MicroTime(metav1.Unix(c.Int63n(1<<32), 0)) },
		func(v *metav1.FieldsV1, _ randfill.Continue) { v.Raw = []byte(`{"f:a":{}}`) },
		func(v *runtime.RawExtension, _ randfill.Continue) { v.Raw = []byte(`{"a":1}`) },
		func(v *apiextensionsv1.JSONSchemaProps, _ randfill.Continue) { // its unions can't be filled at random
			*v = apiextensionsv1.JSONSchemaProps{Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)}}
		},
		func(v *apiextensionsv1.CustomResourceDefinitionSpec, c randfill.Continue) { // except the fields of v1beta1 with another form
			c.FillNoCustom(v)
			v.Versions = append(v.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1"})
			v.Conversion, v.PreserveUnknownFields = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}, false
		},
		func(v *apiextensionsv1beta1.JSONSchemaProps, _ randfill.Continue) {
			*v = apiextensionsv1beta1.JSONSchemaProps{Type: "object", Default: &apiextensionsv1beta1.JSON{Raw: []byte(`{"a":1}`)}}
		},
		func(v *metav1.TypeMeta, _ randfill.Continue) { *v = metav1.TypeMeta{} },
		fillMetric, fillMetricStatus,
		func(v *networkingv1.IngressServiceBackend, c randfill.Continue) {
			*v = networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: c.Int31()}}
		},
		func(v *[]metav1.ManagedFieldsEntry, _ randfill.Continue) { *v = nil },
	)
}

// fillMetric fills a metric that every version can represent, with the target type of its
// source.
func fillMetric(m *autoscalingv2.MetricSpec, c randfill.Continue) {
	name := autoscalingv2.MetricIdentifier{Name: "m"}
	amount := resource.NewQuantity(1+c.Int63n(1<<30), resource.DecimalSI)
	switch c.Intn(3) {
	case 0:
		*m = autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: name,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: amount}}}
	case 1:
		*m = autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "memory",
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(7))}}}
	default:
		*m = autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: name,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: amount}}}
	}
}

func fillMetricStatus(m *autoscalingv2.MetricStatus, c randfill.Continue) {
	*m = autoscalingv2.MetricStatus{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricStatus{
		Metric:  autoscalingv2.MetricIdentifier{Name: "m"},
		Current: autoscalingv2.MetricValueStatus{AverageValue: resource.NewQuantity(1+c.Int63n(1<<30), resource.DecimalSI)}}}
}

// TestGroups: each version of a resource is of a listed group, and each listed version has a resource.
func TestGroups(t *testing.T) {
	listed, served := map[string]bool{}, map[schema.GroupVersion]bool{}
	for _, r := range builtin.Resources() {
		for _, v := range r.Versions {
			served[schema.GroupVersion{Group: v.Group, Version: v.Version}] = true
		}
	}
	for _, g := range builtin.Groups {
		if listed[g.Name] {
			t.Errorf("group %q is listed twice", g.Name)
		}
		listed[g.Name] = true
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			if virtual := g.Name == minikctl.Group.Name || g.Name == metrics.Group.Name; !served[gv] && !virtual {
				t.Errorf("%s has a priority and no resource", gv)
			}
		}
	}
	for gv := range served {
		if !listed[gv.Group] {
			t.Errorf("group %q is not listed", gv.Group)
		}
	}
}
