package specfile_test

import (
	"regexp"
	"strings"
	"sync"
)

// A freedom is data that nothing else in the specs constrains, so that it can be changed: only what
// is outside can tell that it is wrong, such as the vendor's header, which is checked elsewhere.
type freedom struct {
	why   string
	kinds expression // of mutants
	path  expression // of nodes, after the kind of file
	model expression // where the model differs: beneath one match of it
}

// An expression matches whole texts.
type expression string

// compiled are the expressions that are used already.
var compiled sync.Map

func (e expression) find(text string) []string {
	c, ok := compiled.Load(e)
	if !ok {
		c, _ = compiled.LoadOrStore(e, regexp.MustCompile("^(?:"+string(e)+")$"))
	}
	return c.(*regexp.Regexp).FindStringSubmatch(text)
}

// covers tells whether a mutant changes such data.
func (f freedom) covers(file string, m mutant) bool {
	kind := strings.TrimSuffix(strings.TrimPrefix(file, "spec/"), ".yaml")
	if strings.HasPrefix(kind, "backends/") {
		kind = "backend"
	}
	return f.kinds.find(m.kind) != nil && f.path.find(kind+m.path) != nil
}

// confines tells whether differences are beneath one match of the model's path.
func (f freedom) confines(paths []string) bool {
	place := "(" + f.model + ")(?:/.*)?"
	for _, at := range paths {
		match := place.find(at)
		if match == nil || match[1] != place.find(paths[0])[1] {
			return false
		}
	}
	return true
}

// Parts of the paths of nodes and of models.
const (
	param    = `backend/functions/\w+/params/\w+`
	function = `/Backends/\w+/(Functions|Idle|Library/Helpers)`
	opening  = `/Backends/\w+/Library/(Open|Scopes)`
	library  = `/Backends/\w+/Library`
)

