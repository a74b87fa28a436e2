package storage

import (
	"math"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

var attachmentDoc = storagev1.VolumeAttachmentSpec{}.SwaggerDoc()

// VolumeAttachments is the row of VolumeAttachment.
var VolumeAttachments = objects.Def[*storagev1.VolumeAttachment]{
	Names:          objects.Names{Group: group, Version: version, Kind: "VolumeAttachment", Plural: "volumeattachments", Cluster: true},
	Versions:       oldVolumeAttachments,
	New:            func() *storagev1.VolumeAttachment { return &storagev1.VolumeAttachment{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &storagev1.VolumeAttachmentList{} },
	Default: func(a *storagev1.VolumeAttachment) {
		if s := a.Spec.Source.InlineVolumeSpec; s != nil {
			volume.DefaultPersistent(&s.PersistentVolumeSource)
		}
	},
	Prepare: func(a, old *storagev1.VolumeAttachment) {
		a.Status = storagev1.VolumeAttachmentStatus{}
		if old != nil {
			a.Status = old.Status
		}
	},
	Validate: validateAttachment,
	Columns: []objects.Column[*storagev1.VolumeAttachment]{
		objects.NameColumn[*storagev1.VolumeAttachment](),
		{Name: "Attacher", Format: "name", Description: attachmentDoc["attacher"], Cell: func(a *storagev1.VolumeAttachment, _ time.Time) any { return a.Spec.Attacher }},
		{Name: "PV", Description: storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"],
			Cell: func(a *storagev1.VolumeAttachment, _ time.Time) any {
				return or(a.Spec.Source.PersistentVolumeName, "")
			}},
		{Name: "Node", Description: attachmentDoc["nodeName"], Cell: func(a *storagev1.VolumeAttachment, _ time.Time) any { return a.Spec.NodeName }},
		{Name: "Attached", Type: "boolean", Description: storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"],
			Cell: func(a *storagev1.VolumeAttachment, _ time.Time) any { return a.Status.Attached }},
		objects.AgeColumn[*storagev1.VolumeAttachment](),
	},
	Reset: []string{"status"},
	Status: &objects.Status[*storagev1.VolumeAttachment]{
		Prepare: func(a, old *storagev1.VolumeAttachment) {
			a.Spec = old.Spec
			metav1.ResetObjectMetaForStatus(a, old)
		},
		Validate: validateAttachment,
		Reset:    []string{"metadata", "spec"},
	},
	NeedsVersion: true,
}

func validateAttachment(a, old *storagev1.VolumeAttachment) field.ErrorList {
	at := field.NewPath("spec")
	errs := append(check.Meta(a, false, validation.NameIsDNSSubdomain), volume.ValidateDriver(a.Spec.Attacher, at.Child("attacher"))...)
	source := at.Child("source")
	switch s := &a.Spec.Source; {
	case s.InlineVolumeSpec == nil && s.PersistentVolumeName == nil:
		errs = append(errs, field.Required(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case s.InlineVolumeSpec != nil && s.PersistentVolumeName != nil:
		errs = append(errs, field.Forbidden(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case s.InlineVolumeSpec != nil:
		errs = append(errs, core.InlineVolume(s.InlineVolumeSpec, source.Child("inlineVolumeSpec"))...)
	case *s.PersistentVolumeName == "":
		errs = append(errs, field.Required(source.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	}
	errs = append(errs, check.Subdomain(a.Spec.NodeName, at, "nodeName")...)
	errs = append(errs, attachmentStatus(&a.Status, field.NewPath("status"))...)
	if name := a.Spec.Source.PersistentVolumeName; name != nil {
		errs = append(errs, check.Subdomain(*name, field.NewPath("spec.source.persistentVolumeName"))...)
	}
	if old != nil {
		errs = append(errs, check.ImmutableShown(a.Spec, old.Spec, at)...)
	}
	return errs
}

// The limits of attachment metadata.
const (
	largestMetadata = 256 << 10
	longestMessage  = 1024
)

func attachmentStatus(s *storagev1.VolumeAttachmentStatus, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range s.AttachmentMetadata {
		size += len(key) + len(value)
	}
	if size > largestMetadata {
		errs = append(errs, field.TooLong(at.Child("attachmentMetadata"), "", largestMetadata))
	}
	for _, e := range []struct {
		name string
		err  *storagev1.VolumeError
	}{{"attachError", s.AttachError}, {"detachError", s.DetachError}} {
		if e.err == nil {
			continue
		}
		if len(e.err.Message) > longestMessage {
			errs = append(errs, field.TooLong(at.Child(e.name, "message"), "", largestMetadata))
		}
		if code := e.err.ErrorCode; code != nil && *code < 0 {
			errs = append(errs, field.Invalid(at.Child(e.name, "errorCode"), *code, utilvalidation.InclusiveRangeError(0, math.MaxInt32)))
		}
	}
	return errs
}
