package kubelet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The users of pods are in a range that systemd's documentation of UIDs and GIDs lists as unused. Two pods with the same hash share a user;
// of a thousand pods, two do with a probability of 1/270.
const (
	firstPodUser = 0x70000000
	podUsers     = 1 << 27
)

// podUser returns the user of a pod, and its group. It depends on nothing but the pod's UID.
func podUser(uid types.UID) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // it never fails
	return firstPodUser + int64(h.Sum32()%podUsers)
}

// hasPodUser reports whether a container runs as the user of its pod, if neither the pod nor the image names another. A privileged one
// has all rights of the daemon.
func hasPodUser(c *corev1.Container) bool {
	s := c.SecurityContext
	return s == nil || s.Privileged == nil || !*s.Privileged
}

// CheckPodUsers returns why pods can't have users of their own on this machine.
func CheckPodUsers() error {
	if runtime.GOOS != "linux" {
		return errors.New("pods can have users of their own on Linux only")
	}
	if !isRoot() {
		return fmt.Errorf("only root can give pods users of their own; this daemon runs as user %d", os.Getuid())
	}
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !mapsPodUsers(b) {
			return fmt.Errorf("pods can't have users of their own: %s has not all ids from %d to %d", file, firstPodUser, firstPodUser+podUsers-1)
		}
	}
	return nil
}

// mapsPodUsers reports whether a map of a user namespace has the users of pods.
func mapsPodUsers(file []byte) bool {
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		var inside, outside, n int64
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &n); err == nil && inside <= firstPodUser && inside+n >= firstPodUser+podUsers {
			return true
		}
	}
	return false
}
