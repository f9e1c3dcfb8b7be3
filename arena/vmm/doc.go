// Package vmm is the contract between an arena and a GPU driver: the
// operations that a driver does (Driver, generated from spec/vmm.yaml), and the
// one composition of them (Device) by which memory is put behind an address and
// taken away again. It uses the standard library only, knows no vendor, and
// holds addresses as numbers that it never dereferences.
package vmm
