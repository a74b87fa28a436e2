package kubelet

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// references finds what pods refer to, and wakes the pods again when it changes. A resource is watched from the first
// pod on that refers to it.
type references struct {
	host       *Host
	configMaps func() *client.Cache[*corev1.ConfigMap]
	secrets    func() *client.Cache[*corev1.Secret]
	svcs       func() *client.Cache[*corev1.Service]

	mu    sync.Mutex
	users map[reference]map[*worker]bool
	used  map[*worker][]reference
}

// reference names what a pod refers to.
type reference struct {
	kind string
	key  objects.Key
}

func newReferences(h *Host) *references {
	r := &references{host: h, users: map[reference]map[*worker]bool{}, used: map[*worker][]reference{}}
	r.configMaps = watched[*corev1.ConfigMap](r, client.ConfigMaps, "configmap")
	r.secrets = watched[*corev1.Secret](r, client.Secrets, "secret")
	r.svcs = sync.OnceValue(func() *client.Cache[*corev1.Service] {
		return client.CacheOf[*corev1.Service](h.Caches, client.Services)
	})
	return r
}

// watched returns a resource's cache, which it makes at the first call.
func watched[T objects.Object](r *references, resource schema.GroupVersionResource, kind string) func() *client.Cache[T] {
	return sync.OnceValue(func() *client.Cache[T] {
		c := client.CacheOf[T](r.host.Caches, resource)
		c.Subscribe(func(ch client.Change[T]) { r.changed(kind, ch.Key(), ch.Revision, ch.Replay) })
		return c
	})
}

// prepare begins to watch what every pod that is not simulated needs.
func (r *references) prepare() {
	r.svcs()
	r.configMaps()
}

// configMap returns a config map's entries, and remembers that w uses it. An optional one that is not there is empty.
func (r *references) configMap(ctx context.Context, w *worker, name string, optional *bool) (map[string][]byte, error) {
	cm, err := find(ctx, r, w, r.configMaps(), "configmap", name, optional)
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

// secret is configMap for secrets.
func (r *references) secret(ctx context.Context, w *worker, name string, optional *bool) (map[string][]byte, error) {
	s, err := find(ctx, r, w, r.secrets(), "secret", name, optional)
	if err != nil || s == nil {
		return nil, err
	}
	return s.Data, nil
}

// find returns an object of the pod's namespace, nil when it is optional and not there. It waits for the first list.
func find[T objects.Object](ctx context.Context, r *references, w *worker, cache *client.Cache[T], kind, name string, optional *bool) (T, error) {
	key := objects.Key{Namespace: w.key.Namespace, Name: name}
	r.note(w, reference{kind, key})
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

// note remembers that w uses what ref names.
func (r *references) note(w *worker, ref reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[ref] == nil {
		r.users[ref] = map[*worker]bool{}
	}
	if !r.users[ref][w] {
		r.users[ref][w] = true
		r.used[w] = append(r.used[w], ref)
	}
}

// drop forgets what w uses.
func (r *references) drop(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ref := range r.used[w] {
		delete(r.users[ref], w)
		if len(r.users[ref]) == 0 {
			delete(r.users, ref)
		}
	}
	delete(r.used, w)
}

// changed wakes the pods that use what has changed.
func (r *references) changed(kind string, key objects.Key, revision uint64, replay bool) {
	r.mu.Lock()
	var wake []*worker
	for w := range r.users[reference{kind, key}] {
		wake = append(wake, w)
	}
	r.mu.Unlock()
	if replay {
		revision = 0 // it was there before the pod looked
	}
	for _, w := range wake {
		r.host.wake(w.key, revision)
	}
}

// services returns the environment variables that tell a pod of the services there are: "kubernetes" of the default
// namespace always, those of its own namespace unless it does not want them.
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

// serviceVariables adds what one service is announced with.
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
