package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// The limits of resolv.conf.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

func validateDNSConfig(c *corev1.PodDNSConfig, policy corev1.DNSPolicy, at *field.Path) field.ErrorList {
	if c == nil && policy != corev1.DNSNone {
		return nil
	}
	at = at.Child("dnsConfig")
	if policy == corev1.DNSNone {
		if c == nil {
			return field.ErrorList{field.Required(at, "must provide `dnsConfig` when `dnsPolicy` is None")}
		}
		if len(c.Nameservers) == 0 {
			return field.ErrorList{field.Required(at.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")}
		}
	}
	var errs field.ErrorList
	servers, searches := at.Child("nameservers"), at.Child("searches")
	if len(c.Nameservers) > maxServers {
		errs = append(errs, field.Invalid(servers, c.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxServers)))
	}
	for i, server := range c.Nameservers {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(servers.Index(i), server, true, nil)...)
	}
	if len(c.Searches) > maxSearches {
		errs = append(errs, field.Invalid(searches, c.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearches)))
	}
	if len(strings.Join(c.Searches, " ")) > maxSearchChars {
		errs = append(errs, field.Invalid(searches, c.Searches,
			fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchChars)))
	}
	for i, search := range c.Searches {
		if search == "." {
			continue
		}
		search = strings.TrimSuffix(search, ".")
		errs = append(errs, check.Invalid(searches.Index(i), search, utilvalidation.IsDNS1123SubdomainWithUnderscore(search))...)
	}
	for i := range c.Options {
		if c.Options[i].Name == "" {
			errs = append(errs, field.Required(at.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}
