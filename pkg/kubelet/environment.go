package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// environment is a container's variables in the order in which they were first set.
type environment struct {
	names    []string
	values   map[string]string
	services map[string]string // of the services; the container's own variables replace them
}

func newEnvironment() *environment {
	return &environment{values: map[string]string{}}
}

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) get(name string) (string, bool) {
	if v, ok := e.values[name]; ok {
		return v, true
	}
	v, ok := e.services[name]
	return v, ok
}

// list returns the variables as NAME=value.
func (e *environment) list() []string {
	out := make([]string, 0, len(e.names)+len(e.services))
	for _, name := range e.names {
		out = append(out, name+"="+e.values[name])
	}
	for _, name := range slices.Sorted(maps.Keys(e.services)) {
		if _, ok := e.values[name]; !ok {
			out = append(out, name+"="+e.services[name])
		}
	}
	return out
}

// listOver returns the variables as NAME=value, after those of base that they do not replace.
func (e *environment) listOver(base []string) []string {
	var out []string
	for _, b := range base {
		name, _, _ := strings.Cut(b, "=")
		if _, ok := e.get(name); !ok {
			out = append(out, b)
		}
	}
	return append(out, e.list()...)
}

func (e *environment) expandAll(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = expand(s, e.get)
	}
	return out
}

// expand replaces $(NAME) by the variable's value and $$ by $. It does not change unknown names.
func expand(s string, get func(string) (string, bool)) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(s, '$')
		if at < 0 || at+1 == len(s) {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:at])
		s = s[at+1:]
		switch s[0] {
		case '$':
			out.WriteByte('$')
			s = s[1:]
		case '(':
			end := strings.IndexByte(s, ')')
			if end < 0 {
				out.WriteString("$(")
				s = s[1:]
				continue
			}
			name := s[1:end]
			if v, ok := get(name); ok {
				out.WriteString(v)
			} else {
				out.WriteString("$(" + name + ")")
			}
			s = s[end+1:]
		default:
			out.WriteByte('$')
			out.WriteByte(s[0])
			s = s[1:]
		}
	}
}

// environment resolves the container's env and envFrom.
func (l *podLifecycle) environment(ctx context.Context, pod *corev1.Pod, seen Pod, c *corev1.Container) (*environment, error) {
	env := newEnvironment()
	services, err := l.kubelet.host.refs.services(ctx, pod)
	if err != nil {
		return nil, err
	}
	env.services = services
	for _, from := range c.EnvFrom {
		if err := l.envFrom(ctx, env, from); err != nil {
			return nil, err
		}
	}
	for _, v := range c.Env {
		if v.Value != "" || v.ValueFrom == nil {
			env.set(v.Name, expand(v.Value, env.get))
			continue
		}
		value, ok, err := l.envValue(ctx, pod, seen, c, v.ValueFrom)
		if err != nil {
			return nil, err
		}
		if ok {
			env.set(v.Name, value)
		}
	}
	return env, nil
}

// envFrom adds all the entries of a config map or secret.
func (l *podLifecycle) envFrom(ctx context.Context, env *environment, from corev1.EnvFromSource) error {
	var data map[string]string
	var err error
	switch {
	case from.ConfigMapRef != nil:
		var found map[string][]byte
		found, err = l.kubelet.host.refs.configMap(ctx, l.podScope, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		data = texts(found)
	case from.SecretRef != nil:
		var found map[string][]byte
		found, err = l.kubelet.host.refs.secret(ctx, l.podScope, from.SecretRef.Name, from.SecretRef.Optional)
		data = texts(found)
	}
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		env.set(from.Prefix+key, data[key])
	}
	return nil
}

func texts(data map[string][]byte) map[string]string {
	out := make(map[string]string, len(data))
	for k, v := range data {
		out[k] = string(v)
	}
	return out
}

// envValue resolves a valueFrom. ok is false when its source is optional and missing.
func (l *podLifecycle) envValue(ctx context.Context, pod *corev1.Pod, seen Pod, c *corev1.Container, from *corev1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = podField(pod, from.FieldRef.FieldPath, addresses{pod: podIP(pod, seen, l.kubelet.Address, pod.Status), host: l.kubelet.Address})
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = resourceField(pod, c, from.ResourceFieldRef, l.kubelet.allocatable())
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		data, err := l.kubelet.host.refs.configMap(ctx, l.podScope, r.Name, r.Optional)
		return keyOrError(data, err, r.Key, r.Optional, "ConfigMap", pod.Namespace, r.Name)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		data, err := l.kubelet.host.refs.secret(ctx, l.podScope, r.Name, r.Optional)
		return keyOrError(data, err, r.Key, r.Optional, "Secret", pod.Namespace, r.Name)
	case from.FileKeyRef != nil:
		return "", false, errors.New("environment variables from files (fileKeyRef) are not supported")
	}
	return "", true, nil
}

func keyOrError(data map[string][]byte, err error, key string, optional *bool, kind, namespace, name string) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	value, ok := data[key]
	if !ok && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("couldn't find key %v in %s %v/%v", key, kind, namespace, name)
	}
	return string(value), ok, nil
}

// allocatable returns the node's allocatable resources, which are the default for limits that a container does not set.
func (k *Kubelet) allocatable() corev1.ResourceList {
	if node := k.currentNode(); node != nil {
		return node.Status.Allocatable
	}
	return k.capacity()
}
