package ir

import "slices"

// builtins are the types that every spec has. Sizes are those of 64-bit Linux,
// the same on amd64 and arm64.
var builtins = []*Type{
	{Name: "int32", Kind: KindScalar, C: "int32_t", Go: "int32", Cgo: "int32_t", Python: "c_int32", Size: 4, Align: 4},
	{Name: "uint32", Kind: KindScalar, C: "uint32_t", Go: "uint32", Cgo: "uint32_t", Python: "c_uint32", Size: 4, Align: 4},
	{Name: "int64", Kind: KindScalar, C: "int64_t", Go: "int64", Cgo: "int64_t", Python: "c_int64", Size: 8, Align: 8},
	{Name: "uint64", Kind: KindScalar, C: "uint64_t", Go: "uint64", Cgo: "uint64_t", Python: "c_uint64", Size: 8, Align: 8},
	{Name: "size", Kind: KindScalar, C: "size_t", Go: "uintptr", Cgo: "size_t", Python: "c_size_t", Size: 8, Align: 8},
	{Name: "ssize", Kind: KindScalar, C: "ssize_t", Go: "int64", Cgo: "ssize_t", Python: "c_ssize_t", Size: 8, Align: 8},
	{Name: "int", Kind: KindScalar, C: "int", Go: "int32", Cgo: "int", Python: "c_int", Size: 4, Align: 4},
	{Name: "pointer", Kind: KindPointer, C: "void *", Go: "uintptr", Cgo: "uintptr_t", Python: "c_void_p", Size: 8, Align: 8},
	{Name: "text", Kind: KindText, C: "const char *", Go: "*byte", Cgo: "uintptr_t", Python: "c_char_p", Size: 8, Align: 8},
	{Name: "char", Kind: KindChar, C: "char", Go: "byte", Cgo: "char", Python: "c_char", Size: 1, Align: 1},
	{Name: "void", Kind: KindVoid, C: "void", Cgo: "void", Python: "None"},
}

// builtin finds a built-in type by its name, nil when there is none.
func builtin(name string) *Type {
	i := slices.IndexFunc(builtins, func(t *Type) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return builtins[i]
}

// signed tells whether a scalar has a sign.
func signed(t *Type) bool {
	switch t.Name {
	case "int32", "int64", "ssize", "int":
		return true
	}
	return false
}

// holds tells whether a number fits into a scalar type.
func holds(t *Type, n int64) bool {
	bits := 8 * t.Size
	if signed(t) {
		return n>>(bits-1) == 0 || n>>(bits-1) == -1
	}
	return n >= 0 && n>>bits == 0
}

func handleType(h *Handle) *Type {
	return &Type{Name: h.Name, Kind: KindHandle, C: h.CName, Go: h.GoName, Cgo: h.CName, Python: "c_uint64", Size: 8, Align: 8}
}

func enumType(e *Enum) *Type {
	return &Type{Name: e.Name, Kind: KindEnum, C: e.CName, Go: e.GoName, Cgo: e.CName, Python: "c_int32", Size: 4, Align: 4}
}

// structType is the type of a struct, whose size and alignment follow from its layout.
func structType(s *Struct) *Type {
	return &Type{Name: s.Name, Kind: KindStruct, C: s.CName, Go: s.GoName, Cgo: s.CName, Python: s.GoName}
}

func callbackType(c *Callback) *Type {
	return &Type{Name: c.Name, Kind: KindCallback, C: c.CName, Go: "uintptr", Cgo: "uintptr_t", Python: c.GoName, Size: 8, Align: 8}
}

// layOut gives the fields of a struct their offsets as a C compiler does, and the
// struct its size and alignment.
func layOut(s *Struct) {
	s.Align = 1
	end := 0
	for i, f := range s.Fields {
		if i > 0 && f.Since != s.Fields[i-1].Since {
			s.Older = append(s.Older, roundUp(end, s.Align))
		}
		f.Size = f.Type.Size * max(f.Count, 1)
		f.Offset = roundUp(end, f.Type.Align)
		end = f.Offset + f.Size
		s.Align = max(s.Align, f.Type.Align)
	}
	s.Size = roundUp(end, s.Align)
}

// roundUp rounds n up to a multiple of align.
func roundUp(n, align int) int { return (n + align - 1) / align * align }
