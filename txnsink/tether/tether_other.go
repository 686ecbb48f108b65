//go:build !unix

package tether

import "os/exec"

const supported = false

func detach(*exec.Cmd) {}
