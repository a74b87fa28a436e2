package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/minikctl/minikctl/pkg/daemon"
)

func newStatus(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the clusters of this user, running or not",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := daemon.All()
			if err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(env.Out, "No clusters. Start one with: minikctl up -d")
				return nil
			}
			t := newTable(env.Out, "NAME", "STATE", "PID", "ADDRESS", "PARTS", "AGE", "DATA")
			for _, p := range all {
				row, err := statusRow(env, p)
				if err != nil {
					return err
				}
				if err := t.Append(row); err != nil {
					return err
				}
			}
			return t.Render()
		},
	}
}

func statusRow(env *Env, p daemon.Paths) ([]string, error) {
	s, err := daemon.ReadState(p)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err != nil || !daemon.Alive(p) {
		state := "stopped"
		if daemon.PodsKept(p) {
			state = "stopped, pods run"
		}
		return []string{p.Name, state, "", "", "", "", p.Data}, nil
	}
	age := env.Now().Sub(s.Started).Round(time.Second).String()
	return []string{p.Name, "running", fmt.Sprint(s.PID), s.Address, strings.Join(s.Parts, ","), age, p.Data}, nil
}
