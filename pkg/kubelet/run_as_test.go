package kubelet

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestRunAs(t *testing.T) {
	const of = ` (pod: "p_default(u)", container: c)`
	daemon := "default"
	if os.Getuid() == 0 {
		daemon = "container has runAsNonRoot and image will run as root" + of
	}
	own := fmt.Sprint(podUser("u"))
	user := func(id int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: ptr.To(id)} }
	nonRoot := &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}
	for name, c := range map[string]struct {
		pod       *corev1.PodSecurityContext
		container *corev1.SecurityContext
		image     string
		podUsers  bool
		want      string
	}{
		"neither":                 {want: "default"},
		"the image's":             {image: "12:34", want: "12:34"},
		"the image's by name":     {image: "root", want: "0:0"},
		"an unknown user":         {image: "no-such-user", want: `image's user "no-such-user": user: unknown user no-such-user`},
		"the container's":         {container: user(7), image: "12:34", want: "7:-"},
		"the pod's group":         {pod: &corev1.PodSecurityContext{RunAsGroup: ptr.To[int64](9)}, image: "12:34", want: "12:9"},
		"the container's is root": {pod: nonRoot, container: user(0), want: "container's runAsUser breaks non-root policy" + of},
		"non-root, the image's":   {pod: nonRoot, image: "12", want: "12:0"},
		"the image's is root":     {pod: nonRoot, image: "0", want: "container has runAsNonRoot and image will run as root" + of},
		"the image's is a name": {pod: nonRoot, image: "daemon",
			want: "container has runAsNonRoot and image has non-numeric user (daemon), cannot verify user is non-root" + of},
		"non-root, the daemon's":         {pod: nonRoot, want: daemon},
		"the pod's own":                  {pod: nonRoot, podUsers: true, want: own + ":" + own},
		"the pod's own, a group":         {pod: &corev1.PodSecurityContext{RunAsGroup: ptr.To[int64](9)}, podUsers: true, want: own + ":9"},
		"not the pod's own":              {container: user(7), podUsers: true, want: "7:-"},
		"the image's, not the pod's own": {image: "12:34", podUsers: true, want: "12:34"},
		"privileged":                     {container: &corev1.SecurityContext{Privileged: ptr.To(true)}, podUsers: true, want: "default"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}, Spec: corev1.PodSpec{SecurityContext: c.pod}}
			uid, gid, err := runAs(pod, &corev1.Container{Name: "c", SecurityContext: c.container}, c.image, c.podUsers)
			if got := runAsText(uid, gid, err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func runAsText(uid, gid *int64, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case uid == nil:
		return "default"
	case gid == nil:
		return fmt.Sprintf("%d:-", *uid)
	}
	return fmt.Sprintf("%d:%d", *uid, *gid)
}
