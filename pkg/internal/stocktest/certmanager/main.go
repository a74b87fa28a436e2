// The program certmanager is cert-manager, built from its module: its controllers, its webhook or the injector of the
// webhook's authority, depending on the first argument. TestCertManager runs it against a daemon.
//
// It is a separate module, so that cert-manager's requirements do not affect others. The module's path is below
// cert-manager's, like those of cert-manager's own programs, because the webhook is internal to that tree. The
// replacements in go.mod keep the libraries that cert-manager shares with minikctl at the versions that are compiled for
// minikctl anyway.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	logf "github.com/cert-manager/cert-manager/pkg/logs"
)

// parts are the programs by the first argument.
var parts = map[string]func(ctx context.Context, conf settings) error{
	"controller": runController,
	"webhook":    runWebhook,
	"cainjector": runInjector,
}

// settings are the flags.
type settings struct {
	kubeconfig string
	namespace  string // cert-manager's own
	port       int32  // of the webhook
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var conf settings
	flags := pflag.NewFlagSet("certmanager", pflag.ContinueOnError)
	flags.StringVar(&conf.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster")
	flags.StringVar(&conf.namespace, "namespace", "cert-manager", "namespace of cert-manager itself")
	flags.Int32Var(&conf.port, "port", 0, "port of the webhook on this machine")
	if err := flags.Parse(args); err != nil {
		return err
	}
	part, ok := parts[flags.Arg(0)]
	if !ok {
		return fmt.Errorf("no part of cert-manager: %q", flags.Arg(0))
	}
	log := klog.NewKlogr()
	ctrl.SetLogger(log)
	return part(logf.NewContext(ctx, log), conf)
}
