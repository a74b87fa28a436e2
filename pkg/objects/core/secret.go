package core

import (
	"crypto/tls"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// Secrets is the row of Secret.
var Secrets = objects.Def[*corev1.Secret]{
	Names:         objects.Names{Version: "v1", Kind: "Secret", Plural: "secrets"},
	ApplyPriority: 40,
	New:           func() *corev1.Secret { return &corev1.Secret{} },
	NewList:       func() runtime.Object { return &corev1.SecretList{} },
	Default:       defaultSecret,
	Prepare:       prepareSecret,
	Validate:      validateSecret,
	Warnings:      secretWarnings,
	Columns: []objects.Column[*corev1.Secret]{
		objects.NameColumn[*corev1.Secret](),
		{Name: "Type", Description: corev1.Secret{}.SwaggerDoc()["type"],
			Cell: func(s *corev1.Secret, _ time.Time) any { return string(s.Type) }},
		{Name: "Data", Description: corev1.Secret{}.SwaggerDoc()["data"],
			Cell: func(s *corev1.Secret, _ time.Time) any { return int64(len(s.Data)) }},
		objects.AgeColumn[*corev1.Secret](),
	},
	Selectable: map[string]func(*corev1.Secret) string{
		"type": func(s *corev1.Secret) string { return string(s.Type) },
	},
}

// defaultSecret also copies the write-only stringData to data.
func defaultSecret(s *corev1.Secret) {
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

// prepareSecret keeps the type in an update without one.
func prepareSecret(s, old *corev1.Secret) {
	if old != nil && s.Type == "" {
		s.Type = old.Type
	}
}

func validateSecret(s, old *corev1.Secret) field.ErrorList {
	whole := append(check.Meta(s, true, apivalidation.NameIsDNSSubdomain), validateSecretData(s)...)
	if old == nil {
		return whole
	}
	errs := append(check.MetaUpdate(s, old), check.Immutable(s.Type, old.Type, field.NewPath("type"))...)
	if old.Immutable != nil && *old.Immutable {
		if s.Immutable == nil || !*s.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
		}
		if !sameBytes(s.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
		}
	}
	return append(errs, whole...)
}

func validateSecretData(s *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	data := field.NewPath("data")
	total := 0
	for key, value := range s.Data {
		if check.ConfigKey(key, nil) != nil {
			errs = append(errs, check.ConfigKey(key, data.Key(key))...)
		}
		total += len(value)
	}
	if total > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(data, "", corev1.MaxSecretSize))
	}
	return append(errs, validateSecretType(s, data)...)
}

// validateSecretType checks the keys that the secret's type requires.
func validateSecretType(s *corev1.Secret, data *field.Path) field.ErrorList {
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			return field.ErrorList{field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), "")}
		}
	case corev1.SecretTypeDockercfg:
		return jsonKey(s, data, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		return jsonKey(s, data, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			return append(needKeys(s, data, corev1.BasicAuthUsernameKey), needKeys(s, data, corev1.BasicAuthPasswordKey)...)
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			return field.ErrorList{field.Required(data.Key(corev1.SSHAuthPrivateKey), "")}
		}
	case corev1.SecretTypeTLS:
		return needKeys(s, data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return nil
}

func needKeys(s *corev1.Secret, data *field.Path, keys ...string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range keys {
		if _, ok := s.Data[key]; !ok {
			errs = append(errs, field.Required(data.Key(key), ""))
		}
	}
	return errs
}

func jsonKey(s *corev1.Secret, data *field.Path, key string) field.ErrorList {
	value, ok := s.Data[key]
	if !ok {
		return field.ErrorList{field.Required(data.Key(key), "")}
	}
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(data.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

// longestKey bounds the keys that are parsed, in bytes of PEM. The time to parse an RSA key grows with the square of its length: the
// longest that fits a Secret would take minutes.
const longestKey = 32 << 10

// secretWarnings warns about a certificate and a key that do not match.
func secretWarnings(s, _ *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS || len(s.Data[corev1.TLSPrivateKeyKey]) > longestKey {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
