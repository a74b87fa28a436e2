// The program certmanager is cert-manager, built from its module: its controllers, its webhook or the injector of the
// webhook's authority, depending on the first argument. TestCertManager runs it in pods in place of the chart's images, with the arguments of
// the chart. Flags of what is left out here, leader election and ACME, are ignored.
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

// part is one of cert-manager's programs. addFlags adds its flags, and run runs it until ctx ends.
type part interface {
	addFlags(flags *pflag.FlagSet)
	run(ctx context.Context) error
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
	parts := map[string]part{"controller": &controllers{}, "webhook": &webhook{}, "cainjector": &injector{}}
	if len(args) == 0 || parts[args[0]] == nil {
		return fmt.Errorf("no part of cert-manager: %q", args)
	}
	p := parts[args[0]]
	flags := pflag.NewFlagSet("certmanager", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	p.addFlags(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	log := klog.NewKlogr()
	ctrl.SetLogger(log)
	return p.run(logf.NewContext(ctx, log))
}
