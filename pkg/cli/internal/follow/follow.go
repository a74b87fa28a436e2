// Package follow prints the logs of many pods as they are written. Pods that join later are followed, too, and so are containers that
// start again.
package follow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubectl/pkg/cmd/util/podcmd"
)

// Selection is the pods that match a selector of labels or fields.
type Selection struct {
	Pods metav1.ListOptions
	// Complete returns when the owner of the pods creates no more of them, as a Job that has ended. nil: its current pods are complete.
	Complete func(ctx context.Context) error
}

// Follower follows the containers of the pods of its selections.
type Follower struct {
	Client        corev1client.PodInterface
	Pods          []Selection
	Container     string // ""; the default container
	AllContainers bool
	Options       corev1.PodLogOptions // SinceTime, SinceSeconds and TailLines are for the pods that are there at the start
	IgnoreErrors  bool                 // an error of a log goes to Warn and the others are followed on

	Print func(pod, container string, line []byte) error // prints a line with its newline; calls don't overlap
	Warn  func(err error)
}

// Run follows until ctx ends, the selections are complete, all pods have succeeded or failed and their logs are printed, or an error ends it.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{Follower: f, changes: make(chan change), lines: make(chan line), ended: make(chan ended), pods: map[types.UID]*corev1.Pod{}, followed: map[containerKey]string{}}
	defer r.all.Wait()
	defer cancel()
	for _, s := range f.Pods {
		r.all.Go(func() { r.watch(ctx, s.Pods) })
		r.all.Go(func() { r.complete(ctx, s) })
	}
	for unlisted, incomplete := len(f.Pods), len(f.Pods); ; {
		select {
		case <-ctx.Done():
			return nil
		case c := <-r.changes:
			switch {
			case c.err != nil:
				return c.err
			case c.listed:
				unlisted--
			case c.complete:
				incomplete--
			default:
				r.observe(ctx, c, unlisted > 0)
			}
		case l := <-r.lines:
			if err := f.Print(l.pod, l.container, l.text); err != nil {
				return err
			}
		case e := <-r.ended:
			r.streams--
			if e.err != nil && !f.IgnoreErrors {
				return e.err
			}
			if e.err != nil {
				f.Warn(e.err)
			}
		}
		if unlisted == 0 && incomplete == 0 && r.done() {
			return nil
		}
	}
}

// run is a call of Run. Its fields belong to the goroutine of Run.
type run struct {
	*Follower
	all      sync.WaitGroup
	changes  chan change
	lines    chan line
	ended    chan ended
	pods     map[types.UID]*corev1.Pod // nil: deleted
	followed map[containerKey]string   // the ID of the container whose log was opened last
	streams  int                       // open logs
}

// change is a pod that was created, changed or deleted, the end of the first list, the end of all lists, or an error.
type change struct {
	pod      *corev1.Pod
	gone     bool
	listed   bool
	complete bool
	err      error
}

type line struct {
	pod, container string
	text           []byte
}

type ended struct{ err error }

type containerKey struct {
	pod  types.UID
	name string
}

// send sends a value unless ctx has ended.
func send[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch sends the pods that match and their changes. It lists again when a watch has ended.
func (r *run) watch(ctx context.Context, opts metav1.ListOptions) {
	known := map[types.UID]*corev1.Pod{}
	for first := true; ctx.Err() == nil; first = false {
		list, err := r.Client.List(ctx, opts)
		if err != nil {
			send(ctx, r.changes, change{err: err})
			return
		}
		for uid, pod := range known {
			if !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.UID == uid }) {
				delete(known, uid)
				send(ctx, r.changes, change{pod: pod, gone: true})
			}
		}
		for i := range list.Items {
			known[list.Items[i].UID] = &list.Items[i]
			send(ctx, r.changes, change{pod: &list.Items[i]})
		}
		if first && !send(ctx, r.changes, change{listed: true}) {
			return
		}
		from := opts
		from.ResourceVersion = list.ResourceVersion
		changes, err := r.Client.Watch(ctx, from)
		if err != nil {
			send(ctx, r.changes, change{err: err})
			return
		}
		for ev := range changes.ResultChan() {
			pod, ok := ev.Object.(*corev1.Pod)
			if !ok {
				break // the resource version is too old
			}
			known[pod.UID] = pod
			gone := ev.Type == watch.Deleted
			if gone {
				delete(known, pod.UID)
			}
			send(ctx, r.changes, change{pod: pod, gone: gone})
		}
		changes.Stop()
	}
}

