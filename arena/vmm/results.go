package vmm

import "fmt"

// Results are a driver's codes by number.
type Results map[int64]Result

// A Result is what one of a driver's codes is called and means.
type Result struct {
	Name  string
	Class Class
}

// Failure is the error for a driver's function that answered a code. What it was about comes
// from the caller; a code that is not in the table is of ClassUnknown and keeps the caller's name for it.
func (r Results) Failure(backend, function string, code int64, about Error) error {
	result, ok := r[code]
	if !ok {
		result = Result{Name: about.Name, Class: ClassUnknown}
	}
	about.Backend, about.Function = backend, function
	about.Code, about.Name, about.Class = code, result.Name, result.Class
	return &about
}

// Unsupported is the error for something that a backend has no way to ask its driver for.
func Unsupported(backend string, about Error, detail string) error {
	return refusal(backend, about, ClassNotSupported, detail)
}

// NoNumber is Unsupported for a value of an enum of the contract that a driver's function
// has no number for.
func NoNumber(backend, function string, value any, about Error) error {
	return Unsupported(backend, about, fmt.Sprintf("%s has no number for %T(%d)", function, value, value))
}

// Invalid is the error for an argument that a backend refuses before it asks its driver.
func Invalid(backend string, about Error, cause error) error {
	about.Backend, about.Class, about.Cause = backend, ClassInvalidArgument, cause
	return &about
}

// Refused is the error for a driver that cannot be used at all.
func Refused(backend string, class Class, cause error) error {
	return &Error{Backend: backend, Op: OpOpen, Class: class, Cause: cause}
}

// NoValue is the error for a number of a driver's that no value of an enum of the contract has.
func NoValue(backend, function string, number int64, about Error) error {
	return refusal(backend, about, ClassUnknown, fmt.Sprintf("%s gave the number %d, which means nothing here", function, number))
}

// refusal is the error for a driver that was not asked.
func refusal(backend string, about Error, class Class, detail string) error {
	about.Backend, about.Class, about.Detail = backend, class, detail
	return &about
}
