package ir

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// MarshalJSON writes the model as a tree: what is declared is written where it is declared, and
// elsewhere its name stands for it (fields with the tag dump:"name").
func (m *Model) MarshalJSON() ([]byte, error) {
	var d dumper
	d.value(reflect.ValueOf(*m))
	return d.Bytes(), nil
}

// A dumper writes values as JSON, in the order of their fields.
type dumper struct{ bytes.Buffer }

func (d *dumper) value(v reflect.Value) {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok && v.Kind() == reflect.Struct {
		text, _ := m.MarshalText() // of a Version, which has no error
		d.scalar(string(text))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			d.WriteString("null")
		} else {
			d.value(v.Elem())
		}
	case reflect.Struct:
		d.WriteByte('{')
		d.fields(v, "")
		d.WriteByte('}')
	case reflect.Slice:
		d.list(v, d.value)
	default:
		d.scalar(v.Interface())
	}
}

// fields writes the fields of a struct after a separator, and those that are embedded among them.
// It returns the separator for what follows.
func (d *dumper) fields(v reflect.Value, separator string) string {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		tag := field.Tag.Get("json")
		switch {
		case tag == "-" || strings.HasSuffix(tag, ",omitempty") && value.IsZero():
			continue
		case field.Anonymous:
			separator = d.fields(value, separator)
			continue
		}
		d.WriteString(separator)
		d.scalar(field.Name)
		d.WriteByte(':')
		if field.Tag.Get("dump") == "name" {
			d.name(value)
		} else {
			d.value(value)
		}
		separator = ","
	}
	return separator
}

// name writes the name of what a pointer points to, or the names for a list of pointers.
func (d *dumper) name(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice:
		d.list(v, d.name)
	case v.IsNil():
		d.WriteString("null")
	default:
		d.scalar(v.Elem().FieldByName("Name").Interface())
	}
}

func (d *dumper) list(v reflect.Value, write func(reflect.Value)) {
	d.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			d.WriteByte(',')
		}
		write(v.Index(i))
	}
	d.WriteByte(']')
}

// scalar writes a string, a number or a truth value.
func (d *dumper) scalar(v any) {
	encoder := json.NewEncoder(d)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // the model has nothing else
	}
	d.Truncate(d.Len() - 1) // the line break
}
