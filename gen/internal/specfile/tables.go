package specfile

import (
	"math"
	"regexp"
	"slices"
)

// maxStruct is how large a struct of a driver can be in bytes.
const maxStruct = 1 << 16

// nameForm is what names of lower-case words look like.
const nameForm = `^[a-z][a-z0-9]*(_[a-z0-9]+)*$`

var namePattern = regexp.MustCompile(nameForm)

// IsName tells whether a text is a name of lower-case words such as arena_create.
func IsName(text string) bool { return namePattern.MatchString(text) }

// The words and numbers that appear in several tables.
var (
	number32   = integer(math.MinInt32, math.MaxInt32)
	identifier = pattern(nameForm, `a name of lower-case words such as arena_create`)
	identity   = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`, `an identifier such as cuMemCreate`)
	release    = pattern(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`, `a release such as 0.1.0`)
	symbol     = pattern(`^[a-z][a-z0-9]*(_[a-z0-9]+)+$`, `a symbol with a prefix such as mx_malloc`)
	qualified  = pattern(`^([a-z][a-z0-9]*\.)?[A-Za-z_][A-Za-z0-9_]*$`, `a type such as CUresult or hostvmm.Result`)
	importPath = pattern(`^[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)+$`, `a Go import path`)
	path       = pattern(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`, `a name, or a path such as location.id`)
	boundRole  = pattern(`^[a-z][a-z0-9]*(_[a-z0-9]+)*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}$`, `a role such as size, out.va, const or state.device`)
	cType      = pattern(`^[A-Za-z_][A-Za-z0-9_]*( [A-Za-z_][A-Za-z0-9_]*)*( \*)?$`, `a type such as size_t, unsigned int, void * or CUdeviceptr`)
	soname     = pattern(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*\.so(\.[0-9]+)*$`, `the name of a library such as libcuda.so.1`)
	variable   = pattern(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`, `the name of an environment variable such as ARENAGEN_CUDA_LIBRARY`)
	include    = pattern(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*\.h$`, `a header such as cuda.h`)
	pkg        = pattern(`^[a-z0-9][a-z0-9.+-]+$`, `the name of a package`)
	stateName  = pattern(`^state\.[a-z][a-z0-9]*(_[a-z0-9]+)*$`, `a name such as state.device`)
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
	optional("since", versionNumber, `The version of the interface that brought it, in quotes, where that is later than the struct's first: "1.1". Such fields stand at the end.`, func(f *Field) *Scalar[VersionNumber] { return &f.Since }),
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
	optional("quirks", list(quirkShape), "Limits and faults that some versions of a driver have; a backend states those that its driver has.", func(c *Contract) *List[Quirk] { return &c.Quirks }),
	required("operations", list(operationShape), "What a driver does.", func(c *Contract) *List[Operation] { return &c.Operations }),
	optional("helpers", list(helperShape), "What drivers need beside the operations, and a simulator plays.", func(c *Contract) *List[Helper] { return &c.Helpers }),
)

var classShape = described("a class", "What such an answer means.")

var capabilityShape = described("a capability", "What holds when a backend has it.")

var quirkShape = object("a quirk",
	required("name", identifier, "Its name.", func(q *Quirk) *Text { return &q.Name }),
	required("type", choice("bool", "bytes"), "What its value is: true or false, or a size such as 64KiB.", func(q *Quirk) *Text { return &q.Type }),
	required("description", prose, "What holds when a driver has it.", func(q *Quirk) *Text { return &q.Description }),
)

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
	optional("opens", boolean, "true where it makes the driver: a backend's provider or its steps do it, and no function.", func(o *Operation) *Bool { return &o.Opens }),
	optional("inputs", list(valueShape), "What it is told.", func(o *Operation) *List[Value] { return &o.Inputs }),
	optional("outputs", list(valueShape), "What it answers.", func(o *Operation) *List[Value] { return &o.Outputs }),
)

var helperShape = object("a helper",
	required("name", identifier, "Its name.", func(h *Helper) *Text { return &h.Name }),
	required("description", prose, "What it does.", func(h *Helper) *Text { return &h.Description }),
	optional("inputs", list(identifier), "What it is told, in the order of a function's parameters.", func(h *Helper) *List[Text] { return &h.Inputs }),
	optional("outputs", list(identifier), "What it answers, in the order of a function's parameters.", func(h *Helper) *List[Text] { return &h.Outputs }),
)

