package schematest

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// document reads the text of a spec as an editor's YAML server does, into the values that a JSON
// Schema is about. What JSON does not have, such as a key that is there twice, is an error.
func document(text string) (any, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, next yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return value(document.Content[0])
}

func value(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return object(n)
	case yaml.SequenceNode:
		return array(n)
	case yaml.ScalarNode:
		return scalar(n)
	default:
		return nil, fmt.Errorf("line %d: an alias", n.Line)
	}
}

func object(n *yaml.Node) (map[string]any, error) {
	pairs := map[string]any{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if _, again := pairs[key]; again || n.Content[i].Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: no key of JSON, or one that is there twice", n.Content[i].Line)
		}
		v, err := value(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		pairs[key] = v
	}
	return pairs, nil
}

func array(n *yaml.Node) ([]any, error) {
	items := []any{}
	for _, child := range n.Content {
		v, err := value(child)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, nil
}

// scalar gives a plain value the type that it has in YAML. A date is a text there.
func scalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return n.Value == "true", nil
	case "!!int", "!!float":
		var number any
		err := n.Decode(&number)
		return number, err
	default:
		return n.Value, nil
	}
}
