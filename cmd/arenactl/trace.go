package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/arenagen/arenagen/internal/trace"
)

// A view is a form in which a trace is shown, and the file for it; none if that is empty.
type view struct {
	file  string
	write func(io.Writer, *trace.Trace) error
}

func newTrace() *cobra.Command {
	var chrome, svg string
	command := &cobra.Command{
		Use:   "trace FILE",
		Short: "Show what an arena's memory was used for, from a trace that the arena wrote",
		Long: `trace reads what an arena wrote of its memory, from a file or, for -, from its input. It writes a trace that
https://ui.perfetto.dev opens, or a picture of the memory, or both.

It exits with 2 if the file is not a trace that it can read, with 1 if anything else fails.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := loadTrace(c.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			return writeViews(t, view{chrome, trace.WriteChrome}, view{svg, trace.WriteSVG})
		},
	}
	command.Flags().StringVar(&chrome, "chrome", "", "write a trace for Perfetto to this file")
	command.Flags().StringVar(&svg, "svg", "", "write a picture of the memory to this file")
	command.MarkFlagsOneRequired("chrome", "svg")
	return command
}

func loadTrace(input io.Reader, file string) (*trace.Trace, error) {
	text, err := readTrace(input, file)
	if err != nil {
		return nil, fmt.Errorf("the trace cannot be read: %w", err)
	}
	t, err := trace.Load(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

func readTrace(input io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(input)
	}
	return os.ReadFile(file)
}

// writeViews renders all before it writes any, so that a failure leaves no half a file.
func writeViews(t *trace.Trace, views ...view) error {
	rendered := make([]bytes.Buffer, len(views))
	for i, v := range views {
		if v.file == "" {
			continue
		}
		if err := v.write(&rendered[i], t); err != nil {
			return fmt.Errorf("%s: %w", v.file, err)
		}
	}
	for i, v := range views {
		if v.file == "" {
			continue
		}
		if err := os.WriteFile(v.file, rendered[i].Bytes(), 0o644); err != nil {
			return fmt.Errorf("the output cannot be written: %w", err)
		}
	}
	return nil
}
