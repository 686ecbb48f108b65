//go:build !unix

package pgserver

import (
	"errors"
	"os"
	"os/exec"
)

func cacheDir() (string, error) { return os.UserCacheDir() }
func giveAway(string) error     { return nil }
func unprivileged(*exec.Cmd)    {}
func alive(int) bool            { return false }

func (p *process) kill() error {
	if p.ended() {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.wait(nil)
}

func (p *process) stop() error { return p.kill() }
