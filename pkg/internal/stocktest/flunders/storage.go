package flunders

import (
	"context"
	"sort"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// storage keeps Flunders in memory.
type storage struct {
	rest.TableConvertor
	events *watch.Broadcaster

	mu   sync.Mutex
	last int // resource version
	all  map[types.NamespacedName]*Flunder
}

var resource = Version.WithResource("flunders").GroupResource()

func newStorage() *storage {
	return &storage{
		TableConvertor: rest.NewDefaultTableConvertor(resource), events: watch.NewBroadcaster(100, watch.WaitIfChannelFull),
		all: map[types.NamespacedName]*Flunder{},
	}
}

func (s *storage) New() runtime.Object     { return &Flunder{} }
func (s *storage) NewList() runtime.Object { return &FlunderList{} }
func (s *storage) Destroy()                { s.events.Shutdown() }
func (s *storage) NamespaceScoped() bool   { return true }
func (s *storage) GetSingularName() string { return "flunder" }

func key(ctx context.Context, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: request.NamespaceValue(ctx), Name: name}
}

// Get implements rest.Getter.
func (s *storage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.all[key(ctx, name)]
	if !ok {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return f.DeepCopyObject(), nil
}

// List implements rest.Lister.
func (s *storage) List(ctx context.Context, _ *internalversion.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &FlunderList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.last)}}
	for at, f := range s.all {
		if ns := request.NamespaceValue(ctx); ns == "" || ns == at.Namespace {
			out.Items = append(out.Items, *f.DeepCopyObject().(*Flunder))
		}
	}
	sort.Slice(out.Items, func(i, j int) bool { return out.Items[i].Name < out.Items[j].Name })
	return out, nil
}

// Create implements rest.Creater.
func (s *storage) Create(ctx context.Context, obj runtime.Object, check rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	f := obj.DeepCopyObject().(*Flunder)
	rest.FillObjectMetaSystemFields(f)
	f.Namespace = request.NamespaceValue(ctx)
	if err := check(ctx, f); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.all[key(ctx, f.Name)]; ok {
		return nil, apierrors.NewAlreadyExists(resource, f.Name)
	}
	s.last++
	f.ResourceVersion = strconv.Itoa(s.last)
	s.all[key(ctx, f.Name)] = f
	return f.DeepCopyObject(), s.events.Action(watch.Added, f.DeepCopyObject())
}

// Watch implements rest.Watcher.
func (s *storage) Watch(context.Context, *internalversion.ListOptions) (watch.Interface, error) {
	return s.events.Watch()
}
