package specfile

import (
	"fmt"
	"strconv"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// A Place is where a declaration starts, zero when the file does not have it.
type Place struct {
	Pos diag.Pos
}

// Given tells whether the file has the declaration, be it right or wrong.
func (p Place) Given() bool { return p.Pos != diag.Pos{} }

func (p *Place) place(pos diag.Pos) { p.Pos = pos }

// A Scalar is one value and where it stands.
type Scalar[V any] struct {
	Place
	Value V
	Valid bool // it is there and has the right form; if not, Value is zero
}

// Text is a word or a text for people.
type Text = Scalar[string]

// Integer is a whole number.
type Integer = Scalar[int64]

// Size is a number of bytes, or of other things.
type Size = Scalar[uint64]

// Bool is true or false.
type Bool = Scalar[bool]

// A Literal is a number, a word or null, whose meaning depends on what it is for.
type Literal struct {
	Text
	Null bool // then Value is empty
}

// String is the literal for a message.
func (l Literal) String() string {
	if l.Null {
		return "null"
	}
	return strconv.Quote(l.Value)
}

// A List is a sequence of declarations.
type List[V any] struct {
	Place
	Items []V
}

// Entries are the pairs of a mapping whose keys are free, in the order of the file.
type Entries[V any] struct {
	Place
	Items []Entry[V]
}

// An Entry is one pair of Entries.
type Entry[V any] struct {
	Key   Text
	Value V
}

// ABI is spec/abi.yaml.
type ABI struct {
	Place
	Name        Text
	Description Text
	Version     Version
	Release     Text
	Handles     List[Handle]
	Enums       List[Enum]
	Structs     List[Struct]
	Callbacks   List[Callback]
	Functions   List[Function]
}

// A Version is that of the C surface.
type Version struct {
	Place
	Major Integer
	Minor Integer
}

// A VersionNumber is a version of the C surface in one word, such as 1.0.
type VersionNumber struct {
	Major, Minor int64
}

func (v VersionNumber) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// After tells whether v is later than other.
func (v VersionNumber) After(other VersionNumber) bool {
	return v.Major > other.Major || v.Major == other.Major && v.Minor > other.Minor
}

// A Handle is an opaque number that names an object.
type Handle struct {
	Place
	Name        Text
	Description Text
}

// An Enum is a set of named numbers. In the contract they have no numbers.
type Enum struct {
	Place
	Name        Text
	Description Text
	Values      List[EnumValue]
}

// An EnumValue is one of an Enum.
type EnumValue struct {
	Place
	Name        Text
	Value       Integer
	Description Text
}

// A Struct crosses the C border by pointer.
type Struct struct {
	Place
	Name        Text
	Description Text
	Fields      List[Field]
}

// A Field is one of a Struct.
type Field struct {
	Place
	Name        Text
	Type        Text
	Count       Integer
	Default     Literal
	Description Text
}

// A Callback is a C function of the caller's.
type Callback struct {
	Place
	Name        Text
	Description Text
	Params      List[Param]
	Returns     Text
}

// A Function is a C function that the libraries export.
type Function struct {
	Place
	Name        Text
	Symbol      Text
	Since       Scalar[VersionNumber]
	Answer      Text
	Description Text
	Params      List[Param]
	Returns     Text
}

// A Param is one parameter of a Function or Callback.
type Param struct {
	Place
	Name        Text
	Type        Text
	Role        Text
	Count       Text
	Description Text
}

// Contract is spec/vmm.yaml.
type Contract struct {
	Place
	Name         Text
	Description  Text
	Classes      List[Described]
	Enums        List[Enum]
	Capabilities List[Described]
	Operations   List[Operation]
}

// A Described is a name with its meaning.
type Described struct {
	Place
	Name        Text
	Description Text
}

// An Operation is one thing that a driver does.
type Operation struct {
	Place
	Name        Text
	Description Text
	Opens       Bool
	Inputs      List[Value]
	Outputs     List[Value]
}

// A Value is an input or output of an Operation.
type Value struct {
	Place
	Name        Text
	Type        Text
	Description Text
}

// Backend is one of spec/backends/*.yaml.
type Backend struct {
	Place
	Name         Text
	Title        Text
	Description  Text
	Implements   Text
	Provider     Provider
	Result       Result
	Options      List[Option]
	Enums        Entries[Entries[Integer]]
	Functions    List[Binding]
	Unsupported  List[Text]
	Capabilities Entries[Bool]
}

// A Provider is a Go type that plays the driver.
type Provider struct {
	Place
	Package Text
	Type    Text
}

// A Result is how a driver's functions answer.
type Result struct {
	Place
	Type  Text
	OK    Integer
	Codes List[Code]
}

// A Code is one number that a driver answers.
type Code struct {
	Place
	Name  Text
	Value Integer
	Class Text
}

// An Option is what a user sets when a device is opened.
type Option struct {
	Place
	Name        Text
	Type        Text
	Values      List[Described]
	Default     Literal
	Min         Size
	Max         Size
	Description Text
}

// A Binding is a function of the driver and the operation that it does.
type Binding struct {
	Place
	Name    Text
	Does    Text
	Params  List[BoundParam]
	Ignores List[Text]
}

// A BoundParam is one parameter of a Binding and where its value comes from.
type BoundParam struct {
	Place
	Name  Text
	Type  Text
	Role  Text
	Value Integer
}
