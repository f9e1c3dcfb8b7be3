package specfile

// A Schema is a JSON Schema (draft-07) in the words that spec files need. It
// marshals to one.
type Schema struct {
	Dialect       string            `json:"$schema,omitempty"`
	Title         string            `json:"title,omitempty"`
	Description   string            `json:"description,omitempty"`
	Types         []string          `json:"type,omitempty"`
	Enum          []string          `json:"enum,omitempty"`
	Pattern       string            `json:"pattern,omitempty"`
	MinLength     int               `json:"minLength,omitempty"`
	MaxLength     int               `json:"maxLength,omitempty"`
	Minimum       *int64            `json:"minimum,omitempty"`
	Maximum       *int64            `json:"maximum,omitempty"`
	Items         *Schema           `json:"items,omitempty"`
	MinItems      int               `json:"minItems,omitempty"`
	Properties    map[string]Schema `json:"properties,omitempty"`
	Required      []string          `json:"required,omitempty"`
	MinProperties int               `json:"minProperties,omitempty"`
	PropertyNames *Schema           `json:"propertyNames,omitempty"`
	// AdditionalProperties is false, or the schema of every value.
	AdditionalProperties any `json:"additionalProperties,omitempty"`
}
