package podspec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

var (
	groupChanges = []corev1.PodFSGroupChangePolicy{corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch}
	groupPolicy  = []corev1.SupplementalGroupsPolicy{corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict}
	labelChanges = []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive}
	procMounts   = []corev1.ProcMountType{corev1.DefaultProcMount, corev1.UnmaskedProcMount}
)

func userID(id *int64, at *field.Path, child ...string) field.ErrorList {
	if id == nil {
		return nil
	}
	if wrong := utilvalidation.IsValidUserID(*id); wrong != nil {
		return check.Invalid(check.Below(at, child), *id, wrong)
	}
	return nil
}

func groupID(id *int64, at *field.Path, child ...string) field.ErrorList {
	if id == nil {
		return nil
	}
	if wrong := utilvalidation.IsValidGroupID(*id); wrong != nil {
		return check.Invalid(check.Below(at, child), *id, wrong)
	}
	return nil
}

func (v *validator) podSecurity(at *field.Path) field.ErrorList {
	s := v.spec.SecurityContext
	if s == nil {
		return nil
	}
	at = at.Child("securityContext")
	errs := groupID(s.FSGroup, at, "fsGroup")
	errs = append(errs, userID(s.RunAsUser, at, "runAsUser")...)
	errs = append(errs, groupID(s.RunAsGroup, at, "runAsGroup")...)
	for i := range s.SupplementalGroups {
		errs = append(errs, groupID(&s.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))...)
	}
	if share := v.spec.ShareProcessNamespace; share != nil && *share && v.spec.HostPID {
		errs = append(errs, field.Invalid(at.Child("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	errs = append(errs, v.sysctls(s.Sysctls, at)...)
	if s.FSGroupChangePolicy != nil {
		errs = append(errs, check.OneOf(*s.FSGroupChangePolicy, groupChanges, at, "fsGroupChangePolicy")...)
	}
	errs = append(errs, seccomp(s.SeccompProfile, at)...)
	errs = append(errs, windowsOptions(s.WindowsOptions, at)...)
	errs = append(errs, appArmor(s.AppArmorProfile, at)...)
	if s.SupplementalGroupsPolicy != nil {
		errs = append(errs, check.OneOf(*s.SupplementalGroupsPolicy, groupPolicy, at, "supplementalGroupsPolicy")...)
	}
	if s.SELinuxChangePolicy != nil {
		allowed := labelChanges[1:] // the gate of the first one is off, but old objects may have it
		if v.relabels {
			allowed = labelChanges
		}
		errs = append(errs, check.OneOf(*s.SELinuxChangePolicy, allowed, at, "seLinuxChangePolicy")...)
	}
	return errs
}

var sysctlName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)
})

func (v *validator) sysctls(list []corev1.Sysctl, at *field.Path) field.ErrorList {
	if len(list) == 0 {
		return nil
	}
	at = at.Child("sysctls")
	var errs field.ErrorList
	var seen check.Seen[string]
	for i, s := range list {
		name := at.Index(i).Child("name")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(name, ""))
		case len(s.Name) > 253 || !sysctlName().MatchString(s.Name):
			errs = append(errs, field.Invalid(name, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", 253, sysctlName())))
		case seen.Again(s.Name):
			errs = append(errs, field.Duplicate(name, s.Name))
		}
		switch namespace := sysctlNamespace(s.Name); {
		case v.spec.HostNetwork && namespace == "net":
			errs = append(errs, field.Invalid(name, s.Name, "may not be specified when 'hostNetwork' is true"))
		case v.spec.HostIPC && namespace == "ipc":
			errs = append(errs, field.Invalid(name, s.Name, "may not be specified when 'hostIPC' is true"))
		}
	}
	return errs
}

// sysctlNamespace returns the kernel namespace of a sysctl.
func sysctlNamespace(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		name = strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	switch {
	case strings.HasPrefix(name, "net."):
		return "net"
	case name == "kernel.sem", strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		return "ipc"
	}
	return ""
}

var seccompTypes = []corev1.SeccompProfileType{
	corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined,
}

