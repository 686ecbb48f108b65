package checkpoint

import "errors"

// ErrNotFound is the error for a checkpoint that is not saved.
var ErrNotFound = errors.New("no such checkpoint")
