package specfile

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// A shape says what a YAML value looks like: its schema for editors, and how it
// is read. The label names the value in messages.
type shape[V any] struct {
	schema Schema
	read   func(w *walker, label string, n *yaml.Node, into *V)
}

// A row is one key of a mapping that is read into a T.
type row[T any] struct {
	key      string
	required bool
	schema   Schema // with the key's description
	read     func(w *walker, n *yaml.Node, into *T)
}

// required is a row that every such mapping has.
func required[T, V any](key string, value shape[V], description string, field func(*T) *V) row[T] {
	r := optional(key, value, description, field)
	r.required = true
	return r
}

// optional is a row that may be left out.
func optional[T, V any](key string, value shape[V], description string, field func(*T) *V) row[T] {
	schema := value.schema
	schema.Description = description
	return row[T]{
		key:    key,
		schema: schema,
		read: func(w *walker, n *yaml.Node, into *T) {
			value.read(w, quote(key), n, field(into))
		},
	}
}

// placed is a pointer to a declaration that embeds a Place.
type placed[T any] interface {
	*T
	place(diag.Pos)
}

// object is a mapping with the keys of rows and no others.
func object[T any, P placed[T]](what string, rows ...row[T]) shape[T] {
	schema := Schema{
		Types:                []string{"object"},
		Properties:           map[string]Schema{},
		AdditionalProperties: false,
	}
	for _, r := range rows {
		schema.Properties[r.key] = r.schema
		if r.required {
			schema.Required = append(schema.Required, r.key)
		}
	}
	return shape[T]{schema: schema, read: func(w *walker, label string, n *yaml.Node, into *T) {
		P(into).place(w.pos(n))
		if !w.is(n, yaml.MappingNode, label, "a mapping") {
			return
		}
		readRows(w, what, rows, n, into)
	}}
}

// readRows reads the pairs of a mapping. A key that is a slip of one that is not
// there otherwise is reported, then read as the one that was meant: one slip is
// one mistake.
func readRows[T any](w *walker, what string, rows []row[T], n *yaml.Node, into *T) {
	var keys, missing []string
	for _, r := range rows {
		keys = append(keys, r.key)
		if !hasKey(n, r.key) {
			missing = append(missing, r.key)
		}
	}
	given := map[string]bool{}
	for key, value := range w.pairs(n, what) {
		name := key.Value
		if !slices.Contains(keys, name) {
			w.mistakes.Add(w.pos(key), "unknown key %s in %s%s", quote(name), what, diag.Expected(name, keys))
			name = diag.Nearest(name, missing)
		}
		i := slices.Index(keys, name)
		if i < 0 {
			continue
		}
		given[name] = true
		rows[i].read(w, value, into)
	}
	for _, r := range rows {
		if r.required && !given[r.key] {
			w.mistakes.Add(w.pos(n), "the key %q is missing in %s", r.key, what)
		}
	}
}

// hasKey tells whether a mapping has a key.
func hasKey(n *yaml.Node, key string) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// list is a sequence of at least one item.
func list[V any](item shape[V]) shape[List[V]] {
	return shape[List[V]]{
		schema: Schema{Types: []string{"array"}, Items: &item.schema, MinItems: 1},
		read: func(w *walker, label string, n *yaml.Node, into *List[V]) {
			into.place(w.pos(n))
			if !w.is(n, yaml.SequenceNode, label, "a list") {
				return
			}
			if len(n.Content) == 0 {
				w.mistakes.Add(w.pos(n), "%s is an empty list, expected at least one entry", label)
			}
			into.Items = make([]V, len(n.Content))
			for i, child := range n.Content {
				item.read(w, "an entry of "+label, child, &into.Items[i])
			}
		},
	}
}

// entries is a mapping from names of a form to values, at least one.
func entries[V any](name shape[Text], value shape[V]) shape[Entries[V]] {
	return shape[Entries[V]]{
		schema: Schema{Types: []string{"object"}, MinProperties: 1, PropertyNames: &name.schema, AdditionalProperties: &value.schema},
		read: func(w *walker, label string, n *yaml.Node, into *Entries[V]) {
			into.place(w.pos(n))
			if !w.is(n, yaml.MappingNode, label, "a mapping") {
				return
			}
			if len(n.Content) == 0 {
				w.mistakes.Add(w.pos(n), "%s is an empty mapping, expected at least one entry", label)
			}
			for key, child := range w.pairs(n, label) {
				var e Entry[V]
				name.read(w, "a key of "+label, key, &e.Key)
				value.read(w, quote(key.Value), child, &e.Value)
				into.Items = append(into.Items, e)
			}
		},
	}
}
