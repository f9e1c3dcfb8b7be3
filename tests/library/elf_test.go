package library_test

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const versionNode = "ARENAGEN_1"

func openLibrary(t *testing.T) *elf.File {
	t.Helper()
	file, err := elf.Open(library)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, file.Close()) })
	return file
}

func TestLibraryExportsTheListedFunctionsAndNothingElse(t *testing.T) {
	symbols, err := openLibrary(t).DynamicSymbols()
	require.NoError(t, err)
	var exported []string
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || s.Name == versionNode {
			continue
		}
		exported = append(exported, s.Name)
		assert.Equal(t, elf.STT_FUNC, elf.ST_TYPE(s.Info), s.Name)
		assert.Equal(t, elf.STB_GLOBAL, elf.ST_BIND(s.Info), s.Name)
		assert.Equal(t, versionNode, s.Version, s.Name)
	}
	assert.ElementsMatch(t, readListing(t).functions(), exported)
}

func TestLibraryHasOneVersionNode(t *testing.T) {
	versions, err := openLibrary(t).DynamicVersions()
	require.NoError(t, err)
	var names []string
	for _, v := range versions {
		if v.Flags&elf.VER_FLG_BASE == 0 {
			names = append(names, v.Name)
		}
	}
	assert.Equal(t, []string{versionNode}, names)
}

func TestLibraryNamesItselfAndNeedsTheCLibraryOnly(t *testing.T) {
	file := openLibrary(t)
	soname, err := file.DynString(elf.DT_SONAME)
	require.NoError(t, err)
	assert.Equal(t, []string{"libarenagen_stub.so.1"}, soname)
	needed, err := file.DynString(elf.DT_NEEDED)
	require.NoError(t, err)
	assert.Contains(t, needed, "libc.so.6")
	for _, name := range needed {
		ofTheCLibrary := name == "libc.so.6" || name == "libpthread.so.0" || strings.HasPrefix(name, "ld-linux-")
		assert.True(t, ofTheCLibrary, name)
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, err := file.DynString(tag)
		require.NoError(t, err)
		assert.Empty(t, paths, tag)
	}
}

func TestLibraryIsFoundUnderItsName(t *testing.T) {
	path, err := filepath.EvalSymlinks(library + ".1")
	require.NoError(t, err)
	actual, err := filepath.EvalSymlinks(library)
	require.NoError(t, err)
	assert.Equal(t, actual, path)
}

func TestLibraryIsNeverUnloadedAndNeverWritesToItsCode(t *testing.T) {
	file := openLibrary(t)
	flags, err := file.DynValue(elf.DT_FLAGS_1)
	require.NoError(t, err)
	require.Len(t, flags, 1)
	assert.NotZero(t, elf.DynFlag1(flags[0])&elf.DF_1_NODELETE)

	text, err := file.DynValue(elf.DT_TEXTREL)
	require.NoError(t, err)
	assert.Empty(t, text)
	for _, segment := range file.Progs {
		writable, executable := segment.Flags&elf.PF_W != 0, segment.Flags&elf.PF_X != 0
		assert.False(t, writable && executable, "segment %v at %#x", segment.Type, segment.Vaddr)
	}
}

// Libraries that are loaded late share some 1,600 bytes for thread-local variables.
func TestLibraryTakesLittleStaticThreadLocalStorage(t *testing.T) {
	for _, segment := range openLibrary(t).Progs {
		if segment.Type == elf.PT_TLS {
			assert.LessOrEqual(t, segment.Memsz, uint64(32))
		}
	}
}

func TestLibraryRunsOnTheCLibraryThatIsPromised(t *testing.T) {
	promised := []int{2, 34}
	symbols, err := openLibrary(t).ImportedSymbols()
	require.NoError(t, err)
	require.NotEmpty(t, symbols)
	for _, s := range symbols {
		version, versioned := strings.CutPrefix(s.Version, "GLIBC_")
		if !versioned {
			assert.Empty(t, s.Version, s.Name)
			continue
		}
		assert.LessOrEqual(t, slices.Compare(numbers(t, version), promised), 0, "%s needs glibc %s", s.Name, version)
	}
}

func numbers(t *testing.T, version string) []int {
	t.Helper()
	var all []int
	for part := range strings.SplitSeq(version, ".") {
		number, err := strconv.Atoi(part)
		require.NoError(t, err)
		all = append(all, number)
	}
	return all
}

func TestLibraryDoesNotTellWhereItWasBuilt(t *testing.T) {
	content, err := os.ReadFile(library)
	require.NoError(t, err)
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	assert.False(t, bytes.Contains(content, []byte(here)))
}
