package specfile

import (
	"cmp"
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

// A VersionNumber is a version in one word, such as 1.0. Only drivers have patches.
type VersionNumber struct {
	Major, Minor, Patch int64
}

func (v VersionNumber) String() string {
	if v.Patch == 0 {
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// MarshalText writes a version as String does.
func (v VersionNumber) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Compare is negative when v is earlier than other, 0 when they are the same, and positive when
// v is later: 10.2 is later than 9.10.
func (v VersionNumber) Compare(other VersionNumber) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor), cmp.Compare(v.Patch, other.Patch))
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
	Since       Scalar[VersionNumber]
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
	Quirks       List[Quirk]
	Operations   List[Operation]
	Helpers      List[Helper]
}

// A Helper is something that drivers need beside the operations.
type Helper struct {
	Place
	Name        Text
	Description Text
	Inputs      List[Text]
	Outputs     List[Text]
}

// A Quirk is a limit or a fault that some versions of a driver have.
type Quirk struct {
	Place
	Name        Text
	Type        Text
	Description Text
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
	Library      Library
	Header       Header
	Version      DriverVersion
	Result       Result
	Options      List[Option]
	Types        Entries[CType]
	Enums        Entries[Entries[Literal]]
	Functions    List[Binding]
	Unsupported  List[Text]
	Open         List[Step]
	Scopes       Entries[List[Step]]
	Capabilities Entries[Bool]
	Quirks       List[QuirkValue]
}

// A Provider is a Go type that plays the driver.
type Provider struct {
	Place
	Package Text
	Type    Text
}

// A Library is the vendor's library that is the driver.
type Library struct {
	Place
	Linux    List[Text]
	Override Text
}

// A Header is where the vendor declares the driver.
type Header struct {
	Place
	Include Text
	Version Text
	Define  Text
	Debian  Text
	PyPI    Text
}

// A DriverVersion is how a driver tells its version.
type DriverVersion struct {
	Place
	Function Text
	Encoding Encoding
	Oldest   Scalar[VersionNumber]
}

// An Encoding is what each part of a version is multiplied with in a number.
type Encoding struct {
	Place
	Major Integer
	Minor Integer
	Patch Integer
}

// Versions are those from one version on, and before another one.
type Versions struct {
	Place
	From   Scalar[VersionNumber]
	Before Scalar[VersionNumber]
}

// A Result is how a driver's functions answer.
type Result struct {
	Place
	Type  Text
	OK    Integer
	Name  Text
	Text  Text
	Clear Text
	Codes List[Code]
}

// A Code is one number that a driver answers.
type Code struct {
	Place
	Name  Text
	Value Integer
	Since Scalar[VersionNumber]
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

// A CType is a type of the vendor's header.
type CType struct {
	Place
	Kind    Text
	Bits    Integer
	Values  List[CValue]
	Size    Integer
	Fields  List[CField]
	Layouts List[Layout]
	Partial Bool
	Tag     Tag
	Next    Text
}

// A CValue is a named number of the vendor's header.
type CValue struct {
	Place
	Name  Text
	Value Integer
	Since Scalar[VersionNumber]
}

// A Layout is how some versions of a driver have a struct.
type Layout struct {
	Place
	Versions Versions
	Size     Integer
	Fields   List[CField]
}

// A CField is a field of a struct of the vendor's header.
type CField struct {
	Place
	Name   Text
	Type   Text
	Offset Integer
	Count  Integer
	Union  Text
}

// A Tag is the field of a struct that says which struct it is.
type Tag struct {
	Place
	Field Text
	Value Text
}

// A Binding is a function of the driver and the operation that it does.
type Binding struct {
	Place
	Name     Text
	Symbol   Text
	Does     Text
	Plays    Text
	Since    Scalar[VersionNumber]
	From     Scalar[VersionNumber]
	Optional Bool
	Returns  Text
	Within   Text
	Params   List[BoundParam]
	Ignores  List[Text]
}

// A BoundParam is one parameter of a Binding and where its value comes from.
type BoundParam struct {
	Place
	Name     Text
	Type     Text
	Declared Text
	Role     Text
	Out      Text
	Count    Integer
	Value    Literal
	Fields   Entries[BoundField]
	Chain    List[Link]
}

// A BoundField is a field of a struct and where its value comes from.
type BoundField struct {
	Place
	Role  Text
	Value Literal
}

// A Link is a struct that another one points to.
type Link struct {
	Place
	Type   Text
	When   When
	Fields Entries[BoundField]
}

// A When is a condition on an input that is an enum.
type When struct {
	Place
	Input Text
	Is    Text
}

// A Call is a call of one of the driver's functions.
type Call struct {
	Place
	Function Text
	Args     Entries[Literal]
	Expect   Entries[Literal]
}

// A Step is a part of opening a device, or of entering a scope. It is one of a call, an
// enumeration and an attempt.
type Step struct {
	Place
	Call      Text
	Enumerate Text
	Args      Entries[Literal]
	Expect    Entries[Literal]
	Otherwise Otherwise
	Accept    List[Text]
	Undo      Call
	Where     Call
	Take      Text
	Into      Text
	Try       List[Step]
	On        List[Text]
	Instead   List[Step]
	Versions  Versions
}

// An Otherwise is how it fails when a call gives something that was not expected.
type Otherwise struct {
	Place
	Class   Text
	Message Text
}

// A QuirkValue is a quirk of a driver and which versions have it.
type QuirkValue struct {
	Place
	Name     Text
	Value    Text
	Versions Versions
}
