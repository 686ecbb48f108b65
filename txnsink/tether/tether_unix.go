//go:build unix

package tether

import (
	"os/exec"
	"syscall"
)

const supported = true

// detach puts the watcher beyond the signals of a terminal and of a process group.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
