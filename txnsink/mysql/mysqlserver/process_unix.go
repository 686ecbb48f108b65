//go:build unix

package mysqlserver

import (
	"os/exec"
	"syscall"
)

// ownGroup gives cmd a process group of its own: an interrupt typed at a terminal is for the caller, which stops the server
// when it wants to.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
