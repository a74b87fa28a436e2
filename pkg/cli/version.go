package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"
)

// clientVersion is the Kubernetes that the linked verbs are of.
const clientVersion = "v1.36.3"

// newVersion is kubectl's version. kubectl learns its own from its build, which here is minikctl's.
func newVersion(env *Env) *cobra.Command {
	var client bool
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of minikctl and of the cluster",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versions{Client: &version.Info{
				Major: "1", Minor: "36", GitVersion: clientVersion, GoVersion: runtime.Version(), Compiler: runtime.Compiler,
				Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}, Minikctl: own()}
			var err error
			if !client {
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
}

func (v versions) print(env *Env, output string) error {
	var b []byte
	var err error
	switch output {
	case "":
		fmt.Fprintf(env.Out, "Client Version: %s\nminikctl: %s\n", v.Client.GitVersion, v.Minikctl)
		if v.Server != nil {
			fmt.Fprintf(env.Out, "Server Version: %s\n", v.Server.GitVersion)
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

// own is the version that this program was built from.
func own() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
