package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/internal/trace/tracetest"
)

var update = flag.Bool("update", false, "write the picture in docs from the sample")

// A result is what the program left.
type result struct {
	code           int
	stdout, stderr string
}

func runTrace(t *testing.T, input []byte, args ...string) result {
	t.Helper()
	command := exec.Command(program, append([]string{"trace"}, args...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &stdout, &stderr
	_ = command.Run() // the exit code says how it went
	return result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// show has the program show a trace both ways.
func show(t *testing.T, script *tracetest.Script) (chrome, svg []byte) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "trace.json")
	require.NoError(t, os.WriteFile(file, script.JSON(), 0o600))
	outputs := []string{filepath.Join(folder, "chrome.json"), filepath.Join(folder, "map.svg")}
	r := runTrace(t, nil, file, "--chrome", outputs[0], "--svg", outputs[1])
	require.Equal(t, result{}, r)
	for i, to := range []*[]byte{&chrome, &svg} {
		var err error
		*to, err = os.ReadFile(outputs[i])
		require.NoError(t, err)
	}
	return chrome, svg
}

// texts are the texts in a picture, which must be well-formed XML.
func texts(t *testing.T, svg []byte) []string {
	t.Helper()
	var all []string
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if data, ok := token.(xml.CharData); ok && strings.TrimSpace(string(data)) != "" {
			all = append(all, string(data))
		}
	}
}

func TestTraceShowsTheSample(t *testing.T) {
	chrome, svg := show(t, tracetest.Sample())
	assert.True(t, json.Valid(chrome))
	all := strings.Join(texts(t, svg), "\n")
	for _, expected := range []string{
		"13 handles, peak mapped 832 MiB", "peak cached 64 MiB; 0 events missed", "2 handles mapped ahead and never used",
		"failed: 768 MiB", "MiB", "time since the arena was made, ms", "cached", "a hole",
	} {
		assert.Contains(t, all, expected)
	}
	assert.NotContains(t, string(svg), "NaN")
	if *update {
		require.NoError(t, os.WriteFile("../../docs/memory-map.svg", svg, 0o644))
	}
}

func TestTraceReadsItsInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "map.svg")
	assert.Equal(t, result{}, runTrace(t, tracetest.Sample().JSON(), "-", "--svg", file))
	assert.FileExists(t, file)
}

func TestTraceOfWhatIsNone(t *testing.T) {
	whole := string(tracetest.Sample().JSON())
	event := func(change string) string {
		return `{"format":"arenagen-trace","version":1,"arena":{"device":0,"base":4096,"total":8192,"granule":4096},"missed":0,"events":[` +
			`{"seq":5,"ns":10,"kind":"malloc","address":4096,"size":8,"handle":0,"tag":0,"took":0},` + change + `]}`
	}
	for name, tc := range map[string]struct{ text, complaint string }{
		"empty":            {"", "it is empty"},
		"blank":            {" \n", "it is empty"},
		"not JSON":         {"seq ns kind", "not JSON at byte 1"},
		"binary":           {"\x00\xff\x7fELF", "not JSON"},
		"truncated":        {whole[:len(whole)/2], fmt.Sprintf("ends in the middle, after %d bytes", len(whole)/2)},
		"more after it":    {whole + "{}", "not JSON at byte"},
		"an array":         {"[1]", "not a JSON object but a JSON array"},
		"another object":   {"{}", `format is "" where "arenagen-trace" was expected`},
		"another format":   {strings.Replace(whole, "arenagen-trace", "x", 1), `format is "x"`},
		"another version":  {strings.Replace(whole, `"version":1`, `"version":2`, 1), `version is "2" where 1`},
		"no events":        {`{"format":"arenagen-trace","version":1,"arena":{}}`, "no arena, or no events"},
		"events are null":  {`{"format":"arenagen-trace","version":1,"arena":{},"events":null}`, "no arena, or no events"},
		"a negative size":  {event(`{"seq":6,"ns":10,"kind":"free","address":4096,"size":-8}`), "events.size is a JSON number -8"},
		"a text for a seq": {event(`{"seq":"6"}`), "events.seq is a JSON string"},
		"no kind":          {event(`{"seq":6,"ns":10}`), "event 1, counted from 0, has no kind"},
		"seq twice":        {event(`{"seq":5,"ns":10,"kind":"free","address":4096,"size":8}`), "event 5 comes after event 5"},
		"below the arena":  {event(`{"seq":6,"ns":10,"kind":"malloc","address":4095,"size":1}`), "outside of the arena"},
		"above the arena":  {event(`{"seq":6,"ns":10,"kind":"malloc","address":12288,"size":1}`), "outside of the arena"},
		"a huge size":      {event(`{"seq":6,"ns":10,"kind":"mapped","address":4096,"size":18446744073709551615}`), "outside of the arena"},
		"a huge arena":     {`{"format":"arenagen-trace","version":1,"arena":{"base":4096,"total":144115188075855872},"events":[]}`, "more than 57 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			svg := filepath.Join(folder, "map.svg")
			r := runTrace(t, []byte(tc.text), "-", "--svg", svg)
			assert.Equal(t, 2, r.code)
			assert.Empty(t, r.stdout)
			assert.Regexp(t, `^arenactl: -: not a trace of an arena: .*\n$`, r.stderr)
			assert.Contains(t, r.stderr, tc.complaint)
			assert.NoFileExists(t, svg)
		})
	}
}

func TestTraceOfFilesThatCannotBe(t *testing.T) {
	folder := t.TempDir()
	sample := tracetest.Sample().JSON()
	for name, tc := range map[string]struct {
		args      []string
		complaint string
	}{
		"no such file":     {[]string{filepath.Join(folder, "none"), "--svg", filepath.Join(folder, "x")}, "no such file"},
		"a folder":         {[]string{folder, "--svg", filepath.Join(folder, "x")}, "is a directory"},
		"no such output":   {[]string{"-", "--svg", filepath.Join(folder, "none", "x")}, "output cannot be written"},
		"output, a folder": {[]string{"-", "--chrome", folder}, "output cannot be written"},
		"a full disk":      {[]string{"-", "--chrome", "/dev/full"}, "no space left"},
		"no output":        {[]string{"-"}, "at least one of the flags"},
		"no file":          {[]string{"--svg", filepath.Join(folder, "x")}, "accepts 1 arg"},
	} {
		t.Run(name, func(t *testing.T) {
			r := runTrace(t, sample, tc.args...)
			assert.Equal(t, 1, r.code)
			assert.Regexp(t, `^arenactl: .*\n$`, r.stderr)
			assert.Contains(t, r.stderr, tc.complaint)
		})
	}
}
