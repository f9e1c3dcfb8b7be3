package specfile

import "math"

// The words and numbers that appear in several tables.
var (
	number32   = integer(math.MinInt32, math.MaxInt32)
	identifier = pattern(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`, `a name of lower-case words such as arena_create`)
	identity   = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`, `an identifier such as cuMemCreate`)
	release    = pattern(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`, `a release such as 0.1.0`)
	symbol     = pattern(`^[a-z][a-z0-9]*(_[a-z0-9]+)+$`, `a symbol with a prefix such as mx_malloc`)
	qualified  = pattern(`^([a-z][a-z0-9]*\.)?[A-Za-z_][A-Za-z0-9_]*$`, `a type such as CUresult or hostvmm.Result`)
	importPath = pattern(`^[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)+$`, `a Go import path`)
	boundRole  = pattern(`^(out\.)?[a-z][a-z0-9]*(_[a-z0-9]+)*$`, `a role: the name of an input, out.NAME of an output, or const`)
)

var abiShape = object("the file",
	required("abi", identifier, "The name of the interface, which every C name starts with.", func(a *ABI) *Text { return &a.Name }),
	required("description", prose, "What the libraries are, in a sentence or two.", func(a *ABI) *Text { return &a.Description }),
	required("version", versionShape, "The version of the interface. A caller needs the same major and at least its own minor.", func(a *ABI) *Version { return &a.Version }),
	required("release", release, "The version of the libraries themselves, for people.", func(a *ABI) *Text { return &a.Release }),
	optional("handles", list(handleShape), "Opaque 64-bit numbers that name objects.", func(a *ABI) *List[Handle] { return &a.Handles }),
	required("enums", list(enumShape), "Sets of named numbers. One is called status and has ok: 0.", func(a *ABI) *List[Enum] { return &a.Enums }),
	optional("structs", list(structShape), "What crosses the border by pointer.", func(a *ABI) *List[Struct] { return &a.Structs }),
	optional("callbacks", list(callbackShape), "Types of C functions that a caller hands in.", func(a *ABI) *List[Callback] { return &a.Callbacks }),
	required("functions", list(functionShape), "What every library exports, in the order of the header.", func(a *ABI) *List[Function] { return &a.Functions }),
)

var versionShape = object("a version",
	required("major", integer(0, maxVersion), "Rises when a caller must be built anew.", func(v *Version) *Integer { return &v.Major }),
	required("minor", integer(0, maxVersion), "Rises when something is added.", func(v *Version) *Integer { return &v.Minor }),
)

var handleShape = object("a handle",
	required("name", identifier, "Its name, without the interface's prefix.", func(h *Handle) *Text { return &h.Name }),
	required("description", prose, "What it names, and for how long.", func(h *Handle) *Text { return &h.Description }),
)

var enumShape = object("an enum",
	required("name", identifier, "Its name, without the interface's prefix.", func(e *Enum) *Text { return &e.Name }),
	required("description", prose, "What the numbers say.", func(e *Enum) *Text { return &e.Description }),
	required("values", list(enumValueShape), "The numbers.", func(e *Enum) *List[EnumValue] { return &e.Values }),
)

var enumValueShape = object("an enum's value",
	required("name", identifier, "Its name, without any prefix.", func(v *EnumValue) *Text { return &v.Name }),
	required("value", number32, "Its number, which never changes.", func(v *EnumValue) *Integer { return &v.Value }),
	required("description", prose, "What it means, in one sentence.", func(v *EnumValue) *Text { return &v.Description }),
)

var structShape = object("a struct",
	required("name", identifier, "Its name, without the interface's prefix.", func(s *Struct) *Text { return &s.Name }),
	required("description", prose, "What it holds.", func(s *Struct) *Text { return &s.Description }),
	required("fields", list(fieldShape), "Its fields, in the order of memory. A struct that may grow starts with struct_size, a uint32.", func(s *Struct) *List[Field] { return &s.Fields }),
)

var fieldShape = object("a field",
	required("name", identifier, "Its name.", func(f *Field) *Text { return &f.Name }),
	required("type", identifier, "A built-in type, or a handle, enum or callback of this file.", func(f *Field) *Text { return &f.Type }),
	optional("count", integer(1, 1<<16), "Makes it an array of so many.", func(f *Field) *Integer { return &f.Count }),
	optional("default", literal, "What the initialiser macro puts there: a number, a size such as 4TiB, the name of an enum's value, null for a pointer, sizeof for struct_size. All fields of a struct have one, or none has.", func(f *Field) *Literal { return &f.Default }),
	required("description", prose, "What it says, with its unit.", func(f *Field) *Text { return &f.Description }),
)

var callbackShape = object("a callback",
	required("name", identifier, "Its name, without the interface's prefix.", func(c *Callback) *Text { return &c.Name }),
	required("description", prose, "What the function does, on which thread.", func(c *Callback) *Text { return &c.Description }),
	optional("params", list(paramShape), "Its parameters.", func(c *Callback) *List[Param] { return &c.Params }),
	required("returns", identifier, "The type of its result.", func(c *Callback) *Text { return &c.Returns }),
)

var functionShape = object("a function",
	required("name", identifier, "Its name, without the interface's prefix.", func(f *Function) *Text { return &f.Name }),
	optional("symbol", symbol, "The exported name, where it is not the prefix and the name.", func(f *Function) *Text { return &f.Symbol }),
	required("since", versionNumber, `The version of the interface that brought it, in quotes: "1.0".`, func(f *Function) *Scalar[VersionNumber] { return &f.Since }),
	required("answer", choice("c", "go"), "Who answers: c is the guard itself, also in a forked child; go goes through to Go.", func(f *Function) *Text { return &f.Answer }),
	required("description", prose, "What it does.", func(f *Function) *Text { return &f.Description }),
	optional("params", list(paramShape), "Its parameters.", func(f *Function) *List[Param] { return &f.Params }),
	required("returns", identifier, "The type of its result. status sets the last error on failure.", func(f *Function) *Text { return &f.Returns }),
)

var paramShape = object("a parameter",
	required("name", identifier, "Its name.", func(p *Param) *Text { return &p.Name }),
	required("type", identifier, "A built-in type, or a handle, enum, struct or callback of this file.", func(p *Param) *Text { return &p.Type }),
	optional("role", choice("in", "out", "inout", "buffer"), "How a pointer is used: in is read, out is written, inout is a struct whose struct_size is read and the rest written, buffer is an array that is written. Without a role it goes by value.", func(p *Param) *Text { return &p.Role }),
	optional("count", identifier, "For a buffer: the parameter that says how many fit.", func(p *Param) *Text { return &p.Count }),
	required("description", prose, "What it says, with its unit.", func(p *Param) *Text { return &p.Description }),
)

var contractShape = object("the file",
	required("contract", identifier, "The name of the contract.", func(c *Contract) *Text { return &c.Name }),
	required("description", prose, "What it is for.", func(c *Contract) *Text { return &c.Description }),
	required("classes", list(classShape), "What a driver's answer means to users. One is called unknown.", func(c *Contract) *List[Described] { return &c.Classes }),
	optional("enums", list(contractEnumShape), "Choices that operations take.", func(c *Contract) *List[Enum] { return &c.Enums }),
	optional("capabilities", list(capabilityShape), "What an arena may rely on; every backend states each.", func(c *Contract) *List[Described] { return &c.Capabilities }),
	required("operations", list(operationShape), "What a driver does.", func(c *Contract) *List[Operation] { return &c.Operations }),
)

var classShape = described("a class", "What such an answer means.")

var capabilityShape = described("a capability", "What holds when a backend has it.")

var contractEnumShape = object("an enum",
	required("name", identifier, "Its name.", func(e *Enum) *Text { return &e.Name }),
	required("description", prose, "What is chosen.", func(e *Enum) *Text { return &e.Description }),
	required("values", list(contractEnumValueShape), "The choices. A backend gives each its driver's number.", func(e *Enum) *List[EnumValue] { return &e.Values }),
)

var contractEnumValueShape = object("an enum's value",
	required("name", identifier, "Its name.", func(v *EnumValue) *Text { return &v.Name }),
	required("description", prose, "What it means, in one sentence.", func(v *EnumValue) *Text { return &v.Description }),
)

var operationShape = object("an operation",
	required("name", identifier, "Its name.", func(o *Operation) *Text { return &o.Name }),
	required("description", prose, "What the driver does.", func(o *Operation) *Text { return &o.Description }),
	optional("opens", boolean, "true where it makes the driver: a backend's provider does it, and no function.", func(o *Operation) *Bool { return &o.Opens }),
	optional("inputs", list(valueShape), "What it is told.", func(o *Operation) *List[Value] { return &o.Inputs }),
	optional("outputs", list(valueShape), "What it answers.", func(o *Operation) *List[Value] { return &o.Outputs }),
)

var valueShape = object("an input or output",
	required("name", identifier, "Its name: the role of a backend's parameter.", func(v *Value) *Text { return &v.Name }),
	required("type", identifier, "bytes, address, handle, int, or an enum of this file.", func(v *Value) *Text { return &v.Type }),
	required("description", prose, "What it says.", func(v *Value) *Text { return &v.Description }),
)

var backendShape = object("the file",
	required("backend", pattern(`^[a-z][a-z0-9]*$`, "a Go package name such as cuda"), "The name of the backend: this file's name, and its Go package's.", func(b *Backend) *Text { return &b.Name }),
	required("title", prose, "Its name for people.", func(b *Backend) *Text { return &b.Title }),
	required("description", prose, "What it is, in one sentence.", func(b *Backend) *Text { return &b.Description }),
	required("implements", identifier, "The contract that it binds.", func(b *Backend) *Text { return &b.Implements }),
	required("provider", providerShape, "The Go type that plays the driver.", func(b *Backend) *Provider { return &b.Provider }),
	required("result", resultShape, "What every function of the driver answers.", func(b *Backend) *Result { return &b.Result }),
	optional("options", list(optionShape), `What a user can set when a device is opened: fields of Options in Go, "name=value,..." in C.`, func(b *Backend) *List[Option] { return &b.Options }),
	optional("enums", entries(entries(number32)), "The driver's numbers for the contract's enums. A value that is left out is not supported.", func(b *Backend) *Entries[Entries[Integer]] { return &b.Enums }),
	required("functions", list(bindingShape), "The driver's functions.", func(b *Backend) *List[Binding] { return &b.Functions }),
	optional("unsupported", list(identifier), "The operations that no function does.", func(b *Backend) *List[Text] { return &b.Unsupported }),
	optional("capabilities", entries(boolean), "true or false for every capability of the contract.", func(b *Backend) *Entries[Bool] { return &b.Capabilities }),
)

var providerShape = object("a provider",
	required("package", importPath, "The import path of its package, whose last element is the package's name.", func(p *Provider) *Text { return &p.Package }),
	required("type", identity, "The type, whose methods are the driver's functions.", func(p *Provider) *Text { return &p.Type }),
)

var resultShape = object("a result",
	required("type", qualified, "The type that the functions return.", func(r *Result) *Text { return &r.Type }),
	required("ok", number32, "The number that means success.", func(r *Result) *Integer { return &r.OK }),
	required("codes", list(codeShape), "The numbers that mean something to us. Any other is of class unknown.", func(r *Result) *List[Code] { return &r.Codes }),
)

var codeShape = object("a result code",
	required("name", identity, "The driver's name of it.", func(c *Code) *Text { return &c.Name }),
	required("value", number32, "Its number.", func(c *Code) *Integer { return &c.Value }),
	required("class", identifier, "What it means: a class of the contract.", func(c *Code) *Text { return &c.Class }),
)

var optionShape = object("an option",
	required("name", identifier, "Its name.", func(o *Option) *Text { return &o.Name }),
	required("type", choice("enum", "uint", "bytes"), "What its value is: one of the words under values, a number, or a size such as 64KiB.", func(o *Option) *Text { return &o.Type }),
	optional("values", list(optionValueShape), "For an enum: the words.", func(o *Option) *List[Described] { return &o.Values }),
	required("default", literal, "The value when the user sets none.", func(o *Option) *Literal { return &o.Default }),
	optional("min", size, "The smallest value; 0 if it is left out.", func(o *Option) *Size { return &o.Min }),
	optional("max", size, "The largest value; no bound if it is left out.", func(o *Option) *Size { return &o.Max }),
	required("description", prose, "What it changes.", func(o *Option) *Text { return &o.Description }),
)

var optionValueShape = described("an option's value", "What it chooses.")

var bindingShape = object("a function",
	required("name", identity, "The driver's name of it.", func(b *Binding) *Text { return &b.Name }),
	required("does", identifier, "The operation of the contract that it does.", func(b *Binding) *Text { return &b.Does }),
	optional("params", list(boundParamShape), "Its parameters, in the driver's order.", func(b *Binding) *List[BoundParam] { return &b.Params }),
	optional("ignores", list(identifier), "The inputs of the operation that the driver does not need.", func(b *Binding) *List[Text] { return &b.Ignores }),
)

var boundParamShape = object("a parameter",
	required("name", identity, "The driver's name of it.", func(p *BoundParam) *Text { return &p.Name }),
	required("type", identity, "What the driver takes: int32, uint32, int64 or uint64. An output is passed as a pointer to it.", func(p *BoundParam) *Text { return &p.Type }),
	required("role", boundRole, "Where its value comes from: the name of an input, out.NAME for an output, or const.", func(p *BoundParam) *Text { return &p.Role }),
	optional("value", anyInteger, "For const: the number.", func(p *BoundParam) *Integer { return &p.Value }),
)

// described is a mapping of a name and its meaning.
func described(what, meaning string) shape[Described] {
	return object(what,
		required("name", identifier, "Its name.", func(d *Described) *Text { return &d.Name }),
		required("description", prose, meaning, func(d *Described) *Text { return &d.Description }),
	)
}
