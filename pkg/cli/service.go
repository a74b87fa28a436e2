package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/network/addr"
)

func newService(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Show how programs outside pods reach Services",
		Long: `Show how programs of this machine reach Services. Pods reach each Service by its name and its cluster address. Other programs reach
cluster addresses on loopback, at another port if the daemon may not listen on one below 1024, and node ports.`,
		Args: cobra.NoArgs,
		RunE: help,
	}
	cmd.AddCommand(newServiceList(env), newServiceURL(env))
	return cmd
}

func newServiceList(env *Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the Services with the addresses that programs outside pods connect to",
		Example: "  minikctl service list -A",
		Args:    arguments("", 0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, _, err := env.Factory.ToRawKubeConfigLoader().Namespace()
			if err != nil {
				return err
			}
			if all {
				namespace = metav1.NamespaceAll
			}
			c, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
			if err != nil {
				return err
			}
			list, err := c.CoreV1().Services(namespace).List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			t := newTable(env.Out, "NAMESPACE", "NAME", "TYPE", "PORT", "FROM THIS MACHINE")
			for i := range list.Items {
				svc := &list.Items[i]
				for _, w := range waysIn(cmd.Context(), svc, dials) {
					if err := t.Append([]string{svc.Namespace, svc.Name, string(svc.Spec.Type), w.port, w.text()}); err != nil {
						return err
					}
				}
			}
			return t.Render()
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list the Services of all namespaces")
	return cmd
}

func newServiceURL(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "url NAME",
		Short:   "Print the URLs of a Service for programs outside pods, one a line",
		Example: "  curl $(minikctl service url web)",
		Args:    arguments("the NAME of a Service", 1, 1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeNames(env, "services")(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, _, err := env.Factory.ToRawKubeConfigLoader().Namespace()
			if err != nil {
				return err
			}
			c, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
			if err != nil {
				return err
			}
			svc, err := c.CoreV1().Services(namespace).Get(cmd.Context(), args[0], metav1.GetOptions{})
			if err != nil {
				return err
			}
			printed := false
			var instead string
			for _, w := range waysIn(cmd.Context(), svc, dials) {
				if w.scheme == "" || w.address == "" {
					instead = cmp.Or(instead, w.instead)
					continue
				}
				fmt.Fprintf(env.Out, "%s://%s\n", w.scheme, w.address)
				printed = true
			}
			if !printed {
				return fmt.Errorf("service %q has no URL outside pods: %s", svc.Name, cmp.Or(instead, "it has no TCP port"))
			}
			return nil
		},
	}
}

// wayIn is how programs outside pods reach a port of a Service.
type wayIn struct {
	port    string // as the Service names it: 80/TCP
	scheme  string // of URLs; "" if the port is no TCP port
	address string // "": there is none
	instead string // without an address: why, or what to do
	node    string // the address of the node port, if it is served and not already address
}

// text is the way in one line.
func (w *wayIn) text() string {
	if w.node != "" {
		return w.address + ", " + w.node
	}
	return cmp.Or(w.address, w.instead)
}

// dials reports whether a TCP server accepts connections at an address.
func dials(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp4", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// waysIn returns the ways to the ports of a Service. It calls accepts to find which of a TCP port's addresses is served.
func waysIn(ctx context.Context, svc *corev1.Service, accepts func(context.Context, string) bool) []wayIn {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return []wayIn{{port: "<none>", instead: svc.Spec.ExternalName}}
	}
	var all []wayIn
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		w := wayIn{port: fmt.Sprintf("%d/%s", p.Port, p.Protocol)}
		candidates := addressesOf(svc, p)
		switch {
		case len(candidates) == 0 && p.Protocol != corev1.ProtocolTCP:
			w.instead = "only pods reach it"
		case len(candidates) == 0:
			w.instead = fmt.Sprintf("minikctl port-forward -n %s service/%s %d", svc.Namespace, svc.Name, p.Port)
		case p.Protocol == corev1.ProtocolUDP:
			w.address = candidates[0]
			if node := nodePortOf(p); node != w.address {
				w.node = node
			}
		case p.Protocol == corev1.ProtocolTCP:
			if n := slices.IndexFunc(candidates, func(a string) bool { return accepts(ctx, a) }); n >= 0 {
				w.scheme, w.address = schemeOf(p), candidates[n]
				if node := nodePortOf(p); node != "" && node != w.address && accepts(ctx, node) {
					w.node = node
				}
			} else {
				w.instead = "no pod is ready"
			}
		default:
			w.instead = "not served"
		}
		all = append(all, w)
	}
	return all
}

// addressesOf returns the addresses on loopback at which a port of a Service may be served, the best first.
func addressesOf(svc *corev1.Service, p *corev1.ServicePort) []string {
	var ips []string
	for _, in := range svc.Status.LoadBalancer.Ingress {
		ips = append(ips, in.IP)
	}
	ips = append(ips, svc.Spec.ClusterIPs...)
	ports := []int{int(p.Port)}
	if other, ok := addr.Unprivileged(uint16(p.Port)); ok {
		ports = append(ports, int(other))
		if os.Geteuid() != 0 {
			slices.Reverse(ports) // more likely, which counts for UDP
		}
	}
	var all []string
	for _, port := range ports {
		for _, s := range ips {
			if ip, err := netip.ParseAddr(s); err == nil && ip.Is4() && ip.IsLoopback() {
				all = append(all, net.JoinHostPort(s, strconv.Itoa(port)))
			}
		}
	}
	if node := nodePortOf(p); node != "" {
		all = append(all, node)
	}
	return all
}

// nodePortOf returns the address of a port's node port; "" if it has none.
func nodePortOf(p *corev1.ServicePort) string {
	if p.NodePort == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(p.NodePort)))
}

func schemeOf(p *corev1.ServicePort) string {
	if p.AppProtocol != nil && strings.EqualFold(*p.AppProtocol, "https") || p.Port == 443 || strings.HasPrefix(p.Name, "https") {
		return "https"
	}
	return "http"
}
