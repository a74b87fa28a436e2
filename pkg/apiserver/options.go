package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

// maxBody bounds the body of a request.
const maxBody = 3 << 20

// readBody reads a request's body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if err != nil && r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return b, nil
}

// parse reads options from the query with the conversion that apimachinery has for them.
func parse[T any](u *url.URL, convert func(*url.Values, *T, conversion.Scope) error, check func(*T) field.ErrorList, kind string) (*T, error) {
	values := u.Query()
	opts := new(T)
	if err := convert(&values, opts, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if errs := check(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	return opts, nil
}

func getOptions(u *url.URL) (*metav1.GetOptions, error) {
	if values := u.Query()["export"]; len(values) > 0 && truthy(values) {
		return nil, apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	return parse(u, metav1.Convert_url_Values_To_v1_GetOptions, func(*metav1.GetOptions) field.ErrorList { return nil }, "GetOptions")
}

func createOptions(u *url.URL) (*metav1.CreateOptions, error) {
	return parse(u, metav1.Convert_url_Values_To_v1_CreateOptions, validation.ValidateCreateOptions, "CreateOptions")
}

func updateOptions(u *url.URL) (*metav1.UpdateOptions, error) {
	return parse(u, metav1.Convert_url_Values_To_v1_UpdateOptions, validation.ValidateUpdateOptions, "UpdateOptions")
}

func patchOptions(u *url.URL, t types.PatchType) (*metav1.PatchOptions, error) {
	check := func(o *metav1.PatchOptions) field.ErrorList { return validation.ValidatePatchOptions(o, t) }
	return parse(u, metav1.Convert_url_Values_To_v1_PatchOptions, check, "PatchOptions")
}

// listOptions reads the options of a list or, with watch, of a watch.
func listOptions(u *url.URL, watch bool) (*metav1.ListOptions, error) {
	check := func(o *metav1.ListOptions) field.ErrorList {
		o.Watch = watch
		return listvalidation.ValidateListOptions(&internalversion.ListOptions{
			Watch: watch, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
			Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
		}, true)
	}
	return parse(u, metav1.Convert_url_Values_To_v1_ListOptions, check, "ListOptions")
}

func tableOptions(u *url.URL) (*metav1.TableOptions, error) {
	unchecked := func(*metav1.TableOptions) field.ErrorList { return nil }
	opts, err := parse(u, metav1.Convert_url_Values_To_v1_TableOptions, unchecked, "TableOptions")
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidateTableOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs[0]))
	}
	return opts, nil
}

// deleteOptions reads the options of a delete from the body or, when there is none, from the query.
func deleteOptions(w http.ResponseWriter, r *http.Request) (*metav1.DeleteOptions, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return parse(r.URL, metav1.Convert_url_Values_To_v1_DeleteOptions, validation.ValidateDeleteOptions, "DeleteOptions")
	}
	format, err := codec.BodyFormat(r, codec.Offer{})
	if err != nil {
		return nil, err
	}
	opts := new(metav1.DeleteOptions)
	if err := codec.DecodeOptions(codec.Body{Format: format, Data: body, Validation: metav1.FieldValidationIgnore}, opts); err != nil {
		return nil, err
	}
	if errs := validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return opts, nil
}
