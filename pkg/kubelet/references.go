package kubelet

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// references returns the config maps, secrets and services that pods use, and enqueues a pod when one of its objects
// changes. A resource is watched from its first use on.
type references struct {
	host       *Host
	configMaps func() *client.Cache[*corev1.ConfigMap]
	secrets    func() *client.Cache[*corev1.Secret]
	svcs       func() *client.Cache[*corev1.Service]

	mu    sync.Mutex
	users map[reference]map[*podScope]bool
	used  map[*podScope][]reference
}

// reference names an object that a pod uses.
type reference struct {
	kind string
	key  objects.Key
}

func newReferences(h *Host) *references {
	r := &references{host: h, users: map[reference]map[*podScope]bool{}, used: map[*podScope][]reference{}}
	r.configMaps = watched[*corev1.ConfigMap](r, client.ConfigMaps, "configmap")
	r.secrets = watched[*corev1.Secret](r, client.Secrets, "secret")
	r.svcs = sync.OnceValue(func() *client.Cache[*corev1.Service] {
		return client.CacheOf[*corev1.Service](h.Caches, client.Services)
	})
	return r
}

// watched returns a function that returns a resource's cache and creates it at the first call.
func watched[T objects.Object](r *references, resource schema.GroupVersionResource, kind string) func() *client.Cache[T] {
	return sync.OnceValue(func() *client.Cache[T] {
		c := client.CacheOf[T](r.host.Caches, resource)
		c.Subscribe(func(ch client.Change[T]) { r.changed(kind, ch.Key(), ch.Revision, ch.Replay) })
		return c
	})
}

// prepare starts the watches that every real pod needs.
func (r *references) prepare() {
	r.svcs()
	r.configMaps()
}

// configMap returns a config map's entries and stores that the pod uses it. A missing optional one is empty.
func (r *references) configMap(ctx context.Context, s *podScope, name string, optional *bool) (map[string][]byte, error) {
	cm, err := find(ctx, r, s, r.configMaps(), "configmap", name, optional)
	if err != nil || cm == nil {
		return nil, err
	}
	out := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, v := range cm.Data {
		out[k] = []byte(v)
	}
	for k, v := range cm.BinaryData {
		out[k] = v
	}
	return out, nil
}

// secret is like configMap, for a secret.
func (r *references) secret(ctx context.Context, s *podScope, name string, optional *bool) (map[string][]byte, error) {
	secret, err := find(ctx, r, s, r.secrets(), "secret", name, optional)
	if err != nil || secret == nil {
		return nil, err
	}
	return secret.Data, nil
}

// find returns an object of the pod's namespace, nil for a missing optional one. It waits until the cache is synced.
func find[T objects.Object](ctx context.Context, r *references, s *podScope, cache *client.Cache[T], kind, name string, optional *bool) (T, error) {
	key := objects.Key{Namespace: s.key.Namespace, Name: name}
	r.addUser(s, reference{kind, key})
	var none T
	select {
	case <-cache.Synced():
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if obj, ok := cache.Get(key); ok {
		return obj, nil
	}
	if optional != nil && *optional {
		return none, nil
	}
	return none, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

// addUser stores that a pod uses an object.
func (r *references) addUser(s *podScope, ref reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[ref] == nil {
		r.users[ref] = map[*podScope]bool{}
	}
	if !r.users[ref][s] {
		r.users[ref][s] = true
		r.used[s] = append(r.used[s], ref)
	}
}

// drop removes a pod from the users of its objects.
func (r *references) drop(s *podScope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ref := range r.used[s] {
		delete(r.users[ref], s)
		if len(r.users[ref]) == 0 {
			delete(r.users, ref)
		}
	}
	delete(r.used, s)
}

// changed enqueues the pods that use a changed object.
func (r *references) changed(kind string, key objects.Key, revision uint64, replay bool) {
	r.mu.Lock()
	users := slices.Collect(maps.Keys(r.users[reference{kind, key}]))
	r.mu.Unlock()
	if replay {
		revision = 0 // the object is not newer than the pod's last sync
	}
	for _, s := range users {
		r.host.enqueue(s.key, revision)
	}
}

// services returns the environment variables of the services: of "kubernetes" in the default namespace, and of the pod's
// own namespace unless enableServiceLinks is false.
func (r *references) services(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	cache := r.svcs()
	select {
	case <-cache.Synced():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := map[string]string{}
	if svc, ok := cache.Get(objects.Key{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}); ok {
		serviceVariables(out, svc)
	}
	if links := pod.Spec.EnableServiceLinks; links != nil && !*links {
		return out, nil
	}
	for _, svc := range cache.List(pod.Namespace, nil) {
		serviceVariables(out, svc)
	}
	return out, nil
}

// serviceVariables adds the environment variables of one service.
func serviceVariables(out map[string]string, svc *corev1.Service) {
	ip := svc.Spec.ClusterIP
	if ip == "" || ip == corev1.ClusterIPNone || len(svc.Spec.Ports) == 0 {
		return
	}
	prefix := variable(svc.Name)
	out[prefix+"_SERVICE_HOST"] = ip
	out[prefix+"_SERVICE_PORT"] = strconv.Itoa(int(svc.Spec.Ports[0].Port))
	for i, p := range svc.Spec.Ports {
		port := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			out[prefix+"_SERVICE_PORT_"+variable(p.Name)] = port
		}
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, port)
		if i == 0 {
			out[prefix+"_PORT"] = url
		}
		one := prefix + "_PORT_" + port + "_" + strings.ToUpper(protocol)
		out[one] = url
		out[one+"_PROTO"] = strings.ToLower(protocol)
		out[one+"_PORT"] = port
		out[one+"_ADDR"] = ip
	}
}

func variable(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
