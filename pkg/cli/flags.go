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
	case kind == "stringToString":
		return isNot("NAME=VALUE")
	case kind == "string":
		return fmt.Errorf("--%s: %w", flag.Name, invalid.Unwrap())
	}
	return err
}

// choice is the value of a flag that is empty or one of a few words.
type choice struct {
	value *string
	words []string
}

// String implements pflag.Value.
func (c choice) String() string { return *c.value }

// Type implements pflag.Value.
func (choice) Type() string { return "string" }

// Set implements pflag.Value.
func (c choice) Set(s string) error {
	if s != "" && !slices.Contains(c.words, s) {
		return fmt.Errorf("%q is not one of %v", s, c.words)
	}
	*c.value = s
	return nil
}

// addOutput adds the flag -o of a verb whose output is otherwise what text says.
func addOutput(cmd *cobra.Command, output *string, text string, formats ...string) {
	cmd.Flags().VarP(choice{output, formats}, "output", "o", strings.Join(formats, ", ")+", or empty for "+text)
	complete(cmd, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}