var valueShape = object("an input or output",
	required("name", identifier, "Its name: the role of a backend's parameter.", func(v *Value) *Text { return &v.Name }),
	required("type", identifier, "bytes, address, handle, stream, int, flag, text, memory, fabric_handle, or an enum of this file.", func(v *Value) *Text { return &v.Type }),
	required("description", prose, "What it says.", func(v *Value) *Text { return &v.Description }),
)

var backendShape = object("the file",
	required("backend", pattern(`^[a-z][a-z0-9]*$`, "a Go package name such as cuda"), "The name of the backend: this file's name, and its Go package's.", func(b *Backend) *Text { return &b.Name }),
	required("title", prose, "Its name for people.", func(b *Backend) *Text { return &b.Title }),
	required("description", prose, "What it is, in one sentence.", func(b *Backend) *Text { return &b.Description }),
	required("implements", identifier, "The contract that it binds.", func(b *Backend) *Text { return &b.Implements }),
	optional("provider", providerShape, "The Go type that plays the driver, where no library does.", func(b *Backend) *Provider { return &b.Provider }),
	optional("library", libraryShape, "The vendor's library that is the driver, where no provider is.", func(b *Backend) *Library { return &b.Library }),
	optional("header", headerShape, "For a library: where the vendor declares it, for checks against it.", func(b *Backend) *Header { return &b.Header }),
	optional("version", driverVersionShape, "For a library: how the driver tells its version. Without it, nothing here can depend on one.", func(b *Backend) *DriverVersion { return &b.Version }),
	required("result", resultShape, "What every function of the driver answers.", func(b *Backend) *Result { return &b.Result }),
	optional("options", list(optionShape), `What a user can set when a device is opened: fields of Options in Go, "name=value,..." in C.`, func(b *Backend) *List[Option] { return &b.Options }),
	optional("types", entries(identity, cTypeShape), "For a library: the types of the header that the functions take.", func(b *Backend) *Entries[CType] { return &b.Types }),
	optional("enums", entries(identifier, entries(identifier, literal)), "The driver's numbers for the contract's enums, or their names. A value that is left out is not supported.", func(b *Backend) *Entries[Entries[Literal]] { return &b.Enums }),
	required("functions", list(bindingShape), "The driver's functions.", func(b *Backend) *List[Binding] { return &b.Functions }),
	optional("unsupported", list(identifier), "The operations that the driver cannot do. A function that does one is left out.", func(b *Backend) *List[Text] { return &b.Unsupported }),
	optional("open", list(stepShape), "For a library: the steps from the ordinal of a device to one that can be used. When one fails, those before it are undone.", func(b *Backend) *List[Step] { return &b.Open }),
	optional("scopes", entries(identifier, list(stepShape)), "For a library: what some functions need around their call, on the thread that calls. Afterwards the steps are undone in reverse.", func(b *Backend) *Entries[List[Step]] { return &b.Scopes }),
	optional("capabilities", entries(identifier, boolean), "true or false for every capability of the contract.", func(b *Backend) *Entries[Bool] { return &b.Capabilities }),
	optional("quirks", list(quirkValueShape), "For a library: the quirks of the contract that its versions have.", func(b *Backend) *List[QuirkValue] { return &b.Quirks }),
)

var providerShape = object("a provider",
	required("package", importPath, "The import path of its package, whose last element is the package's name.", func(p *Provider) *Text { return &p.Package }),
	required("type", identity, "The type, whose methods are the driver's functions.", func(p *Provider) *Text { return &p.Type }),
)

var libraryShape = object("a library",
	required("linux", list(soname), "Its names, tried in this order; no other backend has them.", func(l *Library) *List[Text] { return &l.Linux }),
	required("override", variable, "The environment variable that names another file, as an absolute path.", func(l *Library) *Text { return &l.Override }),
)

var headerShape = object("a header",
	required("include", include, "Its name, as a C file includes it.", func(h *Header) *Text { return &h.Include }),
	optional("version", identity, "The macro that says which version it is, as a number like the one that the driver tells.", func(h *Header) *Text { return &h.Version }),
	optional("define", identity, "A macro that must be defined before it.", func(h *Header) *Text { return &h.Define }),
	optional("debian", pkg, "The package of Debian that has it.", func(h *Header) *Text { return &h.Debian }),
	optional("pypi", pkg, "The package of PyPI that has it.", func(h *Header) *Text { return &h.PyPI }),
)

