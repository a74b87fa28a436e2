package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/cert-manager/cert-manager/pkg/controller"
	// each adds its controller or issuer to the lists that cert-manager keeps
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// workers is the number of workers of a controller.
const workers = 5

// healthAddress is where the chart's liveness probe finds the controllers.
const healthAddress = ":9403"

// controllers are the controllers of certificates, of their requests and of the issuers without external services.
type controllers struct{ namespace string }

func (c *controllers) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.namespace, "cluster-resource-namespace", "kube-system", "namespace of the Secrets of ClusterIssuers")
}

func (c *controllers) run(ctx context.Context) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: c.namespace},
		CertificateOptions: controller.CertificateOptions{
			EnableOwnerRef:                           true,
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	var all []controller.Interface
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return fmt.Errorf("construct %s: %w", name, err)
		}
		all = append(all, c)
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	errs := make([]error, len(all)+1)
	var wg sync.WaitGroup
	wg.Go(func() { errs[len(all)] = serveHealth(ctx) })
	for i, c := range all {
		wg.Go(func() { errs[i] = c.Run(workers, ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// serveHealth serves /livez until ctx ends.
func serveHealth(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(http.ResponseWriter, *http.Request) {})
	s := &http.Server{Addr: healthAddress, Handler: mux, ReadHeaderTimeout: time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
