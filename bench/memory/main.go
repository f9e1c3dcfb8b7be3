// Command memory measures what an arena costs its host, through the Go API and in record
// mode, where nothing but the arena itself takes memory. Each run is one measurement in a
// process of its own, and prints JSON with raw numbers.
//
//	memory -measure pairs -n 1000000
//	memory -measure live  -n 1000000 -granule 4096 -sizes halving
//	memory -measure close -n 1000000
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("memory", flag.ContinueOnError)
	measure := flags.String("measure", "", "`what`: pairs, live or close")
	n := flags.Int("n", 1_000_000, "how many allocations")
	granule := flags.Int64("granule", 2<<20, "the granule in `bytes`")
	sizes := flags.String("sizes", "granule", "the `pattern` of the sizes: granule, equal, halving, large or spread")
	if err := flags.Parse(args); err != nil {
		return err
	}
	size, ok := patterns[*sizes]
	if !ok {
		return fmt.Errorf("-sizes names no pattern: %q", *sizes)
	}
	if *n <= 0 {
		return errors.New("-n must be positive")
	}
	result, err := load{n: *n, granule: *granule, size: size}.measure(*measure)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

func (l load) measure(what string) (any, error) {
	switch what {
	case "pairs":
		return l.pairs()
	case "live":
		return l.live()
	case "close":
		return l.close()
	default:
		return nil, fmt.Errorf("-measure must be pairs, live or close, got %q", what)
	}
}
