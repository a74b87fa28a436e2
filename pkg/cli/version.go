package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/daemon"
	"github.com/minikctl/minikctl/pkg/release"
)

// newVersion returns the verb version. kubectl's own would print the version of this build as Kubernetes'.
func newVersion(env *Env) *cobra.Command {
	var client bool
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of minikctl and of the cluster",
		Args:  arguments("", 0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := versions{Client: &version.Info{
				Major: release.Major, Minor: release.Minor, GitVersion: release.Kubernetes, GoVersion: runtime.Version(), Compiler: runtime.Compiler,
				Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}, Minikctl: ownVersion()}
			var err error
			if !client && env.Target.local() && !env.Target.running() {
				if err := daemon.CheckName(env.Target.name); err != nil {
					return err
				}
				v.absent = fmt.Sprintf("none, no daemon %q runs (start it with: %s)", env.Target.name, autostart.Up(env.Target.name))
			} else if !client {
				c, clientErr := env.Factory.ToDiscoveryClient()
				if err = clientErr; err == nil {
					c.Invalidate()
					v.Server, err = c.ServerVersion()
				}
			}
			if printErr := v.print(env, output); printErr != nil {
				return printErr
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "print the client's version only (no server required)")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml, or empty for text")
	return cmd
}

type versions struct {
	Client   *version.Info `json:"clientVersion,omitempty"`
	Minikctl string        `json:"minikctlVersion,omitempty"`
	Server   *version.Info `json:"serverVersion,omitempty"`
	absent   string        // why there is no server version
}

func (v versions) print(env *Env, output string) error {
	var b []byte
	var err error
	switch output {
	case "":
		fmt.Fprintf(env.Out, "Client Version: %s\nminikctl: %s\n", v.Client.GitVersion, v.Minikctl)
		switch {
		case v.Server != nil:
			fmt.Fprintf(env.Out, "Server Version: %s\n", v.Server.GitVersion)
		case v.absent != "":
			fmt.Fprintf(env.Out, "Server Version: %s\n", v.absent)
		}
		return nil
	case "json":
		b, err = json.MarshalIndent(v, "", "  ")
		b = append(b, '\n')
	case "yaml":
		b, err = yaml.Marshal(v)
	default:
		return fmt.Errorf("--output must be 'yaml' or 'json'")
	}
	if err == nil {
		_, err = env.Out.Write(b)
	}
	return err
}

// ownVersion returns the version of minikctl in the build information.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
