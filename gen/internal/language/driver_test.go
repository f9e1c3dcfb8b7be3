package language

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	smallContract = `
contract: vmm
description: D.
classes: [{name: unknown, description: D.}]
enums: [{name: kind, description: D., values: [{name: near, description: D.}]}]
operations:
  - {name: open, opens: true, description: D.}
  - {name: create, description: D., inputs: [{name: size, type: bytes, description: D.}, {name: kind, type: kind, description: D.}]}
`
	smallDriver = `
backend: toy
title: T.
description: D.
implements: vmm
library: {linux: [libtoy.so], override: TOY}
header: {include: toy.h}
types:
  result: {kind: enum}
  device: {kind: int, bits: 32}
  kinds: {kind: enum, values: [{name: NEAR, value: 3}]}
  what:
    kind: struct
    size: 24
    fields:
      - {name: kind, type: kinds, offset: 0}
      - {name: device, type: device, offset: 4}
      - {name: size, type: uint64, offset: 8}
      - {name: flags, type: uint64, offset: 16}
result: {type: result, ok: 0, codes: [{name: BROKEN, value: 1, class: unknown}]}
enums: {kind: {near: NEAR}}
functions:
  - {name: toyOpen, params: [{name: device, type: device, role: out.state.device}, {name: ordinal, type: int, role: state.ordinal}]}
  - name: toyCreateWithALongName
    does: create
    params:
      - name: what
        type: const what
        role: struct
        fields:
          kind: {role: kind}
          device: {role: state.device}
          size: {role: size}
          flags: {role: const, value: 5}
      - {name: flags, type: unsigned int, role: const, value: 0}
open: [{call: toyOpen}]
`
	toy = "spec/backends/toy.yaml"
)

func smallLibrary() library {
	return library{root: fstest.MapFS{
		"spec/vmm.yaml":         {Data: []byte(smallContract)},
		toy:                     {Data: []byte(smallDriver)},
		"spec/backends/no.yaml": {Data: []byte("backend: no\n")},
	}}
}

func TestDeclare(t *testing.T) {
	got, err := smallLibrary().declare(toy, "toyOpen", "toyCreateWithALongName")
	require.NoError(t, err)
	assert.Equal(t, "```c\nresult toyOpen(device *device, int ordinal);\n"+
		"result toyCreateWithALongName(const what *what, unsigned int flags);\n```", got)
}

func TestDeclareInLines(t *testing.T) {
	l := library{root: os.DirFS(root)}
	got, err := l.declare("spec/backends/cuda.yaml", "cuMemUnmap", "cuMemSetAccess")
	require.NoError(t, err)
	assert.Equal(t, "```c\nCUresult cuMemUnmap(CUdeviceptr ptr, size_t size);\n"+
		"CUresult cuMemSetAccess(\n    CUdeviceptr ptr,\n    size_t size,\n    const CUmemAccessDesc *desc,\n    size_t count);\n```", got)
}

func TestFill(t *testing.T) {
	got, err := smallLibrary().fill(toy, "toyCreateWithALongName", "what")
	require.NoError(t, err)
	assert.Equal(t, "```c\nwhat what = {0};\nwhat.kind = kind;\nwhat.device = device;\nwhat.size = size;\nwhat.flags = 5;\n```", got)
}

func TestDriversThatAreNotThere(t *testing.T) {
	l := smallLibrary()
	_, err := l.declare(toy, "toyOpne")
	require.EqualError(t, err, `spec/backends/toy.yaml: there is no function "toyOpne"`)
	_, err = l.fill(toy, "toyOpen", "device")
	require.EqualError(t, err, `spec/backends/toy.yaml: function "toyOpen" has no struct "device"`)
	_, err = l.declare("spec/backends/no.yaml", "x")
	require.ErrorContains(t, err, "spec/backends/no.yaml:1:1: ")
	_, err = library{root: os.DirFS(root)}.declare("spec/backends/stub.yaml", "MemCreate")
	require.EqualError(t, err, "spec/backends/stub.yaml: the backend has no library")
}