// complete waits until no more pods are created, and sends those that watch may not have seen.
func (r *run) complete(ctx context.Context, s Selection) {
	if s.Complete != nil {
		if err := s.Complete(ctx); err != nil {
			send(ctx, r.changes, change{err: err})
			return
		}
		list, err := r.Client.List(ctx, s.Pods)
		if err != nil {
			send(ctx, r.changes, change{err: err})
			return
		}
		for i := range list.Items {
			send(ctx, r.changes, change{pod: &list.Items[i]})
		}
	}
	send(ctx, r.changes, change{complete: true})
}

// observe follows the containers of a pod that have started and are not followed yet. initial: the pod was there at the start.
func (r *run) observe(ctx context.Context, c change, initial bool) {
	if was, ok := r.pods[c.pod.UID]; c.gone || ok && was == nil {
		r.pods[c.pod.UID] = nil // a list may still have it
		return
	}
	r.pods[c.pod.UID] = c.pod
	for _, s := range slices.Concat(c.pod.Status.InitContainerStatuses, c.pod.Status.ContainerStatuses, c.pod.Status.EphemeralContainerStatuses) {
		key := containerKey{c.pod.UID, s.Name}
		if s.ContainerID == "" || r.followed[key] == s.ContainerID || !r.selects(c.pod, s.Name) {
			continue
		}
		opts := r.Options
		opts.Follow, opts.Container = true, s.Name
		if !initial || r.followed[key] != "" {
			opts.SinceTime, opts.SinceSeconds, opts.TailLines = nil, nil, nil
		}
		r.followed[key] = s.ContainerID
		r.streams++
		r.all.Go(func() {
			err := r.stream(ctx, c.pod.Name, &opts)
			if err != nil {
				err = fmt.Errorf("log of pod %s, container %s: %w", c.pod.Name, opts.Container, err)
			}
			send(ctx, r.ended, ended{err})
		})
	}
}

// selects reports whether a container is followed.
func (r *run) selects(pod *corev1.Pod, name string) bool {
	if r.AllContainers {
		return true
	}
	if r.Container != "" {
		return name == r.Container
	}
	c, err := podcmd.FindOrDefaultContainerByName(pod, "", true, io.Discard)
	return err == nil && c.Name == name
}

// stream sends the lines of a container's log until it ends. A container that is gone has no log.
func (r *run) stream(ctx context.Context, pod string, opts *corev1.PodLogOptions) error {
	body, err := r.Client.GetLogs(pod, opts).Stream(ctx)
	if apierrors.IsNotFound(err) || ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer body.Close()
	for in := bufio.NewReader(body); ; {
		text, err := in.ReadBytes('\n')
		if len(text) > 0 && !send(ctx, r.lines, line{pod, opts.Container, text}) {
			return nil
		}
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// done reports whether all pods have succeeded or failed and their logs are printed. If all were deleted, their controller may create others,
// unless every selection has Complete.
func (r *run) done() bool {
	if r.streams > 0 {
		return false
	}
	pods := 0
	for _, p := range r.pods {
		if p == nil {
			continue
		}
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			return false
		}
		pods++
	}
	return pods > 0 || !slices.ContainsFunc(r.Pods, func(s Selection) bool { return s.Complete == nil })
}
