//go:build race

package arena_test

// raceEnabled makes long tests shorter where every access is watched.
const raceEnabled = true