var driverVersionShape = object("a driver's version",
	required("function", identity, "The function that stores it as a number, its only parameter without a value; it can be called before all others.", func(v *DriverVersion) *Text { return &v.Function }),
	required("encoding", encodingShape, "What each part is multiplied with in the number, the largest first.", func(v *DriverVersion) *Encoding { return &v.Encoding }),
	required("oldest", driverVersion, `The oldest that can be used, in quotes: "10.2".`, func(v *DriverVersion) *Scalar[VersionNumber] { return &v.Oldest }),
)

var encodingShape = object("an encoding",
	required("major", integer(1, math.MaxInt32), "The factor of the major version.", func(e *Encoding) *Integer { return &e.Major }),
	required("minor", integer(1, math.MaxInt32), "The factor of the minor version.", func(e *Encoding) *Integer { return &e.Minor }),
	optional("patch", integer(1, math.MaxInt32), "The factor of the patch.", func(e *Encoding) *Integer { return &e.Patch }),
)

var versionsShape = object("a range of versions",
	optional("from", driverVersion, `The first of them, in quotes; the oldest if it is left out.`, func(v *Versions) *Scalar[VersionNumber] { return &v.From }),
	optional("before", driverVersion, `The first after them, in quotes; there is none if it is left out.`, func(v *Versions) *Scalar[VersionNumber] { return &v.Before }),
)

var resultShape = object("a result",
	required("type", qualified, "The type that the functions return.", func(r *Result) *Text { return &r.Type }),
	required("ok", number32, "The number that means success.", func(r *Result) *Integer { return &r.OK }),
	optional("name", identity, "For a library: the function that gives the name of a number.", func(r *Result) *Text { return &r.Name }),
	optional("text", identity, "For a library: the function that gives the text of a number, for people.", func(r *Result) *Text { return &r.Text }),
	optional("clear", identity, "For a library: the function, without parameters, that takes a failure back which the driver keeps for the thread.", func(r *Result) *Text { return &r.Clear }),
	required("codes", list(codeShape), "The numbers that mean something to us. Any other is of class unknown.", func(r *Result) *List[Code] { return &r.Codes }),
)

