// Command arenactl is for people who run arenas: it looks at what a machine has, and at what an arena did.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/arenagen/arenagen/backends/all"
	"github.com/arenagen/arenagen/backends/kit/doctor"
	"github.com/arenagen/arenagen/internal/trace"
)

var errNoDevice = errors.New("no GPU backend has a device that can be used")

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "arenactl:", err)
		os.Exit(exitCode(err))
	}
}

func exitCode(err error) int {
	if errors.Is(err, trace.ErrFormat) {
		return 2
	}
	return 1
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "arenactl",
		Short:         "Look at what GPU memory arenas have on this machine, and at what they did",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(newDoctor(), newTrace())
	return command
}

func newDoctor() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Tell, for every backend, what is there, what works, and what to do about the rest",
		Long: `doctor loads every backend's driver, opens every device and tries what an arena needs on it, with one
granule of memory for a moment. It changes nothing.

It exits with 0 if a backend with a vendor's driver has a device that can be used, else with 1.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			report := doctor.Examine(all.Backends())
			if err := write(c.OutOrStdout(), report, asJSON); err != nil {
				return err
			}
			if !report.Usable {
				return errNoDevice
			}
			return nil
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return command
}

func write(w io.Writer, report doctor.Report, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprint(w, report)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}
