package certificates

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// legacySigner is the signer of requests that were created without a signer name.
const legacySigner = "kubernetes.io/legacy-unknown"

// nodeUser is the prefix of nodes' user names.
const nodeUser = "system:node:"

// signers holds the cluster's own signers with their checks of a request.
var signers = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName:        checkClient,
	certificatesv1.KubeAPIServerClientKubeletSignerName: checkNodeClient,
	certificatesv1.KubeletServingSignerName:             checkNodeServer,
	legacySigner:                                        func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil },
}

func checkClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// Errors about the subject of a node's request, in the API's words.
var (
	errNotOfNodes = errors.New("subject organization is not system:nodes")
	errNoNode     = errors.New("subject common name does not begin with system:node:") //nolint:staticcheck // the API's words
	errNoHost     = errors.New("DNS or IP subjectAltName is required")
	errDNS        = errors.New("DNS subjectAltNames are not allowed")
	errEmail      = errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // the API's words
	errIP         = errors.New("IP subjectAltNames are not allowed")
	errURI        = errors.New("URI subjectAltNames are not allowed")
)

func checkNodeClient(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !ofNodes(req):
		return errNotOfNodes
	case len(req.DNSNames) > 0:
		return errDNS
	case len(req.EmailAddresses) > 0:
		return errEmail
	case len(req.IPAddresses) > 0:
		return errIP
	case len(req.URIs) > 0:
		return errURI
	case !strings.HasPrefix(req.Subject.CommonName, nodeUser):
		return errNoNode
	}
	return checkNodeUsages(usages, certificatesv1.UsageClientAuth)
}

func checkNodeServer(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !ofNodes(req):
		return errNotOfNodes
	case len(req.DNSNames) == 0 && len(req.IPAddresses) == 0:
		return errNoHost
	case len(req.EmailAddresses) > 0:
		return errEmail
	case len(req.URIs) > 0:
		return errURI
	}
	if err := checkNodeUsages(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !strings.HasPrefix(req.Subject.CommonName, nodeUser) {
		return errNoNode
	}
	return nil
}

func ofNodes(req *x509.CertificateRequest) bool {
	return slices.Equal(req.Subject.Organization, []string{user.NodesGroup})
}

// checkNodeUsages requires the usage digital signature and the purpose. It allows key encipherment, which RSA keys need.
func checkNodeUsages(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	set := map[string]bool{}
	for _, u := range usages {
		set[string(u)] = true
	}
	set[string(certificatesv1.UsageKeyEncipherment)] = true
	want := []string{string(certificatesv1.UsageDigitalSignature), string(certificatesv1.UsageKeyEncipherment), string(purpose)}
	slices.Sort(want)
	if !slices.Equal(slices.Sorted(maps.Keys(set)), want) {
		return fmt.Errorf("usages did not match %v", want)
	}
	return nil
}