func seccomp(p *corev1.SeccompProfile, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	at = at.Child("seccompProfile")
	var errs field.ErrorList
	if p.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "type is required when seccompProfile is set"))
	} else {
		errs = append(errs, check.OneOf(p.Type, seccompTypes, at, "type")...)
	}
	local := p.Type == corev1.SeccompProfileTypeLocalhost
	switch {
	case local && p.LocalhostProfile == nil:
		errs = append(errs, field.Required(at.Child("localhostProfile"), "must be set when seccomp type is Localhost"))
	case local:
		errs = append(errs, volume.Descending(*p.LocalhostProfile, at, "localhostProfile")...)
	case p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(at.Child("localhostProfile"), check.Shown(p), "can only be set when seccomp type is Localhost"))
	}
	return errs
}

var appArmorTypes = []corev1.AppArmorProfileType{
	corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined,
}

func appArmor(p *corev1.AppArmorProfile, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	at = at.Child("appArmorProfile")
	local := at.Child("localhostProfile")
	switch p.Type {
	case "":
		return field.ErrorList{field.Required(at.Child("type"), "type is required when appArmorProfile is set")}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			return field.ErrorList{field.Invalid(local, p.LocalhostProfile, "can only be set when AppArmor type is Localhost")}
		}
		return nil
	case corev1.AppArmorProfileTypeLocalhost:
		return localAppArmor(p.LocalhostProfile, local)
	}
	return check.OneOf(p.Type, appArmorTypes, at, "type")
}

func localAppArmor(name *string, at *field.Path) field.ErrorList {
	const longest = 4095 // maximum length of a path
	var errs field.ErrorList
	switch {
	case name == nil:
		return field.ErrorList{field.Required(at, "must be set when AppArmor type is Localhost")}
	case strings.TrimSpace(*name) != *name:
		errs = append(errs, field.Invalid(at, *name, "must not be padded with whitespace"))
	case *name == "":
		errs = append(errs, field.Required(at, "must be set when AppArmor type is Localhost"))
	}
	if len(*name) > longest {
		errs = append(errs, field.TooLong(at, "", longest))
	}
	return errs
}

// security checks the security context of a container.
func (v *validator) security(s *corev1.SecurityContext, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	at = at.Child("securityContext")
	errs := userID(s.RunAsUser, at, "runAsUser")
	errs = append(errs, groupID(s.RunAsGroup, at, "runAsGroup")...)
	if s.ProcMount != nil {
		errs = append(errs, check.OneOf(*s.ProcMount, procMounts, at, "procMount")...)
		if v.hostUsers() && *s.ProcMount == corev1.UnmaskedProcMount {
			errs = append(errs, field.Invalid(at.Child("procMount"), s.ProcMount, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	errs = append(errs, seccomp(s.SeccompProfile, at)...)
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if isPrivileged(s) {
			errs = append(errs, field.Invalid(at, check.Shown(s), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
			errs = append(errs, field.Invalid(at, check.Shown(s), "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	errs = append(errs, windowsOptions(s.WindowsOptions, at)...)
	return append(errs, appArmor(s.AppArmorProfile, at)...)
}

// userNamespace rejects host namespaces for a pod with its own user namespace.
func (v *validator) userNamespace(at *field.Path) field.ErrorList {
	if v.hostUsers() {
		return nil
	}
	var errs field.ErrorList
	if v.spec.HostNetwork {
		errs = append(errs, field.Forbidden(at.Child("hostNetwork"), "when `hostUsers` is false"))
	}
	if v.spec.HostPID {
		errs = append(errs, field.Forbidden(at.Child("HostPID"), "when `hostUsers` is false"))
	}
	if v.spec.HostIPC {
		errs = append(errs, field.Forbidden(at.Child("HostIPC"), "when `hostUsers` is false"))
	}
	for where, c := range containersOf(v.spec) {
		if len(c.VolumeDevices) > 0 {
			errs = append(errs, field.Forbidden(where.below(at).Child("volumeDevices"), "when `hostUsers` is false"))
		}
	}
	return errs
}
