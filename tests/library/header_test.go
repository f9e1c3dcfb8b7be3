package library_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The ways in which a user includes the header.
var includes = map[string]string{
	"alone":       "#include <arenagen.h>\n",
	"twice":       "#include <arenagen.h>\n#include <arenagen.h>\n",
	"in extern C": "#ifdef __cplusplus\nextern \"C\" {\n#endif\n#include <arenagen.h>\n#ifdef __cplusplus\n}\n#endif\n",
	"and used": "#include <arenagen.h>\n" +
		"extern int use(void);\n" +
		"int use(void)\n{\n" +
		"  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;\n" +
		"  arenagen_callback_options callbacks = ARENAGEN_CALLBACK_OPTIONS_INIT;\n" +
		"  arenagen_arena arena;\n" +
		"  return arenagen_arena_create(&options, &arena) == ARENAGEN_STATUS_OK &&\n" +
		"         arenagen_arena_create_callbacks(&callbacks, &arena) == ARENAGEN_STATUS_OK;\n}\n",
}

func TestHeaderCompilesAsC(t *testing.T) {
	compileHeader(t, tool("CC", "gcc"), ".c", "-std=c99", "-std=c11", "-std=gnu17")
}

func TestHeaderCompilesAsCPlusPlus(t *testing.T) {
	compiler := tool("CXX", "g++")
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("there is no C++ compiler: %v", err)
	}
	compileHeader(t, compiler, ".cc", "-std=c++11", "-std=c++17", "-std=c++20")
}

func compileHeader(t *testing.T, compiler, suffix string, standards ...string) {
	t.Helper()
	for name, text := range includes {
		source := filepath.Join(t.TempDir(), "source"+suffix)
		require.NoError(t, os.WriteFile(source, []byte(text), 0o644))
		for _, standard := range standards {
			t.Run(name+" "+standard, func(t *testing.T) {
				t.Parallel()
				execute(t, nil, compiler, standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wundef",
					"-fsyntax-only", "-I"+outFolder+"/include", source)
			})
		}
	}
}

// The pkg-config file is right where the library was put, wherever that is.
func TestProgramLinkedThroughPkgConfig(t *testing.T) {
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.CopyFS(moved, os.DirFS(outFolder+"/include")))
	prefix := t.TempDir()
	require.NoError(t, os.Mkdir(prefix+"/lib", 0o755))
	require.NoError(t, os.Rename(moved, prefix+"/include"))
	require.NoError(t, os.CopyFS(prefix+"/lib/pkgconfig", os.DirFS(outFolder+"/lib/pkgconfig")))
	for _, name := range []string{"libarenagen_stub.so", "libarenagen_stub.so.1"} {
		require.NoError(t, os.Symlink(library, prefix+"/lib/"+name))
	}

	source := filepath.Join(prefix, "main.c")
	require.NoError(t, os.WriteFile(source, []byte("#include <arenagen.h>\nint main(void)\n{\n  return mx_malloc(1, 0, 0) != 0;\n}\n"), 0o644))
	program := filepath.Join(prefix, "main")
	argv := []string{tool("CC", "gcc"), "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", program, source}
	execute(t, nil, append(argv, pkgConfigFlags(t, prefix+"/lib/pkgconfig")...)...)
	execute(t, []string{"LD_LIBRARY_PATH=" + prefix + "/lib"}, program)
}

// pkgConfigFlags is what pkg-config says. Where that is not installed it is read from the file.
func pkgConfigFlags(t *testing.T, folder string) []string {
	t.Helper()
	written := readPkgConfig(t, folder)
	if _, err := exec.LookPath("pkg-config"); err == nil {
		said := execute(t, []string{"PKG_CONFIG_PATH=" + folder}, "pkg-config", "--cflags", "--libs", "arenagen_stub")
		assert.Equal(t, written, strings.Fields(said))
	}
	return written
}

func readPkgConfig(t *testing.T, folder string) []string {
	t.Helper()
	content, err := os.ReadFile(folder + "/arenagen_stub.pc")
	require.NoError(t, err)
	values := map[string]string{"pcfiledir": folder}
	for _, line := range regexp.MustCompile(`(?m)^(\w+)(?:=|: *)(.*)$`).FindAllStringSubmatch(string(content), -1) {
		values[line[1]] = os.Expand(line[2], func(name string) string { return values[name] })
	}
	return append(strings.Fields(values["Cflags"]), strings.Fields(values["Libs"])...)
}
