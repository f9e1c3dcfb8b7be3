package capi

// signalRoom is what a signal handler of the host's finds below a call, in bytes: as much
// as on the smallest thread that may call.
const signalRoom = 64 << 10

// MakeRoom sees to it that the calling goroutine has signalRoom bytes of stack to go. A handler
// that the host installed without SA_ONSTACK runs on the stack that it interrupts, and a goroutine's
// has a few KiB: less than the processor's registers alone can take.
func MakeRoom() { grow(false) }

// grow has a frame of signalRoom bytes, so that the runtime makes room for one on entry.
//
//go:noinline
func grow(use bool) {
	if use {
		var room [signalRoom]byte
		fill(room[:], "")
	}
}
