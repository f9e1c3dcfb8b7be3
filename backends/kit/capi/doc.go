// Package capi is what the exports of a shared library do, in Go terms: handles,
// checked arguments, statuses and the reasons behind them. It is the same for
// every backend; a library's generated package main only converts types. It knows no
// C (import "C" is the generated package's) and no backend.
//
// It is public because the generated packages of a backend in another repository
// stand on it. It is stable for generated code only.
package capi