var freedoms = []freedom{
	// Texts for people.
	{"a description", "rename", `.*/(description|title|message)`, `.*/(Description|Title|Message)`},
	{"two texts", "swap values", `backend/title`, `/Backends/\w+`},

	// The C interface: its listing is compared with what was released.
	{"its name", "rename", `abi/abi`, `/ABI`},
	{"its version", "rename|swap values", `abi/version/\w+`, `/ABI`},
	{"the order of declarations", "swap", `abi/(enums|structs|callbacks|functions)/\w+`, `/ABI/\w+`},
	{"the order of an enum's values", "swap", `abi/enums/\w+/values/\w+`, `/ABI/Enums/\w+/Values`},
	{"a value that no default has", "drop", `abi/enums/\w+/values/\w+`, `/ABI/Enums/\w+/Values`},
	{"the name and number of a value", "rename", `abi/enums/\w+/values/\w+/(name|value)`, `/ABI/Enums/\w+/Values`},
	{"a function", "drop", `abi/functions/\w+`, `/ABI/Functions`},
	{"the name of a function", "rename", `abi/functions/\w+/name`, `/ABI/Functions`},
	{"the symbol of a function", "rename|drop", `abi/functions/\w+/symbol`, `/ABI/Functions/\w+/Symbol`},
	{"the parameters of a function", "drop", `abi/(functions|callbacks)/\w+/params(/\w+)?`, `/ABI/\w+/\w+/Params`},
	{"the order of parameters", "swap", `abi/(functions|callbacks)/\w+/params/\w+`, `/ABI/\w+/\w+/Params`},
	{"the name of a parameter", "rename|swap values", `abi/(functions|callbacks)/\w+/params/\w+/name`, `/ABI/\w+/\w+/Params`},
	{"that a number is an output", "drop", `abi/(functions|callbacks)/\w+/params/\w+/role`, `/ABI/\w+/\w+/Params/\w+/Role`},
	{"the fields of a struct and their order", "drop|swap", `abi/structs/\w+/fields/\w+`, `/ABI`},
	{"the name of a field", "rename|swap values", `abi/structs/\w+/fields/\w+/name`, `/ABI/Structs/\w+/Fields`},
	{"the length of an array", "rename", `abi/structs/\w+/fields/\w+/count`, `/ABI`},
	{"which version brought a field", "drop|rename", `abi/structs/\w+/fields/\w+/since`, `/ABI/Structs/\w+`},
	{"a default", "rename|kind", `abi/structs/\w+/fields/\w+/default`, `/ABI/Structs/\w+/Fields/\w+`},

	// The contract: what the arena needs is checked when it is compiled.
	{"the order of inputs and outputs", "swap", `vmm/operations/\w+/(inputs|outputs)/\w+`, `/Contract/Operations/\w+/(Inputs|Outputs)`},
	{"the order of the rest", "swap", `vmm/(classes|capabilities|quirks|enums|enums/\w+/values|operations)/\w+`, ``},
	{"the name of the operation that makes the driver", "rename", `vmm/operations/open/name`, `/Contract/Operations`},
	{"a quirk that no backend has", "drop", `vmm/quirks/\w+`, `/Contract/Quirks`},
	{"the name of a quirk that no backend has", "rename", `vmm/quirks/\w+/name`, `/Contract/Quirks`},
	{"what a helper's inputs and outputs are called", "rename|swap|swap values", `vmm/helpers/\w+/(inputs|outputs)(/\d+)?`, `/Contract/Helpers/\w+`},

	// What a backend says about itself.
	{"the type of a provider", "rename", `backend/provider/type`, `/Backends/\w+/Provider/Type`},
	{"the type of a provider's results", "rename", `backend/result/type`, `/Backends/\w+/Result/Type`},
	{"an option", "drop", `backend/options(/\w+)?`, `/Backends/\w+/Options`},
	{"the order of options", "swap", `backend/options/\w+`, `/Backends/\w+/Options`},
	{"the name of an option", "rename", `backend/options/\w+/name`, `/Backends/\w+/Options`},
	{"the default and the bounds of an option", "rename|kind|drop", `backend/options/\w+/(default|min|max)`, `/Backends/\w+/Options/\w+`},
	{"a word of an option that is not its default", "drop", `backend/options/\w+/values/\w+`, `/Backends/\w+/Options/\w+/Values`},
	{"its name", "rename", `backend/options/\w+/values/\w+/name`, `/Backends/\w+/Options/\w+/Values`},
	{"what a capability is", "rename|swap values", `backend/capabilities/\w+`, `/Backends/\w+/Capabilities`},
	{"which quirks there are", "drop", `backend/quirks(/\w+)?`, library + `/Quirks`},
	{"what a quirk is, and when", "kind|drop|rename", `backend/quirks/\w+/(value|versions(/\w+)?)`, library + `/Quirks/\d+`},

	// The vendor's library and header: names, numbers and orders are checked against them.
	{"a name of the library", "drop|swap", `backend/library/linux/\d+`, library + `/Names`},
	{"the packages of a header", "drop|rename|swap values", `backend/header/(debian|pypi)`, library + `/Header`},
	{"how a header says its version, and what it needs", "drop|rename|swap values", `backend/header/(version|define)`, library + `/Header`},
	{"how a version is encoded", "rename|drop", `backend/version/encoding/\w+`, library + `/Version`},
	{"when something came", "rename|drop", `backend/.*/since`, `/Backends/.*/Since`},
	{"when a function learnt something", "rename|drop", `backend/functions/\w+/from`, `/Backends/\w+/Functions/\d+/C/From`},
	{"how much room a text has", "rename", param + `/count`, function + `/.*/Count`},
	{"the number of success", "rename", `backend/result/ok`, `/Backends/\w+/Result/OK`},
	{"which function tells the name and which the text", "swap values", `backend/result/name`, `/Backends/\w+/Result`},
	{"a result code", "drop", `backend/result/codes/\w+`, `/Backends/\w+/Result/Codes`},
	{"the name and number of a result code", "rename", `backend/result/codes/\w+/(name|value)`, `/Backends/\w+/Result/Codes`},
	{"whether a type is a pointer or a number of as many bits", "swap values", `backend/types/\w+`, library + `/Types`},
	{"a number of the header", "rename", `backend/types/\w+/values/\w+/value`, `/Backends/\w+`},
	{"the name of a field that nothing fills", "rename", `backend/types/\w+(/layouts/\d+)?/fields/[\w.]+/name`, library + `/Types/\w+/Layouts/\d+/Fields`},
	{"a field that is padding, or in a union, for all that can be told", "drop|swap", `backend/types/\w+(/layouts/\d+)?/fields/[\w.]+`, library + `/Types/\w+/Layouts/\d+/Fields`},
	{"a length that is padding for all that can be told", "drop", `backend/types/\w+(/layouts/\d+)?/fields/[\w.]+/count`, library + `/Types/\w+/Layouts/\d+/Fields/[\w.]+`},
	{"that a struct can point to another, where none does", "drop", `backend/types/\w+/next`, library + `/Types/\w+/Next`},
	{"the number of a contract's value", "drop|kind|rename|swap values", `backend/enums/\w+/\w+`, `/Backends/\w+`},

	// The vendor's functions.
	{"the name of a function", "rename|swap values", `backend/functions/\w+/name`, function},
	{"the symbol of a function", "drop|rename", `backend/functions/\w+/symbol`, function + `/\w+/C/Symbol`},
	{"that a function can be missing", "drop|rename", `backend/functions/\w+/optional`, function + `/\w+/C/Optional`},
	{"the scope of a function, where another one needs it too", "drop", `backend/functions/\w+/within`, function + `/\w+/C/Within`},
	{"parameters that no operation and no step needs", "drop", `backend/functions/\w+/params(/\w+)?`, function + `/\w+`},
	{"a function whose operation is unsupported", "drop", `backend/functions/\w+`, `/Backends/\w+/Idle`},
	{"that an operation is unsupported which a function does", "drop", `backend/unsupported(/\d+)?`, `/Backends/\w+`},
	{"the order of parameters", "swap", param, function + `/\w+`},
	{"the name of a parameter", "rename", param + `/name`, function + `/\w+`},
	{"that the header declares a pointer to anything", "drop", param + `/declared`, function + `/\w+`},
	{"a constant", "kind|rename", param + `(/chain/\d+)?(/fields/[\w.]+)?/value`, function + `/\w+/Params/\w+`},
	{"which fields are not zero", "drop", param + `(/chain/\d+)?/fields(/[\w.]+)?`, function + `/\w+/Params/\w+/Fill`},
	{"two constants", "swap values", param + `/fields/[\w.]+`, function + `/\w+/Params/\w+/Fill`},
	{"the links of a chain, and their order", "drop|swap", param + `/chain/\d+`, function + `/\w+/Params/\w+/Fill/Chain`},
	{"when a link is there", "drop", param + `/chain/\d+/when`, function + `/\w+/Params/\w+/Fill/Chain/\d+/When`},

	// Steps.
	{"a step that keeps nothing", "drop|swap", `backend/(open|scopes/\w+)/\d+(/(try|instead)/\d+)?`, opening + `(/\w+/Steps)?`},
	{"results that are no failure", "drop", `backend/open/\d+/accept`, opening + `/\d+/Call/Accept`},
	{"what is undone", "drop", `backend/(open|scopes/\w+)/\d+(/(try|instead)/\d+)?/undo`, opening + `/.*/Undo`},
	{"on which failures another way is taken", "drop", `backend/open/\d+/on/\d+`, opening + `/\d+/Attempt/On`},
	{"an argument that is a number or null", "kind|rename", `backend/(open|scopes/\w+)/\d+(/where)?/(args|expect)/[\w.]+`, opening + `/.*/Args/[\w.]+`},
	{"which versions need a step", "drop|rename", `backend/open/\d+/versions(/\w+)?`, opening + `/\d+/Versions`},
}
