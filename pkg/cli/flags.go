package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/minikctl/minikctl/pkg/plug"
)

// isOwn reports whether a command belongs to a verb that kubectl does not have.
func isOwn(cmd *cobra.Command) bool {
	words := strings.Fields(cmd.CommandPath())
	return len(words) > 1 && slices.Contains([]string{"up", "down", "status", "store", "scheduler", "schedule", "clock", "dev", "trace", "why", "service"}, words[1])
}

// plainFlagError returns the error of a flag's value without the names of Go's functions.
func plainFlagError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag, value := invalid.GetFlag(), invalid.GetValue()
	isNot := func(what string) error {
		if errors.Is(err, strconv.ErrRange) {
			what = "in the range of " + flag.Value.Type()
		}
		return fmt.Errorf("--%s: %q is not %s", flag.Name, value, what)
	}
	switch kind := flag.Value.Type(); {
	case strings.HasPrefix(kind, "int"):
		return isNot("a whole number")
	case strings.HasPrefix(kind, "uint"):
		return isNot("a whole number from 0")
	case strings.HasPrefix(kind, "float"):
		return isNot("a number")
	case kind == "bool":
		return isNot("true or false")
	case kind == "duration":
		_, err := plug.ParseDuration(value)
		return fmt.Errorf("--%s: %w", flag.Name, err)
	}
	return err
}
