package textgen

import (
	"fmt"
	"strings"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// pythonFiles renders the declarations of the ABI for ctypes.
func pythonFiles(m *ir.Model) []emit.File {
	place := fmt.Sprintf("python/%s/_abi.py", m.ABI.Name)
	return []emit.File{textFile(place, "python.tmpl", pythonFunctions, m.ABI, m.ABI.Pos.File)}
}

var pythonFunctions = template.FuncMap{
	"upper":     strings.ToUpper,
	"comment":   pythonComment,
	"docstring": pythonDocstring,
	"fieldType": pythonField,
	"paramType": pythonParam,
	"type":      pythonType,
}

// pythonWidth is how wide Python lines are.
const pythonWidth = 99

// pythonComment writes a text as comment lines, without a line break at the end.
func pythonComment(indent, text string) string {
	return strings.Join(pythonLines(indent+"# ", text), "\n")
}

func pythonLines(prefix, text string) []string {
	lines := prose.Wrap(text, pythonWidth-len(prefix))
	for i, line := range lines {
		lines[i] = prefix + line
	}
	return lines
}

// What ends a docstring or means something in one.
var docstringMarks = strings.NewReplacer(`\`, `\\`, `"""`, `\"\"\"`)

// pythonDocstring writes texts as a docstring: a summary and, after an empty line, the rest. Nothing
// in the texts can end it.
func pythonDocstring(indent string, texts ...string) string {
	text := prose.Line(strings.Join(texts, " "))
	summary := prose.FirstSentence(text)
	rest := strings.TrimSpace(strings.TrimPrefix(text, summary))
	if one := indent + `"""` + docstringText(summary) + `"""`; rest == "" && len([]rune(one)) <= pythonWidth {
		return one
	}
	lines := pythonLines(indent, `"""`+docstringText(summary))
	if rest != "" {
		lines = append(lines, "")
		lines = append(lines, pythonLines(indent, docstringText(rest))...)
	}
	return strings.Join(append(lines, indent+`"""`), "\n")
}

func docstringText(text string) string {
	text = docstringMarks.Replace(text)
	if rest, found := strings.CutSuffix(text, `"`); found && !strings.HasSuffix(rest, `\`) {
		return rest + `\"`
	}
	return text
}

// pythonType is what ctypes calls a type.
func pythonType(t *ir.Type) string {
	switch t.Kind {
	case ir.KindVoid:
		return "None"
	case ir.KindHandle:
		return t.Go
	case ir.KindStruct, ir.KindCallback:
		return t.Python
	default:
		return "ctypes." + t.Python
	}
}

func pythonField(f *ir.Field) string {
	if f.Count > 0 {
		return fmt.Sprintf("%s * %d", pythonType(f.Type), f.Count)
	}
	return pythonType(f.Type)
}

func pythonParam(p *ir.Param) string {
	if p.Role == ir.RoleValue {
		return pythonType(p.Type)
	}
	return fmt.Sprintf("ctypes.POINTER(%s)", pythonType(p.Type))
}
