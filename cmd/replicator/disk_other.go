//go:build !linux && !darwin && !freebsd

package main

import "errors"

func diskFree(string) (uint64, error) { return 0, errors.ErrUnsupported }
