module example.com/arenagen-demo

go 1.26.0

require github.com/arenagen/arenagen v0.0.0

require golang.org/x/sys v0.50.0 // indirect

replace github.com/arenagen/arenagen => ../..
