package main

import (
	"context"

	"github.com/spf13/pflag"

	config "github.com/cert-manager/cert-manager/internal/apis/config/webhook"
	cmwebhook "github.com/cert-manager/cert-manager/internal/webhook"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

// webhook serves the webhook, with a certificate of an authority that it creates and keeps in a Secret.
type webhook struct {
	config *config.WebhookConfiguration
	err    error
}

func (w *webhook) addFlags(flags *pflag.FlagSet) {
	if w.config, w.err = options.NewWebhookConfiguration(); w.err == nil {
		options.AddConfigFlags(flags, w.config)
	}
}

func (w *webhook) run(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	s, err := cmwebhook.NewCertManagerWebhookServer(logf.FromContext(ctx), *w.config)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
