package checkpoint

import "errors"

// ErrNotFound: there is no such checkpoint.
var ErrNotFound = errors.New("no such checkpoint")
