package main

import (
	"context"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cert-manager/cert-manager/pkg/api"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
)

// injector is the CA injector for webhook configurations, definitions and APIServices.
type injector struct{}

func (*injector) addFlags(*pflag.FlagSet) {}

func (*injector) run(ctx context.Context) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	config.UserAgent = "cert-manager-cainjector"
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, api.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return err
		}
	}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}, // their metadata suffices for watches
	})
	if err != nil {
		return err
	}
	enabled := map[string]bool{}
	for _, name := range []string{
		cainjector.MutatingWebhookConfigurationName, cainjector.ValidatingWebhookConfigurationName,
		cainjector.CustomResourceDefinitionName, cainjector.APIServiceName,
	} {
		enabled[name] = true
	}
	err = cainjector.RegisterAllInjectors(ctx, m, cainjector.SetupOptions{EnableCertificatesDataSource: true, EnabledReconcilersFor: enabled})
	if err != nil {
		return err
	}
	return m.Start(ctx)
}
