package stage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Attributes describe a request. The verb engine completes them before the first stage of admission; stages must not
// change them.
type Attributes struct {
	User      user.Info
	UserAgent string
	// Verb is get, list, watch, create, update, patch, delete or deletecollection. For a path that is no resource it is
	// the HTTP method in lower case.
	Verb string

	Resource    *objects.Resource           // nil for a path that is no resource
	GVR         schema.GroupVersionResource // in the requested version
	Subresource string
	Namespace   string
	Name        string
	Path        string // of the URL; "" for an in-process request

	// Fields is the field selector of a list, watch or deletecollection, which authorizers see; nil: none.
	Fields fields.Selector

	DryRun  bool
	Manager string // the field manager: the requested one, or the first word of the user agent
	Options Options

	// Warn adds a Warning header to the response. It is never nil and safe for concurrent use.
	Warn func(text string)

	// Audit is the request's entry in the audit log; nil without an audit log.
	Audit Audit
}

// Options are the options of a write as the client sent them, for webhooks and policies.
type Options struct{ FieldManager, FieldValidation string }

// Audit is a request's entry in the audit log. It is safe for concurrent use.
type Audit interface {
	Annotate(key, value string) // the first value of a key stays
	Bodies() bool               // whether the log also records the bodies of requests
}

// Annotate adds an annotation to the request's entry in the audit log, if there is one.
func (a *Attributes) Annotate(key, value string) {
	if a.Audit != nil {
		a.Audit.Annotate(key, value)
	}
}