var codeShape = object("a result code",
	required("name", identity, "The driver's name of it.", func(c *Code) *Text { return &c.Name }),
	required("value", number32, "Its number.", func(c *Code) *Integer { return &c.Value }),
	optional("since", driverVersion, `For a library: the version of the driver that brought it, in quotes: "13.0".`, func(c *Code) *Scalar[VersionNumber] { return &c.Since }),
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

var cTypeShape = object("a type",
	required("kind", choice("int", "uint", "enum", "pointer", "struct"), "What it is: a number with or without a sign, an enum of 32 bits, a pointer to something that only the driver knows, or a struct.", func(t *CType) *Text { return &t.Kind }),
	optional("bits", integer(8, 64), "For int and uint: 8, 16, 32 or 64.", func(t *CType) *Integer { return &t.Bits }),
	optional("values", list(cValueShape), "For int, uint and enum: the named numbers of the header that this file uses.", func(t *CType) *List[CValue] { return &t.Values }),
	optional("size", integer(1, maxStruct), "For a struct: its size in bytes.", func(t *CType) *Integer { return &t.Size }),
	optional("fields", list(cFieldShape), "For a struct: its fields, in the order of memory.", func(t *CType) *List[CField] { return &t.Fields }),
	optional("layouts", list(layoutShape), "For a struct that differs by version, instead of size and fields: each layout, the oldest first.", func(t *CType) *List[Layout] { return &t.Layouts }),
	optional("partial", boolean, "For a struct: true where only the fields that this file uses are listed.", func(t *CType) *Bool { return &t.Partial }),
	optional("tag", tagShape, "For a struct that says which one it is: in which field, and by which number.", func(t *CType) *Tag { return &t.Tag }),
	optional("next", identity, "For a struct that can point to another: the field that does.", func(t *CType) *Text { return &t.Next }),
)

var cValueShape = object("a value",
	required("name", identity, "Its name in the header.", func(v *CValue) *Text { return &v.Name }),
	required("value", number32, "Its number.", func(v *CValue) *Integer { return &v.Value }),
	optional("since", driverVersion, `The version of the driver that brought it, in quotes: "12.3".`, func(v *CValue) *Scalar[VersionNumber] { return &v.Since }),
)

var layoutShape = object("a layout",
	required("versions", versionsShape, "The versions of the driver that have it.", func(l *Layout) *Versions { return &l.Versions }),
	required("size", integer(1, maxStruct), "The size of the struct in bytes.", func(l *Layout) *Integer { return &l.Size }),
	required("fields", list(cFieldShape), "Its fields, in the order of memory.", func(l *Layout) *List[CField] { return &l.Fields }),
)

var cFieldShape = object("a field",
	required("name", path, "Its name in the header, or its path where it is in a struct that has no name of its own.", func(f *CField) *Text { return &f.Name }),
	required("type", cType, "Its type: a built-in one, or one of this file.", func(f *CField) *Text { return &f.Type }),
	required("offset", integer(0, maxStruct), "Where it is, in bytes from the start.", func(f *CField) *Integer { return &f.Offset }),
	optional("count", integer(1, maxStruct), "Makes it an array of so many.", func(f *CField) *Integer { return &f.Count }),
	optional("union", path, "The field that it shares its bytes with: they are a union.", func(f *CField) *Text { return &f.Union }),
)

var tagShape = object("a tag",
	required("field", identity, "The field.", func(t *Tag) *Text { return &t.Field }),
	required("value", identity, "The named number of this struct.", func(t *Tag) *Text { return &t.Value }),
)

var bindingShape = object("a function",
	required("name", identity, "The driver's name of it.", func(b *Binding) *Text { return &b.Name }),
	optional("symbol", identity, "For a library: the name that it exports, where that is another one.", func(b *Binding) *Text { return &b.Symbol }),
	optional("does", identifier, "The operation of the contract that it does. A library also has functions that steps call instead.", func(b *Binding) *Text { return &b.Does }),
	optional("plays", identifier, "For a library's function that does no operation: the helper of the contract that it is, for the simulator.", func(b *Binding) *Text { return &b.Plays }),
	optional("since", driverVersion, `For a library: the version of the driver that brought it, in quotes: "10.2".`, func(b *Binding) *Scalar[VersionNumber] { return &b.Since }),
	optional("from", driverVersion, `For a library's operation: the version of the driver from which on the function does it, where it is older than that. Before, it is not supported.`, func(b *Binding) *Scalar[VersionNumber] { return &b.From }),
	optional("optional", boolean, "For a library: true where it may be missing. Then what it does is not supported.", func(b *Binding) *Bool { return &b.Optional }),
	optional("returns", choice("const char *"), "For a library: what it returns, where that is not a result.", func(b *Binding) *Text { return &b.Returns }),
	optional("within", identifier, "For a library: the scope that its call needs.", func(b *Binding) *Text { return &b.Within }),
	optional("params", list(boundParamShape), "Its parameters, in the driver's order.", func(b *Binding) *List[BoundParam] { return &b.Params }),
	optional("ignores", list(identifier), "The inputs of the operation that the driver does not need.", func(b *Binding) *List[Text] { return &b.Ignores }),
)

var boundParamShape = object("a parameter",
	required("name", identity, "The driver's name of it.", func(p *BoundParam) *Text { return &p.Name }),
	required("type", cType, "What the driver takes: for a provider int32, uint32, int64 or uint64; for a library a built-in type or one of this file. An output and a struct are passed as a pointer to it.", func(p *BoundParam) *Text { return &p.Type }),
	optional("declared", choice("void *", "const void *"), "For a library: the type that the header gives it, where it is a pointer to anything.", func(p *BoundParam) *Text { return &p.Declared }),
	required("role", boundRole, "What it carries: an input, out.OUTPUT, const, state.NAME, out.state.NAME, struct, count.PARAM, length.PARAM, items.PARAM, discard, in, out, code or out.text.", func(p *BoundParam) *Text { return &p.Role }),
	optional("out", identifier, "For an input that is passed by pointer: the output that is there after the call.", func(p *BoundParam) *Text { return &p.Out }),
	optional("count", integer(1, maxStruct), "For an output that is a text: how many bytes of it the function is given room for.", func(p *BoundParam) *Integer { return &p.Count }),
	optional("value", literal, "For const: a number, the name of one of the type's values, or null for a pointer.", func(p *BoundParam) *Literal { return &p.Value }),
	optional("fields", entries(path, boundFieldShape), "For struct: the fields that are filled, by their paths. The others are zero.", func(p *BoundParam) *Entries[BoundField] { return &p.Fields }),
	optional("chain", list(linkShape), "For struct: the structs that it points to, one after the other.", func(p *BoundParam) *List[Link] { return &p.Chain }),
)

var boundFieldShape = object("a filled field",
	required("role", boundRole, "What it carries, as for a parameter.", func(f *BoundField) *Text { return &f.Role }),
	optional("value", literal, "For const: a number, the name of one of the type's values, or null for a pointer.", func(f *BoundField) *Literal { return &f.Value }),
)

var linkShape = object("a link of a chain",
	required("type", identity, "The struct.", func(l *Link) *Text { return &l.Type }),
	optional("when", whenShape, "When it is there; always if this is left out.", func(l *Link) *When { return &l.When }),
	optional("fields", entries(path, boundFieldShape), "The fields that are filled, by their paths. The others are zero.", func(l *Link) *Entries[BoundField] { return &l.Fields }),
)

var whenShape = object("a condition",
	required("input", identifier, "An input of the operation that is an enum.", func(w *When) *Text { return &w.Input }),
	required("is", identifier, "The value that it must have.", func(w *When) *Text { return &w.Is }),
)

// The keys of a call, of a step that calls a function, and of an attempt, which has such steps.
var (
	args   = entries(path, literal)
	expect = entries(path, literal)

	undoShape = object("an undoing call",
		required("call", identity, "The function.", func(c *Call) *Text { return &c.Function }),
		optional("args", args, "What its parameters with the role in get.", func(c *Call) *Entries[Literal] { return &c.Args }),
	)

	whereShape = object("a condition",
		required("call", identity, "The function that is asked about each item.", func(c *Call) *Text { return &c.Function }),
		optional("args", args, "What its parameters with the role in get: item is the one that is asked about.", func(c *Call) *Entries[Literal] { return &c.Args }),
		required("expect", expect, "The number that each parameter with the role out must give.", func(c *Call) *Entries[Literal] { return &c.Expect }),
	)

	otherwiseShape = object("a failure",
		required("class", identifier, "What it means: a class of the contract.", func(o *Otherwise) *Text { return &o.Class }),
		required("message", prose, "What is wrong, for people.", func(o *Otherwise) *Text { return &o.Message }),
	)

	callRows = []row[Step]{
		optional("call", identity, "Calls a function that does no operation.", func(s *Step) *Text { return &s.Call }),
		optional("enumerate", identity, "Calls a function that has a parameter with the role items: for their number, then for them.", func(s *Step) *Text { return &s.Enumerate }),
		optional("args", args, "What parameters with the role in get: a number, a named value, null, state.NAME or local.NAME; and where those with the role out go: state.NAME when a device is opened, local.NAME in a scope.", func(s *Step) *Entries[Literal] { return &s.Args }),
		optional("expect", expect, "For call: the number that a parameter with the role out must give.", func(s *Step) *Entries[Literal] { return &s.Expect }),
		optional("otherwise", otherwiseShape, "For expect: how it fails if it does not.", func(s *Step) *Otherwise { return &s.Otherwise }),
		optional("accept", list(identity), "For call: the result codes that are no failure.", func(s *Step) *List[Text] { return &s.Accept }),
		optional("undo", undoShape, "For call: the call that takes it back, when a later step fails and at the end.", func(s *Step) *Call { return &s.Undo }),
		optional("where", whereShape, "For enumerate: which items count; all if it is left out.", func(s *Step) *Call { return &s.Where }),
		optional("take", choice("first", "ordinal"), "For enumerate: which of them is taken.", func(s *Step) *Text { return &s.Take }),
		optional("into", stateName, "For enumerate: where it goes.", func(s *Step) *Text { return &s.Into }),
		optional("versions", versionsShape, "The versions of the driver that need the step; all if it is left out.", func(s *Step) *Versions { return &s.Versions }),
	}

	attemptRows = []row[Step]{
		optional("try", list(callShape), "Tries these steps.", func(s *Step) *List[Step] { return &s.Try }),
		optional("on", list(identifier), "For try: the classes of failure that another way is taken on.", func(s *Step) *List[Text] { return &s.On }),
		optional("instead", list(callShape), "For try: the steps that are the other way.", func(s *Step) *List[Step] { return &s.Instead }),
	}

	callShape = object("a step", callRows...)
	stepShape = object("a step", slices.Concat(callRows, attemptRows)...)
)

var quirkValueShape = object("a quirk",
	required("name", identifier, "A quirk of the contract.", func(q *QuirkValue) *Text { return &q.Name }),
	required("value", setting, "What it is.", func(q *QuirkValue) *Text { return &q.Value }),
	optional("versions", versionsShape, "The versions of the driver that have it; all if it is left out.", func(q *QuirkValue) *Versions { return &q.Versions }),
)

// described is a mapping of a name and its meaning.
func described(what, meaning string) shape[Described] {
	return object(what,
		required("name", identifier, "Its name.", func(d *Described) *Text { return &d.Name }),
		required("description", prose, meaning, func(d *Described) *Text { return &d.Description }),
	)
}
