//go:build race

package specfile_test

const raceEnabled = true
