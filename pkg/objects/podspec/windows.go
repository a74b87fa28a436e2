package podspec

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func windowsOptions(w *corev1.WindowsSecurityContextOptions, at *field.Path) field.ErrorList {
	if w == nil {
		return nil
	}
	at = at.Child("windowsOptions")
	var errs field.ErrorList
	if name := w.GMSACredentialSpecName; name != nil {
		errs = append(errs, check.Invalid(at.Child("gmsaCredentialSpecName"), name, utilvalidation.IsDNS1123Subdomain(*name))...)
	}
	if spec := w.GMSACredentialSpec; spec != nil {
		if *spec == "" {
			errs = append(errs, field.Invalid(at.Child("gmsaCredentialSpec"), spec, "gmsaCredentialSpec cannot be an empty string"))
		} else if len(*spec) > 64*1024 {
			errs = append(errs, field.Invalid(at.Child("gmsaCredentialSpec"), spec, "gmsaCredentialSpec size must be under 64 KiB"))
		}
	}
	if w.RunAsUserName != nil {
		for _, msg := range windowsUser(*w.RunAsUserName) {
			errs = append(errs, field.Invalid(at.Child("runAsUserName"), w.RunAsUserName, "runAsUserName"+msg))
		}
	}
	return errs
}

// Patterns of Windows domains and hosts. Few pods have them, so they are compiled on first use.
var (
	control     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[[:cntrl:]]+`) })
	netBios     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`) })
	windowsHost = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	})
)

