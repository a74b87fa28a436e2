package volume

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validateProjected(p *corev1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	v := projection{at: at, errs: mode(p.DefaultMode, at, "defaultMode")}
	for i := range p.Sources {
		v.source(&p.Sources[i], at.Child("sources").Index(i))
	}
	return v.errs
}

// projection collects the errors of a projected volume and the paths that its files take.
type projection struct {
	at    *field.Path
	paths []string
	errs  field.ErrorList
}

func (v *projection) add(errs field.ErrorList) { v.errs = append(v.errs, errs...) }

// take notes a path; owner is what the error names if it is taken already.
func (v *projection) take(path, owner string) {
	for _, taken := range v.paths {
		if taken == path {
			v.errs = append(v.errs, field.Invalid(v.at, owner, "conflicting duplicate paths"))
			return
		}
	}
	v.paths = append(v.paths, path)
}

func (v *projection) source(s *corev1.VolumeProjection, at *field.Path) {
	n := 0
	if s.Secret != nil {
		n++
		v.items(s.Secret.Name, s.Secret.Items, at.Child("secret"))
	}
	if s.ConfigMap != nil {
		n++
		v.items(s.ConfigMap.Name, s.ConfigMap.Items, at.Child("configMap"))
	}
	if s.DownwardAPI != nil {
		n++
		for i := range s.DownwardAPI.Items {
			file := &s.DownwardAPI.Items[i]
			v.add(downwardFile(file, at.Child("downwardAPI")))
			if file.Path != "" {
				v.take(file.Path, file.Path)
			}
		}
	}
	if s.ServiceAccountToken != nil {
		n++
		v.token(s.ServiceAccountToken, at.Child("serviceAccountToken"))
	}
	if s.ClusterTrustBundle != nil {
		n++
		v.bundle(s.ClusterTrustBundle, at.Child("clusterTrustBundle"))
	}
	if s.PodCertificate != nil {
		n++
		v.certificate(s.PodCertificate, at.Child("podCertificate"))
	}
	if n > 1 {
		v.errs = append(v.errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
	}
}

func (v *projection) items(name string, items []corev1.KeyToPath, at *field.Path) {
	v.add(required(at, "name", name))
	for i := range items {
		v.add(keyToPath(&items[i], at.Child("items").Index(i)))
		if items[i].Path != "" {
			v.take(items[i].Path, name)
		}
	}
}

func (v *projection) token(t *corev1.ServiceAccountTokenProjection, at *field.Path) {
	if seconds := t.ExpirationSeconds; seconds != nil {
		if *seconds < 600 {
			v.errs = append(v.errs, field.Invalid(at.Child("expirationSeconds"), *seconds, "may not specify a duration less than 10 minutes"))
		}
		if *seconds > 1<<32 {
			v.errs = append(v.errs, field.Invalid(at.Child("expirationSeconds"), *seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	if t.Path == "" {
		v.errs = append(v.errs, field.Required(v.at.Child("path"), ""))
		return
	}
	v.add(NotReserved(t.Path, v.at.Child("path")))
}

func (v *projection) bundle(b *corev1.ClusterTrustBundleProjection, at *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		v.errs = append(v.errs, field.Invalid(at, b, "only one of name and signerName may be used"))
	case b.Name != nil:
		if *b.Name == "" {
			v.errs = append(v.errs, field.Required(at.Child("name"), "must be a valid object name"))
		}
		for _, msg := range bundleName(*b.Name) {
			v.errs = append(v.errs, field.Invalid(at.Child("name"), *b.Name, "not a valid clustertrustbundlename: "+msg))
		}
		if b.LabelSelector != nil {
			v.errs = append(v.errs, field.Invalid(at.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			v.errs = append(v.errs, field.Required(at.Child("signerName"), "must be a valid signer name"))
		}
		v.add(signerName(*b.SignerName, at.Child("signerName")))
		v.add(metav1validation.ValidateLabelSelector(b.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector")))
	default:
		v.errs = append(v.errs, field.Required(at, "either name or signerName must be specified"))
	}
	v.add(required(at, "path", b.Path))
	v.add(NotReserved(b.Path, at.Child("path")))
	v.take(b.Path, b.Path)
}

// bundleName checks the name of a ClusterTrustBundle, in which a signer's name may stand, with colons for slashes,
// before the last colon.
func bundleName(name string) []string {
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	return apivalidation.NameIsDNSSubdomain(name, false)
}

var keyTypes = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

func (v *projection) certificate(c *corev1.PodCertificateProjection, at *field.Path) {
	v.add(signerName(c.SignerName, at.Child("signerName")))
	v.add(check.OneOf(c.KeyType, keyTypes, at.Child("keyType")))
	if n := c.MaxExpirationSeconds; n != nil {
		if *n < 3600 {
			v.errs = append(v.errs, field.Invalid(at.Child("maxExpirationSeconds"), *n, "if provided, maxExpirationSeconds must be >= 3600"))
		}
		if *n > 91*24*3600 {
			v.errs = append(v.errs, field.Invalid(at.Child("maxExpirationSeconds"), *n, "if provided, maxExpirationSeconds must be <= 7862400"))
		}
	}
	if c.CredentialBundlePath == "" && c.KeyPath == "" && c.CertificateChainPath == "" {
		v.errs = append(v.errs, field.Required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	paths := []struct{ name, path string }{
		{"credentialBundlePath", c.CredentialBundlePath}, {"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath},
	}
	for _, p := range paths {
		if p.path != "" {
			v.add(NotReserved(p.path, at.Child(p.name)))
			v.take(p.path, p.path)
		}
	}
}
