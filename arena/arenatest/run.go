package arenatest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Run runs every case that a subject can meet the needs of, each as a subtest.
func Run(t *testing.T, subject Subject) {
	t.Helper()
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if !slices.ContainsFunc(c.Needs, func(need string) bool { return !subject.Has(need) }) {
			t.Run(c.Name, func(t *testing.T) { c.run(t, subject.Start(t)) })
		}
	}
}

// run carries a case out and compares every answer. It stops at the first wrong one: what follows builds on it.
func (c *Case) run(t *testing.T, session Session) {
	t.Helper()
	v := variables{values: map[string]uint64{"none": 0}, bases: map[string]uint64{}}
	for _, step := range c.Steps {
		if err := v.step(session, step); err != nil {
			t.Fatalf("%s: %s %s: %v", step.Place, step.Verb, strings.Join(step.Args, " "), err)
		}
	}
}

// variables are what a script's names stand for.
type variables struct {
	values  map[string]uint64 // arenas, addresses, streams
	bases   map[string]uint64 // of arenas
	granule uint64            // of the arena made last
}

// step carries one step out and tells what is wrong with its answer.
func (v *variables) step(session Session, step Step) error {
	args, names, err := v.arguments(verbs[step.Verb], step.Args)
	if err != nil {
		return err
	}
	answer := session.Do(step.Verb, args...)
	if answer.Status != step.Want.Status {
		return fmt.Errorf("answered %s, expected %s: %s", answer.Status, step.Want.Status, answer.Text)
	}
	if !strings.Contains(answer.Text, step.Want.Text) {
		return fmt.Errorf("answered %q, expected a text with %q", answer.Text, step.Want.Text)
	}
	if answer.Status == "ok" {
		v.keep(names, answer.Values)
	}
	if len(answer.Values) < len(step.Want.Values) {
		return fmt.Errorf("answered %d values, expected %d", len(answer.Values), len(step.Want.Values))
	}
	for i, text := range step.Want.Values {
		if text == "_" {
			continue
		}
		want, err := v.number(text)
		if err != nil {
			return err
		}
		if answer.Values[i] != want {
			return fmt.Errorf("answered %s, expected %s (%s)", v.show(answer.Values[i]), text, v.show(want))
		}
	}
	return nil
}

// keep gives a step's new names their values.
func (v *variables) keep(names []newName, values []uint64) {
	for _, name := range names {
		v.values[name.text] = values[0]
		if name.kind == newArena {
			v.bases[name.text] = values[1]
			v.granule = values[2]
		}
	}
}

type newName struct {
	text string
	kind kind
}

// arguments resolves the words behind a verb. New names are no arguments: they come back.
func (v *variables) arguments(parameters []parameter, words []string) (args []uint64, names []newName, err error) {
	options := map[string]string{}
	plain := slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		name, value, named := strings.Cut(w, "=")
		if named {
			options[name] = value
		}
		return named
	})
	for _, p := range parameters {
		text, given := options[p.name], false
		if p.optional {
			_, given = options[p.name]
			delete(options, p.name)
		} else {
			if len(plain) == 0 {
				return nil, nil, fmt.Errorf("the argument %s is missing", p.name)
			}
			text, plain, given = plain[0], plain[1:], true
		}
		switch {
		case p.kind == newArena || p.kind == newValue:
			names = append(names, newName{text, p.kind})
			continue
		case !given:
			args = append(args, p.byDefault)
			continue
		}
		value, err := v.argument(p, text)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, value)
	}
	if len(plain) > 0 || len(options) > 0 {
		return nil, nil, fmt.Errorf("there are arguments too many: %v %v", plain, options)
	}
	return args, names, nil
}

func (v *variables) argument(p parameter, text string) (uint64, error) {
	if p.kind != word {
		return v.number(text)
	}
	value, known := p.words[text]
	if !known {
		return 0, fmt.Errorf("%q is no %s", text, p.name)
	}
	return value, nil
}

// units are what a number can be counted in, beside the granule.
var units = []struct {
	suffix string
	bytes  uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// number resolves a number with its unit, a name, or a sum of such. The name of an arena in a sum is its base.
func (v *variables) number(text string) (uint64, error) {
	var sum uint64
	terms := strings.Split(text, "+")
	for _, term := range terms {
		value, err := v.term(term, len(terms) > 1)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}

func (v *variables) term(text string, inSum bool) (uint64, error) {
	if base, known := v.bases[text]; known && inSum {
		return base, nil
	}
	if value, known := v.values[text]; known {
		return value, nil
	}
	unit := uint64(1)
	if digits, ok := strings.CutSuffix(text, "g"); ok {
		text, unit = digits, v.granule
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = digits, u.bytes
		}
	}
	if negative, ok := strings.CutPrefix(text, "-"); ok {
		n, err := strconv.ParseUint(negative, 0, 64)
		return -(n * unit), err
	}
	n, err := strconv.ParseUint(text, 0, 64)
	return n * unit, err
}

// show writes a value as an offset in an arena if it is in one's reach.
func (v *variables) show(value uint64) string {
	for name, base := range v.bases {
		if value >= base && value-base < 1<<40 {
			return fmt.Sprintf("%s+%#x", name, value-base)
		}
	}
	return strconv.FormatUint(value, 10)
}
