package kubelet

import (
	"os/user"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// securityOf joins the security contexts of a pod and a container. The container runs as the user uid; nil: the runtime's own.
func securityOf(pod *corev1.Pod, c *corev1.Container, uid *int64) Security {
	var out Security
	var profile *corev1.SeccompProfile
	if p := pod.Spec.SecurityContext; p != nil {
		profile = p.SeccompProfile
		out.Groups = slices.Clone(p.SupplementalGroups)
		if p.FSGroup != nil {
			out.Groups = append(out.Groups, *p.FSGroup)
		}
	}
	if p := pod.Spec.SecurityContext; uid != nil && (p == nil || p.SupplementalGroupsPolicy == nil || *p.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyMerge) {
		out.Groups = append(out.Groups, groupsOf(*uid)...)
	}
	slices.Sort(out.Groups)
	out.Groups = slices.Compact(out.Groups)
	s := c.SecurityContext
	if s == nil {
		s = &corev1.SecurityContext{}
	}
	if s.SeccompProfile != nil {
		profile = s.SeccompProfile
	}
	out.Privileged = s.Privileged != nil && *s.Privileged
	out.NoNewPrivileges = s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation
	out.ReadOnlyRoot = s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem
	out.UnmaskedProc = s.ProcMount != nil && *s.ProcMount == corev1.UnmaskedProcMount
	if s.Capabilities != nil {
		out.AddCapabilities, out.DropCapabilities = s.Capabilities.Add, s.Capabilities.Drop
	}
	if profile != nil && profile.Type != corev1.SeccompProfileTypeUnconfined {
		out.Seccomp = profile.Type
	}
	return out
}

// groupsOf returns the groups in which the machine's group file lists a user: the container sees this file.
func groupsOf(uid int64) []int64 {
	u, err := user.LookupId(strconv.FormatInt(uid, 10))
	if err != nil {
		return nil // the user has no name, so that no group lists it
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var out []int64
	for _, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil && id != u.Gid {
			out = append(out, n)
		}
	}
	return out
}
