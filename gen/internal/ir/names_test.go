package ir

import (
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExported(t *testing.T) {
	tests := map[string]string{
		"arena":                "Arena",
		"arena_close":          "ArenaClose",
		"export_fd":            "ExportFD",
		"posix_fd":             "PosixFD",
		"abi_version":          "ABIVersion",
		"va":                   "VA",
		"device_id":            "DeviceID",
		"identity":             "Identity",
		"ok":                   "OK",
		"x_1":                  "X1",
		"release_while_mapped": "ReleaseWhileMapped",
	}
	for name, want := range tests {
		assert.Equal(t, want, exported(name), name)
	}
}

func TestLocal(t *testing.T) {
	tests := map[string]string{
		"size":        "size",
		"handle_type": "handleType",
		"fd":          "fd",
		"export_fd":   "exportFD",
		"id_list":     "idList",
		"type":        "typeArg",   // a keyword
		"map":         "mapArg",    // a keyword
		"error":       "errorArg",  // predeclared
		"len":         "lenArg",    // predeclared
		"arena":       "arenaArg",  // a package
		"vmm":         "vmmArg",    // a package
		"err":         "errArg",    // in every wrapper
		"error_code":  "errorCode", // none of these
	}
	for name, want := range tests {
		assert.Equal(t, want, local(name), name)
		assert.True(t, token.IsIdentifier(want), want)
	}
}

func TestKeywordOf(t *testing.T) {
	tests := map[string]string{
		"int": "C", "errno": "C", "restrict": "C",
		"class": "C++", "template": "C++", "this": "C++",
		"func": "Go", "range": "Go", "import": "Go",
		"lambda": "Python", "def": "Python", "with": "Python",
		"size": "", "buffer": "", "mapped": "",
	}
	for name, want := range tests {
		assert.Equal(t, want, keywordOf(name), name)
	}
}

// TestKeywordsOfGo sees that every keyword of Go is refused, whichever language is named.
func TestKeywordsOfGo(t *testing.T) {
	for tok := token.Token(0); tok <= token.TILDE; tok++ {
		if tok.IsKeyword() {
			assert.NotEmpty(t, keywordOf(tok.String()), tok.String())
		}
	}
}
