package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// environment is a container's variables in the order in which they were first set.
type environment struct {
	names    []string
	values   map[string]string
	services map[string]string // known to $(NAME), and set unless the container sets them itself
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
	for _, name := range sortedKeys(e.services) {
		if _, ok := e.values[name]; !ok {
			out = append(out, name+"="+e.services[name])
		}
	}
	return out
}

func (e *environment) expandAll(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = expand(s, e.get)
	}
	return out
}

func cutEnv(s string) (name, value string, ok bool) { return strings.Cut(s, "=") }

// expand replaces $(NAME) by the variable's value. A name that is not known stays as it is, and $$ stands for $.
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

// environment resolves all that a container says of its environment.
func (w *worker) environment(ctx context.Context, pod *corev1.Pod, seen Pod, c *corev1.Container) (*environment, error) {
	env := newEnvironment()
	services, err := w.host.refs.services(ctx, pod)
	if err != nil {
		return nil, err
	}
	env.services = services
	for _, from := range c.EnvFrom {
		if err := w.envFrom(ctx, env, from); err != nil {
			return nil, err
		}
	}
	for _, v := range c.Env {
		if v.Value != "" || v.ValueFrom == nil {
			env.set(v.Name, expand(v.Value, env.get))
			continue
		}
		value, ok, err := w.envValue(ctx, pod, seen, c, v.ValueFrom)
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
func (w *worker) envFrom(ctx context.Context, env *environment, from corev1.EnvFromSource) error {
	var data map[string]string
	var err error
	switch {
	case from.ConfigMapRef != nil:
		var found map[string][]byte
		found, err = w.host.refs.configMap(ctx, w, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		data = texts(found)
	case from.SecretRef != nil:
		var found map[string][]byte
		found, err = w.host.refs.secret(ctx, w, from.SecretRef.Name, from.SecretRef.Optional)
		data = texts(found)
	}
	if err != nil {
		return err
	}
	for _, key := range sortedKeys(data) {
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

// envValue resolves a variable that is taken from somewhere. ok is false when it is optional and not there.
func (w *worker) envValue(ctx context.Context, pod *corev1.Pod, seen Pod, c *corev1.Container, from *corev1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = podField(pod, from.FieldRef.FieldPath, addresses{pod: podIP(pod, seen, w.Address, pod.Status), host: w.Address})
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = resourceField(pod, c, from.ResourceFieldRef, w.capacityNow())
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		data, err := w.host.refs.configMap(ctx, w, r.Name, r.Optional)
		return keyOrError(data, err, r.Key, r.Optional, "ConfigMap", pod.Namespace, r.Name)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		data, err := w.host.refs.secret(ctx, w, r.Name, r.Optional)
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

// capacityNow returns what resources stand for a limit that a container does not set.
func (k *Kubelet) capacityNow() corev1.ResourceList {
	if node := k.currentNode(); node != nil {
		return node.Status.Allocatable
	}
	return k.capacity()
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
