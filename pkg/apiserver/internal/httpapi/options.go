package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/conversion"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

// maxBody bounds the body of a request.
const maxBody = 3 << 20

// readBody reads a request's body. A large one waits until it is admitted. Meanwhile the request leaves its seat.
func readBody(w http.ResponseWriter, r *http.Request, format codec.Format) ([]byte, error) {
	defer callOf(r).awaitBody(r.Context())()
	limited, _ := r.Body.(*limitedBody)
	if limited != nil {
		defer limited.leaveReceived()
	}
	b, err := receiveBody(w, r, limited)
	if apierrors.IsTooManyRequests(err) {
		return nil, err
	}
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if err != nil && r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, apierrors.NewTimeoutError("the body of the request was not received in time", 0)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := checkWeight(format, b); err != nil {
		return nil, err
	}
	if limited != nil {
		if err := limited.enter(r.Context(), callOf(r).user.GetName(), format, len(b)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// receiveBody receives a request's body. The part of a large one behind the first smallBody bytes waits for its turn.
func receiveBody(w http.ResponseWriter, r *http.Request, limited *limitedBody) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, maxBody)
	b, err := io.ReadAll(io.LimitReader(body, smallBody))
	if err != nil || len(b) < smallBody {
		return b, err
	}
	if limited != nil {
		received, err := limited.receive(w, r)
		if err != nil {
			return nil, err
		}
		defer received()
	}
	rest := bytes.NewBuffer(b)
	_, err = rest.ReadFrom(body)
	return rest.Bytes(), err
}

// parse reads options from the query with apimachinery's conversion. The verbs validate them.
func parse[T any](u *url.URL, convert func(*url.Values, *T, conversion.Scope) error) (*T, error) {
	values := u.Query()
	opts := new(T)
	if err := convert(&values, opts, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return opts, nil
}

func getOptions(u *url.URL) (*metav1.GetOptions, error) {
	if values := u.Query()["export"]; len(values) > 0 && truthy(values) {
		return nil, apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	return parse(u, metav1.Convert_url_Values_To_v1_GetOptions)
}

func createOptions(u *url.URL) (*metav1.CreateOptions, error) {
	return parse(u, metav1.Convert_url_Values_To_v1_CreateOptions)
}

func updateOptions(u *url.URL) (*metav1.UpdateOptions, error) {
	return parse(u, metav1.Convert_url_Values_To_v1_UpdateOptions)
}

func patchOptions(u *url.URL) (*metav1.PatchOptions, error) {
	return parse(u, metav1.Convert_url_Values_To_v1_PatchOptions)
}

// listOptions reads the options of a list or, with watch, of a watch.
func listOptions(u *url.URL, watch bool) (*metav1.ListOptions, error) {
	opts, err := parse(u, metav1.Convert_url_Values_To_v1_ListOptions)
	if err == nil {
		opts.Watch = watch
	}
	return opts, err
}

func tableOptions(u *url.URL) (*metav1.TableOptions, error) {
	opts, err := parse(u, metav1.Convert_url_Values_To_v1_TableOptions)
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidateTableOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs[0]))
	}
	return opts, nil
}

// deleteOptions decodes the options of a delete from the body or, without a body, from the query.
func deleteOptions(w http.ResponseWriter, r *http.Request) (*metav1.DeleteOptions, error) {
	format, formatErr := codec.BodyFormat(r, codec.Offer{})
	body, err := readBody(w, r, format)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return parse(r.URL, metav1.Convert_url_Values_To_v1_DeleteOptions)
	}
	if formatErr != nil {
		return nil, formatErr
	}
	opts := new(metav1.DeleteOptions)
	err = codec.DecodeOptions(codec.Body{Format: format, Data: body, Validation: metav1.FieldValidationIgnore}, opts)
	return opts, err
}
