package main

import (
	"context"

	cmwebhook "github.com/cert-manager/cert-manager/internal/webhook"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

// runWebhook serves the webhook, with a certificate of an authority that it creates and keeps in a Secret.
func runWebhook(ctx context.Context, conf settings) error {
	c, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	c.KubeConfig, c.SecurePort, c.HealthzPort, c.MetricsListenAddress = conf.kubeconfig, conf.port, 0, "0"
	dynamic := &c.TLSConfig.Dynamic
	dynamic.SecretNamespace, dynamic.SecretName, dynamic.DNSNames = conf.namespace, "cert-manager-webhook-ca", []string{"localhost"}
	s, err := cmwebhook.NewCertManagerWebhookServer(logf.FromContext(ctx), *c)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
