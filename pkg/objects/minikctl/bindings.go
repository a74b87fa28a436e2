package minikctl

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/trace"
)

// BindingBatches is the resource of BindingBatch.
var BindingBatches = GroupVersion.WithResource("bindingbatches")

// BindingBatch binds pods when it is created. Each of its bindings is what a create of the pod's subresource binding is: it is
// authorized, admitted, recorded and committed on its own, and fails alone. The batch is not stored: the response has the failures.
type BindingBatch struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1"`

	Bindings []PodBinding     `json:"bindings,omitempty" protobuf:"bytes,2"` // at most MaxBindings; not in the response
	Failures []BindingFailure `json:"failures,omitempty" protobuf:"bytes,3"` // in the response: the bindings that were not created, in their order
}

// MaxBindings bounds the bindings of a batch.
const MaxBindings = 512

// PodBinding binds a pod to a node.
type PodBinding struct {
	Namespace string       `json:"namespace" protobuf:"bytes,1"`
	Name      string       `json:"name" protobuf:"bytes,2"` // of the pod
	UID       types.UID    `json:"uid,omitempty" protobuf:"bytes,3"`
	Node      string       `json:"node" protobuf:"bytes,4"`
	Report    trace.Report `json:"report,omitzero" protobuf:"bytes,5"` // for the trace of the write
}

// BindingFailure is why a binding of a batch was not created.
type BindingFailure struct {
	Index  int           `json:"index" protobuf:"varint,1"` // of the binding in the batch
	Status metav1.Status `json:"status" protobuf:"bytes,2"`
}

// BindingBatchList is a list of batches. There is no request for it.
type BindingBatchList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BindingBatch `json:"items"`
}

var (
	_ runtime.Object = (*BindingBatch)(nil)
	_ runtime.Object = (*BindingBatchList)(nil)
)

// DeepCopyObject implements runtime.Object.
func (b *BindingBatch) DeepCopyObject() runtime.Object {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Bindings = slices.Clone(b.Bindings)
	for i, one := range b.Bindings {
		one.Report = one.Report.Clone()
		out.Bindings[i] = one
	}
	out.Failures = slices.Clone(b.Failures)
	for i := range out.Failures {
		b.Failures[i].Status.DeepCopyInto(&out.Failures[i].Status)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *BindingBatchList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]BindingBatch, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*BindingBatch)
	}
	return &out
}
