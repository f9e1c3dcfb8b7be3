package dl

import (
	"fmt"
	"path/filepath"
	"strings"
)

// A Library is a loaded library.
type Library struct {
	handle uintptr
	path   string
}

// A Function is a function of a library. The zero Function is none.
type Function uintptr

// A Candidate is a name that was tried, and why it did not load.
type Candidate struct {
	Name, Reason string
}

// A NotFoundError says that no library could be loaded, and lists what was tried.
type NotFoundError struct {
	Override string // the environment variable that names another file, "" if there is none
	Tried    []Candidate
}

func (e *NotFoundError) Error() string {
	var tried []string
	for _, c := range e.Tried {
		tried = append(tried, c.Name+" ("+c.Reason+")")
	}
	text := "no library could be loaded, tried " + strings.Join(tried, ", ")
	if e.Override != "" {
		text += "; " + e.Override + " can name another file"
	}
	return text
}

// Open loads the first of some libraries that loads. When the environment variable override is set, it names the
// only one, as an absolute path; a process that runs with more rights than its user has does not look at it.
// With cgo the variable is read as C programs read it, so what a program has set since it started counts.
// An error is a *NotFoundError.
func Open(names []string, override string) (*Library, error) {
	refusal := &NotFoundError{Override: override}
	if override != "" {
		if file := environment(override); file != "" {
			if !filepath.IsAbs(file) {
				refusal.Tried = []Candidate{{file, "named by " + override + ", expected an absolute path"}}
				return nil, refusal
			}
			names = []string{file}
		}
	}
	for _, name := range names {
		handle, err := load(name)
		if err == nil {
			return &Library{handle: handle, path: pathOf(handle, name)}, nil
		}
		refusal.Tried = append(refusal.Tried, Candidate{name, reason(name, err)})
	}
	return nil, refusal
}

// reason is why a library did not load, without its name at the start, which the loader repeats.
func reason(name string, err error) string {
	return strings.TrimPrefix(err.Error(), name+": ")
}

// Path is the file that was loaded.
func (l *Library) Path() string { return l.path }

// Find finds a function by the name that the library exports.
func (l *Library) Find(symbol string) (f Function, ok bool) {
	address := find(l.handle, symbol)
	return Function(address), address != 0
}

// A MissingError says that a library lacks functions that are needed.
type MissingError struct {
	Library string
	Symbols []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s has no function %s, expected a newer driver", e.Library, strings.Join(e.Symbols, ", "))
}

// A Symbol is a function that is wanted, and where it goes.
type Symbol struct {
	Name     string
	To       *Function
	Optional bool // it may be missing
}

// Resolve finds all functions of a table. An error is a *MissingError that lists those that are missing.
func (l *Library) Resolve(table []Symbol) error {
	missing := &MissingError{Library: l.path}
	for _, s := range table {
		f, ok := l.Find(s.Name)
		if !ok && !s.Optional {
			missing.Symbols = append(missing.Symbols, s.Name)
		}
		*s.To = f
	}
	if len(missing.Symbols) > 0 {
		return missing
	}
	return nil
}
