package connect

import (
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Options returns the options object of a connect request for admission; nil if its subresource has none. rest is the path
// after the subresource proxy.
func Options(resource, subresource string, query url.Values, rest []string) (runtime.Object, error) {
	q := options{query: query}
	var out runtime.Object
	path := "/" + strings.Join(rest, "/")
	if len(rest) == 0 {
		path = query.Get("path")
	}
	switch subresource {
	case "exec":
		o := &corev1.PodExecOptions{Container: query.Get("container"), Command: query["command"]}
		o.Stdin, o.Stdout, o.Stderr, o.TTY = q.flag("stdin"), q.flag("stdout"), q.flag("stderr"), q.flag("tty")
		out = o
	case "attach":
		o := &corev1.PodAttachOptions{Container: query.Get("container")}
		o.Stdin, o.Stdout, o.Stderr, o.TTY = q.flag("stdin"), q.flag("stdout"), q.flag("stderr"), q.flag("tty")
		out = o
	case "portforward":
		o := &corev1.PodPortForwardOptions{}
		for _, list := range query["ports"] {
			for _, port := range strings.Split(list, ",") {
				o.Ports = append(o.Ports, q.number(port))
			}
		}
		out = o
	case "proxy":
		switch resource {
		case "pods":
			out = &corev1.PodProxyOptions{Path: path}
		case "nodes":
			out = &corev1.NodeProxyOptions{Path: path}
		case "services":
			out = &corev1.ServiceProxyOptions{Path: path}
		}
	}
	if q.err != nil {
		return nil, apierrors.NewBadRequest(q.err.Error())
	}
	return out, nil
}

// options decodes options from a query and keeps the first error.
type options struct {
	query url.Values
	err   error
}

// flag decodes a boolean as Kubernetes does: a value that is present is true, except false and 0.
func (q *options) flag(name string) bool {
	values := q.query[name]
	if len(values) == 0 {
		return false
	}
	return !strings.EqualFold(values[0], "false") && values[0] != "0"
}

func (q *options) number(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil && q.err == nil {
		q.err = err
	}
	return int32(n)
}
