package arenatest

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed cases/*.txt
var scripts embed.FS

// A Case is one script: what is done, line by line.
type Case struct {
	Name  string   // file/what the case says about itself
	Needs []string // what a subject must have for it
	Steps []Step
}

// A Step is one line of a script: an operation and what it must answer.
type Step struct {
	Place string // file:line
	Verb  string
	Args  []string
	Want  Want
}

// A Want is what an operation must answer.
type Want struct {
	Status string   // "ok", or what stands behind "no"
	Text   string   // a part of the error's text
	Values []string // of the first values, in order; "_" is any
}

// Cases are all cases, in the order of their files.
func Cases() ([]Case, error) {
	names, err := fs.Glob(scripts, "cases/*.txt")
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, name := range names {
		text, err := scripts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		more, err := parse(path.Base(name), string(text))
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	return cases, nil
}

// parse reads the cases of a file. A line is empty, a comment after #, the start of a case
// ("case: ..."), what it needs ("needs: ..."), or a step ("verb arguments -> answer").
func parse(file, text string) (cases []Case, err error) {
	group := strings.TrimSuffix(file, path.Ext(file))
	for i, line := range strings.Split(text, "\n") {
		place := fmt.Sprintf("%s:%d", file, i+1)
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "case: "); ok {
			cases = append(cases, Case{Name: group + "/" + name})
			continue
		}
		if len(cases) == 0 {
			return nil, fmt.Errorf("%s: a line before the first case", place)
		}
		c := &cases[len(cases)-1]
		if text, ok := strings.CutPrefix(line, "needs: "); ok {
			if c.Needs, err = parseNeeds(place, text); err != nil {
				return nil, err
			}
			continue
		}
		step, err := parseStep(place, line)
		if err != nil {
			return nil, err
		}
		c.Steps = append(c.Steps, step)
	}
	return cases, nil
}

func parseNeeds(place, text string) ([]string, error) {
	words := strings.Fields(text)
	for _, word := range words {
		if _, known := needs[word]; !known {
			return nil, fmt.Errorf("%s: unknown need %q", place, word)
		}
	}
	return words, nil
}

func parseStep(place, line string) (Step, error) {
	call, answer, told := strings.Cut(line, " -> ")
	words := strings.Fields(call)
	step := Step{Place: place, Verb: words[0], Args: words[1:], Want: Want{Status: "ok"}}
	if _, known := verbs[step.Verb]; !known {
		return Step{}, fmt.Errorf("%s: unknown verb %q", place, step.Verb)
	}
	if !told {
		return step, nil
	}
	answer, text, quoted := strings.Cut(answer, ` "`)
	if quoted {
		if !strings.HasSuffix(text, `"`) {
			return Step{}, fmt.Errorf("%s: a text without its end", place)
		}
		step.Want.Text = strings.TrimSuffix(text, `"`)
	}
	words = strings.Fields(answer)
	switch {
	case len(words) >= 1 && words[0] == "ok":
		step.Want.Values = words[1:]
	case len(words) == 2 && words[0] == "no":
		step.Want.Status = words[1]
	default:
		return Step{}, fmt.Errorf("%s: expected \"ok\" with values, or \"no\" with a status, found %q", place, answer)
	}
	return step, nil
}
