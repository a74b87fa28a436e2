package scheduler

import (
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kube-scheduler/framework"
)

// noCSI is the CSI nodes of a Handle, which has none.
type noCSI struct{}

func (noCSI) CSINodes() framework.CSINodeLister   { return noCSI{} }
func (noCSI) List() ([]*storagev1.CSINode, error) { return nil, nil }
func (noCSI) Get(name string) (*storagev1.CSINode, error) {
	return nil, apierrors.NewNotFound(storagev1.Resource("csinodes"), name)
}