// windowsUser returns what is wrong with a user name of the form DOMAIN\USER.
func windowsUser(name string) []string {
	parts := strings.Split(name, `\`)
	switch {
	case name == "":
		return []string{" cannot be an empty string"}
	case control().MatchString(name):
		return []string{" cannot contain control characters"}
	case len(parts) > 2:
		return []string{" cannot contain more than one backslash"}
	}
	var wrong []string
	user := parts[len(parts)-1]
	if len(parts) == 2 {
		domain := parts[0]
		if len(domain) >= 256 {
			wrong = append(wrong, "'s Domain length must be under 256 characters")
		}
		if !netBios().MatchString(domain) && !windowsHost().MatchString(domain) {
			wrong = append(wrong, "'s Domain doesn't match the NetBios nor the DNS format")
		}
	}
	if user == "" {
		wrong = append(wrong, "'s User cannot be empty")
	} else if len(user) > 104 {
		wrong = append(wrong, "'s User length must not be longer than 104 characters")
	}
	if user != "" && strings.Trim(user, ". ") == "" {
		wrong = append(wrong, "'s User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, `"/\:;|=,+*?<>@[]`) {
		wrong = append(wrong, `'s User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
	return wrong
}

// eachContainer visits the containers in Kubernetes' order: init, regular, ephemeral.
func (v *validator) eachContainer(at *field.Path, visit func(*corev1.Container, *field.Path)) {
	eachContainer(v.spec, at, visit)
}

func eachContainer(s *corev1.PodSpec, at *field.Path, visit func(*corev1.Container, *field.Path)) {
	for i := range s.InitContainers {
		visit(&s.InitContainers[i], at.Child("initContainers").Index(i))
	}
	for i := range s.Containers {
		visit(&s.Containers[i], at.Child("containers").Index(i))
	}
	for i := range s.EphemeralContainers {
		visit((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon), at.Child("ephemeralContainers").Index(i))
	}
}

func hostProcessOf(w *corev1.WindowsSecurityContextOptions) *bool {
	if w == nil {
		return nil
	}
	return w.HostProcess
}

// hostProcess checks that either all or none of the containers of a Windows pod are HostProcess containers.
func (v *validator) hostProcess(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var pod *bool
	if s := v.spec.SecurityContext; s != nil {
		pod = hostProcessOf(s.WindowsOptions)
	}
	all, host := 0, 0
	visit := func(c *corev1.Container, idx *field.Path) {
		all++
		var own *bool
		if c.SecurityContext != nil {
			own = hostProcessOf(c.SecurityContext.WindowsOptions)
		}
		if pod != nil && own != nil && *pod != *own {
			errs = append(errs, field.Invalid(idx.Child("securityContext", "windowsOptions", "hostProcess"), *own,
				fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *pod)))
		}
		if own != nil && *own || own == nil && pod != nil && *pod {
			host++
		}
	}
	if pod != nil || v.anyWindows() {
		v.eachContainer(at, visit)
	}
	if host == 0 {
		return errs
	}
	if host != all {
		errs = append(errs, field.Invalid(at, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !v.spec.HostNetwork {
		errs = append(errs, field.Invalid(at.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}

// anyWindows reports whether a container has Windows options, which most pods do not, so their checks are skipped.
func (v *validator) anyWindows() bool {
	for _, list := range [][]corev1.Container{v.spec.InitContainers, v.spec.Containers} {
		for i := range list {
			if s := list[i].SecurityContext; s != nil && s.WindowsOptions != nil {
				return true
			}
		}
	}
	return false
}

// system checks the fields that depend on the pod's operating system.
func (v *validator) system(at *field.Path) field.ErrorList {
	os := v.spec.OS
	if os.Name == "" {
		return field.ErrorList{field.Required(at.Child("os", "name"), "")}
	}
	if os.Name != corev1.Linux && os.Name != corev1.Windows {
		return field.ErrorList{field.NotSupported(at.Child("os"), os.Name, systems)}
	}
	if os.Name == corev1.Linux {
		return v.notWindows(at)
	}
	return v.notLinux(at)
}

func (v *validator) notWindows(at *field.Path) field.ErrorList {
	const why = "windows options cannot be set for a linux pod"
	var errs field.ErrorList
	if s := v.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		errs = append(errs, field.Forbidden(at.Child("securityContext", "windowsOptions"), why))
	}
	v.eachContainer(at, func(c *corev1.Container, idx *field.Path) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			errs = append(errs, field.Forbidden(idx.Child("securityContext", "windowsOptions"), why))
		}
	})
	return errs
}

func (v *validator) notLinux(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(set bool, at *field.Path) {
		if set {
			errs = append(errs, field.Forbidden(at, "cannot be set for a windows pod"))
		}
	}
	if s, in := v.spec.SecurityContext, at.Child("securityContext"); s != nil {
		forbid(s.AppArmorProfile != nil, in.Child("appArmorProfile"))
		forbid(s.SELinuxOptions != nil, in.Child("seLinuxOptions"))
		forbid(v.spec.HostUsers != nil, at.Child("hostUsers"))
		forbid(v.spec.HostPID, at.Child("hostPID"))
		forbid(v.spec.HostIPC, at.Child("hostIPC"))
		forbid(s.SeccompProfile != nil, in.Child("seccompProfile"))
		forbid(s.FSGroup != nil, in.Child("fsGroup"))
		forbid(s.FSGroupChangePolicy != nil, in.Child("fsGroupChangePolicy"))
		forbid(len(s.Sysctls) > 0, in.Child("sysctls"))
		forbid(v.spec.ShareProcessNamespace != nil, at.Child("shareProcessNamespace"))
		forbid(s.RunAsUser != nil, in.Child("runAsUser"))
		forbid(s.RunAsGroup != nil, in.Child("runAsGroup"))
		forbid(s.SupplementalGroups != nil, in.Child("supplementalGroups"))
		forbid(s.SupplementalGroupsPolicy != nil, in.Child("supplementalGroupsPolicy"))
		forbid(s.SELinuxChangePolicy != nil, in.Child("seLinuxChangePolicy"))
	}
	v.eachContainer(at, func(c *corev1.Container, idx *field.Path) {
		s, in := c.SecurityContext, idx.Child("securityContext")
		if s == nil {
			return
		}
		forbid(s.AppArmorProfile != nil, in.Child("appArmorProfile"))
		forbid(s.SELinuxOptions != nil, in.Child("seLinuxOptions"))
		forbid(s.SeccompProfile != nil, in.Child("seccompProfile"))
		forbid(s.Capabilities != nil, in.Child("capabilities"))
		forbid(s.ReadOnlyRootFilesystem != nil, in.Child("readOnlyRootFilesystem"))
		forbid(s.Privileged != nil, in.Child("privileged"))
		forbid(s.AllowPrivilegeEscalation != nil, in.Child("allowPrivilegeEscalation"))
		forbid(s.ProcMount != nil, in.Child("procMount"))
		forbid(s.RunAsUser != nil, in.Child("runAsUser"))
		forbid(s.RunAsGroup != nil, in.Child("runAsGroup"))
	})
	return errs
}
