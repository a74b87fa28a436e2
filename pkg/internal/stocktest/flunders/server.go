package flunders

import (
	"context"
	"fmt"
	"net"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
)

// Server is an extension API server.
type Server struct {
	generic *server.GenericAPIServer
	bundle  []byte
}

// New returns a server that listens on l with a certificate for host. kubeconfig is the file of the cluster.
func New(l net.Listener, host, kubeconfig string) (*Server, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, gv := range []schema.GroupVersion{Version, {Group: Version.Group, Version: runtime.APIVersionInternal}} {
		scheme.AddKnownTypes(gv, &Flunder{}, &FlunderList{})
	}
	metav1.AddToGroupVersion(scheme, Version)
	codecs := serializer.NewCodecFactory(scheme)
	config := server.NewConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	named := openapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = server.DefaultOpenAPIConfig(definitions, named)
	config.OpenAPIV3Config = server.DefaultOpenAPIV3Config(definitions, named)
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = "Wardle", "Wardle"

	serving := options.NewSecureServingOptions()
	serving.Listener, serving.ServerCert.CertDirectory = l, ""
	if err := serving.MaybeDefaultWithSelfSignedCerts(host, nil, nil); err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	bundle, _ := serving.ServerCert.GeneratedCert.CurrentCertKeyContent()
	if err := serving.WithLoopback().ApplyToConfig(config); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	authentication, authorization := options.NewDelegatingAuthenticationOptions(), options.NewDelegatingAuthorizationOptions()
	authentication.RemoteKubeConfigFile, authorization.RemoteKubeConfigFile = kubeconfig, kubeconfig
	if err := authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return nil, fmt.Errorf("delegate authentication: %w", err)
	}
	if err := authorization.ApplyTo(&config.Authorization); err != nil {
		return nil, fmt.Errorf("delegate authorization: %w", err)
	}
	generic, err := config.Complete(nil).New("flunders", server.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	group := server.NewDefaultAPIGroupInfo(Version.Group, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap[Version.Version] = map[string]rest.Storage{"flunders": newStorage()}
	if err := generic.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("install the group: %w", err)
	}
	return &Server{generic, bundle}, nil
}

// Bundle returns the server's certificate as PEM.
func (s *Server) Bundle() []byte { return s.bundle }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error { return s.generic.PrepareRun().RunWithContext(ctx) }
